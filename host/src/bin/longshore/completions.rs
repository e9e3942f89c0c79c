//! `longshore completions`: what a shell needs to complete the command.

use crate::failure::Failure;
use crate::options::Options;
use crate::output;
use clap::{Args, CommandFactory};
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

impl Completions {
    pub(crate) fn execute(&self) -> Result<(), Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Options::command(), "longshore", &mut script);
        output::print(String::from_utf8_lossy(&script).trim_end())
    }
}
