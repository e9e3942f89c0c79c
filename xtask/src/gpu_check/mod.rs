//! `cargo xtask gpu-check`: everything that is worth knowing on a machine with a GPU, by one command.
//!
//! `devices.rs` reads which devices there are, `outcome.rs` what suites print, `section.rs` writes it
//! down; `sanitizer.rs` has NVIDIA's checker watch. What did not run is written down too.

mod devices;
mod outcome;
mod sanitizer;
mod section;

use crate::{bench, process, root};
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use devices::Device;
use outcome::Outcome;
use section::{Section, Step};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The package with the tests of all backends.
const SUITES: &str = "longshore-tests";
/// Which device tests and benchmarks use.
const SELECTION: &str = "LONGSHORE_DEVICES";
const RESULTS: &str = "docs/gpu-results.md";
const RESULTS_HEAD: &str = "# Results on GPUs\n\nWhat `cargo xtask gpu-check` found on \
    machines with a GPU, the newest at the end. Devices that are CPUs are never in here.\n";

/// A backend that can be checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Backend {
    /// GPUs of NVIDIA.
    Cuda,
    /// Any Vulkan compute device.
    Vulkan,
}

impl Backend {
    fn name(self) -> &'static str {
        match self {
            Backend::Cuda => "cuda",
            Backend::Vulkan => "vulkan",
        }
    }

    fn package(self) -> String {
        format!("longshore-plugin-{}", self.name())
    }
}

/// Builds in release, then for each GPU of the backend, or with `all` for each device: the
/// conformance suite, the backend's tests, its benchmark and, on CUDA, the suite under NVIDIA's checker.
/// Prints a section in markdown for each, and appends those of GPUs to `docs/gpu-results.md`.
///
/// # Errors
/// No device to check; whatever fails, after everything was tried.
pub fn run(backend: Backend, all: bool) -> Result<()> {
    let packages =
        ["-p", "longshore", "-p", "longshore-tests", "-p", "longshore-plugin-host", "-p"];
    let mut build = process::cargo(["build", "--release", "--bins", "--lib"]);
    process::run(build.args(packages).arg(backend.package()))?;
    let devices = chosen(found(backend)?, all)?;
    let mut failed = Vec::new();
    for device in &devices {
        let section = check(backend, device);
        let text = section.to_string();
        println!("\n{text}");
        match device.is_gpu() {
            true => append(&root().join(RESULTS), &text)?,
            false => println!("{} is no GPU: not written to {RESULTS}", device.id),
        }
        failed.extend(section.has_failed().then_some(device.id.as_str()));
    }
    match failed.is_empty() {
        true => Ok(()),
        false => bail!("failed on {}", failed.join(", ")),
    }
}

fn found(backend: Backend) -> Result<Vec<Device>> {
    let name = backend.name();
    let any = format!("{name}:*");
    let arguments = ["devices", "--json", "--backend", name, "--devices", &any];
    let (status, text) = process::captured(Command::new(built("longshore")).args(arguments))?;
    if !status.success() {
        process::run(Command::new(built("longshore")).args(["plugins", "--backend", name]))?;
        bail!("there is no device of the backend {name} ({status})");
    }
    devices::read(&text)
}

fn chosen(devices: Vec<Device>, all: bool) -> Result<Vec<Device>> {
    let (chosen, others): (Vec<_>, Vec<_>) =
        devices.into_iter().partition(|device| all || device.is_gpu());
    if chosen.is_empty() {
        let others: Vec<_> = others.iter().map(ToString::to_string).collect();
        bail!("there is no GPU, only {}; --all checks these", others.join(", "));
    }
    for device in others {
        println!("not checked: {device}; --all checks it too");
    }
    Ok(chosen)
}

fn check(backend: Backend, device: &Device) -> Section {
    let own = tests(device, &backend.package(), &["--lib", "--tests"]);
    let mut steps = vec![
        step("Conformance", conformance(device), outcome::of_conformance),
        step("Conformance, as tested", trials(backend, device, "conformance"), outcome::of_tests),
        step("The backend's own tests", own, outcome::of_tests),
    ];
    let names = suites();
    let suites = suites_of(backend, &names);
    steps.push(match suites.is_empty() {
        true => not_run("Tests", format!("there are none in tests/tests/{}*", backend.name())),
        false => step("Tests", tests(device, SUITES, &suites), outcome::of_tests),
    });
    steps.push(step("Rounds", trials(backend, device, "rounds"), outcome::of_tests));
    steps.push(step("Stress", trials(backend, device, "stress"), outcome::of_tests));
    steps.push(match bench::Suite::from_str(backend.name(), true) {
        Ok(_) => step("Benchmark", benchmark(backend, device), outcome::of_benchmark),
        Err(_) => not_run("Benchmark", "there is none for this backend".to_owned()),
    });
    if backend == Backend::Cuda {
        steps.extend(sanitizer::steps(|| conformance(device)));
    }
    Section { date: date(), device: device.clone(), machine: machine(), steps }
}

