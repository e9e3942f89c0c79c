//! What a controller and its executor call each other for.

use serde::{Deserialize, Serialize};

/// Answers with the argument.
pub(crate) const ECHO: u32 = 0;
/// Answers with [`Facts`].
pub(crate) const FACTS: u32 = 1;
/// Calls the wrapper function at the address that the first eight bytes are, with the others, and answers what it does.
pub(crate) const CALL: u32 = 2;
/// As [`CALL`], on the first thread of the process, of which there is one: others wait for it.
pub(crate) const CALL_ON_FIRST_THREAD: u32 = 4;
/// The executor's code calls the controller: the first eight bytes are the tag.
pub(crate) const CALL_CONTROLLER: u32 = 3;

/// What an executor is.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Facts {
    pub(crate) triple: String,
    pub(crate) page_size: u64,
    /// Addresses by name.
    pub(crate) symbols: Vec<(String, u64)>,
}

/// A number and bytes, as one argument.
pub(crate) fn join(number: u64, bytes: &[u8]) -> Vec<u8> {
    let mut joined = Vec::with_capacity(8 + bytes.len());
    joined.extend_from_slice(&number.to_le_bytes());
    joined.extend_from_slice(bytes);
    joined
}

/// What [`join`] has joined.
pub(crate) fn split(joined: &[u8]) -> Result<(u64, &[u8]), String> {
    let (number, bytes) = joined.split_first_chunk().ok_or("the argument is too short")?;
    Ok((u64::from_le_bytes(*number), bytes))
}

/// Exit code of an executor that cannot hold its sandbox.
pub(crate) const NO_SANDBOX: i32 = 3;
