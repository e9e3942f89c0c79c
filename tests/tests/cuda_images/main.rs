//! What `docs/cuda-images.md` promises, on the first device of CUDA: a trial for each sentence.

mod faults;
mod forms;
mod instrumented;
mod launches;
mod refusals;

use libtest_mimic::{Arguments, Trial};
use longshore::{Device, DeviceInfo, Environment, Host};
use longshore_tests::doubled::CUDA;
use longshore_tests::{DeviceName, cuda};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// A sentence, and what holds it.
type Check = (&'static str, fn(&Setting<'_>));

/// What a check has.
struct Setting<'a> {
    device: &'a Device,
    /// What the device's code is for: "sm_90".
    arch: String,
    /// Empty, and gone afterwards. Profiles are written to it.
    folder: &'a Path,
}

fn main() -> ExitCode {
    // SAFETY: there is no other thread yet.
    unsafe { CUDA.take_driver() };
    if faults::is_done() {
        return ExitCode::SUCCESS;
    }
    let arguments = Arguments::from_args();
    let devices = CUDA.devices().unwrap_or_else(|error| panic!("{error:?}"));
    let images = [forms::CHECKS, refusals::CHECKS, instrumented::CHECKS];
    let checks = [images.concat(), launches::CHECKS.to_vec(), faults::CHECKS.to_vec()].concat();
    let trials =
        devices.first().into_iter().flat_map(|device| checks.iter().map(|c| trial(device, *c)));
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

fn trial(device: &DeviceName, (name, check): Check) -> Trial {
    let selector = format!("{}:{}", device.backend, device.index);
    Trial::test(format!("{selector}: {name}"), move || {
        let folder = tempfile::tempdir()?;
        let environment = Environment::of_process()
            .with("LONGSHORE_PROFILE_FILE", folder.path().join("profile.profraw"));
        let host = Host::builder().environment(environment).only_given_plugins();
        let host = host.plugin(CUDA.plugin().expect("it has listed its devices")).build()?;
        let device = host.device(&selector)?;
        let arch = device.info(DeviceInfo::Architecture)?;
        let arch = arch.as_text().expect("it is text").to_owned();
        check(&Setting { device: &device, arch, folder: folder.path() });
        let report = device.close()?;
        assert!(report.leaks.is_empty(), "{:?}", report.leaks);
        Ok(())
    })
}

impl Setting<'_> {
    /// A file with a source in C.
    fn source(&self, text: &str) -> PathBuf {
        let path = self.folder.join("source.c");
        std::fs::write(&path, format!("#include \"longshore_device.h\"\n{text}")).unwrap();
        path
    }

    /// PTX of a source for the device, and its twin for the double. `None` without the compiler.
    fn ptx(&self, text: &str, options: &[&str]) -> Option<Vec<u8>> {
        cuda::compiled(&self.source(text), &self.arch, options)
    }
}
