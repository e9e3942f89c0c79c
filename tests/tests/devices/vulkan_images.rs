//! The statements of `docs/vulkan-images.md`, on every Vulkan device: one trial for each statement.

mod arguments;
mod groups;
mod life;
mod refusals;

use libtest_mimic::Trial;
use longshore::{ArgumentList, Device, Environment, Error, ErrorCode, Grid, Program, Queue};
use longshore_conformance::DeviceName;
use longshore_tests::suites::Suite;
use longshore_tests::vulkan;

/// A statement, and the function that checks it.
type Check = (&'static str, fn(&Device));

/// The beginning of GLSL modules.
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
        // Other trials unload the same images, and their counters would be added.
        let profiles = tempfile::tempdir()?;
        let pattern = profiles.path().join("%m.profraw");
        let environment = environment.with("LONGSHORE_PROFILE_FILE", pattern);
        let device = vulkan::open(&device, environment)?;
        check(&device);
        // The validation layer may report errors.
        let report = device.close()?;
        assert!(report.leaks.is_empty(), "{:?}", report.leaks);
        Ok(())
    })
}

/// Returns a GLSL module with one entry point.
fn glsl(entry_point: &str, source: &str) -> Vec<u8> {
    vulkan::glsl(entry_point, &[HEAD, source].concat())
}

/// Returns a module with several entry points, each between `#ifdef` of its name and `#endif`.
fn linked(entry_points: &[&str], source: &str) -> Vec<u8> {
    vulkan::linked_glsl(entry_points, &[HEAD, source].concat())
}

/// Launches a kernel of a program and waits for it.
///
/// # Safety
/// See [`Queue::launch`].
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

/// Asserts that a call was refused with this code, and returns the error.
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

/// Asserts that a message contains these texts.
#[track_caller]
fn says(error: &Error, texts: &[&str]) {
    let message = error.message();
    for text in texts {
        assert!(message.contains(text), "no '{text}' in: {message}");
    }
}

/// Returns whether the device is that of a certain driver for the CPU, whose features are known.
fn is_driver(device: &Device, name: &str) -> bool {
    device.name().contains(name)
}
