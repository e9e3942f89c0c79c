//! Executors, and the system's facts about processes.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use longshore_executor::controller::{Executor, Spawn};
use longshore_executor::rpc::{Peer, Service};

/// The method that returns its argument.
pub(crate) const ECHO: u32 = 0;

/// A controller that cannot be called.
pub(crate) struct NoService;

impl Service for NoService {
    fn call(&self, _: &Arc<Peer>, method: u32, _: &[u8]) -> Result<Vec<u8>, String> {
        Err(format!("no method {method}"))
    }

    fn post(&self, _: &Arc<Peer>, _: u32, _: &[u8]) {}
}

pub(crate) fn spawn() -> Spawn {
    Spawn::new(env!("CARGO_BIN_EXE_longshore-executor"))
}

/// Runs a test with an executor that shares memory, and with one that does not.
pub(crate) fn both_ways(test: impl Fn(Executor)) {
    for shares in [true, false] {
        let executor = spawn().with_shared_memory(shares).start(Arc::new(NoService)).unwrap();
        assert_eq!(executor.peer().call(ECHO, b"hello").unwrap(), b"hello");
        test(executor);
    }
}

/// Returns a process's open files.
pub(crate) fn open_files(process: u32) -> BTreeSet<(i32, PathBuf)> {
    let entries = fs::read_dir(format!("/proc/{process}/fd")).unwrap();
    let number = |name: &std::ffi::OsStr| name.to_str().unwrap().parse().unwrap();
    let file =
        |entry: fs::DirEntry| Some((number(&entry.file_name()), fs::read_link(entry.path()).ok()?));
    entries.filter_map(|entry| file(entry.unwrap())).collect()
}

/// Returns a field of `/proc/PROCESS/status`, if there is such a process.
pub(crate) fn status(process: u32, field: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    Some(line?.trim().to_owned())
}

/// Returns whether a process ends within 10 s; a zombie has ended.
pub(crate) fn is_gone(process: u32) -> bool {
    let is_there = || status(process, "State").is_some_and(|state| !state.starts_with(['Z', 'X']));
    let start = Instant::now();
    while is_there() && start.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(1));
    }
    !is_there()
}

/// Returns the children of this process, including zombies.
pub(crate) fn children() -> BTreeSet<u32> {
    let mut children = BTreeSet::new();
    for task in fs::read_dir("/proc/self/task").unwrap() {
        let of_task = fs::read_to_string(task.unwrap().path().join("children")).unwrap_or_default();
        children.extend(of_task.split_whitespace().map(|child| child.parse::<u32>().unwrap()));
    }
    children
}
