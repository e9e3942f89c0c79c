//! The kernels of `kernels/kernels.c` on the first device of a backend, against plain Rust, with a trial for each form of the
//! image.

#[path = "../cpu/kernels/checks.rs"]
mod checks;
mod rig;

use checks::CHECKS;
use libtest_mimic::Trial;
use longshore::DeviceInfo;
use longshore_conformance::DeviceName;
use longshore_tests::doubled::Doubled;

/// Makes the kernels for an architecture: names of forms, and images, as far as there are tools.
pub(crate) type Images = fn(&str) -> Vec<(&'static str, Vec<u8>)>;

/// Lists the kernels in each form of image, for the first device of a backend.
pub(crate) fn trials(of: &'static Doubled, images: Images) -> Vec<Trial> {
    let devices = of.devices().unwrap_or_else(|error| panic!("{error:?}"));
    // All devices of a machine show the same.
    devices.first().map(|device| trials_of(of, device, images)).unwrap_or_default()
}

fn trials_of(of: &'static Doubled, device: &DeviceName, images: Images) -> Vec<Trial> {
    let trial = |(form, image): (&'static str, Vec<u8>)| {
        let device = device.clone();
        let name = format!("{}:{} {form}: all kernels are right", device.backend, device.index);
        Trial::test(name, move || {
            for (name, check) in CHECKS {
                println!("{name}");
                let rig = rig::open(of, &device, &image)?;
                check(&rig);
                rig.close()?;
            }
            Ok(())
        })
    };
    images(&architecture(of, device)).into_iter().map(trial).collect()
}

/// "sm_90".
fn architecture(of: &Doubled, device: &DeviceName) -> String {
    let host = of.host().expect("the host has listed its devices");
    let facts = host.devices().iter().find(|entry| entry.facts().index == device.index);
    let arch = facts.expect("the device was listed").info(DeviceInfo::Architecture);
    arch.expect("a GPU has an architecture").as_text().expect("it is text").to_owned()
}
