//! Where the log goes: standard error, as the options and the environment say.

use crate::options::{Options, Subcommand};
use env_logger::{Builder, Target};
use longshore_plugin_api::printable;
use std::io::Write;

/// Starts logging. `-v` goes before `LONGSHORE_LOG`, that before `RUST_LOG`.
pub(crate) fn start(options: &Options) {
    let filter = filter(options).unwrap_or_else(|| default_level(&options.subcommand).to_owned());
    let mut builder = Builder::new();
    builder.parse_filters(&filter).target(Target::Stderr).format(|to, record| {
        let level = record.level().as_str().to_ascii_lowercase();
        let message = record.args().to_string();
        writeln!(to, "{level}: [{}] {}", record.target(), printable(&message))
    });
    builder.init();
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
