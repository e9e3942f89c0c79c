//! HIP's own behaviour.

use crate::code::{INVALID_CONFIGURATION, MEMORY_TYPES, MEMORY_TYPES_BEFORE_6};
use crate::functions::FUNCTIONS;
use crate::{attributes, current, version};
use longshore_double_gpu::Settings;
use longshore_double_gpu::driver::context::Context;
use longshore_double_gpu::driver::function::Function;
use longshore_double_gpu::driver::image::Refusal;
use longshore_double_gpu::driver::launch::Shape;
use longshore_double_gpu::driver::module::Module;
use longshore_double_gpu::driver::{
    Code, DriverFunction, DriverResult, LaunchRefusal, Limits, Scope, Vendor, Work, driver,
};
use longshore_double_gpu::protocol::{FaultKind, Request};
use std::sync::Arc;

/// The HIP runtime.
pub(crate) struct Hip;

impl Vendor for Hip {
    fn name(&self) -> &'static str {
        "HIP"
    }

    fn variable(&self) -> &'static str {
        "LONGSHORE_HIP_DOUBLE"
    }

    fn place(&self) -> u64 {
        1
    }

    fn device_name(&self) -> &'static str {
        "Longshore double of an AMD GPU"
    }

    fn scope(&self) -> Scope {
        Scope::Device
    }

    fn functions(&self) -> &'static [DriverFunction] {
        FUNCTIONS
    }

    fn lacks(&self, function: &DriverFunction) -> bool {
        let is_later = function.since > version::major() as i32;
        is_later || driver().settings.list("missing").any(|name| name == function.exported)
    }

    fn limits(&self, settings: &Settings, device: usize) -> Limits {
        attributes::limits(&current::target_of(settings, device))
    }

    fn memory_types(&self) -> [u32; 2] {
        if version::major() < 6 { MEMORY_TYPES_BEFORE_6 } else { MEMORY_TYPES }
    }

    fn reports_low_half_of_sizes(&self) -> bool {
        true
    }

    /// Returns 0, the least that the documentation allows.
    fn staged_bytes(&self) -> u64 {
        0
    }

    fn uninitialized(&self) -> DriverResult {
        version::start()
    }

    fn current(&self) -> DriverResult<Arc<Context>> {
        current::context()
    }

    fn code_of_fault(&self, kind: FaultKind) -> Code {
        match kind {
            FaultKind::Address if driver().settings.get("fault") == Some("abort") => {
                eprintln!("longshore double of HIP: a memory access fault ends the process");
                std::process::abort();
            }
            FaultKind::Address => Code::ILLEGAL_ADDRESS,
            _ => Code::LAUNCH_FAILED,
        }
    }

    fn code_of_misfit(&self, misfit: LaunchRefusal) -> Code {
        match misfit {
            LaunchRefusal::NoItems => INVALID_CONFIGURATION,
            LaunchRefusal::TooManyItems => Code::LAUNCH_FAILED,
            LaunchRefusal::OtherContext => Code::INVALID_DEVICE,
            _ => Code::INVALID_VALUE,
        }
    }

    /// Checks that the number of items in each dimension fits 32 bits.
    fn check_launch(&self, _function: &Function, shape: &Shape) -> DriverResult {
        let mut sizes = shape.groups.into_iter().zip(shape.items);
        match sizes.all(|(groups, items)| groups.checked_mul(items).is_some()) {
            true => Ok(()),
            false => Err(INVALID_CONFIGURATION),
        }
    }

    /// Returns the work of the kernels for constructors and destructors: the twin runs its own.
    fn work_of(&self, module: &Arc<Module>, kernel: &str) -> Option<Work> {
        let (module, ends) = match kernel {
            "amdgcn.device.init" => (module.number, false),
            "amdgcn.device.fini" => (module.number, true),
            _ => return None,
        };
        Some(Box::new(move || Ok(Some(Request::Life { module, ends }))))
    }

    fn refused(&self, refusal: &Refusal) {
        if driver().settings.get("quiet").is_none() {
            eprint!("longshore double of HIP refuses an image: {}", refusal.log);
        }
    }
}
