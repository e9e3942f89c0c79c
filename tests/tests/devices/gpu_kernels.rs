//! The kernels of `kernels/kernels.c` on the first device of a backend, compared with plain Rust,
//! with one trial for each form of the image.

#[path = "../cpu/kernels/checks.rs"]
mod checks;
mod rig;

pub(crate) use checks::CHECKS;
use libtest_mimic::{Completion, Trial};
use longshore::DeviceInfo;
use longshore_conformance::DeviceName;
use longshore_tests::doubled::Doubled;

/// A form of image.
pub(crate) struct Form {
    pub(crate) name: &'static str,
    /// A function that compiles the kernels for an architecture; it returns `None` without the
    /// tools.
    pub(crate) make: fn(&str) -> Option<Vec<u8>>,
}

/// Lists a trial for each form of image, for the first device of a backend. The trial makes the
/// image.
pub(crate) fn trials(of: &'static Doubled, forms: &'static [Form]) -> Vec<Trial> {
    let devices = of.devices().unwrap_or_else(|error| panic!("{error:?}"));
    // All devices of a machine behave alike.
    devices.first().map(|device| trials_of(of, device, forms)).unwrap_or_default()
}

fn trials_of(of: &'static Doubled, device: &DeviceName, forms: &'static [Form]) -> Vec<Trial> {
    let trial = |form: &'static Form| {
        let device = device.clone();
        let name =
            format!("{}:{} {}: all kernels are right", device.backend, device.index, form.name);
        Trial::ignorable_test(name, move || {
            let Some(image) = (form.make)(&architecture(of, &device)) else {
                return Ok(Completion::ignored_with("the tools that make it are not installed"));
            };
            for (name, check) in CHECKS {
                println!("{name}");
                let rig = rig::open(of, &device, &image)?;
                check(&rig);
                rig.close()?;
            }
            Ok(Completion::Completed)
        })
    };
    forms.iter().map(trial).collect()
}

/// Returns the architecture of the device, such as "sm_90".
fn architecture(of: &Doubled, device: &DeviceName) -> String {
    let host = of.host().expect("the host has listed its devices");
    let facts = host.devices().iter().find(|entry| entry.facts().index == device.index);
    let arch = facts.expect("the device was listed").info(DeviceInfo::Architecture);
    arch.expect("a GPU has an architecture").as_text().expect("it is text").to_owned()
}
