//! CUDA's own behaviour.

use crate::attributes::{self, capability};
use crate::cluster;
use crate::code::ILLEGAL_INSTRUCTION;
use crate::current;
use crate::functions::FUNCTIONS;
use crate::lists::Lists;
use longshore_double_gpu::Settings;
use longshore_double_gpu::driver::context::Context;
use longshore_double_gpu::driver::function::Function;
use longshore_double_gpu::driver::launch::Shape;
use longshore_double_gpu::driver::module::Module;
use longshore_double_gpu::driver::{
    Code, DriverFunction, DriverResult, LaunchRefusal, Limits, Scope, Vendor, Work, broken,
};
use longshore_double_gpu::protocol::FaultKind;
use std::sync::Arc;

/// CUDA's driver.
pub(crate) struct Cuda;

impl Vendor for Cuda {
    fn name(&self) -> &'static str {
        "CUDA"
    }

    fn variable(&self) -> &'static str {
        "LONGSHORE_CUDA_DOUBLE"
    }

    fn place(&self) -> u64 {
        0
    }

    fn device_name(&self) -> &'static str {
        "Longshore double of an NVIDIA GPU"
    }

    fn scope(&self) -> Scope {
        Scope::Context
    }

    fn functions(&self) -> &'static [DriverFunction] {
        FUNCTIONS
    }

    fn limits(&self, settings: &Settings, _device: usize) -> Limits {
        attributes::limits(capability(settings))
    }

    fn memory_types(&self) -> [u32; 2] {
        [1, 2]
    }

    fn staged_bytes(&self) -> u64 {
        64 << 10
    }

    fn uninitialized(&self) -> DriverResult {
        Err(broken(Code::NOT_INITIALIZED, "cuInit was not called"))
    }

    fn current(&self) -> DriverResult<Arc<Context>> {
        current::context()
    }

    fn held(&self) -> Vec<String> {
        current::retained()
    }

    fn code_of_fault(&self, kind: FaultKind) -> Code {
        match kind {
            FaultKind::Address => Code::ILLEGAL_ADDRESS,
            FaultKind::Assertion => Code::ASSERT,
            FaultKind::Instruction => ILLEGAL_INSTRUCTION,
            FaultKind::Refused | FaultKind::Other => Code::LAUNCH_FAILED,
        }
    }

    fn code_of_misfit(&self, misfit: LaunchRefusal) -> Code {
        match misfit {
            LaunchRefusal::TooManyItems => Code::LAUNCH_OUT_OF_RESOURCES,
            LaunchRefusal::OtherContext => Code::INVALID_HANDLE,
            _ => Code::INVALID_VALUE,
        }
    }

    fn check_launch(&self, function: &Function, shape: &Shape) -> DriverResult {
        cluster::check(function, shape)
    }

    fn work_of(&self, module: &Arc<Module>, kernel: &str) -> Option<Work> {
        let lists = Lists::for_kernel(module, kernel)?;
        let module = Arc::clone(module);
        Some(Box::new(move || lists.request(&module)))
    }
}
