//! What `docs/vulkan-images.md` promises, on every device of Vulkan: a trial for each sentence.

mod arguments;
mod groups;
mod life;
mod refusals;

use libtest_mimic::Trial;
use longshore::{ArgumentList, Device, Environment, Error, ErrorCode, Grid, Program, Queue};
use longshore_conformance::DeviceName;
use longshore_tests::suites::Suite;
use longshore_tests::vulkan;

/// A sentence, and what holds it.
type Check = (&'static str, fn(&Device));

/// What modules in GLSL begin with.
const HEAD: &str = "#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Numbers { uint at[]; };
";

pub(crate) const SUITE: Suite =
    Suite { prepare: vulkan::choose_drivers, ..Suite::new("vulkan_images", trials) };

fn trials() -> Vec<Trial> {
    let devices = match vulkan::devices() {
        Ok(devices) => devices,
        Err(error) => panic!("{error:?}"),
    };
    let devices = match vulkan::missing_tool() {
        Some(tool) => {
            eprintln!("nothing is tried: {tool} is not installed");
            Vec::new()
        }
        None => devices,
    };
    let layer = [refusals::CHECKS, arguments::CHECKS, groups::CHECKS, life::CHECKS].concat();
    let trials = devices.iter().flat_map(|device| {
        let strict = layer.iter().map(|check| trial(device, *check, vulkan::environment()));
        let plain = refusals::WITHOUT_LAYER
            .iter()
            .map(|check| trial(device, *check, vulkan::environment_without_layer()));
        strict.chain(plain)
    });
    trials.collect()
}

fn trial(device: &DeviceName, (name, check): Check, environment: Environment) -> Trial {
    let device = device.clone();
    Trial::test(format!("{}:{}: {name}", device.backend, device.index), move || {
        // Other trials unload the same images, whose counters would be added up.
        let profiles = tempfile::tempdir()?;
        let pattern = profiles.path().join("%m.profraw");
        let environment = environment.with("LONGSHORE_PROFILE_FILE", pattern);
        let device = vulkan::open(&device, environment)?;
        check(&device);
        // The validation layer may have something to say.
        let report = device.close()?;
        assert!(report.leaks.is_empty(), "{:?}", report.leaks);
        Ok(())
    })
}

/// A module in GLSL with one entry point.
fn glsl(entry_point: &str, source: &str) -> Vec<u8> {
    vulkan::glsl(entry_point, &[HEAD, source].concat())
}

/// The same with several, each between `#ifdef` of its name and `#endif`.
fn linked(entry_points: &[&str], source: &str) -> Vec<u8> {
    vulkan::linked_glsl(entry_points, &[HEAD, source].concat())
}

/// Launches a kernel of a program and waits.
///
/// # Safety
/// As for [`Queue::launch`].
unsafe fn launch(
    queue: &Queue,
    program: &Program,
    kernel: &str,
    grid: Grid,
    arguments: impl ArgumentList,
) -> longshore::Result<()> {
    let kernel = program.kernel(kernel)?;
    // SAFETY: promised by the caller.
    unsafe { queue.launch_and_wait(&kernel, grid, arguments) }
}

/// What a call was refused with.
#[track_caller]
fn refused<T>(result: longshore::Result<T>, code: ErrorCode) -> Error {
    match result {
        Err(error) => {
            assert_eq!(error.code(), code, "{error:?}");
            error
        }
        Ok(_) => panic!("it was not refused with {code:?}"),
    }
}

/// Fails if a message does not hold these texts.
#[track_caller]
fn says(error: &Error, texts: &[&str]) {
    let message = error.message();
    for text in texts {
        assert!(message.contains(text), "no '{text}' in: {message}");
    }
}

/// One of the drivers for the CPU, of which it is known what they have.
fn is_driver(device: &Device, name: &str) -> bool {
    device.name().contains(name)
}
