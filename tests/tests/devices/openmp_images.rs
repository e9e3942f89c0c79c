//! OpenMP programs with images for GPUs, on the devices of CUDA and AMD.
//!
//! `programs.rs` compiles programs by clang with the device runtime of LLVM 19. `conventions.rs`
//! has a program that registers an image by hand, and launches its kernels as programs of clang 13
//! to 23 do.
//!
//! On a double of a driver, twins (`tests/fixtures/openmp_images/*.twin.c`) run in place of clang's
//! kernels, and write the structures that the double has received.

mod conventions;
mod programs;

use libtest_mimic::Trial;
use longshore::{DeviceInfo, Environment};
use longshore_conformance::DeviceName;
use longshore_tests::doubled::{self, AMDGPU, Doubled};
use longshore_tests::suites::Suite;
use longshore_tests::world::root;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;
use xtask::shared_library::{OPENMP, link_openmp_names};

pub(crate) const SUITE: Suite = Suite {
    // SAFETY: promised by the caller.
    prepare: || unsafe { doubled::ALL.iter().for_each(|of| of.take_driver()) },
    ..Suite::new("openmp_images", trials)
};

/// Folder with the libraries of clang 19.
const LLVM: &str = "/usr/lib/llvm-19/lib";

/// A statement, and the function that checks it.
pub(crate) type Check = (&'static str, fn(&Setting));

/// A backend with a device, and the library on which programs run.
pub(crate) struct Setting {
    pub(crate) of: &'static Doubled,
    /// Architecture of the first device, without features: "sm_90", "gfx90a".
    pub(crate) arch: String,
    /// Folder with the library, for programs and other files of the trial.
    pub(crate) folder: TempDir,
}

fn trials() -> Vec<Trial> {
    let devices = doubled::ALL.iter().filter_map(|of| {
        let devices = of.devices().unwrap_or_else(|error| panic!("{error:?}"));
        Some((of, devices.into_iter().next()?))
    });
    devices.flat_map(|(of, device)| on_backend(of, &device)).collect()
}

fn on_backend(of: &'static Doubled, device: &DeviceName) -> Vec<Trial> {
    let opened = of.open(device).unwrap_or_else(|error| panic!("{error:?}"));
    let arch = opened.info(DeviceInfo::Architecture).expect("GPUs have an architecture");
    let arch = arch.as_text().expect("it is text").split(':').next().unwrap_or_default().to_owned();
    let trial = |(name, check): &Check| {
        let (arch, check) = (arch.clone(), *check);
        Trial::test(format!("{}: {name}", of.backend), move || {
            if let Some(setting) = Setting::new(of, arch) {
                check(&setting);
            }
            Ok(())
        })
    };
    [programs::CHECKS, conventions::CHECKS].concat().iter().map(trial).collect()
}

impl Setting {
    /// Links the library. Returns `None`, and prints a line, if it is not built.
    fn new(of: &'static Doubled, arch: String) -> Option<Setting> {
        let built = of.plugin().expect("it has devices");
        let library = match OPENMP.link(built.parent().expect("it is in a folder")) {
            Ok(library) => library,
            Err(error) => {
                eprintln!("nothing is tried: {error:#}");
                return None;
            }
        };
        let folder = tempfile::tempdir().expect("a folder for programs");
        link_openmp_names(&library, folder.path()).expect("the folder is writable");
        Some(Setting { of, arch, folder })
    }

    /// Returns whether devices run twins.
    pub(crate) fn is_double(&self) -> bool {
        self.of.is_double()
    }

    /// Returns the value for AMD, or the value for NVIDIA.
    pub(crate) fn by_vendor<T>(&self, amd: T, nvidia: T) -> T {
        if self.of.backend == AMDGPU.backend { amd } else { nvidia }
    }

    /// Runs a program on the library, with the backend alone and these variables.
    pub(crate) fn run(
        &self,
        program: &Path,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> Output {
        let libraries = format!("{}:{LLVM}", self.folder.path().display());
        let mut command = Command::new(program);
        command.args(arguments).env("LD_LIBRARY_PATH", libraries);
        command.env("LONGSHORE_PLUGIN_PATH", self.of.plugin().expect("it has devices"));
        command.env("LONGSHORE_BACKEND", self.of.backend).env("OMP_TARGET_OFFLOAD", "mandatory");
        if Environment::from_process().devices().is_none() {
            command.env_remove("LONGSHORE_DEVICES");
        }
        command.envs(variables.iter().copied()).output().expect("the program was just made")
    }
}

/// Returns a file of the programs' folder.
pub(crate) fn fixture(name: &str) -> PathBuf {
    root().join("tests/fixtures/openmp_images").join(name)
}

/// Returns the output of a program that succeeded.
///
/// # Panics
/// If it failed.
pub(crate) fn succeeded(output: &Output) -> (String, String) {
    let [said, wrong] =
        [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    assert!(output.status.success(), "{}: {said}\n{wrong}", output.status);
    (said, wrong)
}
