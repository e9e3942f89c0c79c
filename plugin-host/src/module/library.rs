//! A checked image, opened from memory by the system's loader.

use crate::elf::{Image, patch};
use crate::guard::CodeOfImage;
use longshore_orc_rt::{OpenName, memory_file};
use longshore_plugin_api::{Error, ErrorCode, Result};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MprotectFlags, mprotect};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};

/// Most stale libraries with the name of a new descriptor that [`open_copy`] skips.
const MOST_STALE: usize = 64;

/// An open image. Dropping it closes the image.
///
/// The loader identifies libraries by path, and this library's path names its descriptor. So the
/// descriptor stays open as long as the library: the loader would take another image with the same
/// number for this one.
pub(super) struct Library {
    handle: Option<Handle>,
    copy: Option<Copy>,
    /// Dropped before the image is closed.
    code: Option<CodeOfImage>,
    base: u64,
    /// Whether the image's code may have registered handlers with the process.
    registered: AtomicBool,
}

impl Library {
    /// Copies the image, changes the copy with [`patch`], and opens it. Blocks.
    pub(super) fn open(bytes: &[u8], image: &Image) -> Result<Library> {
        let _held = hold_libraries(image)?;
        let copy = copy(bytes, image).map_err(copy_failed)?;
        let (handle, copy) = open_copy(copy)?;
        let base = handle.link_map()?.l_addr;
        let span = image.segments.span();
        let code = CodeOfImage::new(base.wrapping_add(span.start)..base.wrapping_add(span.end));
        Ok(Library {
            handle: Some(handle),
            copy: Some(copy),
            code: Some(code),
            base,
            registered: AtomicBool::new(false),
        })
    }

    /// Returns the address for an address relative to the load base.
    pub(super) fn address(&self, relative: u64) -> u64 {
        self.base.wrapping_add(relative)
    }

    /// Returns a pointer for an address relative to the load base.
    pub(super) fn pointer<T>(&self, relative: u64) -> *const T {
        std::ptr::with_exposed_provenance(self.address(relative) as usize)
    }

    /// Changes a word that the loader has filled, at an address relative to the load base. A page
    /// in `read_only`, which consists of whole pages, is read-only again afterwards.
    pub(super) fn fill(&self, place: u64, value: u64, read_only: &Range<u64>) -> io::Result<()> {
        let page_bytes = rustix::param::page_size();
        let word = self.address(place) as usize;
        let page = (word / page_bytes * page_bytes) as *mut c_void;
        let is_protected = read_only.contains(&place);
        if is_protected {
            let access = MprotectFlags::READ | MprotectFlags::WRITE;
            // SAFETY: this is a page of the image, none of whose code runs.
            unsafe { mprotect(page, page_bytes, access)? };
        }
        // SAFETY: the checked image has the word in a writable segment.
        unsafe { std::ptr::with_exposed_provenance_mut::<u64>(word).write_unaligned(value) };
        if is_protected {
            // SAFETY: as above.
            unsafe { mprotect(page, page_bytes, MprotectFlags::READ)? };
        }
        Ok(())
    }

    /// Closes the image.
    pub(super) fn close(mut self) -> Result<()> {
        self.close_once()
    }

    /// Sets whether the image's code may have registered handlers with the process. In that case,
    /// closing leaves the image in memory.
    pub(super) fn set_registered(&self, registered: bool) {
        self.registered.store(registered, Ordering::Release);
    }

    fn close_once(&mut self) -> Result<()> {
        let (Some(handle), Some(copy)) = (self.handle.take(), self.copy.take()) else {
            return Ok(());
        };
        let reason = if self.registered.load(Ordering::Acquire) {
            Some("its destructors were not run")
        } else if self.code.as_ref().is_some_and(CodeOfImage::is_in_use) {
            Some("a thread that a kernel had started has failed")
        } else {
            None
        };
        if let Some(reason) = reason {
            log::warn!("the image {:?} stays in memory: {reason}", copy.name.path());
            std::mem::forget((handle, copy, self.code.take()));
            return Ok(());
        }
        self.code = None;
        let closed = handle.close();
        if copy.is_loaded() {
            log::warn!("the image {:?} was unloaded but stays in memory", copy.name.path());
            std::mem::forget(copy);
        }
        closed
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        if let Err(error) = self.close_once() {
            log::warn!("an image could not be closed: {error}");
        }
    }
}

/// The opened copy, and its name.
struct Copy {
    name: OpenName,
    /// The descriptor, open as long as the library.
    file: OwnedFd,
}

/// An open library of the loader. Dropping it closes the library.
struct Handle(NonNull<c_void>);

// SAFETY: the loader's functions may be called from any thread.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

/// The public part of glibc's `struct link_map`.
#[repr(C)]
struct LinkMap {
    l_addr: u64,
    l_name: *const c_char,
    l_ld: *const DynamicEntry,
}

#[repr(C)]
struct DynamicEntry {
    tag: i64,
    value: u64,
}

impl Handle {
    /// Opens a library. Returns the loader's message on failure.
    fn open(name: &CStr, flags: c_int) -> Result<Handle, String> {
        // SAFETY: the name ends with a NUL. The loader reads and runs a checked image or a library
        // of the system.
        let handle = unsafe { libc::dlopen(name.as_ptr(), flags) };
        NonNull::new(handle).map(Handle).ok_or_else(last_error)
    }

