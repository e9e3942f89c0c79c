//! Warnings of a build script, which Cargo shows to the user.

use log::{Level, LevelFilter, Log, Metadata, Record};

struct Warnings;

impl Log for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= Level::Warn
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

/// Prints each line of a text as a warning.
pub(crate) fn print(text: &str) {
    for line in text.lines() {
        println!("cargo::warning={line}");
    }
}
