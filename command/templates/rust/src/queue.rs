//! The work of queues: launches, copies and fills. Each function checks its request and returns the
//! work, which runs on the queue's thread in order.

use crate::AcmePlugin;
use crate::device::AcmeDevice;
use crate::module::AcmeKernel;
use longshore_plugin_api::software::{SoftwareBackend, Work};
use longshore_plugin_api::{Arguments, CopyRequest, Error, ErrorCode, LaunchShape, Result, Span};

impl SoftwareBackend for AcmePlugin {
    // Your driver: refuse a shape or arguments that the kernel cannot have (P-47). Copy the values
    // of the arguments, which the program may change after the call (P-46). The work launches the
    // kernel and waits for it.
    fn launch(_: &AcmeKernel, _: &LaunchShape, _: Arguments<'_>) -> Result<Work> {
        Err(Error::new(ErrorCode::Unsupported, "no kernels yet"))
    }

    // Your driver: an end is memory of the host, or of a device of this platform.
    fn copy(copy: &CopyRequest<'_, AcmeDevice>) -> Result<Work> {
        let (to, from) = (copy.destination.address(), copy.source.address());
        let bytes = copy.source.bytes() as usize;
        Ok(Box::new(move || {
            // SAFETY: both spans are memory of this process, and valid until the copy is done.
            unsafe { (to as *mut u8).copy_from(from as *const u8, bytes) };
            Ok(())
        }))
    }

    // The work owns the pattern: the program's is gone when it runs (P-46).
    fn fill(destination: Span, pattern: &[u8]) -> Result<Work> {
        let pattern = pattern.to_owned();
        Ok(Box::new(move || {
            let (start, bytes) = (
                destination.address() as *mut u8,
                destination.bytes() as usize,
            );
            for offset in (0..bytes).step_by(pattern.len()) {
                // SAFETY: the length of the pattern divides that of the span, which is valid until
                // the fill is done.
                unsafe { start.add(offset).copy_from(pattern.as_ptr(), pattern.len()) };
            }
            Ok(())
        }))
    }
}
