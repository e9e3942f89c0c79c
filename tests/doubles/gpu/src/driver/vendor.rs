//! The vendor-specific parts of a driver.

use super::context::Context;
use super::function::Function;
use super::image::Refusal;
use super::launch::Shape;
use super::module::Module;
use super::{Code, DriverFunction, DriverResult, Limits, driver};
use crate::Settings;
use crate::protocol::{Fault, FaultKind, Request};
use std::fmt;
use std::sync::Arc;

/// The vendor-specific parts of a driver.
pub trait Vendor: Sync {
    /// Returns the driver's name for messages.
    fn name(&self) -> &'static str;

    /// Returns the environment variable with the settings.
    fn variable(&self) -> &'static str;

    /// Returns the place of the double's memory, 0 or 1, so that a process can have doubles of two
    /// drivers.
    fn place(&self) -> u64;

    /// Returns the name of the devices, which says that they are doubles.
    fn device_name(&self) -> &'static str;

    /// Returns the kind of object that owns other objects.
    fn scope(&self) -> Scope;

    /// Returns all functions.
    fn functions(&self) -> &'static [DriverFunction];

    /// Returns whether the loader must not find a function.
    fn lacks(&self, function: &DriverFunction) -> bool {
        driver().settings.list("missing").any(|name| name == function.exported)
    }

    /// Returns the limits of a device.
    fn limits(&self, settings: &Settings, device: usize) -> Limits;

    /// Returns the numbers of host memory and device memory as types of pointers.
    fn memory_types(&self) -> [u32; 2];

    /// Returns whether a block's size in pointer attributes has only 32 bits.
    fn reports_low_half_of_sizes(&self) -> bool {
        false
    }

    /// Returns the size in bytes up to which a copy reads its pageable source while it is enqueued.
    fn staged_bytes(&self) -> u64;

    /// Handles a call of a function that needs the driver while it is not initialised.
    ///
    /// # Errors
    /// The function's result.
    fn uninitialized(&self) -> DriverResult;

    /// Returns the calling thread's context, even after a failure in it. Blocks if the context has
    /// to be created.
    ///
    /// # Errors
    /// A thread without a context.
    fn current(&self) -> DriverResult<Arc<Context>>;

    /// Describes further references that the program has to release, beside objects and memory.
    fn held(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the result of every call after a kernel failed.
    fn code_of_fault(&self, kind: FaultKind) -> Code;

    /// Returns the result of an impossible launch.
    fn code_of_misfit(&self, misfit: LaunchRefusal) -> Code;

    /// Checks the vendor's further rules for launches.
    ///
    /// # Errors
    /// The result of a launch that breaks a rule.
    fn check_launch(&self, _function: &Function, _shape: &Shape) -> DriverResult {
        Ok(())
    }

    /// Returns the work in place of a compiler's kernel, which has no twin.
    fn work_of(&self, _module: &Arc<Module>, _kernel: &str) -> Option<Work> {
        None
    }

    /// Handles the refusal of an image, for drivers that do not report reasons.
    fn refused(&self, _refusal: &Refusal) {}
}

/// Work in place of a kernel, on a stream's thread. Returns a further request to the GPU process,
/// if any.
pub type Work = Box<dyn FnOnce() -> Result<Option<Request>, Fault> + Send>;

/// The kind of object that owns other objects, which end with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Contexts, which programs create and destroy. A stream of the current context takes work.
    Context,
    /// Devices. A stream of any device takes work.
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

/// The reason why a launch is impossible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaunchRefusal {
    /// A number of groups is 0.
    NoGroups,
    /// A size of groups is 0.
    NoItems,
    /// The number of groups exceeds the limit of all launches.
    TooManyGroups,
    /// Groups exceed the device's limit.
    LargeGroups,
    /// Groups exceed the kernel's limit.
    TooManyItems,
    /// Groups do not have the only size that the kernel allows.
    OtherGroups,
    /// Groups have more shared memory than their limit.
    TooMuchSharedMemory,
    /// The kernel belongs to another context than the stream.
    OtherContext,
}
