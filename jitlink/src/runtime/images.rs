//! The images (executable and shared libraries) of this process that have thread-local storage.

use std::ffi::{c_int, c_void};

/// An image as the dynamic linker describes it.
pub(super) struct Image {
    /// What is added to the addresses in `headers`.
    pub(super) base: u64,
    /// Its program headers.
    pub(super) headers: Vec<libc::Elf64_Phdr>,
    /// Its module number.
    pub(super) module: u64,
    /// The address of the calling thread's block; 0 if it has none yet.
    pub(super) block: u64,
    /// Whether it is the executable.
    pub(super) is_executable: bool,
}

impl Image {
    /// The one in whose block of the calling thread this address lies.
    pub(super) fn with_thread_local(address: u64) -> Option<Self> {
        let mut search = Search { address, visited: 0, found: None };
        // SAFETY: `visit` is given this search.
        unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
        search.found
    }

    /// The header of its thread-local segment.
    pub(super) fn thread_local_segment(&self) -> Option<&libc::Elf64_Phdr> {
        self.headers.iter().find(|header| header.p_type == libc::PT_TLS)
    }
}

struct Search {
    address: u64,
    visited: usize,
    found: Option<Image>,
}

unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _: usize, search: *mut c_void) -> c_int {
    // SAFETY: `with_thread_local` passes its search; the information is valid during this call.
    let (info, search) = unsafe { (&*info, &mut *search.cast::<Search>()) };
    search.visited += 1;
    if info.dlpi_tls_data.is_null() {
        return 0;
    }
    // SAFETY: the dynamic linker gives the address and the number of the headers.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let image = Image {
        base: info.dlpi_addr,
        headers: headers.to_vec(),
        module: info.dlpi_tls_modid as u64,
        block: info.dlpi_tls_data as u64,
        is_executable: search.visited == 1,
    };
    let size = image.thread_local_segment().map_or(0, |segment| segment.p_memsz);
    if search.address.wrapping_sub(image.block) >= size {
        return 0;
    }
    search.found = Some(image);
    1
}
