//! Where the log goes: standard error, as the options and the environment say.

use crate::options::{Options, Subcommand};
use env_logger::{Builder, Target};
use log::{Level, LevelFilter, Log, Metadata, Record};
use longshore_plugin_api::printable;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a plugin said something in the detail of `-vv` that was not shown.
static IS_WITHHELD: AtomicBool = AtomicBool::new(false);

/// Starts logging. `-v` goes before `LONGSHORE_LOG`, that before `RUST_LOG`.
pub(crate) fn start(options: &Options) {
    let filter = filter(options).unwrap_or_else(|| default_level(&options.subcommand).to_owned());
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

/// Whether `-vv` would show something of a plugin that was not shown.
pub(crate) fn is_withheld() -> bool {
    IS_WITHHELD.load(Ordering::Relaxed)
}

/// Shows what the filter lets pass, and remembers whether plugins said more.
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

fn filter(options: &Options) -> Option<String> {
    let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let from_options = options.common.log_level().map(str::to_owned);
    from_options.or_else(|| variable("LONGSHORE_LOG")).or_else(|| variable("RUST_LOG"))
}

/// The list of plugins shows what the warnings about plugins say.
fn default_level(subcommand: &Subcommand) -> &'static str {
    match subcommand {
        Subcommand::Plugins(_) => "error,longshore::environment=warn",
        _ => "warn",
    }
}
