//! Warnings of a build script, which Cargo shows to the user.

use log::{Level, LevelFilter, Log, Metadata, Record};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of calls of [`without`] that run.
static SILENT: AtomicUsize = AtomicUsize::new(0);

struct Warnings;

impl Log for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= Level::Warn && SILENT.load(Ordering::Relaxed) == 0
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            print(&record.args().to_string());
        }
    }

    fn flush(&self) {}
}

/// Makes warnings of the log Cargo's, unless the build script has a logger.
pub(crate) fn log() {
    if log::set_logger(&Warnings).is_ok() {
        log::set_max_level(LevelFilter::Warn);
    }
}

/// Calls `body` without warnings of the log, also of the threads that `body` starts.
pub(crate) fn without<T>(body: impl FnOnce() -> T) -> T {
    SILENT.fetch_add(1, Ordering::Relaxed);
    let result = body();
    SILENT.fetch_sub(1, Ordering::Relaxed);
    result
}

/// Prints each line of a text as a warning.
pub(crate) fn print(text: &str) {
    for line in text.lines() {
        println!("cargo::warning={line}");
    }
}
