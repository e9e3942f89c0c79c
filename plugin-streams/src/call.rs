//! What calls of a driver answer.

use std::fmt;

/// What a function of a driver answers: a number, which a newer driver may know and a backend does not.
/// CUDA and HIP have the same numbers for what both know.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Code(pub u32);

impl Code {
    /// All went well.
    pub const SUCCESS: Code = Code(0);
    /// An argument has a value that it cannot have.
    pub const INVALID_VALUE: Code = Code(1);
    /// There is not enough memory.
    pub const OUT_OF_MEMORY: Code = Code(2);
    /// The driver has ended, as the process is about to.
    pub const DEINITIALIZED: Code = Code(4);
    /// There is no device.
    pub const NO_DEVICE: Code = Code(100);
    /// A module has nothing of that name.
    pub const NOT_FOUND: Code = Code(500);
    /// Work is not done yet.
    pub const NOT_READY: Code = Code(600);
    /// Doing it once was enough.
    pub const PEER_ACCESS_ALREADY_ENABLED: Code = Code(704);
    /// Somebody else in the process has registered some of it.
    pub const HOST_MEMORY_ALREADY_REGISTERED: Code = Code(712);
    /// Not all groups can run at once.
    pub const COOPERATIVE_LAUNCH_TOO_LARGE: Code = Code(720);
    /// The driver, or the device, cannot do this.
    pub const NOT_SUPPORTED: Code = Code(801);
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "result {}", self.0)
    }
}

/// How a call of a driver went.
pub type Call = Result<(), Failure>;

/// A call of a driver that failed.
#[derive(Clone, Copy, Debug)]
pub struct Failure {
    /// The function.
    pub function: &'static str,
    /// What it answered; none if the driver lacks it.
    pub result: Option<Code>,
}

impl Failure {
    /// The driver has no such function.
    #[cold]
    pub fn missing(function: &'static str) -> Failure {
        Failure { function, result: None }
    }

    /// The function answered this.
    #[cold]
    pub fn new(function: &'static str, result: Code) -> Failure {
        Failure { function, result: Some(result) }
    }

    /// Whether the driver answered this.
    pub fn is(&self, result: Code) -> bool {
        self.result == Some(result)
    }
}
