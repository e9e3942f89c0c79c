//! Offload entries: the table by which a program and its images name kernels and variables.
//!
//! Clang 13 to 19 write entries of 32 bytes, later versions of 56 bytes. The first word is an
//! address in the older form, and zero in the newer one.

use std::ffi::{CStr, c_char, c_void};

const OLD_BYTES: usize = 32;
const NEW_BYTES: usize = 56;
/// The kind of OpenMP's entries in the newer form.
const KIND_OPENMP: u16 = 1;
/// The latest version of the newer form. Compilers write it; version 0 has the same fields.
const VERSION: u16 = 1;
/// Upper bounds of the kind and the flags, whose bytes are the address of a name in the older form.
/// Kinds are powers of two up to 8, flags are below 0x40.
const KINDS_END: u16 = 0x10;
const FLAGS_END: u32 = 0x100;

const FLAG_LINK: u32 = 0x01;
const FLAG_CONSTRUCTOR: u32 = 0x02;
const FLAG_DESTRUCTOR: u32 = 0x04;
const FLAG_INDIRECT: u32 = 0x08;
const FLAG_REQUIRES: u32 = 0x10;
const FLAG_INDIRECT_TABLE: u32 = 0x20;

/// The meaning of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryKind {
    /// A kernel; the address identifies the region.
    Kernel,
    /// A kernel that clang 16 and older want to be called after loading.
    Constructor,
    /// A kernel that clang 16 and older want to be called before unloading.
    Destructor,
    /// A variable that exists on host and device.
    Variable,
    /// A pointer that stands for a variable, which is mapped on use.
    Link,
    /// A function that the device calls through a pointer.
    IndirectFunction,
    /// A table of such functions.
    IndirectTable,
    /// The flags of a `requires` directive, in `data`.
    Requires,
}

