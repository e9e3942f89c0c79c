//! The images (executable and shared libraries) of this process.

use std::ffi::{c_int, c_void};
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};

use object::pod::Pod;
use parking_lot::Mutex;
use rustix::mm::{MprotectFlags, mprotect};

/// An image as the dynamic linker describes it.
pub(super) struct Image {
    /// The number added to the addresses in `headers`.
    pub(super) base: u64,
    /// The image's program headers.
    pub(super) headers: Vec<libc::Elf64_Phdr>,
    /// The image's module number.
    pub(super) module: u64,
    /// The address of the calling thread's block; 0 while it has none.
    pub(super) block: u64,
    /// Whether the image is the executable.
    pub(super) is_executable: bool,
}

/// An image that stays loaded, since the dynamic linker is describing it: see [`Image::find`].
pub(super) struct Loaded(Image);

/// Held while read-only pages of an image are writable: two changed words can share a page.
pub(super) static WRITING: Mutex<()> = Mutex::new(());

impl Image {
    /// Returns the first of the process's images for which `wanted` returns true. No image is
    /// closed meanwhile; `wanted` must open and close none.
    pub(super) fn find(mut wanted: impl FnMut(&Loaded) -> bool) -> Option<Self> {
        let mut search = Search { wanted: &mut wanted, visited: 0, found: None };
        // SAFETY: `visit` is given this search.
        unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
        search.found
    }

    /// Returns the image whose block in the calling thread contains this address.
    pub(super) fn with_thread_local(address: u64) -> Option<Self> {
        Self::find(|image| {
            let size = image.thread_local_segment().map_or(0, |segment| segment.p_memsz);
            image.block != 0 && address.wrapping_sub(image.block) < size
        })
    }

    /// Returns the header of the image's thread-local segment.
    pub(super) fn thread_local_segment(&self) -> Option<&libc::Elf64_Phdr> {
        self.headers.iter().find(|header| header.p_type == libc::PT_TLS)
    }

    /// Returns whether these bytes lie in one readable segment of the image.
    pub(super) fn contains(&self, address: u64, size: u64) -> bool {
        let segments = self.headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
        segments.filter(|header| header.p_flags & libc::PF_R != 0).any(|header| {
            let offset = address.wrapping_sub(self.base.wrapping_add(header.p_vaddr));
            header.p_memsz.checked_sub(offset).is_some_and(|rest| size <= rest)
        })
    }

    /// Returns the protection that a page of the image has after relocation.
    pub(super) fn protection(&self, page: u64, page_size: u64) -> MprotectFlags {
        let round_down = |address: u64| address & !(page_size - 1);
        let start = |header: &libc::Elf64_Phdr| round_down(self.base.wrapping_add(header.p_vaddr));
        let end = |header: &libc::Elf64_Phdr| {
            self.base.wrapping_add(header.p_vaddr).wrapping_add(header.p_memsz)
        };
        let of_kind = |kind: u32| self.headers.iter().filter(move |header| header.p_type == kind);
        // The dynamic linker makes only whole pages of the RELRO segment read-only.
        if of_kind(libc::PT_GNU_RELRO)
            .any(|header| (start(header)..round_down(end(header))).contains(&page))
        {
            return MprotectFlags::READ;
        }
        let flags =
            of_kind(libc::PT_LOAD).find(|header| (start(header)..end(header)).contains(&page));
        let flags = flags.map_or(libc::PF_R, |header| header.p_flags);
        let bits = [
            (libc::PF_R, MprotectFlags::READ),
            (libc::PF_W, MprotectFlags::WRITE),
            (libc::PF_X, MprotectFlags::EXEC),
        ];
        bits.into_iter()
            .filter(|(flag, _)| flags & flag != 0)
            .map(|(_, protection)| protection)
            .collect()
    }
}

impl Deref for Loaded {
    type Target = Image;

    fn deref(&self) -> &Image {
        &self.0
    }
}

impl Loaded {
    /// Reads a value at an address; `None` outside the image. No thread may write it meanwhile.
    pub(super) fn read<T: Pod>(&self, address: u64) -> Option<T> {
        // SAFETY: the bytes are readable, and any bytes are a valid `T`.
        self.contains(address, size_of::<T>() as u64)
            .then(|| unsafe { (address as *const T).read_unaligned() })
    }

    /// Returns the word at an address, which other threads may be writing; `None` if it is not
    /// aligned, or outside the image.
    pub(super) fn load(&self, address: u64) -> Option<u64> {
        Some(self.word(address)?.load(Ordering::Relaxed))
    }

    /// Changes the word at an address by one store. The protection of its page is the same
    /// afterwards.
    pub(super) fn store(&self, address: u64, value: u64) -> Result<(), String> {
        let word =
            self.word(address).ok_or_else(|| format!("{address:#x} is not a word of the image"))?;
        let page_size = rustix::param::page_size();
        let page = address & !(page_size as u64 - 1);
        let protection = self.protection(page, page_size as u64);
        let protect = |protection| {
            // SAFETY: the page belongs to the image, which is not closed during this call. No
            // running code relies on the page being read-only.
            unsafe { mprotect(page as *mut _, page_size, protection) }
                .map_err(|error| format!("page {page:#x} cannot be made {protection:?}: {error}"))
        };
        let _one_at_a_time = WRITING.lock();
        if protection.contains(MprotectFlags::WRITE) {
            word.store(value, Ordering::Relaxed);
            return Ok(());
        }
        protect(protection | MprotectFlags::WRITE)?;
        word.store(value, Ordering::Relaxed);
        protect(protection)
    }

    /// Returns whether these bytes are writable.
    pub(super) fn is_writable(&self, address: u64, size: u64) -> bool {
        let page_size = rustix::param::page_size() as u64;
        let first = address & !(page_size - 1);
        let mut pages = (first..address.saturating_add(size)).step_by(page_size as usize);
        self.contains(address, size)
            && pages.all(|page| self.protection(page, page_size).contains(MprotectFlags::WRITE))
    }

    /// Creates an image that the dynamic linker has not loaded: its segments must stay readable
    /// while the image lives.
    #[cfg(test)]
    pub(super) fn made_up(headers: Vec<libc::Elf64_Phdr>) -> Self {
        Self(Image { base: 0, headers, module: 0, block: 0, is_executable: false })
    }

    fn word(&self, address: u64) -> Option<&AtomicU64> {
        let is_here = address.is_multiple_of(8) && self.contains(address, 8);
        // SAFETY: the word is aligned and readable while the image is loaded.
        is_here.then(|| unsafe { &*(address as *const AtomicU64) })
    }
}

struct Search<'a> {
    wanted: &'a mut dyn FnMut(&Loaded) -> bool,
    visited: usize,
    found: Option<Image>,
}

unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _: usize, search: *mut c_void) -> c_int {
    // SAFETY: `find` passes its search; the information is valid during this call.
    let (info, search) = unsafe { (&*info, &mut *search.cast::<Search<'_>>()) };
    search.visited += 1;
    // SAFETY: the dynamic linker gives the address and the number of the headers.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let image = Loaded(Image {
        base: info.dlpi_addr,
        headers: headers.to_vec(),
        module: info.dlpi_tls_modid as u64,
        block: info.dlpi_tls_data as u64,
        is_executable: search.visited == 1,
    });
    if !(search.wanted)(&image) {
        return 0;
    }
    search.found = Some(image.0);
    1
}
