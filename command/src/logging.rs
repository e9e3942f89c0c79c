//! The log on standard error, filtered by the options and the environment.

use env_logger::{Builder, Target};
use log::{Level, LevelFilter, Log, Metadata, Record};
use longshore_plugin_api::printable;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the filter dropped a plugin's record that `-vv` would show.
static IS_WITHHELD: AtomicBool = AtomicBool::new(false);

/// Starts logging. The filter is the level that `-v` selects, else `LONGSHORE_LOG`, else
/// `RUST_LOG`, else `default`.
pub(crate) fn start(level: Option<&str>, default: &str) {
    let filter = level.map(str::to_owned).or_else(filter).unwrap_or_else(|| default.to_owned());
    let mut builder = Builder::new();
    builder.parse_filters(&filter).target(Target::Stderr).format(|to, record| {
        let level = record.level().as_str().to_ascii_lowercase();
        let message = record.args().to_string();
        writeln!(to, "{level}: [{}] {}", record.target(), printable(&message))
    });
    let shown = builder.build();
    let level = shown.filter().max(LevelFilter::Debug);
    log::set_boxed_logger(Box::new(Logger { shown })).expect("the command has no other logger");
    log::set_max_level(level);
}

/// Returns whether `-vv` would show a plugin's record that was dropped.
pub(crate) fn is_withheld() -> bool {
    IS_WITHHELD.load(Ordering::Relaxed)
}

/// A logger that prints the records accepted by the filter, and notes whether plugins logged more.
struct Logger {
    shown: env_logger::Logger,
}

impl Log for Logger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.shown.enabled(metadata) || is_detail_of_plugin(metadata)
    }

    fn log(&self, record: &Record<'_>) {
        if self.shown.matches(record) {
            self.shown.log(record);
        } else if is_detail_of_plugin(record.metadata()) {
            IS_WITHHELD.store(true, Ordering::Relaxed);
        }
    }

    fn flush(&self) {
        self.shown.flush();
    }
}

fn is_detail_of_plugin(metadata: &Metadata<'_>) -> bool {
    metadata.level() <= Level::Debug && metadata.target().starts_with("longshore::plugin::")
}

/// Returns the filter that the environment sets.
fn filter() -> Option<String> {
    let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    variable("LONGSHORE_LOG").or_else(|| variable("RUST_LOG"))
}
