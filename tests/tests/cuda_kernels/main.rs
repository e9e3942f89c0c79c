//! The kernels of `kernels/kernels.c` on every device of CUDA, against plain Rust: as PTX, which the driver
//! compiles, and as machine code, with a trial for each kernel.

#[path = "../kernels/checks.rs"]
mod checks;
mod rig;

use checks::CHECKS;
use libtest_mimic::{Arguments, Trial};
use longshore::DeviceInfo;
use longshore_tests::doubled::CUDA;
use longshore_tests::{DeviceName, cuda, kernels};
use std::process::ExitCode;
use std::sync::Arc;

fn main() -> ExitCode {
    // SAFETY: there is no other thread yet.
    unsafe { CUDA.take_driver() };
    let arguments = Arguments::from_args();
    let devices = CUDA.devices().unwrap_or_else(|error| panic!("{error:?}"));
    // All devices of a machine show the same.
    let trials = devices.first().map(trials_of).unwrap_or_default();
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// A trial for each form of the image and each kernel.
fn trials_of(device: &DeviceName) -> Vec<Trial> {
    let arch = architecture(device);
    let Some(ptx) = cuda::compiled(&kernels::source(), &arch, &["-O3"]) else {
        return Vec::new();
    };
    let cubin = cuda::assembled(&ptx, &arch, &["-O3"]);
    let images = [("PTX", Some(ptx)), ("cubin", cubin)];
    let images = images.into_iter().filter_map(|(form, image)| Some((form, Arc::new(image?))));
    let trial = |(form, image): (&'static str, Arc<Vec<u8>>)| {
        let device = device.clone();
        CHECKS.into_iter().map(move |(name, check)| {
            let (device, image) = (device.clone(), Arc::clone(&image));
            Trial::test(format!("{}:{} {form}: {name}", device.backend, device.index), move || {
                let rig = rig::open(&device, &image)?;
                check(&rig);
                Ok(rig.close()?)
            })
        })
    };
    images.flat_map(trial).collect()
}

/// "sm_90".
fn architecture(device: &DeviceName) -> String {
    let host = CUDA.host().expect("the host has listed its devices");
    let facts = host.devices().iter().find(|entry| entry.facts().index == device.index);
    let arch = facts.expect("the device was listed").info(DeviceInfo::Architecture);
    arch.expect("a GPU has an architecture").as_text().expect("it is text").to_owned()
}
