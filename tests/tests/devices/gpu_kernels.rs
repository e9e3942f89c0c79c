//! The kernels of `kernels/kernels.c` on the first device of a backend, against plain Rust, with a trial for each
//! form of the image and each kernel.

#[path = "../cpu/kernels/checks.rs"]
mod checks;
mod rig;

use checks::CHECKS;
use libtest_mimic::{Arguments, Trial};
use longshore::DeviceInfo;
use longshore_conformance::DeviceName;
use longshore_tests::doubled::Doubled;
use std::process::ExitCode;
use std::sync::Arc;

/// Makes the kernels for an architecture: names of forms, and images, as far as there are tools.
pub(crate) type Images = fn(&str) -> Vec<(&'static str, Vec<u8>)>;

/// `main` of a test of these images.
pub(crate) fn main(of: &'static Doubled, images: Images) -> ExitCode {
    let arguments = Arguments::from_args();
    let devices = of.devices().unwrap_or_else(|error| panic!("{error:?}"));
    // All devices of a machine show the same.
    let trials = devices.first().map(|device| trials_of(of, device, images)).unwrap_or_default();
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn trials_of(of: &'static Doubled, device: &DeviceName, images: Images) -> Vec<Trial> {
    let trial = |(form, image): (&'static str, Vec<u8>)| {
        let (device, image) = (device.clone(), Arc::new(image));
        CHECKS.into_iter().map(move |(name, check)| {
            let (device, image) = (device.clone(), Arc::clone(&image));
            Trial::test(format!("{}:{} {form}: {name}", device.backend, device.index), move || {
                let rig = rig::open(of, &device, &image)?;
                check(&rig);
                Ok(rig.close()?)
            })
        })
    };
    images(&architecture(of, device)).into_iter().flat_map(trial).collect()
}

/// "sm_90".
fn architecture(of: &Doubled, device: &DeviceName) -> String {
    let host = of.host().expect("the host has listed its devices");
    let facts = host.devices().iter().find(|entry| entry.facts().index == device.index);
    let arch = facts.expect("the device was listed").info(DeviceInfo::Architecture);
    arch.expect("a GPU has an architecture").as_text().expect("it is text").to_owned()
}
