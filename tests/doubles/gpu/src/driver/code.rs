//! Results of the drivers' functions.

use std::ffi::CStr;

/// A result that is not success. Most numbers are the same for all vendors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code(pub u32);

/// A result by its number, its name, and its description.
pub type Named = (u32, &'static CStr, &'static CStr);

/// Returns the name and the description of a result, if the number is known.
pub fn describe(results: &[Named], result: u32) -> Option<(&'static CStr, &'static CStr)> {
    let found = results.iter().find(|(number, ..)| *number == result);
    found.map(|(_, name, words)| (*name, *words))
}

/// The outcome of a driver's function.
pub type DriverResult<T = ()> = Result<T, Code>;

#[allow(missing_docs, reason = "the names are the drivers'")]
impl Code {
    pub const INVALID_VALUE: Code = Code(1);
    pub const OUT_OF_MEMORY: Code = Code(2);
    pub const NOT_INITIALIZED: Code = Code(3);
    pub const DEINITIALIZED: Code = Code(4);
    pub const NO_DEVICE: Code = Code(100);
    pub const INVALID_DEVICE: Code = Code(101);
    pub const INVALID_IMAGE: Code = Code(200);
    pub const INVALID_CONTEXT: Code = Code(201);
    pub const NO_BINARY_FOR_GPU: Code = Code(209);
    pub const UNSUPPORTED_LIMIT: Code = Code(215);
    pub const PEER_ACCESS_UNSUPPORTED: Code = Code(217);
    pub const OPERATING_SYSTEM: Code = Code(304);
    pub const INVALID_HANDLE: Code = Code(400);
    pub const NOT_FOUND: Code = Code(500);
    pub const NOT_READY: Code = Code(600);
    pub const ILLEGAL_ADDRESS: Code = Code(700);
    pub const LAUNCH_OUT_OF_RESOURCES: Code = Code(701);
    pub const PEER_ACCESS_ALREADY_ENABLED: Code = Code(704);
    pub const PEER_ACCESS_NOT_ENABLED: Code = Code(705);
    pub const CONTEXT_IS_DESTROYED: Code = Code(709);
    pub const ASSERT: Code = Code(710);
    pub const HOST_MEMORY_ALREADY_REGISTERED: Code = Code(712);
    pub const HOST_MEMORY_NOT_REGISTERED: Code = Code(713);
    pub const LAUNCH_FAILED: Code = Code(719);
    pub const COOPERATIVE_LAUNCH_TOO_LARGE: Code = Code(720);
    pub const NOT_PERMITTED: Code = Code(800);
    pub const NOT_SUPPORTED: Code = Code(801);
    pub const UNKNOWN: Code = Code(999);
}
