//! Comparison of compiled kernels with their expected results.

use super::Kernel;
use super::ast::OUTPUTS;
use super::interpret::{Output, UNWRITTEN, WIDE_UNWRITTEN};
use super::print::source;
use crate::device_code::{Workshop, threads};
use crate::items::limits::{RUN_LIMIT, Watchdog};
use crate::items::{Argument, Build, Launch};
use longshore::{Device, Program, Queue};
use longshore_conformance::TrustedImages;
use std::fmt::Debug;

/// The CPU, and a queue on it.
pub struct Bench {
    device: Device,
    queue: Queue,
}

impl Bench {
    /// Opens the CPU with two threads.
    ///
    /// # Panics
    /// If the device does not work.
    #[expect(clippy::new_without_default, reason = "it opens a device")]
    pub fn new() -> Bench {
        let device = Workshop::new().device(threads(2));
        let queue = device.queue().expect("the device works");
        Bench { device, queue }
    }

    /// Compiles kernels as one image, runs each, and compares the results. Returns the description
    /// of each difference, or `None` for a kernel without one.
    ///
    /// # Errors
    /// The message of a failed compilation or load.
    pub fn compare(
        &self,
        build: &Build,
        kernels: &[(Kernel, Output)],
    ) -> Result<Vec<Option<String>>, String> {
        let about = seeds(kernels);
        let text = source(kernels.iter().map(|(kernel, _)| kernel));
        let (image, _) = build.image(&text, &about).map_err(|error| format!("{about}: {error}"))?;
        let load = Watchdog::aborting(RUN_LIMIT, format!("the load of {about}, {build:?}"));
        let program = self.device.load_trusted(image).map_err(|error| error.to_string())?;
        drop(load);
        Ok(compare_on(&program, &self.queue, kernels))
    }
}

/// Runs the kernels of a program, and compares the results as [`Bench::compare`] does.
pub fn compare_on(
    program: &Program,
    queue: &Queue,
    kernels: &[(Kernel, Output)],
) -> Vec<Option<String>> {
    let compared = kernels.iter().map(|(kernel, expected)| {
        // SAFETY: the kernel's accesses are in bounds, as the interpreter showed: the outputs
        // have elements for all items, and the input has the number of the argument.
        match unsafe { launch(kernel).run(program, queue) } {
            Ok(buffers) => difference(kernel, &output_of(&buffers), expected),
            Err(error) => Some(format!("the launch failed: {error}")),
        }
    });
    compared.collect()
}

/// Returns a kernel's launch, whose first two buffers are the outputs.
pub(super) fn launch(kernel: &Kernel) -> Launch {
    let count = kernel.total() * OUTPUTS as usize;
    let arguments = &kernel.arguments;
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let value = |bytes: &[u8]| Argument::Value(bytes.to_vec());
    Launch {
        kernel: format!("k{}", kernel.seed),
        groups: kernel.groups,
        items: kernel.items,
        shared_bytes: kernel.dynamic_bytes(),
        arguments: vec![
            Argument::Buffer(words(&vec![UNWRITTEN; count])),
            Argument::Buffer(WIDE_UNWRITTEN.to_ne_bytes().repeat(count)),
            Argument::Buffer(words(&arguments.input)),
            value(&(arguments.input.len() as u32).to_ne_bytes()),
            value(&arguments.a.to_ne_bytes()),
            value(&arguments.b.to_ne_bytes()),
            value(&arguments.c.to_ne_bytes()),
            value(&arguments.f.to_ne_bytes()),
        ],
    }
}

/// Returns the outputs from the buffers of a launch.
pub(super) fn output_of(buffers: &[Vec<u8>]) -> Output {
    let out = buffers[0].chunks_exact(4).map(|word| u32::from_ne_bytes(word.try_into().unwrap()));
    let wide = buffers[1].chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap()));
    Output { out: out.collect(), wide: wide.collect() }
}

/// Names the kernels of an image.
pub(super) fn seeds(kernels: &[(Kernel, Output)]) -> String {
    match kernels {
        [] => "no kernels".to_owned(),
        [(kernel, _)] => format!("the kernel of seed {}", kernel.seed),
        [(first, _), .., (last, _)] => {
            format!("the kernels of seeds {} to {}", first.seed, last.seed)
        }
    }
}

/// Describes the first difference.
pub(super) fn difference(kernel: &Kernel, got: &Output, expected: &Output) -> Option<String> {
    fn first<T: PartialEq + Debug>(
        name: &str,
        got: &[T],
        expected: &[T],
    ) -> Option<(usize, String)> {
        let at = got.iter().zip(expected).position(|(got, expected)| got != expected)?;
        let (item, slot) = (at / OUTPUTS as usize, at % OUTPUTS as usize);
        let (got, expected) = (&got[at], &expected[at]);
        Some((item, format!("{name}, slot {slot}: {got:?} instead of {expected:?}")))
    }
    let differences =
        [first("out", &got.out, &expected.out), first("wide", &got.wide, &expected.wide)];
    let (item, text) = differences.into_iter().flatten().min_by_key(|(item, _)| *item)?;
    let volume = kernel.volume() as usize;
    Some(format!("item {} of group {}: {text}", item % volume, item / volume))
}