/// An entry, whatever its form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) kind: EntryKind,
    pub(crate) address: u64,
    pub(crate) name: String,
    /// Address of the name, which ends with a zero byte.
    pub(crate) name_address: usize,
    pub(crate) bytes: u64,
    pub(crate) data: i64,
    /// The flags as the compiler wrote them.
    pub(crate) flags: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct OldEntry {
    address: *const c_void,
    name: *const c_char,
    bytes: u64,
    flags: u32,
    data: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct NewEntry {
    reserved: u64,
    version: u16,
    kind: u16,
    flags: u32,
    address: *const c_void,
    name: *const c_char,
    bytes: u64,
    data: u64,
    auxiliary: *const c_void,
}

const _: () = assert!(size_of::<OldEntry>() == OLD_BYTES && size_of::<NewEntry>() == NEW_BYTES);

/// Reads all entries of OpenMP between two addresses. Entries of other kinds and of unknown
/// versions are left out, and so is a rest that is shorter than an entry.
///
/// # Safety
/// The range is readable, and names in it end with a zero byte.
pub(crate) unsafe fn read(begin: *const c_void, end: *const c_void) -> Vec<Entry> {
    let bytes = (end as usize).saturating_sub(begin as usize);
    if begin.is_null() || bytes < OLD_BYTES {
        return Vec::new();
    }
    // SAFETY: promised by the caller.
    unsafe {
        match are_new(begin, end) {
            true => read_new(begin, bytes),
            false => read_old(begin, bytes),
        }
    }
}

/// Returns whether entries have the newer form, which clang 20 and later versions write.
///
/// # Safety
/// The range is readable.
pub(crate) unsafe fn are_new(begin: *const c_void, end: *const c_void) -> bool {
    if begin.is_null() || (end as usize).saturating_sub(begin as usize) < NEW_BYTES {
        return false;
    }
    // SAFETY: promised by the caller; the section of the older form has no alignment.
    let first = unsafe { begin.cast::<NewEntry>().read_unaligned() };
    // An entry for `requires` of the older form has no address either. Its name's address is far
    // above all versions, kinds and flags.
    first.reserved == 0
        && first.version <= VERSION
        && first.kind < KINDS_END
        && first.flags < FLAGS_END
}

unsafe fn read_new(begin: *const c_void, bytes: usize) -> Vec<Entry> {
    let read = |index| {
        // SAFETY: the index is within the range of the caller's promise.
        let entry = unsafe { begin.cast::<NewEntry>().add(index).read_unaligned() };
        if entry.reserved != 0 || entry.version > VERSION || entry.kind != KIND_OPENMP {
            return None;
        }
        // SAFETY: as above.
        let new = unsafe { Entry::new(entry.address, entry.name) };
        Some(new.with(entry.bytes, entry.flags, entry.data as i64))
    };
    (0..bytes / NEW_BYTES).filter_map(read).collect()
}

unsafe fn read_old(begin: *const c_void, bytes: usize) -> Vec<Entry> {
    let read = |index| {
        // SAFETY: the index is within the range of the caller's promise.
        let entry = unsafe { begin.cast::<OldEntry>().add(index).read_unaligned() };
        // SAFETY: as above.
        let new = unsafe { Entry::new(entry.address, entry.name) };
        new.with(entry.bytes, entry.flags, i64::from(entry.data))
    };
    (0..bytes / OLD_BYTES).map(read).collect()
}

unsafe fn name(name: *const c_char) -> String {
    if name.is_null() {
        return String::new();
    }
    // SAFETY: the callers' promise.
    unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
}

impl Entry {
    unsafe fn new(address: *const c_void, name_address: *const c_char) -> Entry {
        // SAFETY: the caller's promise.
        let name = unsafe { name(name_address) };
        Entry {
            kind: EntryKind::Kernel,
            address: address as u64,
            name,
            name_address: name_address as usize,
            bytes: 0,
            data: 0,
            flags: 0,
        }
    }

    fn with(self, bytes: u64, flags: u32, data: i64) -> Entry {
        let kind = match flags {
            // The same flag marks constants of CUDA and HIP, which have an address.
            _ if flags & FLAG_REQUIRES != 0 && self.address == 0 => EntryKind::Requires,
            _ if flags & FLAG_INDIRECT_TABLE != 0 => EntryKind::IndirectTable,
            _ if flags & FLAG_INDIRECT != 0 => EntryKind::IndirectFunction,
            _ if flags & FLAG_CONSTRUCTOR != 0 => EntryKind::Constructor,
            _ if flags & FLAG_DESTRUCTOR != 0 => EntryKind::Destructor,
            _ if bytes == 0 => EntryKind::Kernel,
            _ if flags & FLAG_LINK != 0 => EntryKind::Link,
            _ => EntryKind::Variable,
        };
        Entry { kind, bytes, data, flags, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range<T>(entries: &[T]) -> (*const c_void, *const c_void) {
        let range = entries.as_ptr_range();
        (range.start.cast(), range.end.cast())
    }

    #[test]
    fn both_forms_give_the_same_entries() {
        let counter = 0_u32;
        let (at, bytes) = ((&raw const counter).cast(), 4);
        let name = c"counter".as_ptr();
        let old = [OldEntry { address: at, name, bytes, flags: 1, data: 0 }];
        let new = [NewEntry {
            reserved: 0,
            version: 1,
            kind: 1,
            flags: 1,
            address: at,
            name,
            bytes,
            data: 0,
            auxiliary: std::ptr::null(),
        }];
        let ((begin, end), (new_begin, new_end)) = (range(&old), range(&new));
        // SAFETY: both ranges are arrays, and the name is a C string.
        let (old, new) = unsafe { (read(begin, end), read(new_begin, new_end)) };
        assert_eq!(old, new);
        assert_eq!(old[0].kind, EntryKind::Link);
        assert_eq!(old[0].name, "counter");
    }

    #[test]
    fn requirements_of_the_older_form_come_first_without_an_address() {
        let (address, name) = (std::ptr::null(), c"".as_ptr());
        let old = [
            OldEntry { address, name, bytes: 0, flags: FLAG_REQUIRES, data: 8 },
            OldEntry { address: name.cast(), name, bytes: 0, flags: 0, data: 0 },
        ];
        let (begin, end) = range(&old);
        // SAFETY: the range is an array, and the names are C strings.
        let entries = unsafe { read(begin, end) };
        assert_eq!(entries[0].kind, EntryKind::Requires);
        assert_eq!(entries[0].data, 8);
        assert_eq!(entries[1].kind, EntryKind::Kernel);
    }

    #[test]
    fn a_constant_of_cuda_is_a_variable() {
        let constant = [1_u32; 4];
        let (address, name) = ((&raw const constant).cast(), c"constant".as_ptr());
        let old = [OldEntry { address, name, bytes: 16, flags: FLAG_REQUIRES, data: 0 }];
        let (begin, end) = range(&old);
        // SAFETY: the range is an array, and the name is a C string.
        assert_eq!(unsafe { read(begin, end) }[0].kind, EntryKind::Variable);
    }

    #[test]
    fn names_at_even_addresses_are_no_versions() {
        // The text ends up at any address; these have the low bits of version 0 or 1, and kind 1.
        for name in [0x40_0000_usize, 0x7f12_0001_0000, 0x5555_0001_0001] {
            let word = name as u64;
            let entry = [0, word, 0, u64::from(FLAG_REQUIRES), 0, word, 0];
            let (begin, end) = range(&entry);
            // SAFETY: the range is an array.
            assert!(!unsafe { are_new(begin, end) }, "{name:#x}");
        }
    }

    #[test]
    fn version_zero_has_the_fields_of_version_one() {
        let entry = NewEntry {
            reserved: 0,
            version: 0,
            kind: KIND_OPENMP,
            flags: FLAG_REQUIRES,
            address: std::ptr::null(),
            name: c"".as_ptr(),
            bytes: 0,
            data: 2,
            auxiliary: std::ptr::null(),
        };
        let entries = [entry];
        let (begin, end) = range(&entries);
        // SAFETY: the range is an array, and the name is a C string.
        let entries = unsafe { read(begin, end) };
        assert_eq!((entries[0].kind, entries[0].data), (EntryKind::Requires, 2));
    }

    #[test]
    fn entries_of_other_languages_are_left_out() {
        let entry = NewEntry {
            reserved: 0,
            version: 1,
            kind: 2,
            flags: 0,
            address: std::ptr::null(),
            name: c"cuda".as_ptr(),
            bytes: 0,
            data: 0,
            auxiliary: std::ptr::null(),
        };
        let entries = [entry, NewEntry { kind: KIND_OPENMP, ..entry }];
        let (begin, end) = range(&entries);
        // SAFETY: the range is an array, and the names are C strings.
        assert_eq!(unsafe { read(begin, end) }.len(), 1);
    }
}
