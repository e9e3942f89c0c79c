//! Methods of calls between a controller and its executor.

use serde::{Deserialize, Serialize};

/// The method that returns its argument.
pub(crate) const ECHO: u32 = 0;
/// The method that returns [`Facts`].
pub(crate) const FACTS: u32 = 1;
/// The method that calls a wrapper function and returns its result. The first 8 bytes of the
/// argument are the address, the others the function's argument.
pub(crate) const CALL: u32 = 2;
/// The counterpart of [`CALL`] for the first thread of the process. Such calls run one at a time.
pub(crate) const CALL_ON_FIRST_THREAD: u32 = 4;
/// The method by which the executor's code calls the controller: the first 8 bytes of the argument
/// are the tag.
pub(crate) const CALL_CONTROLLER: u32 = 3;

/// The facts of an executor.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Facts {
    pub(crate) triple: String,
    pub(crate) page_size: u64,
    /// Addresses by name.
    pub(crate) symbols: Vec<(String, u64)>,
}

/// Joins a number and bytes into one argument.
pub(crate) fn join(number: u64, bytes: &[u8]) -> Vec<u8> {
    let mut joined = Vec::with_capacity(8 + bytes.len());
    joined.extend_from_slice(&number.to_le_bytes());
    joined.extend_from_slice(bytes);
    joined
}

/// Splits an argument made by [`join`].
pub(crate) fn split(joined: &[u8]) -> Result<(u64, &[u8]), String> {
    let (number, bytes) = joined.split_first_chunk().ok_or("the argument is too short")?;
    Ok((u64::from_le_bytes(*number), bytes))
}

/// Exit code of an executor that cannot set up its sandbox.
pub(crate) const NO_SANDBOX: i32 = 3;
