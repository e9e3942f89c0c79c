//! `cargo xtask gpu-check`: all checks and measurements of a machine with a GPU in one command.
//!
//! `devices.rs` reads the list of devices, `outcome.rs` the output of suites. `section.rs` writes
//! the report, which also names the steps that did not run. `sanitizer.rs` runs a suite under
//! NVIDIA's checker.

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
use std::process::{Command, ExitStatus};

/// The package with the tests of all backends.
const SUITES: &str = "longshore-tests";
/// The test program of that package for the devices, beside the conformance suite.
const DEVICES: &str = "devices";
/// The variable that selects the device for tests and benchmarks.
const SELECTION: &str = "LONGSHORE_DEVICES";
/// The variable that makes tests short.
const SMALL: &str = "LONGSHORE_SMALL";
const RESULTS: &str = "docs/gpu-results.md";
const RESULTS_HEAD: &str = "# Results on GPUs\n\nReports of `cargo xtask gpu-check` \
    on machines with a GPU, the newest at the end. CPUs are never listed here.\n";

/// A backend that can be checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Backend {
    /// GPUs of AMD.
    Amdgpu,
    /// GPUs of NVIDIA.
    Cuda,
    /// Any Vulkan compute device.
    Vulkan,
}

impl Backend {
    fn name(self) -> &'static str {
        match self {
            Backend::Amdgpu => "amdgpu",
            Backend::Cuda => "cuda",
            Backend::Vulkan => "vulkan",
        }
    }

    fn package(self) -> String {
        format!("longshore-plugin-{}", self.name())
    }

    /// Returns the packages of the double of the backend's driver.
    fn double(self) -> &'static [&'static str] {
        match self {
            Backend::Amdgpu => &["longshore-double-hip", "longshore-double-gpu"],
            Backend::Cuda => &["longshore-double-cuda", "longshore-double-gpu"],
            Backend::Vulkan => &[],
        }
    }

    /// Returns the file with the version of the driver's part in the kernel, which no other
    /// interface reports.
    fn kernel_module(self) -> Option<&'static str> {
        match self {
            Backend::Amdgpu => Some("/sys/module/amdgpu/version"),
            Backend::Cuda => Some("/sys/module/nvidia/version"),
            Backend::Vulkan => None,
        }
    }
}

/// A device that is checked.
struct Subject<'a> {
    backend: Backend,
    device: &'a Device,
    is_small: bool,
}

