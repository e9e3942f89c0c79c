//! What a vendor's driver has of its own.

use super::context::Context;
use super::function::Function;
use super::image::Refusal;
use super::launch::Shape;
use super::module::Module;
use super::{Answer, Code, Known, Limits, driver};
use crate::Settings;
use crate::protocol::{Fault, FaultKind, Request};
use std::fmt;
use std::sync::Arc;

/// A vendor's driver, in what it does not have in common with others.
pub trait Vendor: Sync {
    /// Whose driver it is, in messages.
    fn name(&self) -> &'static str;

    /// The environment variable with the settings.
    fn variable(&self) -> &'static str;

    /// Which addresses its memory has, so that doubles of several drivers can be in a process: 0 or 1.
    fn place(&self) -> u64;

    /// The name of the devices, which says that they are none.
    fn device_name(&self) -> &'static str;

    /// What objects belong to.
    fn scope(&self) -> Scope;

    /// All functions.
    fn functions(&self) -> &'static [Known];

    /// Whether the loader is not to find a function.
    fn lacks(&self, function: &Known) -> bool {
        driver().settings.list("missing").any(|name| name == function.exported)
    }

    /// What a device can do.
    fn limits(&self, settings: &Settings, device: usize) -> Limits;

    /// The numbers of host memory and device memory as types of pointers.
    fn memory_types(&self) -> [u32; 2];

    /// Whether the size of what a pointer is of is told in 32 bits.
    fn tells_low_half_of_sizes(&self) -> bool {
        false
    }

    /// So many bytes of pageable memory are taken along when a copy from there is queued.
    fn staged_bytes(&self) -> u64;

    /// Called before a function that needs the driver, while it is not initialised.
    ///
    /// # Errors
    /// What the function answers.
    fn uninitialized(&self) -> Answer;

    /// The calling thread's context, also if something failed in it. Blocks if it has to be made.
    ///
    /// # Errors
    /// If there is none.
    fn current(&self) -> Answer<Arc<Context>>;

    /// What the program has to give back and that is neither an object nor memory, in words.
    fn held(&self) -> Vec<String> {
        Vec::new()
    }

    /// What every call answers after a kernel failed.
    fn code_of_fault(&self, kind: FaultKind) -> Code;

    /// What a launch answers that there cannot be.
    fn code_of_misfit(&self, misfit: Misfit) -> Code;

    /// What else a launch has to be.
    ///
    /// # Errors
    /// What it answers if it is not.
    fn check_launch(&self, _function: &Function, _shape: &Shape) -> Answer {
        Ok(())
    }

    /// What is done in the place of a kernel that has no twin, as it is the compiler's.
    fn work_of(&self, _module: &Arc<Module>, _kernel: &str) -> Option<Work> {
        None
    }

    /// Called when an image was refused, for drivers that tell nobody why.
    fn refused(&self, _refusal: &Refusal) {}
}

/// Work in the place of a kernel, on a stream's thread: what the GPU process is then asked, if anything.
pub type Work = Box<dyn FnOnce() -> Result<Option<Request>, Fault> + Send>;

/// What objects belong to and end with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Contexts, which programs make and end. Work is given to streams of the current one.
    Context,
    /// Devices. Work is given to streams of any.
    Device,
}

impl fmt::Display for Scope {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Scope::Context => "context",
            Scope::Device => "device",
        })
    }
}

/// Why there cannot be a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misfit {
    /// A number of groups is 0.
    NoGroups,
    /// A size of groups is 0.
    NoItems,
    /// There are more groups than in any launch.
    TooManyGroups,
    /// Groups are larger than the device's.
    LargeGroups,
    /// Groups are larger than the kernel's.
    TooManyItems,
    /// Groups do not have the only size that the kernel allows.
    OtherGroups,
    /// Groups have more shared memory than they can.
    TooMuchSharedMemory,
    /// The kernel is of another context than the stream.
    OtherContext,
}
