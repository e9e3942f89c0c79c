//! The ends of connections and the failures of calls.

use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

/// The reason for the end of a connection. Every call under way returns it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndReason {
    /// A close by this side.
    #[error("the connection was closed by this side")]
    Here,
    /// An orderly close by the other side.
    #[error("the other side closed the connection")]
    There,
    /// An end of the stream without a farewell, while the state of the other side's process is
    /// unknown.
    #[error("the connection was cut")]
    Cut,
    /// The end of the other side's process.
    #[error("{0}")]
    Died(ProcessExit),
    /// Another version of the protocol on the other side.
    #[error(
        "the other side speaks version {theirs} of the protocol, this side version {ours}: use an executor of the same release"
    )]
    Version {
        /// The version of this side, [`VERSION`](super::VERSION).
        ours: u32,
        /// The version of the other side.
        theirs: u32,
    },
    /// A breach of the protocol by the other side.
    #[error("the other side breaks the protocol: {0}")]
    Protocol(String),
    /// A failure of the stream.
    #[error("the connection failed: {0}")]
    Stream(String),
    /// A timeout of the other side, which was given up for it.
    #[error("no answer within {limit:?}; the other side was given up")]
    Silent {
        /// The time allowed.
        limit: Duration,
    },
    /// A use in a forked child; the connection belongs to its parent.
    #[error("the connection belongs to the process from which this one was forked")]
    Forked,
}

/// The exit status of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessExit(pub ExitStatus);

impl fmt::Display for ProcessExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0.code(), self.0.signal()) {
            (Some(code), _) => write!(f, "the executor exited with code {code}"),
            (None, Some(signal)) => {
                let name = signal_name(signal).unwrap_or("an unknown signal");
                let core = if self.0.core_dumped() { ", and left a core dump" } else { "" };
                write!(f, "the executor was killed by signal {signal} ({name}){core}")
            }
            (None, None) => write!(f, "the executor ended: {}", self.0),
        }
    }
}

/// The reason for a failed call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The end of the connection.
    #[error(transparent)]
    Ended(#[from] EndReason),
    /// The other side's error text.
    #[error("{0}")]
    Failed(String),
    /// Too many calls under way.
    #[error("{most} calls are under way to the other side already; no more are possible")]
    TooMany {
        /// The greatest number of calls under way.
        most: usize,
    },
    /// A message with more content than is allowed.
    #[error("a message has {bytes} bytes, expected at most {most}")]
    TooLarge {
        /// The size of its content in bytes.
        bytes: usize,
        /// The greatest size in bytes, such as [`MAX_CONTENT`](super::MAX_CONTENT).
        most: usize,
    },
}

fn signal_name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        libc::SIGHUP => "SIGHUP",
        libc::SIGINT => "SIGINT",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGILL => "SIGILL",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGKILL => "SIGKILL",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGALRM => "SIGALRM",
        libc::SIGTERM => "SIGTERM",
        libc::SIGXCPU => "SIGXCPU",
        libc::SIGXFSZ => "SIGXFSZ",
        libc::SIGSYS => "SIGSYS",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_death_is_reported_by_code_or_signal() {
        let text = |raw| ProcessExit(ExitStatus::from_raw(raw)).to_string();
        assert_eq!(text(3 << 8), "the executor exited with code 3");
        assert_eq!(text(libc::SIGKILL), "the executor was killed by signal 9 (SIGKILL)");
        let dumped = text(libc::SIGSEGV | 0x80);
        assert!(dumped.contains("SIGSEGV") && dumped.contains("core"), "{dumped}");
    }
}
