//! Shared objects in reports to profilers.
//!
//! `perf` looks for the names of a library's functions in the library's file, and an image is a
//! file without a name. For code in memory of no file, `perf` reads its map. So the code is moved
//! to such memory, at the same addresses.

use super::library::Library;
use crate::elf::Image;
use longshore_jitlink::debug::{DebugSupport, LinkedFunction};
use object::read::elf::ElfFile64;
use object::{LittleEndian, Object, ObjectSymbol, SymbolKind};
use rustix::io;
use rustix::mm::{MapFlags, MprotectFlags, MremapFlags, ProtFlags};
use std::ffi::c_void;
use std::ops::Range;
use std::ptr::{copy_nonoverlapping, null_mut};

/// Announces the functions of an image, none of which runs yet.
pub(super) fn announce(debug: &DebugSupport, image: &Image, bytes: &[u8], library: &Library) {
    if !debug.has_profilers() {
        return;
    }
    for code in image.segments.code_pages(rustix::param::page_size() as u64) {
        let place = library.address(code.start)..library.address(code.end);
        // SAFETY: the checked image has these pages to itself, and none of its code runs.
        if let Err(error) = unsafe { move_to_own_memory(place) } {
            log::warn!("profilers may not see the image's functions: {error}");
        }
    }
    let Ok(file) = ElfFile64::<LittleEndian>::parse(bytes) else { return };
    let all = || file.symbols().chain(file.dynamic_symbols());
    let is_function = |symbol: &object::read::elf::ElfSymbol64<'_, '_, LittleEndian>| {
        symbol.kind() == SymbolKind::Text
            && symbol.size() > 0
            && image.segments.holds_code(symbol.address(), symbol.size())
    };
    let mut functions: Vec<LinkedFunction<'_>> = all()
        .filter(is_function)
        .filter_map(|symbol| {
            let (address, size) = (library.address(symbol.address()), symbol.size());
            // SAFETY: the image's code is mapped and readable as long as the library is open.
            let code = unsafe {
                std::slice::from_raw_parts(library.pointer(symbol.address()), size as usize)
            };
            Some(LinkedFunction { name: symbol.name().ok()?, address, size, code })
        })
        .collect();
    functions.sort_by_key(|function| (function.address, function.name));
    functions.dedup_by_key(|function| (function.address, function.name));
    debug.functions_linked("the image", &functions);
}

/// Replaces pages of code by copies that belong to no file.
///
/// # Safety
/// The pages are mapped and readable, and no code in them runs.
unsafe fn move_to_own_memory(pages: Range<u64>) -> io::Result<()> {
    let bytes = (pages.end - pages.start) as usize;
    let place = std::ptr::with_exposed_provenance_mut::<c_void>(pages.start as usize);
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the kernel chooses unused addresses, and the copy replaces pages with the same
    // contents. They become executable at their final address: then the kernel tells profilers.
    unsafe {
        let copy = rustix::mm::mmap_anonymous(null_mut(), bytes, access, MapFlags::PRIVATE)?;
        copy_nonoverlapping(place.cast::<u8>(), copy.cast::<u8>(), bytes);
        rustix::mm::mremap_fixed(copy, bytes, bytes, MremapFlags::MAYMOVE, place)?;
        rustix::mm::mprotect(place, bytes, MprotectFlags::READ | MprotectFlags::EXEC)
    }
}
