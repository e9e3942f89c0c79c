//! The kernels of `kernels/vulkan` on every Vulkan device, in GLSL and in WGSL, compared with plain
//! Rust: all kernels, sizes and group sizes, with one trial for each.

mod checks;
mod rig;

use checks::CHECKS;
use libtest_mimic::Trial;
use longshore_conformance::DeviceName;
use longshore_tests::suites::Suite;
use longshore_tests::vulkan;
use rig::{Language, Rig};

pub(crate) const SUITE: Suite =
    Suite { prepare: vulkan::choose_drivers, ..Suite::new("vulkan_kernels", trials) };

fn trials() -> Vec<Trial> {
    let devices = match vulkan::devices() {
        Ok(devices) => devices,
        Err(error) => panic!("{error:?}"),
    };
    let trials = devices.iter().flat_map(|device| languages().map(move |l| (device, l)));
    trials.flat_map(|(device, language)| trials_of(device, language)).collect()
}

/// Returns the languages whose tools are installed.
fn languages() -> impl Iterator<Item = Language> {
    let missing = vulkan::missing_tool();
    if let Some(tool) = missing {
        eprintln!("nothing is tried in GLSL: {tool} is not installed");
    }
    [Language::Glsl, Language::Wgsl]
        .into_iter()
        .filter(move |language| *language == Language::Wgsl || missing.is_none())
}

fn trials_of(device: &DeviceName, language: Language) -> impl Iterator<Item = Trial> {
    let device = device.clone();
    CHECKS.into_iter().map(move |(name, check)| {
        let device = device.clone();
        Trial::test(
            format!("{}:{} {language:?}: {name}", device.backend, device.index),
            move || {
                let rig = rig::open(&device, language)?;
                check(&rig);
                // The validation layer may report errors.
                Ok(Rig::close(rig)?)
            },
        )
    })
}
