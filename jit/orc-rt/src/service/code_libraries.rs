//! Libraries that represent linked code.

use std::collections::BTreeMap;

use object::elf;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use super::services;
use crate::code_library::{Code, CodeLibrary, Symbol};
use crate::{Error, Result};

services! {
    /// The service that opens a library for linked code, and returns its number. The process lists
    /// the library with the code's segments, and its file has the names of functions and variables.
    /// Its exports are available to all libraries that are opened later.
    /// [`RELEASE`](super::RELEASE) closes it.
    OPEN_CODE_LIBRARY = "__longshore_open_code_library", fn(NewCodeLibrary) -> Result<u64>, open;
}

/// The description of linked code.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NewCodeLibrary {
    /// Parts of the code.
    pub segments: Vec<CodeSegment>,
    /// Names of the symbols, each followed by a zero byte.
    pub names: ByteBuf,
    /// Symbols, one for each name.
    pub symbols: Vec<CodeSymbol>,
}

/// A part of linked code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeSegment {
    /// The part's address.
    pub start: u64,
    /// The part's size in bytes.
    pub size: u64,
    /// Whether the part is writable.
    pub is_writable: bool,
    /// Whether the part is executable.
    pub is_executable: bool,
}

/// A symbol of linked code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeSymbol {
    /// The symbol's address.
    pub address: u64,
    /// The symbol's size in bytes, 0 if unknown.
    pub size: u64,
    /// Whether the symbol is a function.
    pub is_function: bool,
    /// Whether another definition may replace this one.
    pub is_weak: bool,
    /// Whether libraries may use the symbol.
    pub is_exported: bool,
}

/// The open libraries, by number.
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
