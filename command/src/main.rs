//! `longshore`: inspects plugins and devices, compiles and runs kernels, links objects and checks
//! devices from the shell.
//!
//! Start reading at [`options`], which holds the command line. Each subcommand has its own file,
//! and [`common`] has the options of all. Errors become a [`failure::Failure`], which holds its
//! hint and the exit code.

mod abi;
mod cc;
mod check;
mod common;
mod completions;
mod device_facts;
mod devices;
mod escape;
mod failure;
mod inspect;
mod link;
mod locale;
mod logging;
mod manual;
mod mpirun;
mod new_plugin;
mod options;
mod output;
mod passes;
mod plugins;
mod probe;
mod run;
mod table;

use clap::{CommandFactory, Parser};
use failure::Failure;
use longshore::Environment;
use options::{Options, Subcommand};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = link::expanded(cc::arguments(std::env::args_os()).into_iter());
    let options = Options::parse_from(arguments);
    logging::start(options.common.log_level(), options.subcommand.default_log_filter());
    // The process that starts a probe prints the warnings itself.
    if !matches!(
        options.subcommand,
        Subcommand::Probe(_)
            | Subcommand::AbiOpener(_)
            | Subcommand::Passes(_)
            | Subcommand::Program(_)
    ) {
        Environment::from_process().warn_of_misspelt();
    }
    match execute(options) {
        Ok(code) => code,
        Err(failure) => failure.report(),
    }
}

fn execute(options: Options) -> Result<ExitCode, Failure> {
    let common = &options.common;
    match options.subcommand {
        Subcommand::Devices(devices) => devices.execute(common)?,
        Subcommand::Plugins(plugins) => plugins.execute(common)?,
        Subcommand::Run(run) => return Ok(run.supervised(common)),
        Subcommand::Inspect(inspect) => inspect.execute()?,
        Subcommand::Cc(cc) => cc.execute()?,
        Subcommand::Link(link) => return link.execute(),
        Subcommand::NewPlugin(new_plugin) => new_plugin.execute()?,
        Subcommand::Abi(abi) => return abi.execute(),
        Subcommand::Mpirun(mpirun) => mpirun.execute(common)?,
        Subcommand::Check(check) => return Err(check.execute(common)),
        Subcommand::Completions(completions) => completions.execute(&Options::command())?,
        Subcommand::Manual(manual) => manual.execute(Options::command())?,
        Subcommand::AbiOpener(opener) => return Ok(opener.execute()),
        Subcommand::Program(program) => return program.execute(common),
        Subcommand::Probe(probe) => return Ok(probe.execute()),
        Subcommand::Passes(passes) => return Ok(passes.execute()),
    }
    Ok(ExitCode::SUCCESS)
}
