//! How connections end and calls fail.

use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

/// Why a connection is over. All that was outstanding has ended with this.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Ended {
    /// This side closed it.
    #[error("the connection was closed by this side")]
    Here,
    /// The other side closed it in order.
    #[error("the other side closed the connection")]
    There,
    /// The stream ended without a farewell, and nothing is known of the other side's process.
    #[error("the connection was cut")]
    Cut,
    /// The other side's process is no more.
    #[error("{0}")]
    Died(Death),
    /// The other side speaks another version of the protocol.
    #[error(
        "the other side speaks version {theirs} of the protocol, this side version {ours}: use an executor of the same release"
    )]
    Version {
        /// [`VERSION`](super::VERSION).
        ours: u32,
        /// The other side's.
        theirs: u32,
    },
    /// The other side sent what it may not send.
    #[error("the other side does not keep the protocol: {0}")]
    Protocol(String),
    /// The stream failed.
    #[error("the connection failed: {0}")]
    Stream(String),
    /// The other side did not answer in time, so it was given up.
    #[error("no answer within {limit:?}; the other side was given up")]
    Silent {
        /// The time that was allowed.
        limit: Duration,
    },
    /// The process was forked, and this is the child, to which the connection does not belong.
    #[error("the connection belongs to the process from which this one was forked")]
    Forked,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Death(pub ExitStatus);

impl fmt::Display for Death {
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

/// Why a call gave no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The connection is over.
    #[error(transparent)]
    Ended(#[from] Ended),
    /// The other side could not do it.
    #[error("{0}")]
    Failed(String),
    /// So many calls are under way already.
    #[error("{most} calls are under way to the other side already; no more are possible")]
    TooMany {
        /// The most that there can be.
        most: usize,
    },
    /// It has more content than a message may have.
    #[error("a message of {bytes} bytes, at most {most} are possible")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// [`MAX_CONTENT`](super::MAX_CONTENT).
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
    fn a_death_is_told_by_code_or_signal() {
        let text = |raw| Death(ExitStatus::from_raw(raw)).to_string();
        assert_eq!(text(3 << 8), "the executor exited with code 3");
        assert_eq!(text(libc::SIGKILL), "the executor was killed by signal 9 (SIGKILL)");
        let dumped = text(libc::SIGSEGV | 0x80);
        assert!(dumped.contains("SIGSEGV") && dumped.contains("core"), "{dumped}");
    }
}
