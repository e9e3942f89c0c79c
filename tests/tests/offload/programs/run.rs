//! Runs of the test programs.

use super::compile::{self, Linked, said};
use super::{Program, TrialResult, not_tried};
use libtest_mimic::{Completion, Failed};
use longshore::{Environment, Host};
use longshore_conformance::Fixtures;
use longshore_tests::doubled::{self, Doubled};
use longshore_tests::vulkan;
use longshore_tests::world::{executor, host_plugin, root};
use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// The first device of a program.
#[derive(Clone, Copy)]
pub(crate) enum On {
    Host,
    /// Lavapipe, and after it the device of the host.
    Vulkan,
    /// The double of a driver.
    Double(Doubled),
}

impl On {
    fn backend(self) -> &'static str {
        match self {
            On::Host => "host",
            On::Vulkan => "vulkan",
            On::Double(of) => of.backend,
        }
    }

    fn plugin(self) -> Option<PathBuf> {
        match self {
            On::Host => Some(host_plugin()),
            On::Vulkan => vulkan::plugin(),
            On::Double(of) => of.plugin().filter(|_| of.double().is_some()),
        }
    }
}

impl fmt::Display for On {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        text.write_str(self.backend())
    }
}

/// Conditions under which a program runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Under {
    Nothing,
    Valgrind,
    /// Isolation of each plugin in a process of its own.
    Isolation,
}

/// Images for programs, in this order.
const IMAGES: [&str; 2] = ["basic", "life"];
/// The Vulkan loader's own variable.
const DRIVERS: &str = "VK_DRIVER_FILES";
/// Time limits of programs, in seconds.
const SECONDS: [(Under, &str); 3] =
    [(Under::Nothing, "60"), (Under::Valgrind, "300"), (Under::Isolation, "60")];
/// Valgrind, which reports errors by its exit code.
const VALGRIND: [&str; 4] = ["valgrind", "--quiet", "--error-exitcode=99", "--num-callers=30"];
/// Options for programs that end all their work. Memory with a pointer to it is not a leak: threads
/// of plugins and drivers may run until the end of the process.
const LEAKS: [&str; 3] =
    ["--leak-check=full", "--errors-for-leak-kinds=definite", "--show-leak-kinds=definite"];

/// Restricts the Vulkan drivers to lavapipe, if it is installed, and uses doubles of the others,
/// which end before their programs. `main` must call this first.
///
/// # Safety
/// No other thread runs yet.
pub(crate) unsafe fn take_drivers() {
    // SAFETY: promised by the caller.
    unsafe {
        if let Some(manifest) = vulkan::lavapipe() {
            std::env::set_var(DRIVERS, manifest);
        }
        doubled::ALL.iter().for_each(|of| of.take_double("devices=1;quiet;ends"));
    }
}

/// Runs a program to its end; the error is its output.
pub(crate) fn run(program: &Program, linked: Linked, on: On, under: Under) -> TrialResult {
    if let Some(why) = missing(on, under) {
        return not_tried(why);
    }
    let folder = tempfile::tempdir()?;
    let images = images(on, folder.path())?;
    if images.is_empty() {
        return not_tried("what makes images for the device is not installed");
    }
    let mut command = command(program, under);
    command.arg(compile::program(program.file, linked)?).args(images).args(program.how);
    for (name, _) in std::env::vars_os().filter(|(name, _)| !is_of_a_double(name)) {
        let text = name.to_string_lossy();
        if ["LONGSHORE_", "OFFLOAD_", "LIBOMPTARGET_"].iter().any(|own| text.starts_with(own)) {
            command.env_remove(name);
        }
    }
    let others = if matches!(on, On::Host) { "" } else { ",host" };
    command.env("LONGSHORE_BACKEND", format!("{on}{others}"));
    command.env("LONGSHORE_PLUGIN_PATH", compile::folder());
    if under == Under::Isolation {
        command.env("LONGSHORE_ISOLATE", "all").env("LONGSHORE_EXECUTOR", executor());
    }
    // ThreadSanitizer does not see how the library and the plugins, which it has not instrumented,
    // order their own accesses.
    command.env("TSAN_OPTIONS", "ignore_noninstrumented_modules=1");
    command.env("LONGSHORE_CACHE", folder.path()).env("LONGSHORE_PROFILE_FILE", "/dev/null");
    let output = command.output()?;
    let printed = said(&output.stdout) + &said(&output.stderr);
    match output.status.success() && printed.is_empty() {
        true => Ok(Completion::Completed),
        false => Err(format!("{command:?}: {}\n{printed}", output.status).into()),
    }
}

/// Returns whether [`take_drivers`] has set a variable.
fn is_of_a_double(variable: &OsStr) -> bool {
    let name = variable.to_string_lossy();
    name.ends_with("_DRIVER") || name.ends_with("_DOUBLE")
}

/// Returns a command that starts a program, and ends it if it hangs.
fn command(program: &Program, under: Under) -> Command {
    let seconds = SECONDS.into_iter().find(|(of, _)| *of == under).map_or("60", |(_, most)| most);
    let mut command = Command::new("timeout");
    command.args(["--signal=KILL", seconds]);
    if under == Under::Valgrind {
        let known = root().join("tests/tests/offload/programs/valgrind.supp");
        command.args(VALGRIND).arg(format!("--suppressions={}", known.display()));
        command.args(if program.how.is_none() { &LEAKS[..] } else { &[] });
    }
    command
}

/// Returns the missing requirement of a trial, if any.
fn missing(on: On, under: Under) -> Option<&'static str> {
    if under == Under::Valgrind && Command::new("valgrind").arg("--version").output().is_err() {
        return Some("valgrind is not installed");
    }
    match on {
        _ if on.plugin().is_none() => Some("the plugin or the double is not built"),
        On::Vulkan if vulkan::lavapipe().is_none() => Some("lavapipe is not installed"),
        _ => None,
    }
}

/// Returns files with the images for a device; none if the images are missing.
fn images(on: On, folder: &Path) -> Result<Vec<PathBuf>, Failed> {
    // One image at a time: each needs a loaded double with a new process.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let environment = match on {
        On::Double(_) => Environment::from_process(),
        _ => Environment::empty(),
    };
    let host = Host::builder().with_environment(environment).with_only_given_plugins();
    let host = host.with_plugin(on.plugin().ok_or("the plugin is gone")?).build()?;
    let device = host.device(&format!("{on}:0"))?;
    let mut files = Vec::new();
    for name in IMAGES {
        let file = folder.join(name);
        let image = Fixtures::built_in().image(&device, name)?;
        let Some(image) = image else { return Ok(Vec::new()) };
        std::fs::write(&file, image)?;
        files.push(file);
    }
    device.close()?;
    Ok(files)
}
