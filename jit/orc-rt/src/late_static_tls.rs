//! Static thread-local storage for libraries that are opened late.
//!
//! Code for executables accesses the thread-local variables of libraries at fixed offsets from the
//! thread pointer, as the dynamic linker sets up for libraries opened with an executable. For later
//! libraries the dynamic linker has some room left, which it allocates when a library that it opens
//! requires such an offset. So a small library that requires one is made and opened.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use object::elf::STT_TLS;
use object::read::elf::{ElfFile64, ElfSymbol64};
use object::{LittleEndian, Object, ObjectSymbol};

use crate::{OpenName, memory_file};

/// Opens a library as [`libc::dlopen`] does.
///
/// # Errors
/// The dynamic linker's error.
///
/// # Safety
/// The library's constructors must be sound to run.
pub(crate) unsafe fn open(path: &CStr, flags: c_int) -> Result<*mut c_void, String> {
    // SAFETY: guaranteed by the caller.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | flags) };
    if handle.is_null() { Err(last_error()) } else { Ok(handle) }
}

fn last_error() -> String {
    // SAFETY: the string belongs to this thread until its next call of the dynamic linker.
    unsafe {
        let error = libc::dlerror();
        if error.is_null() {
            "unknown error".to_owned()
        } else {
            CStr::from_ptr(error).to_string_lossy().into_owned()
        }
    }
}

/// Gives the thread-local variables of an open library fixed offsets, if it has any and there is
/// room. After a failure the linker reports an error for code that needs them. Must be called
/// before any thread has used the variables.
///
/// # Safety
/// `library` must be an open handle, opened globally.
pub(crate) unsafe fn make_static(library: *mut c_void) {
    // SAFETY: guaranteed by the caller.
    let Some(path) = (unsafe { path_of(library) }) else { return };
    let opened = variable_of(&path).map(|variable| open_user_of(&variable));
    if let Some(Err(error)) = opened {
        log::info!("{} has no static thread-local storage: {error}", path.display());
    }
}

/// # Safety
/// `library` must be an open handle.
unsafe fn path_of(library: *mut c_void) -> Option<PathBuf> {
    // SAFETY: guaranteed by the caller. The map's name lives as long as the library is open.
    unsafe { CStr::from_ptr(link_map(library)?.name).to_str().ok().map(PathBuf::from) }
}

/// The beginning of the C library's `struct link_map`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct LinkMap {
    pub(crate) address: usize,
    name: *const c_char,
}

/// Returns the dynamic linker's entry for an open library.
///
/// # Safety
/// `library` must be an open handle.
pub(crate) unsafe fn link_map(library: *mut c_void) -> Option<LinkMap> {
    let mut map: *const LinkMap = std::ptr::null();
    // SAFETY: the handle is open, and this request writes a pointer to the library's map.
    unsafe {
        let asked = libc::dlinfo(library, libc::RTLD_DI_LINKMAP, (&raw mut map).cast());
        (asked == 0 && !map.is_null()).then(|| *map)
    }
}

/// Returns the name of a thread-local variable that a library defines.
fn variable_of(library: &Path) -> Option<String> {
    let bytes = std::fs::read(library).ok()?;
    let file = ElfFile64::<LittleEndian>::parse(&*bytes).ok()?;
    let mut symbols = file.dynamic_symbols();
    let is_variable = |symbol: &ElfSymbol64<'_, '_, LittleEndian>| {
        symbol.is_global() && !symbol.is_undefined() && symbol.elf_symbol().st_type() == STT_TLS
    };
    symbols.find(is_variable)?.name().ok().map(str::to_owned)
}

/// Opens a library that requires a variable's offset, and closes it again.
fn open_user_of(variable: &str) -> Result<(), String> {
    let file = memory_file::create("static thread-local storage", &user_of(variable))
        .map_err(|error| error.to_string())?;
    let name = OpenName::for_file(file.as_fd()).map_err(|error| error.to_string())?;
    // SAFETY: the library has neither code nor constructors.
    let library = unsafe { open(name.path(), libc::RTLD_LOCAL) }?;
    // SAFETY: the handle was just opened, and nothing uses it.
    unsafe { libc::dlclose(library) };
    Ok(())
}

/// Returns the bytes of a shared library with one relocation, for a variable's offset.
fn user_of(variable: &str) -> Vec<u8> {
    const MACHINE: u64 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
    /// `R_AARCH64_TLS_TPREL` or `R_X86_64_TPOFF64`.
    const KIND: u64 = if cfg!(target_arch = "aarch64") { 1030 } else { 18 };
    const SYMBOLS: u64 = 232;
    const RELOCATIONS: u64 = SYMBOLS + 2 * 24;
    const DYNAMIC: u64 = RELOCATIONS + 24;
    const SLOT: u64 = DYNAMIC + 9 * 16;
    const HASH: u64 = SLOT + 8;
    const STRINGS: u64 = HASH + 24;
    let strings = [b"\0", variable.as_bytes(), b"\0"].concat();
    let end = STRINGS + strings.len() as u64;
    let read_write = 6 << 32;
    let parts: [&[u64]; 8] = [
        // The file header: a shared library with three segments.
        &[0x0001_0102_464c_457f, 0, 3 | MACHINE << 16 | 1 << 32, 0, 64, 0, 64 << 32 | 56 << 48, 3],
        &[1 | read_write, 0, 0, 0, end, end, 0x1_0000],
        &[2 | read_write, DYNAMIC, DYNAMIC, DYNAMIC, SLOT - DYNAMIC, SLOT - DYNAMIC, 8],
        // A stack that is not executable.
        &[0x6474_e551 | read_write, 0, 0, 0, 0, 0, 16],
        // The null symbol, and the variable: global, thread-local, undefined.
        &[0, 0, 0, 1 | 0x16 << 32, 0, 0],
        &[SLOT, 1 << 32 | KIND, 0],
        // The entries DT_HASH, DT_STRTAB, DT_SYMTAB, DT_STRSZ, DT_SYMENT, DT_RELA, DT_RELASZ,
        // DT_RELAENT and the end.
        &[
            4,
            HASH,
            5,
            STRINGS,
            6,
            SYMBOLS,
            10,
            end - STRINGS,
            11,
            24,
            7,
            RELOCATIONS,
            8,
            24,
            9,
            24,
            0,
            0,
        ],
        // The slot; a hash table of one empty bucket and two symbols.
        &[0, 1 | 2 << 32, 0, 0],
    ];
    let words = parts.concat().into_iter().flat_map(u64::to_le_bytes);
    words.chain(strings).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_that_is_made_is_one() {
        let bytes = user_of("errno");
        let file = ElfFile64::<LittleEndian>::parse(&*bytes).unwrap();
        assert_eq!(file.kind(), object::ObjectKind::Dynamic);
        // The C library has the variable, at a fixed offset.
        open_user_of("errno").unwrap();
        assert!(open_user_of("longshore_no_such_variable").is_err());
    }
}
