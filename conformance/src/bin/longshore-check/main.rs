//! The command that runs the conformance suite on devices of this machine, for authors of plugins.

mod failure;
mod isolated;
mod print;
mod report;
mod setup;
mod verify;

use clap::Parser;
use failure::{Exit, Failure};
use indicatif::{ProgressBar, ProgressStyle};
use longshore_conformance::{Behaviour, DeviceName, Filter, Outcome, Setup, behaviours};
use longshore_plugin_api::printable;
use print::DeviceReport;
use report::ReportFile;
use setup::setup;
use std::path::PathBuf;
use std::process::ExitCode;

/// Checks that devices behave as Longshore's plugin interface promises.
///
/// Exits with status 0 if no behaviour failed, and status 1 if a report or the output cannot be
/// written. Bad usage is status 2, and a lack of devices status 3. The status is 4 if a behaviour
/// failed, or if a verified report does not count.
#[derive(Parser)]
#[command(name = "longshore-check", version)]
struct Options {
    /// Devices to check, such as "cuda:0" or "vulkan:*llvmpipe*"; by default all
    #[arg(long, value_name = "SELECTION")]
    device: Option<String>,
    /// Plugin, or folder of plugins, to search before all others; only the devices of such plugins
    /// are checked
    #[arg(long, value_name = "PATH")]
    plugin: Vec<PathBuf>,
    /// Images for your device, named after their purpose: basic.*, clash.*, life.*, failing.*
    #[arg(long, value_name = "FOLDER")]
    fixtures: Option<PathBuf>,
    /// Run each behaviour in a process of its own: a crash is a failure, and the others still run
    #[arg(long)]
    isolated: bool,
    /// File for the results as JSON, with the hash of the plugin: see docs/conformance.md
    #[arg(long, value_name = "FILE", conflicts_with_all = ["list", "verify"])]
    report: Option<PathBuf>,
    /// Report to verify, and to compare with the file of --plugin; runs no behaviour
    #[arg(long, value_name = "FILE", conflicts_with = "list")]
    verify: Option<PathBuf>,
    /// Behaviour that this process runs
    #[arg(long, hide = true, requires = "outcome")]
    behaviour: Option<String>,
    /// File for the outcome, or without a behaviour for the answers of the device
    #[arg(long, hide = true, requires = "device")]
    outcome: Option<PathBuf>,
    /// List the behaviours and do nothing
    #[arg(long)]
    list: bool,
    /// Only behaviours whose "group: name" contains one of these texts
    filter: Vec<String>,
}

fn main() -> ExitCode {
    env_logger::Builder::from_env(env_logger::Env::new().filter("LONGSHORE_LOG")).init();
    execute(&Options::parse()).unwrap_or_else(|failure| failure.report())
}

fn execute(options: &Options) -> Result<ExitCode, Failure> {
    let filter = Filter::any_of(options.filter.iter().cloned());
    if options.list {
        print::text(&list(&filter))?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(report) = &options.verify {
        verify::verify(report, &options.plugin)?;
        return Ok(ExitCode::SUCCESS);
    }
    if behaviours().all(|behaviour| !filter.admits(behaviour)) {
        let message = "no behaviour contains one of these texts; --list prints all behaviours";
        return Err(Failure::new(Exit::Usage, message));
    }
    let setup = setup(options)?;
    if let Some(outcome) = &options.outcome {
        let device = options.device.as_deref().unwrap_or_default();
        let served = isolated::serve(&setup, device, options.behaviour.as_deref(), outcome);
        served.map_err(|error| Failure::new(Exit::Usage, error))?;
        return Ok(ExitCode::SUCCESS);
    }
    let devices = setup.devices()?;
    if devices.is_empty() {
        return Ok(no_device(&setup));
    }
    check(&setup, &devices, &filter, options)
}

/// Returns a line for each behaviour.
fn list(filter: &Filter) -> String {
    let listed = behaviours().filter(|behaviour| filter.admits(behaviour));
    listed.map(|it| format!("{it} [{}]\n", it.requirements.join(" "))).collect()
}

fn check(
    setup: &Setup,
    devices: &[DeviceName],
    filter: &Filter,
    options: &Options,
) -> Result<ExitCode, Failure> {
    let file = options.report.as_deref();
    let mut report =
        file.map(|file| ReportFile::begin(setup, devices, options, file)).transpose()?;
    let mut failed = 0;
    for device in devices {
        let results = check_device(setup, device, filter, options);
        failed += results.iter().filter(|(_, it)| matches!(it, Outcome::Failed(_))).count();
        if let Some(report) = &mut report {
            report.add(device, &results, options);
        }
    }
    if let Some(report) = report {
        report.write()?;
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { Exit::Failed.into() })
}

/// Checks a device, prints and returns the outcomes.
fn check_device(
    setup: &Setup,
    device: &DeviceName,
    filter: &Filter,
    options: &Options,
) -> Vec<(&'static Behaviour, Outcome)> {
    let count = behaviours().filter(|behaviour| filter.admits(behaviour)).count();
    // The bar draws nothing if standard error is not a terminal.
    let style = ProgressStyle::with_template("{prefix} {bar:30} {pos}/{len} {wide_msg}");
    let bar = ProgressBar::new(count as u64)
        .with_style(style.expect("the template is well-formed"))
        .with_prefix(printable(&device.name).into_owned());
    let mut report = DeviceReport::begin(device);
    let mut results = Vec::with_capacity(count);
    for behaviour in behaviours().filter(|behaviour| filter.admits(behaviour)) {
        bar.set_message(behaviour.name);
        let outcome = match options.isolated {
            true => isolated::run(options, device, behaviour),
            false => setup.run(device, behaviour),
        };
        bar.suspend(|| report.add(behaviour, &outcome));
        bar.inc(1);
        results.push((behaviour, outcome));
    }
    bar.finish_and_clear();
    report.end();
    results
}

/// Prints the reason for a lack of devices, and the next step of the plugin's author.
fn no_device(setup: &Setup) -> ExitCode {
    match setup.why_no_device() {
        Ok((why, step)) => {
            eprintln!("no device to check: {}", printable(&why));
            match step {
                Some(step) => eprintln!("next: {step}"),
                None => eprintln!("`longshore plugins` lists all plugins with their outcomes"),
            }
        }
        Err(error) => eprintln!("no device to check: {error}"),
    }
    Exit::NoDevice.into()
}