/// Builds in release, then checks each GPU of the backend, or each device with `all`. The steps are
/// the conformance suite, the backend's tests, its benchmark and, on CUDA, the suite under NVIDIA's
/// checker.
///
/// With `is_small` tests try little and may take longer. Prints a section in Markdown for each
/// device, and appends the sections of GPUs to `docs/gpu-results.md`.
///
/// # Errors
/// No device to check, or a failed step. All steps run before the error.
pub fn run(backend: Backend, all: bool, is_small: bool) -> Result<()> {
    let own = ["longshore-command", "longshore-conformance", "longshore-plugin-host-library"];
    let packages = own.iter().chain(backend.double()).flat_map(|package| ["-p", package]);
    let mut build = process::cargo(["build", "--release", "--bins", "--lib"]);
    process::run(build.args(packages).arg("-p").arg(backend.package()))?;
    let devices = chosen(found(backend)?, all)?;
    let mut failed = Vec::new();
    for device in &devices {
        let section = Subject { backend, device, is_small }.check();
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

impl Subject<'_> {
    fn check(&self) -> Section {
        let backend = self.backend;
        let own = self.tests(&backend.package(), &["--lib", "--tests"], &[]);
        let on_backend = format!("{}:", backend.name());
        let suites = Suites::for_backend(backend);
        let mut steps = vec![
            step("Conformance", self.isolated(), outcome::conformance_outcome),
            tests("Conformance, as tested", self.trials("conformance", &[&on_backend])),
            tests("The backend's own tests", own),
        ];
        steps.push(tests(
            "Tests",
            self.trials(DEVICES, &[&suites.all, "--skip", &suites.of_double]),
        ));
        if !backend.double().is_empty() {
            let of_double = self.trials(DEVICES, &[&suites.of_double]);
            steps.push(tests("Tests on a double of the driver", of_double));
        }
        for (name, suite) in [("Rounds", "[rounds]"), ("Stress", "[stress]")] {
            let filter = format!("{suite} {on_backend}");
            steps.push(tests(name, self.trials(DEVICES, &[&filter])));
        }
        steps.push(match bench::Suite::from_str(backend.name(), true) {
            Ok(_) => step("Benchmark", self.benchmark(), outcome::benchmark_outcome),
            Err(_) => not_run("Benchmark", "this backend has no benchmark".to_owned()),
        });
        if backend == Backend::Cuda {
            steps.extend(sanitizer::steps(|| self.conformance()));
        }
        Section { date: date(), device: self.device.clone(), machine: self.machine(), steps }
    }

    fn conformance(&self) -> Command {
        let mut command = Command::new(built("longshore"));
        command.args(["check", "--device", &self.device.id]);
        self.sized(command)
    }

    /// Returns the suite with each behaviour in a process of its own, so that a crash is one
    /// failure.
    fn isolated(&self) -> Command {
        let mut command = self.conformance();
        command.arg("--isolated");
        command
    }

    /// Returns a command for the trials of a test program, restricted by a filter and further
    /// options. They use the additional images and stricter settings of the backend's tests.
    fn trials(&self, program: &str, options: &[&str]) -> Command {
        self.tests(SUITES, &["--test", program], options)
    }

    /// Returns a command for the tests of a package that prints the output of passed tests too.
    fn tests(&self, package: &str, targets: &[&str], options: &[&str]) -> Command {
        let mut command = process::cargo(["test", "--release", "--no-fail-fast", "-p", package]);
        command.args(targets).args(["--", "--show-output"]).args(options);
        command.env(SELECTION, self.device.selection());
        self.sized(command)
    }

    fn benchmark(&self) -> Command {
        let mut command = process::cargo(["xtask", "bench", self.backend.name()]);
        command.env(SELECTION, self.device.selection());
        command
    }

    /// Returns a command whose tests have the size of `is_small`, whatever the environment of this
    /// process says.
    fn sized(&self, mut command: Command) -> Command {
        command.env(SMALL, if self.is_small { "1" } else { "0" });
        command
    }

    /// Returns the facts besides the device on which the results depend.
    fn machine(&self) -> Vec<(&'static str, String)> {
        let mut machine = vec![
            ("Longshore", process::said("git", &["describe", "--always", "--dirty"])),
            ("compiler", process::said("rustc", &["--version"])),
            ("system", process::said("uname", &["-srm"])),
        ];
        let module = self.backend.kernel_module();
        if let Some(version) = module.and_then(|file| std::fs::read_to_string(file).ok()) {
            machine.push(("driver in the kernel", version.trim().to_owned()));
        }
        if self.is_small {
            machine.push(("tried", "little (--small)".to_owned()));
        }
        machine
    }
}

/// Runs a command and reads its outcome, also after a failure.
fn step(name: &'static str, mut command: Command, read: fn(&str, bool) -> Outcome) -> Step {
    ended(name, process::captured(&mut command), read)
}

/// Runs tests, whose skips appear in standard output and standard error.
fn tests(name: &'static str, command: Command) -> Step {
    ended(name, process::captured_with_errors(command), outcome::tests_outcome)
}

fn ended(
    name: &'static str,
    end: Result<(ExitStatus, String)>,
    read: fn(&str, bool) -> Outcome,
) -> Step {
    let outcome = match end {
        Ok((status, text)) => read(&text, status.success()),
        Err(error) => Outcome::NotRun(format!("{error:#}")),
    };
    Step { name, outcome }
}

fn not_run(name: &'static str, why: String) -> Step {
    Step { name, outcome: Outcome::NotRun(why) }
}

/// Filters of the suites of a backend in the test program [`DEVICES`].
struct Suites {
    /// Suites whose names begin with the backend's.
    all: String,
    /// The suite for the double of the driver, which runs on every machine.
    of_double: String,
}

impl Suites {
    fn for_backend(backend: Backend) -> Suites {
        let name = backend.name();
        Suites { all: format!("[{name}_"), of_double: format!("[{name}_driver]") }
    }
}

/// Returns a program of the release build.
fn built(name: &str) -> PathBuf {
    process::target_folder().join("release").join(name)
}

fn date() -> String {
    process::said("date", &["--utc", "+%Y-%m-%d %H:%M UTC"])
}

/// Appends a section to the file of results, and creates the file if necessary.
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
    fn the_suites_of_each_backend_are_in_the_test_program() {
        let folder = root().join("tests/tests").join(DEVICES);
        let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let names = names.filter_map(|name| Some(name.to_str()?.strip_suffix(".rs")?.to_owned()));
        let names: Vec<_> = names.map(|name| format!("[{name}]")).collect();
        for &backend in Backend::value_variants() {
            let Suites { all, of_double } = Suites::for_backend(backend);
            assert!(names.iter().any(|name| name.starts_with(&all) && *name != of_double));
            assert_eq!(names.contains(&of_double), !backend.double().is_empty(), "{of_double}");
        }
        for suite in ["[rounds]", "[stress]"] {
            assert!(names.iter().any(|name| name == suite), "{suite}");
        }
    }

    #[test]
    fn a_program_that_cannot_start_is_not_run() {
        let step = step("Tests", Command::new("/nonexistent/x"), outcome::tests_outcome);
        assert!(matches!(step.outcome, Outcome::NotRun(_)), "{:?}", step.outcome);
    }
}
