//! Libraries that stand for linked code.

use std::collections::BTreeMap;

use object::elf;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use super::services;
use crate::code_library::{Code, CodeLibrary, Symbol};
use crate::{Error, Result};

services! {
    /// Opens a library that stands for linked code: the process lists it with the code's segments, and its file has the names of
    /// functions and variables. What it exports is for all libraries that are opened later. Its number is returned; it is closed by
    /// [`RELEASE`](super::RELEASE).
    OPEN_CODE_LIBRARY = "__longshore_open_code_library", fn(NewCodeLibrary) -> Result<u64>, open;
}

/// Identifies linked code.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NewCodeLibrary {
    /// Its parts.
    pub segments: Vec<CodeSegment>,
    /// The names of the symbols, each with a zero behind it.
    pub names: ByteBuf,
    /// As many symbols.
    pub symbols: Vec<CodeSymbol>,
}

/// A part of linked code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeSegment {
    /// Its address.
    pub start: u64,
    /// Its size in bytes.
    pub size: u64,
    /// Whether it is written.
    pub is_writable: bool,
    /// Whether it is executed.
    pub is_executable: bool,
}

/// A symbol of linked code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeSymbol {
    /// Its address.
    pub address: u64,
    /// Its size in bytes, 0 if not known.
    pub size: u64,
    /// Whether it is a function.
    pub is_function: bool,
    /// Whether another definition may take its place.
    pub is_weak: bool,
    /// Whether libraries may use it.
    pub is_exported: bool,
}

/// The libraries that are open, by number.
static OPEN: Mutex<BTreeMap<u64, CodeLibrary>> = Mutex::new(BTreeMap::new());

fn open(new: NewCodeLibrary) -> Result<u64> {
    let names: Vec<&[u8]> = new.names.split(|byte| *byte == 0).collect();
    if names.len() != new.symbols.len() + 1 {
        let problem = format!("{} names for {} symbols", names.len() - 1, new.symbols.len());
        return Err(Error::Open { path: "linked code".to_owned(), problem });
    }
    let mut code = Code::default();
    for segment in &new.segments {
        let writable = if segment.is_writable { elf::PF_W.0 } else { 0 };
        let executable = if segment.is_executable { elf::PF_X.0 } else { 0 };
        code.segments.push((segment.start, segment.size, writable | executable));
    }
    for (symbol, name) in new.symbols.iter().zip(names) {
        let CodeSymbol { address, size, is_function, is_weak, is_exported } = *symbol;
        let symbol = Symbol { name, address, size, is_function, is_weak };
        code.symbols.push(symbol);
        if is_exported {
            code.exports.push(symbol);
        }
    }
    let library = CodeLibrary::open(&code)?;
    let mut open = OPEN.lock();
    let number = open.last_key_value().map_or(0, |(last, _)| last + 1);
    open.insert(number, library);
    Ok(number)
}

/// Closes libraries by their numbers.
pub(super) fn close(numbers: &[u64]) {
    let mut closed = Vec::new();
    let mut open = OPEN.lock();
    closed.extend(numbers.iter().filter_map(|number| open.remove(number)));
    drop(open);
}
