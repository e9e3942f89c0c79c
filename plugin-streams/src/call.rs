//! Results of calls of a driver.

use std::fmt;

/// A result number of a driver's function. A newer driver may have numbers that a backend does not
/// know. CUDA and HIP have the same numbers for the results that both have.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Code(pub u32);

impl Code {
    /// Success.
    pub const SUCCESS: Code = Code(0);
    /// An argument with an invalid value.
    pub const INVALID_VALUE: Code = Code(1);
    /// Too little memory.
    pub const OUT_OF_MEMORY: Code = Code(2);
    /// A driver that is deinitialized, as the process is about to end.
    pub const DEINITIALIZED: Code = Code(4);
    /// No device.
    pub const NO_DEVICE: Code = Code(100);
    /// A name that a module does not have.
    pub const NOT_FOUND: Code = Code(500);
    /// Work that is not done yet.
    pub const NOT_READY: Code = Code(600);
    /// Peer access that is enabled already.
    pub const PEER_ACCESS_ALREADY_ENABLED: Code = Code(704);
    /// Memory that other code of the process has registered, in whole or in part.
    pub const HOST_MEMORY_ALREADY_REGISTERED: Code = Code(712);
    /// A cooperative launch whose work-groups cannot all run at once.
    pub const COOPERATIVE_LAUNCH_TOO_LARGE: Code = Code(720);
    /// An operation that the driver or the device does not support.
    pub const NOT_SUPPORTED: Code = Code(801);
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "result {}", self.0)
    }
}

/// The outcome of a call of a driver.
pub type Call = Result<(), Failure>;

/// A failed call of a driver.
#[derive(Clone, Copy, Debug)]
pub struct Failure {
    /// Name of the driver's function.
    pub function: &'static str,
    /// The driver's result; `None` if the driver lacks the function.
    pub result: Option<Code>,
}

impl Failure {
    /// Creates the failure for a function that the driver lacks.
    #[cold]
    pub fn missing(function: &'static str) -> Failure {
        Failure { function, result: None }
    }

    /// Creates the failure for a result of a function.
    #[cold]
    pub fn new(function: &'static str, result: Code) -> Failure {
        Failure { function, result: Some(result) }
    }

    /// Returns whether the driver returned this result.
    pub fn is(&self, result: Code) -> bool {
        self.result == Some(result)
    }
}
