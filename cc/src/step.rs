//! Runs of compilers and linkers, and their output.

use crate::crash::without_stack;
use crate::target::Target;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// A run of a tool.
pub(crate) struct Step<'a> {
    tool: &'a Path,
    arguments: Vec<OsString>,
}

impl<'a> Step<'a> {
    pub(crate) fn new(tool: &'a Path) -> Step<'a> {
        Step { tool, arguments: Vec::new() }
    }

    pub(crate) fn arg(mut self, argument: impl Into<OsString>) -> Step<'a> {
        self.arguments.push(argument.into());
        self
    }

    pub(crate) fn args(mut self, arguments: impl IntoIterator<Item: Into<OsString>>) -> Step<'a> {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Runs the tool. Returns whether it succeeded, and its messages; `None` if it cannot run.
    /// Blocks.
    pub(crate) fn output(self) -> Option<(bool, String)> {
        let mut command = Command::new(self.tool);
        command.args(&self.arguments).stdin(Stdio::null());
        log::debug!("{command:?}");
        let output = command.output().ok()?;
        Some((output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned()))
    }

    /// Runs the tool, and adds its output for `target` to `diagnostics`. Blocks.
    ///
    /// # Errors
    /// A message with the exit status. `what` names the step: "compiling 'k.c'".
    pub(crate) fn run(
        self,
        what: &str,
        target: &str,
        diagnostics: &Diagnostics,
    ) -> Result<(), String> {
        let shown = self.tool.display();
        let mut command = Command::new(self.tool);
        command.args(&self.arguments).stdin(Stdio::null());
        log::info!("{command:?}");
        let output = command.output();
        let output = output.map_err(|error| format!("'{shown}' cannot be started: {error}"))?;
        for printed in [output.stdout, output.stderr] {
            let printed = String::from_utf8_lossy(&printed);
            let shown = without_stack(&printed);
            if shown != printed {
                log::debug!("{printed}");
            }
            diagnostics.add(target, shown.trim_end());
        }
        match output.status.success() {
            true => Ok(()),
            false => Err(format!("{what} failed ({shown}: {})", ended(output.status))),
        }
    }
}

fn ended(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => status.to_string(),
    }
}

/// Returns whether a program succeeds with these arguments and `input` on its standard input.
pub(crate) fn succeeds(program: &Path, arguments: &[&OsStr], input: &str) -> bool {
    use std::io::Write;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(mut child) = command.spawn() else { return false };
    // A write error means that the program read only a part; its exit code decides.
    let _ = child.stdin.take().map(|mut stdin| stdin.write_all(input.as_bytes()));
    child.wait().is_ok_and(|status| status.success())
}

/// Output of the tools: each text once, with the targets that it belongs to.
#[derive(Default)]
pub(crate) struct Diagnostics(Mutex<Vec<(String, Vec<String>)>>);

impl Diagnostics {
    fn add(&self, target: &str, text: &str) {
        if text.is_empty() {
            return;
        }
        let mut texts = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        match texts.iter_mut().find(|(known, _)| known == text) {
            Some((_, targets)) if targets.iter().any(|known| known == target) => {}
            Some((_, targets)) => targets.push(target.to_owned()),
            None => texts.push((text.to_owned(), vec![target.to_owned()])),
        }
    }

    /// Returns all texts in the order of their targets. With several targets, a line with the
    /// targets precedes each text.
    pub(crate) fn shown(&self, targets: &[Target]) -> String {
        let texts = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let order: Vec<String> = targets.iter().map(|target| target.to_string()).collect();
        let about = |named: &[String]| -> Vec<usize> {
            (0..order.len()).filter(|index| named.contains(&order[*index])).collect()
        };
        let mut shown: Vec<_> = texts.iter().map(|(text, named)| (about(named), text)).collect();
        shown.sort();
        let shown = shown.into_iter().map(|(about, text)| match order.len() {
            0 | 1 => format!("{text}\n"),
            _ => {
                let names: Vec<&str> = about.iter().map(|index| order[*index].as_str()).collect();
                format!("for {}:\n{text}\n", names.join(", "))
            }
        });
        shown.collect()
    }
}

/// Calls `work` for all items, on as many threads as there are cores. The results have the order of
/// the items.
pub(crate) fn in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let run = || {
        let mut done = Vec::new();
        while let index = next.fetch_add(1, Ordering::Relaxed)
            && let Some(item) = items.get(index)
        {
            done.push((index, work(item)));
        }
        done
    };
    let mut done: Vec<(usize, R)> = thread::scope(|scope| {
        let threads: Vec<_> = (0..cores.min(items.len())).map(|_| scope.spawn(run)).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined
            .flat_map(|done| done.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}