    fn link_map(&self) -> Result<&LinkMap> {
        let mut map: *const LinkMap = std::ptr::null();
        // SAFETY: the library is open, and the pointer has room for the result of this request.
        let failed =
            unsafe { libc::dlinfo(self.0.as_ptr(), libc::RTLD_DI_LINKMAP, (&raw mut map).cast()) };
        if failed != 0 || map.is_null() {
            return Err(Error::new(
                ErrorCode::BackendFailure,
                format!("dlinfo on an open image: {}", last_error()),
            ));
        }
        // SAFETY: the loader's record of a library lives until the library is closed.
        Ok(unsafe { &*map })
    }

    /// Returns whether the library defines symbol versions.
    fn defines_versions(&self) -> Result<bool> {
        let mut entry = self.link_map()?.l_ld;
        if entry.is_null() {
            return Ok(false);
        }
        loop {
            // SAFETY: a loaded library's dynamic section ends with a zero tag, at which this loop
            // ends.
            let tag = unsafe { (*entry).tag };
            if tag == 0 || tag == object::elf::DT_VERDEF.0 {
                return Ok(tag != 0);
            }
            // SAFETY: the entry is not the last one.
            entry = unsafe { entry.add(1) };
        }
    }

    fn close(self) -> Result<()> {
        let handle = self.0;
        std::mem::forget(self);
        // SAFETY: the library is open, and is closed here once.
        if unsafe { libc::dlclose(handle.as_ptr()) } == 0 {
            return Ok(());
        }
        Err(Error::new(ErrorCode::BackendFailure, format!("closing an image: {}", last_error())))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the library is open; `close` forgets `self`.
        unsafe { libc::dlclose(self.0.as_ptr()) };
    }
}

/// Opens the libraries that the image needs, so that the error names a missing library. Also checks
/// that libraries with needed versions define versions: otherwise the loader aborts the process.
fn hold_libraries(image: &Image) -> Result<Vec<Handle>> {
    let mut held = Vec::with_capacity(image.libraries.len());
    for name in &image.libraries {
        let path = CString::new(name.as_str()).expect("the check allows no zero byte");
        let handle = Handle::open(&path, libc::RTLD_NOW | libc::RTLD_LOCAL).map_err(|reason| {
            Error::new(ErrorCode::NotFound, format!("the image needs library '{name}': {reason}"))
        })?;
        if image.versioned_libraries.contains(name) && !handle.defines_versions()? {
            return Err(Error::new(
                ErrorCode::LinkFailure,
                format!("the image needs versioned symbols of '{name}', which has no versions"),
            ));
        }
        held.push(handle);
    }
    Ok(held)
}

/// Creates the copy to open: in memory, without a name, and sealed against changes.
fn copy(bytes: &[u8], image: &Image) -> io::Result<OwnedFd> {
    memory_file::check_size(bytes.len() as u64)?;
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = File::from(rustix::fs::memfd_create("longshore-image", flags)?);
    file.write_all_at(bytes, 0)?;
    for edit in patch::edits(bytes, image) {
        file.write_all_at(&edit.bytes, edit.offset as u64)?;
    }
    let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    rustix::fs::fcntl_add_seals(&file, seals)?;
    Ok(file.into())
}

impl Copy {
    fn new(file: OwnedFd) -> Result<Copy> {
        let name = OpenName::for_file(file.as_fd()).map_err(copy_failed)?;
        Ok(Copy { name, file })
    }

    /// Returns whether a library is loaded under the copy's name.
    fn is_loaded(&self) -> bool {
        Handle::open(self.name.path(), libc::RTLD_LAZY | libc::RTLD_NOLOAD).is_ok()
    }
}

/// Opens the copy. Code that closed its descriptor may have left a library loaded under the name of
/// this descriptor; then the copy gets another number.
fn open_copy(file: OwnedFd) -> Result<(Handle, Copy)> {
    let mut copy = Copy::new(file)?;
    let mut stale = Vec::new();
    while copy.name.is_by_number() && copy.is_loaded() {
        let next =
            rustix::io::fcntl_dupfd_cloexec(&copy.file, 0).map_err(|e| copy_failed(e.into()))?;
        stale.push(std::mem::replace(&mut copy, Copy::new(next)?));
        if stale.len() > MOST_STALE {
            return Err(Error::new(
                ErrorCode::OutOfResources,
                format!("{MOST_STALE} libraries are loaded under names of closed descriptors"),
            ));
        }
    }
    let flags = libc::RTLD_NOW | libc::RTLD_LOCAL;
    let handle = Handle::open(copy.name.path(), flags).map_err(|reason| {
        let hint = hint(&reason.to_string());
        Error::new(ErrorCode::LinkFailure, format!("the loader: {reason}{hint}"))
    })?;
    Ok((handle, copy))
}

/// Returns advice about functions that record values for profiles, which only LLVM's runtime
/// defines.
fn hint(reason: &str) -> &'static str {
    match reason.contains("__llvm_profile_instrument_") {
        true => " (compile with -mllvm -disable-vp, or load the objects themselves)",
        false => "",
    }
}

fn copy_failed(error: io::Error) -> Error {
    let code = match error.raw_os_error() {
        None if error.kind() == io::ErrorKind::FileTooLarge => ErrorCode::OutOfResources,
        Some(libc::ENOMEM | libc::EMFILE | libc::ENFILE | libc::ENOSPC) => {
            ErrorCode::OutOfResources
        }
        _ => ErrorCode::HostIo,
    };
    Error::new(code, format!("copying the image into memory: {error}"))
}

/// Returns the loader's message for this thread's last failure.
fn last_error() -> String {
    // SAFETY: the message is this thread's and is copied before the thread's next call.
    unsafe {
        let message = libc::dlerror();
        if message.is_null() {
            return "no message".to_owned();
        }
        CStr::from_ptr(message).to_string_lossy().into_owned()
    }
}
