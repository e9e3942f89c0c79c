//! The list of the executable, if it contains this crate.
//!
//! The names are hidden, so the dynamic linker does not know them. They are in the symbol table of
//! the executable's file, which `/proc/self/exe` opens even if the file was replaced since.

use super::{Descriptor, List};
use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSymbol, ReadCache};
use std::ffi::{c_int, c_void};
use std::fs::File;
use std::mem::transmute;
use std::ptr;
use std::sync::atomic::AtomicU32;

const DESCRIPTOR: &str = "__jit_debug_descriptor";
const REGISTER: &str = "__jit_debug_register_code";
const LOCK: &str = "longshore_debug_list_lock";

/// Returns the executable's list; `None` if the executable has none, or no symbol table.
pub(super) fn list() -> Option<List> {
    let file = ReadCache::new(File::open("/proc/self/exe").ok()?);
    let executable = ElfFile64::<Endianness, _>::parse(&file).ok()?;
    let base = base()?;
    let mut found = [0_u64; 3];
    for symbol in executable.symbols().filter(|symbol| symbol.is_definition()) {
        let Ok(name) = symbol.name() else { continue };
        if let Some(index) = [DESCRIPTOR, REGISTER, LOCK].iter().position(|known| *known == name) {
            found[index] = base.wrapping_add(symbol.address());
        }
    }
    let [descriptor, register, lock] = found.map(|address| address as usize);
    if found.contains(&0) {
        return None;
    }
    // SAFETY: the executable is mapped as its file says, for the life of the process. The lock's
    // name is this crate's own, so all three are this crate's definitions, or the weak ones that
    // took their place.
    unsafe {
        Some(List {
            descriptor: ptr::with_exposed_provenance_mut::<Descriptor>(descriptor),
            register: transmute::<usize, unsafe extern "C" fn()>(register),
            lock: &*ptr::with_exposed_provenance::<AtomicU32>(lock),
        })
    }
}

/// Returns the load base of the executable, which the dynamic linker lists first.
fn base() -> Option<u64> {
    unsafe extern "C" fn first(
        info: *mut libc::dl_phdr_info,
        _bytes: usize,
        base: *mut c_void,
    ) -> c_int {
        // SAFETY: `dl_iterate_phdr` passes valid information, and the pointer of the call below.
        unsafe { *base.cast::<Option<u64>>() = Some((*info).dlpi_addr) };
        1
    }
    let mut base: Option<u64> = None;
    // SAFETY: the function takes this pointer, and keeps it no longer than the call.
    unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut base).cast()) };
    base
}
