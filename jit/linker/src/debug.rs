//! Reports on linked code to debuggers and profilers, all off unless [`DebugOptions`] enables them.
//!
//! - [`gdb`]: gdb and lldb learn of each object while the program runs, through the GDB JIT
//!   interface;
//! - [`perf_map`]: `perf report` finds the names of linked functions in a file under `/tmp`;
//! - [`jitdump`]: `perf inject --jit` also gets their code, so that `perf annotate` can show it.
//!
//! All reports are about code in the memory of this process. Code that is linked for another
//! process has addresses of that process, and must not be announced here.

pub mod gdb;
pub mod jitdump;
pub mod object;
pub mod perf_map;

use std::path::{Path, PathBuf};

use crate::Result;
use gdb::GdbRegistration;
use jitdump::JitDump;
use perf_map::PerfMap;

/// The receivers of reports on linked code; none by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DebugOptions {
    /// Whether debuggers are notified, through the GDB JIT interface. Each object then costs a copy
    /// of its file's bytes while it lives.
    pub gdb: bool,
    /// Whether `perf` gets reports, through `/tmp/perf-<pid>.map`.
    pub perf_map: bool,
    /// Folder for the reports to `perf inject --jit`: a jitdump is written to a new folder below
    /// it.
    pub jitdump: Option<PathBuf>,
}

/// An object that has been linked into this process, before any of its code has run.
#[derive(Debug, Clone, Copy)]
pub struct LinkedObject<'a> {
    /// The object's file, or `archive(member)`, for messages.
    pub name: &'a str,
    /// The ELF object as it was read.
    pub bytes: &'a [u8],
    /// ELF section index and address of each section that has memory.
    pub sections: &'a [(usize, u64)],
    /// The object's functions.
    pub functions: &'a [LinkedFunction<'a>],
}

/// A function of a [`LinkedObject`].
#[derive(Debug, Clone, Copy)]
pub struct LinkedFunction<'a> {
    /// The function's symbol.
    pub name: &'a str,
    /// The function's address.
    pub address: u64,
    /// The function's size in bytes.
    pub size: u64,
    /// The function's instructions, fixed up.
    pub code: &'a [u8],
}

/// A reporter of linked objects, to the receivers that [`DebugOptions`] selects. Any thread may use
/// it.
#[derive(Debug)]
pub struct DebugSupport {
    gdb: bool,
    perf_map: Option<PerfMap>,
    jitdump: Option<JitDump>,
}

impl DebugSupport {
    /// Creates the files that the options require.
    ///
    /// # Errors
    /// [`Error::Open`](crate::Error::Open) with the file that could not be created, or that is not
    /// safe to write to.
    pub fn new(options: DebugOptions) -> Result<Self> {
        Ok(Self {
            gdb: options.gdb,
            perf_map: options.perf_map.then(PerfMap::open).transpose()?,
            jitdump: options.jitdump.as_deref().map(JitDump::create).transpose()?,
        })
    }

    /// Announces an object. Its code must be at its addresses, fixed up, and must not have run yet.
    ///
    /// A report that fails is logged as a warning, and stops neither the other reports nor the
    /// link. The call writes to files, and waits for an attached debugger to read the object.
    pub fn object_linked(&self, object: &LinkedObject<'_>) -> Registration {
        self.functions_linked(object.name, object.functions);
        Registration { _gdb: self.gdb.then(|| register(object)).flatten() }
    }

    /// Announces functions to profilers alone. `name` is for messages.
    ///
    /// A report that fails is logged as a warning.
    pub fn functions_linked(&self, name: &str, functions: &[LinkedFunction<'_>]) {
        if let Some(Err(error)) = self.perf_map.as_ref().map(|map| map.add(functions)) {
            log::warn!("{name}: its functions are not in the perf map: {error}");
        }
        if let Some(Err(error)) = self.jitdump.as_ref().map(|dump| dump.add(functions)) {
            log::warn!("{name}: its functions are not in the jitdump: {error}");
        }
    }

    /// Returns whether profilers get reports.
    pub fn has_profilers(&self) -> bool {
        self.perf_map.is_some() || self.jitdump.is_some()
    }

    /// Returns the jitdump's file, if there is one.
    pub fn jitdump(&self) -> Option<&Path> {
        self.jitdump.as_ref().map(JitDump::path)
    }
}

/// The registration of an object with debuggers. Dropping it removes the object, and waits for an
/// attached debugger to do so. It must be dropped before the code's memory is given back, so that
/// no debugger takes later contents of that memory for this object.
///
/// Reports to profilers stay in their files, which profilers read after the end of the program.
#[derive(Debug)]
#[must_use = "dropping it takes the object from the debugger"]
pub struct Registration {
    _gdb: Option<GdbRegistration>,
}

fn register(object: &LinkedObject<'_>) -> Option<GdbRegistration> {
    match object::with_addresses(object.name, object.bytes, object.sections) {
        Ok(bytes) => Some(gdb::register(bytes)),
        Err(error) => {
            log::warn!("not known to debuggers: {error}");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_debugger_is_informed_by_default() {
        let support = DebugSupport::new(DebugOptions::default()).unwrap();
        assert!(!support.gdb && support.perf_map.is_none() && support.jitdump().is_none());
    }

    #[test]
    fn an_object_that_is_no_elf_file_is_linked_without_being_known_to_debuggers() {
        let support =
            DebugSupport::new(DebugOptions { gdb: true, ..DebugOptions::default() }).unwrap();
        let object =
            LinkedObject { name: "hostile.o", bytes: b"\x7fELF", sections: &[], functions: &[] };
        assert!(support.object_linked(&object)._gdb.is_none());
    }
}
