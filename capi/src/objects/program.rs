//! Programs: loaded images.

use super::kind;
use crate::registry::handle::{Kind, Object};
use crate::registry::table::Table;
use crate::types::structures::{ol_device_handle_t, ol_program_impl_t};
use longshore::{Program, SymbolKind};
use parking_lot::Mutex;
use std::collections::HashMap;

/// All programs.
pub(crate) static ALL: Table<ProgramObject> = Table::new();

/// The handles of a program's symbols, by kind and name.
pub(crate) type Symbols = HashMap<(SymbolKind, String), usize>;

/// A loaded image, and the symbols that were asked for.
pub(crate) struct ProgramObject {
    pub(crate) program: Program,
    /// The handle of its device.
    pub(crate) device_handle: usize,
    /// `None` once the program is destroyed.
    pub(crate) symbols: Mutex<Option<Symbols>>,
}

impl Object for ProgramObject {
    type Pointee = ol_program_impl_t;
    const KIND: Kind = kind::PROGRAM;
}

impl ProgramObject {
    /// Returns a program on the device with this handle, of which no symbol was asked for.
    pub(crate) fn new(program: Program, device: ol_device_handle_t) -> ProgramObject {
        let symbols = Mutex::new(Some(HashMap::new()));
        ProgramObject { program, device_handle: device as usize, symbols }
    }
}
