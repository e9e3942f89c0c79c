//! The glue from traits to tables: the code of a plugin in Rust that the host calls.
//!
//! Each entry of a table is a generic `extern "C"` function. The function makes its raw arguments
//! safe, calls the trait's method inside [`guard`], and turns the result into an error pointer. No
//! panic leaves the function.

mod connect;
mod module;
mod request;
mod send;
mod tables;

use crate::abi;
use crate::backend::{Platform, Plugin};
use crate::error::{Error, ErrorCode, Result};
use crate::layout::layout_of;
use crate::raw::{read_text, text, to_raw};
use abi_stable::StableAbi;
use module::ModuleObject;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Exports a [`Plugin`] from a `cdylib` as the symbol `longshore_plugin`, with its
/// ELF note. Use the macro once per library.
///
/// The argument is the type that implements the trait. The [crate's page](crate) has an example.
#[macro_export]
macro_rules! export_plugin {
    ($plugin:ty) => {
        const _: () = {
            use $crate::macro_support::{AlignedNote, encode_note, entry, note_bytes};
            const DESCRIPTION: &$crate::Description = &<$plugin as $crate::Plugin>::DESCRIPTION;

            #[used]
            #[unsafe(link_section = ".note.longshore")]
            static NOTE: AlignedNote<{ note_bytes(DESCRIPTION) }> =
                AlignedNote(encode_note(DESCRIPTION));

            #[used]
            #[unsafe(export_name = "longshore_plugin")]
            static ENTRY: $crate::abi::Entry = entry::<$plugin>();
        };
    };
}

/// Returns the exported entry of a plugin.
pub const fn entry<P: Plugin>() -> abi::Entry {
    abi::Entry {
        magic: abi::ENTRY_MAGIC,
        interface_major: abi::INTERFACE_MAJOR,
        interface_minor: abi::INTERFACE_MINOR,
        layout: layout_of::<abi::Entry>(),
        describe: describe::<P>,
        connect: connect::connect::<P>,
        table: table::<P>,
    }
}

unsafe extern "C" fn describe<P: Plugin>(description: *mut abi::Description) {
    let ours = P::DESCRIPTION;
    // SAFETY: the host passes a place to write to.
    unsafe {
        description.write(abi::Description {
            backend: text(ours.backend),
            name: text(ours.name),
            version: text(ours.version),
            vendor: text(ours.vendor),
            image_formats: text(ours.image_formats),
            driver: text(ours.driver),
            unloadable: u32::from(ours.unloadable),
            reserved: 0,
        });
    }
}

unsafe extern "C" fn table<P: Plugin>(name: abi::Text, version: u32) -> abi::TableRef {
    const NONE: abi::TableRef = abi::TableRef { table: std::ptr::null(), layout: std::ptr::null() };
    // SAFETY: the host passes a readable string.
    let name = unsafe { read_text(name) };
    tables::table::<P>(&name, version).unwrap_or(NONE)
}

/// Returns a reference to a table, with its layout.
pub(crate) fn reference<T: StableAbi>(table: &'static T) -> abi::TableRef {
    abi::TableRef { table: std::ptr::from_ref(table).cast(), layout: layout_of::<T>() }
}

/// Runs a call of the plugin; a panic becomes an error that names the plugin and the call.
#[inline]
pub(crate) fn guard<P: Plugin>(
    call: &'static str,
    body: impl FnOnce() -> Result<()>,
) -> *mut abi::ErrorObject {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(result) => to_raw(result),
        Err(payload) => {
            let backend = P::DESCRIPTION.backend;
            to_raw(Err(Error::from_panic(&format!("plugin '{backend}' in {call}"), payload)))
        }
    }
}

/// Hands an object out as a handle.
fn give<T, H>(object: T, handle: *mut *mut H) {
    // SAFETY: the host passes a place to write a handle to.
    unsafe { handle.write(Box::into_raw(Box::new(object)).cast()) }
}

/// Returns the object behind a handle that the host passes.
///
/// # Safety
/// `handle` came from [`give`] with the same `T`, was not taken back, and outlives `'a`.
#[inline]
unsafe fn lent<'a, T, H>(handle: *mut H) -> &'a T {
    debug_assert!(!handle.is_null());
    // SAFETY: promised by the caller.
    unsafe { &*handle.cast::<T>() }
}