/// Runs a command whatever becomes of it.
fn step(name: &'static str, mut command: Command, read: fn(&str, bool) -> Outcome) -> Step {
    let outcome = match process::captured(&mut command) {
        Ok((status, text)) => read(&text, status.success()),
        Err(error) => Outcome::NotRun(format!("{error:#}")),
    };
    Step { name, outcome }
}

fn not_run(name: &'static str, why: String) -> Step {
    Step { name, outcome: Outcome::NotRun(why) }
}

fn conformance(device: &Device) -> Command {
    let mut command = Command::new(built("longshore"));
    command.args(["check", "--device", &device.id]);
    command
}

/// A test that has trials for the devices of all backends; those for this one. It uses what the backend
/// has for its tests: further images, stricter settings.
fn trials(backend: Backend, device: &Device, test: &str) -> Command {
    let mut command = tests(device, SUITES, &["--test", test]);
    command.arg(format!("{}:", backend.name()));
    command
}

/// Tests of a package, with what those that pass print.
fn tests(device: &Device, package: &str, targets: &[&str]) -> Command {
    let mut command = process::cargo(["test", "--release", "--no-fail-fast", "-p", package]);
    command.args(targets).args(["--", "--show-output"]).env(SELECTION, device.selection());
    command
}

fn benchmark(backend: Backend, device: &Device) -> Command {
    let mut command = process::cargo(["xtask", "bench", backend.name()]);
    command.env(SELECTION, device.selection());
    command
}

/// The names of the files and folders in `tests/tests`.
fn suites() -> Vec<String> {
    let entries = std::fs::read_dir(root().join("tests/tests")).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<_> = names.map(|name| name.trim_end_matches(".rs").to_owned()).collect();
    names.sort();
    names
}

/// Those of the backend, as arguments of cargo.
fn suites_of(backend: Backend, suites: &[String]) -> Vec<&str> {
    let of_backend = suites.iter().filter(|name| name.starts_with(backend.name()));
    of_backend.flat_map(|name| ["--test", name]).collect()
}

/// A program of the release build.
fn built(name: &str) -> PathBuf {
    process::target_folder().join("release").join(name)
}

fn date() -> String {
    process::said("date", &["--utc", "+%Y-%m-%d %H:%M UTC"])
}

/// What the results depend on besides the device.
fn machine() -> Vec<(&'static str, String)> {
    let mut machine = vec![
        ("Longshore", process::said("git", &["describe", "--always", "--dirty"])),
        ("compiler", process::said("rustc", &["--version"])),
        ("system", process::said("uname", &["-srm"])),
    ];
    // Of the part in the kernel, which other interfaces do not tell.
    if let Ok(version) = std::fs::read_to_string("/sys/module/nvidia/version") {
        machine.push(("NVIDIA's driver", version.trim().to_owned()));
    }
    machine
}

/// Adds a section to the file of results, which is begun if it is not there.
fn append(file: &Path, section: &str) -> Result<()> {
    let context = || file.display().to_string();
    let before = match std::fs::read_to_string(file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => RESULTS_HEAD.to_owned(),
        before => before.with_context(context)?,
    };
    std::fs::write(file, format!("{}\n\n{section}", before.trim_end())).with_context(context)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_appended_to_a_file_that_says_what_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("results.md");
        append(&file, "## one\n").unwrap();
        append(&file, "## two\n").unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        assert_eq!(text, format!("{RESULTS_HEAD}\n## one\n\n## two\n"));
    }

    #[test]
    fn cpus_are_checked_only_if_all_are() {
        let device = |id: &str, kind: &str| Device {
            id: id.to_owned(),
            kind: kind.to_owned(),
            ..Device::default()
        };
        let both = || vec![device("vulkan:0", "cpu"), device("vulkan:1", "integrated-gpu")];
        let ids = |devices: Vec<Device>| devices.into_iter().map(|one| one.id).collect::<Vec<_>>();
        assert_eq!(ids(chosen(both(), false).unwrap()), ["vulkan:1"]);
        assert_eq!(ids(chosen(both(), true).unwrap()), ["vulkan:0", "vulkan:1"]);
        let error = chosen(vec![device("vulkan:0", "cpu")], false).unwrap_err().to_string();
        assert!(error.contains("vulkan:0") && error.contains("--all"), "{error}");
    }

    #[test]
    fn the_suites_of_a_backend_are_those_that_begin_with_its_name() {
        let all = ["containers", "vulkan", "vulkan_faults"].map(str::to_owned);
        let expected = ["--test", "vulkan", "--test", "vulkan_faults"];
        assert_eq!(suites_of(Backend::Vulkan, &all), expected);
        assert!(suites_of(Backend::Cuda, &all).is_empty());
        assert!(suites().contains(&"containers".to_owned()));
    }

    #[test]
    fn what_cannot_be_started_is_not_run() {
        let step = step("Tests", Command::new("/nonexistent/x"), outcome::of_tests);
        assert!(matches!(step.outcome, Outcome::NotRun(_)), "{:?}", step.outcome);
    }
}
