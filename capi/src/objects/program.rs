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

/// A loaded image, and the symbols looked up in it.
pub(crate) struct ProgramObject {
    pub(crate) program: Program,
    /// Handle of the program's device.
    pub(crate) device_handle: usize,
    /// Handles of the symbols; `None` once the program is destroyed.
    pub(crate) symbols: Mutex<Option<Symbols>>,
}

impl Object for ProgramObject {
    type Pointee = ol_program_impl_t;
    const KIND: Kind = kind::PROGRAM;
}

impl ProgramObject {
    /// Creates a program on the device with this handle, without symbols.
    pub(crate) fn new(program: Program, device: ol_device_handle_t) -> ProgramObject {
        let symbols = Mutex::new(Some(HashMap::new()));
        ProgramObject { program, device_handle: device as usize, symbols }
    }
}
