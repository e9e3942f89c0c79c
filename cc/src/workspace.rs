//! The folder for temporary files, and the headers for kernels in it.

use super::headers;
use crate::failure::{Exit, Failure};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use tempfile::TempDir;

/// The path of a temporary folder. The folder is removed on drop, and when a signal interrupts the
/// process.
pub(crate) struct Workspace(PathBuf);

/// The folders of all workspaces of the process.
struct Live {
    folders: BTreeMap<PathBuf, TempDir>,
    /// Whether a thread waits for signals. It never ends: the process would ignore them.
    has_thread: bool,
}

static LIVE: Mutex<Live> = Mutex::new(Live { folders: BTreeMap::new(), has_thread: false });

impl Workspace {
    pub(crate) fn new() -> Result<Workspace, Failure> {
        Self::make().map_err(|error| {
            let message = format!("cannot create a temporary folder: {error}");
            Failure::new(Exit::Runtime, message).or_hint("set TMPDIR to a writable folder")
        })
    }

    fn make() -> io::Result<Workspace> {
        let mut live = live();
        if !live.has_thread {
            let signals = Signals::new([SIGINT, SIGTERM])?;
            thread::Builder::new().spawn(move || end_on(signals))?;
            live.has_thread = true;
        }
        let folder = tempfile::Builder::new().prefix("longshore-cc-").tempdir()?;
        let workspace = Workspace(folder.path().to_owned());
        live.folders.insert(workspace.0.clone(), folder);
        // The drop of the workspace locks too.
        drop(live);
        headers::write(&workspace.include())?;
        Ok(workspace)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the folder with the headers alone.
    pub(crate) fn include(&self) -> PathBuf {
        self.path().join("include")
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        // During the lock, so that a signal does not end the process before the removal does.
        live().folders.remove(&self.0);
    }
}

/// Waits for a signal, removes all folders, and ends the process as the signal does by default.
fn end_on(mut signals: Signals) {
    for signal in signals.forever() {
        // The lock is kept: no new folder appears before the end.
        let mut live = live();
        // The interrupted process does not report a folder that cannot be removed.
        live.folders.clear();
        let _ = emulate_default_handler(signal);
    }
}

fn live() -> MutexGuard<'static, Live> {
    LIVE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;
    use signal_hook::low_level::raise;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    /// Name of a variable of the process that the test interrupts.
    const IS_INTERRUPTED: &str = "TEST_IS_INTERRUPTED";

    fn threads() -> usize {
        std::fs::read_dir("/proc/self/task").unwrap().count()
    }

    #[test]
    fn an_interrupted_process_with_former_workspaces_leaves_no_folder() {
        if std::env::var_os(IS_INTERRUPTED).is_some() {
            let last = Workspace::new().unwrap();
            let before = threads();
            (0..4).for_each(|_| drop(Workspace::new().unwrap()));
            assert_eq!(threads(), before);
            // The removal of many files takes longer than the end of a process.
            (0..1024).for_each(|it| std::fs::write(last.path().join(it.to_string()), "").unwrap());
            raise(SIGTERM).unwrap();
            loop {
                thread::park();
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let mut interrupted = Command::new(std::env::current_exe().unwrap());
        let (_, module) = module_path!().split_once("::").unwrap();
        let name = "an_interrupted_process_with_former_workspaces_leaves_no_folder";
        interrupted.args(["--exact", &format!("{module}::{name}")]);
        interrupted.env(IS_INTERRUPTED, "1").env("TMPDIR", folder.path());
        let ended = interrupted.output().unwrap();
        assert_eq!(ended.status.signal(), Some(SIGTERM), "{ended:?}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
