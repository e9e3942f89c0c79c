//! The command line.

use crate::abi::{Abi, Opener};
use crate::cc::Cc;
use crate::check::Check;
use crate::common::CommonOptions;
use crate::completions::Completions;
use crate::devices::Devices;
use crate::inspect::Inspect;
use crate::link::Link;
use crate::manual::Manual;
use crate::mpirun::{Mpirun, Program};
use crate::new_plugin::NewPlugin;
use crate::passes::Passes;
use crate::plugins::Plugins;
use crate::probe::Probe;
use crate::run::Run;
use clap::Parser;
use std::sync::LazyLock;

const AFTER_HELP: &str = "\
Environment:
  LONGSHORE_PLUGIN_PATH   Folders or files, separated by ':', searched for plugins
  LONGSHORE_BACKEND       Backends to use, in order of preference; --backend replaces it
  LONGSHORE_DEVICES       Devices to use; --devices replaces it
  LONGSHORE_CACHE         Folder for the backends' caches; 'off' disables them
  LONGSHORE_TRACK         '1': track memory, print leaks and memory-pool totals
  LONGSHORE_CLANG         The compiler of `longshore cc`; --clang replaces it
  LONGSHORE_LOG           What to log, such as 'debug' or 'longshore=trace'; else RUST_LOG

Exit codes:
  0  Success
  1  The runtime, a plugin, the driver, the kernel's image, a compilation or a link failed
  2  Bad usage: an option or a selection is not valid
  3  Nothing found: no plugin, no device, no match for the selection, or no compiler or tool of it
  4  A check failed";

/// Returns the version and the commit. `cargo xtask install` sets the commit when it compiles.
fn version() -> &'static str {
    static VERSION: LazyLock<String> = LazyLock::new(|| {
        let commit = option_env!("LONGSHORE_COMMIT").unwrap_or("unknown");
        format!("{} (commit {commit})", env!("CARGO_PKG_VERSION"))
    });
    &VERSION
}

/// Runs kernels on GPUs and CPUs through vendor plugins that are found at run time.
#[derive(Parser)]
#[command(name = "longshore", version = version(), after_help = AFTER_HELP, max_term_width = 100)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) common: CommonOptions,
    #[command(subcommand)]
    pub(crate) subcommand: Subcommand,
}

#[derive(clap::Subcommand)]
pub(crate) enum Subcommand {
    Devices(Devices),
    Plugins(Plugins),
    Run(Run),
    Inspect(Inspect),
    Cc(Box<Cc>),
    Link(Box<Link>),
    Mpirun(Mpirun),
    Check(Check),
    NewPlugin(NewPlugin),
    Abi(Abi),
    Completions(Completions),
    #[command(name = "__manual", hide = true)]
    Manual(Manual),
    #[command(name = "__abi", hide = true)]
    AbiOpener(Opener),
    #[command(name = "__probe", hide = true)]
    Probe(Probe),
    #[command(name = "__program", hide = true)]
    Program(Program),
    #[command(name = "__passes", hide = true)]
    Passes(Passes),
}

impl Subcommand {
    /// Returns the default filter of the log, without `-v` and variables. The list of plugins
    /// already shows the warnings about them.
    pub(crate) fn default_log_filter(&self) -> &'static str {
        match self {
            Subcommand::Plugins(_) => "error,longshore::environment=warn",
            _ => "warn",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Options::command().debug_assert();
    }
}
