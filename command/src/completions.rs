//! `longshore completions`: scripts by which a shell completes the command.

use crate::failure::Failure;
use crate::output;
use clap::{Arg, Args, Command};
use clap_complete::Shell;

/// Print a script with which a shell completes this command
///
/// For bash: `longshore completions bash > ~/.local/share/bash-completion/completions/longshore`
#[derive(Args)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Returns the command without its hidden options and subcommands, which the generator would
/// complete.
fn without_hidden(command: &Command) -> Command {
    let shown = |argument: &&Arg| !argument.is_hide_set();
    let arguments = command.get_arguments().filter(shown).cloned();
    let subcommands = command.get_subcommands().filter(|known| !known.is_hide_set());
    let about = command.get_about().cloned().unwrap_or_default();
    let name: &'static str = command.get_name().to_owned().leak();
    Command::new(name)
        .about(about)
        .version(env!("CARGO_PKG_VERSION"))
        .args(arguments)
        .subcommands(subcommands.map(without_hidden))
}

impl Completions {
    /// Prints the script for `command`, the whole command line.
    pub(crate) fn execute(&self, command: &Command) -> Result<(), Failure> {
        let mut script = Vec::new();
        let mut command = without_hidden(command);
        clap_complete::generate(self.shell, &mut command, "longshore", &mut script);
        output::print(String::from_utf8_lossy(&script).trim_end())
    }
}
