//! Limits on the time of compilations and launches, so that a hang fails.

use std::io::{Error, ErrorKind, Read, Result};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

/// Time for a compiler's run, many times that of a full image on a busy machine.
pub(crate) const COMPILE_LIMIT: Duration = Duration::from_secs(600);
/// Time for one launch, or one run of the pass over work-items.
pub(crate) const RUN_LIMIT: Duration = Duration::from_secs(300);

/// Runs a program to its end and returns its output. Blocks. A program that runs for longer than
/// `limit` is killed.
///
/// # Errors
/// If the program does not start, or is killed.
pub(crate) fn output_within(command: &mut Command, limit: Duration) -> Result<Output> {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    let mut pipe = child.stderr.take().expect("standard error is piped");
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut stderr = Vec::new();
        let read = pipe.read_to_end(&mut stderr).map(|_| stderr);
        // The receiver is absent after the limit.
        let _ = sender.send(read);
    });
    // A program closes its standard error when it ends.
    let Ok(stderr) = receiver.recv_timeout(limit) else {
        child.kill()?;
        child.wait()?;
        let text = format!("{command:?} did not end within {limit:?}, and was killed");
        return Err(Error::new(ErrorKind::TimedOut, text));
    };
    let (status, stderr) = (child.wait()?, stderr?);
    Ok(Output { status, stdout: Vec::new(), stderr })
}

/// A guard of work that cannot be interrupted. Its thread calls a function once the limit is over,
/// unless the guard is dropped before.
pub(crate) struct Watchdog(Option<Sender<()>>);

impl Watchdog {
    /// Starts to wait.
    pub(crate) fn new(limit: Duration, expired: impl FnOnce() + Send + 'static) -> Watchdog {
        let (sender, receiver) = channel::<()>();
        thread::spawn(move || {
            if receiver.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                expired();
            }
        });
        Watchdog(Some(sender))
    }

    /// Starts to wait. Prints `text` and aborts the process once the limit is over.
    pub(crate) fn aborting(limit: Duration, text: String) -> Watchdog {
        Watchdog::new(limit, move || {
            use std::io::Write;
            // Unlike `eprintln`, a test's harness does not capture this.
            let _ = writeln!(std::io::stderr(), "{text} did not end within {limit:?}");
            std::process::abort();
        })
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.0.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_without_an_end_is_killed_and_named() {
        let limit = Duration::from_millis(50);
        let error = output_within(Command::new("sleep").arg("1000000"), limit).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!(error.to_string().contains("\"sleep\" \"1000000\""), "{error}");
    }

    #[test]
    fn the_output_of_a_program_with_an_end_is_returned() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo text >&2; exit 3"]);
        let output = output_within(&mut command, Duration::MAX).unwrap();
        assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(3), &b"text\n"[..]));
    }

    #[test]
    fn a_watchdog_acts_after_its_limit_unless_it_is_dropped() {
        let (sender, receiver) = channel();
        let dropped = sender.clone();
        drop(Watchdog::new(Duration::from_secs(1000), move || dropped.send("dropped").unwrap()));
        let _watchdog =
            Watchdog::new(Duration::from_millis(1), move || sender.send("over").unwrap());
        assert_eq!(receiver.iter().collect::<Vec<_>>(), ["over"]);
    }
}
