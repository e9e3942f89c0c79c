//! Kernels as loops for AArch64 in an emulator, compared with their expected results.

use super::Kernel;
use super::compare::{difference, launch, output_of, seeds};
use super::interpret::Output;
use super::print::source;
use crate::items::{Build, Emulator, Ending, Launch};

/// Compiles kernels as one program, runs it in an emulator, and compares the results. Returns for
/// each kernel whether the pass over work-items has made loops of it, or the description of its
/// difference. Blocks.
///
/// # Errors
/// The message of a failed compilation or run.
pub fn compare_emulated(
    emulator: &Emulator,
    build: &Build,
    kernels: &[(Kernel, Output)],
) -> Result<Vec<Result<bool, String>>, String> {
    let about = seeds(kernels);
    let text = source(kernels.iter().map(|(kernel, _)| kernel));
    let launches: Vec<Launch> = kernels.iter().map(|(kernel, _)| launch(kernel)).collect();
    let endings = emulator.run(build, &text, &launches, &about);
    let endings = endings.map_err(|error| format!("{about}: {error}"))?;
    let compared =
        endings.into_iter().zip(kernels).map(|(ending, (kernel, expected))| match ending {
            Ending::Results(buffers) => {
                difference(kernel, &output_of(&buffers), expected).map_or(Ok(true), Err)
            }
            Ending::NeedsStacks => Ok(false),
        });
    Ok(compared.collect())
}