/// Takes back an object that was handed out.
///
/// # Safety
/// As for [`lent`], and the host uses the handle no more.
unsafe fn take_back<T, H>(handle: *mut H) -> T {
    // SAFETY: promised by the caller.
    *unsafe { Box::from_raw(handle.cast::<T>()) }
}

macro_rules! objects {
    ($($kind:ident, $handle:ident, $lent:ident, $take:ident, $give:ident;)*) => { $(
        #[doc = concat!("Borrows the object behind a [`abi::", stringify!($handle), "`].")]
        ///
        /// # Safety
        /// As for [`lent`].
        #[inline]
        pub(crate) unsafe fn $lent<'a, P: Plugin>(handle: *mut abi::$handle) -> &'a P::$kind {
            // SAFETY: promised by the caller.
            unsafe { lent(handle) }
        }

        #[doc = concat!("Takes back the object behind a [`abi::", stringify!($handle), "`].")]
        ///
        /// # Safety
        /// As for [`take_back`].
        pub(crate) unsafe fn $take<P: Plugin>(handle: *mut abi::$handle) -> P::$kind {
            // SAFETY: promised by the caller.
            unsafe { take_back(handle) }
        }

        #[doc = concat!("Hands out an object as a [`abi::", stringify!($handle), "`].")]
        pub(crate) fn $give<P: Plugin>(object: P::$kind, to: *mut *mut abi::$handle) {
            give(object, to);
        }
    )* };
}

objects! {
    Device, DeviceHandle, lent_device, take_device, give_device;
    Queue, QueueHandle, lent_queue, take_queue, give_queue;
    Event, EventHandle, lent_event, take_event, give_event;
}

/// Borrows the platform behind a handle.
///
/// # Safety
/// As for [`lent`].
pub(crate) unsafe fn lent_platform<'a, P: Plugin>(
    handle: *mut abi::PlatformHandle,
) -> &'a P::Platform {
    // SAFETY: promised by the caller.
    unsafe { lent(handle) }
}

/// Takes back the platform behind a handle.
///
/// # Safety
/// As for [`take_back`].
pub(crate) unsafe fn take_platform<P: Plugin>(handle: *mut abi::PlatformHandle) -> P::Platform {
    // SAFETY: promised by the caller.
    unsafe { take_back(handle) }
}

/// Borrows the kernel behind a handle; its module keeps the kernel.
///
/// # Safety
/// The kernel belongs to a module that is still loaded.
#[inline]
pub(crate) unsafe fn lent_kernel<'a, P: Plugin>(handle: *mut abi::KernelHandle) -> &'a P::Kernel {
    // SAFETY: promised by the caller.
    unsafe { lent(handle) }
}

/// Borrows the module behind a handle.
///
/// # Safety
/// As for [`lent`].
pub(crate) unsafe fn lent_module<'a, P: Plugin>(handle: *mut abi::ModuleHandle) -> &'a P::Module {
    // SAFETY: promised by the caller.
    &unsafe { lent::<ModuleObject<P>, _>(handle) }.module
}

/// Takes back the module behind a handle.
///
/// # Safety
/// As for [`take_back`].
pub(crate) unsafe fn take_module<P: Plugin>(handle: *mut abi::ModuleHandle) -> P::Module {
    // SAFETY: promised by the caller.
    unsafe { ModuleObject::<P>::take_module(handle) }
}

/// Hands out a module.
pub(crate) fn give_module<P: Plugin>(module: P::Module, to: *mut *mut abi::ModuleHandle) {
    give(ModuleObject::<P>::new(module), to);
}

/// Checks the index of a device.
///
/// # Errors
/// `InvalidDevice` for an index that is not less than the number of devices.
pub(crate) fn in_range<P: Plugin>(platform: &P::Platform, index: u32) -> Result<()> {
    let count = platform.device_count();
    if index < count {
        return Ok(());
    }
    let backend = P::DESCRIPTION.backend;
    let message = format!("there is no device {backend}:{index}, the platform has {count}");
    Err(Error::new(ErrorCode::InvalidDevice, message))
}
