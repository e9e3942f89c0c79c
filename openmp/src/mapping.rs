//! The mapping of host memory to device memory: `map` clauses, and everything that follows from
//! them.

pub(crate) mod attach;
pub(crate) mod begin;
pub(crate) mod end;
pub(crate) mod index;
pub(crate) mod mapper;
mod parts;
mod removal;
pub(crate) mod simple;
mod span;
mod spans;
pub(crate) mod table;
pub(crate) mod update;

use crate::abi::MapType;
use crate::device::OmpDevice;
use crate::{exit, info, message, runtime};
use longshore::Error;

/// The reason that a construct cannot be carried out.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An error of a device.
    Device(Error),
    /// An error that a message has described.
    Reported,
    /// Other reasons.
    Other(String),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Device(error)
    }
}

impl Failure {
    /// Prints the reason, and then further lines about its consequences. At the end of the program,
    /// when images are unloaded, prints nothing.
    #[cold]
    pub(crate) fn explain(self, lines: &[&str]) -> Failure {
        if runtime::has_ended() {
            return self;
        }
        self.report();
        lines.iter().for_each(|line| message::error(format_args!("{line}")));
        Failure::Reported
    }

    /// Prints the reason, unless a message has described it. Ends the program without a message if
    /// device code called `exit`.
    pub(crate) fn report(&self) {
        match self {
            Failure::Device(error) => {
                exit::exit_if_called(error);
                message::error(format_args!("{error}"));
            }
            Failure::Other(reason) => message::error(format_args!("{reason}")),
            Failure::Reported => {}
        }
    }
}

/// Checks an unmapped range for `present`. The pair is its address and its size. `modifier` names
/// the kind of modifier in the message.
///
/// # Errors
/// The range has `present`, and the device does not use the host's memory.
fn absent(
    device: &OmpDevice,
    kind: MapType,
    modifier: &str,
    (begin, bytes): (u64, u64),
) -> Result<(), Failure> {
    // Shared memory is always present, though not in the table.
    if !kind.has(MapType::PRESENT) || runtime::uses_host_memory(device) {
        return Ok(());
    }
    info::present_missing(modifier, begin, bytes);
    Err(Failure::Reported)
}
