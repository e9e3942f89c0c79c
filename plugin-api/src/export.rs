//! From traits to tables: what a plugin in Rust exports.
//!
//! Each entry of a table is a generic `extern "C"` function that turns its raw arguments into safe
//! ones, calls the trait's method inside [`guard`], and turns the result into an error pointer.
//! No panic leaves it.

mod device;
mod module;
mod platform;
mod queue;

use crate::abi;
use crate::backend::Plugin;
use crate::error::{Error, ErrorCode, Result};
use crate::layout::layout_of;
use crate::raw::{read_text, text, to_raw};
use crate::services::Services;
use abi_stable::StableAbi;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Exports a [`Plugin`](crate::Plugin) from a `cdylib`: the symbol `longshore_plugin` and the ELF
/// note. Once per library.
///
/// ```ignore
/// longshore_plugin_api::export_plugin!(MyBackend);
/// ```
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

/// The exported entry of a plugin.
pub const fn entry<P: Plugin>() -> abi::Entry {
    abi::Entry {
        magic: abi::ENTRY_MAGIC,
        interface_major: abi::INTERFACE_MAJOR,
        interface_minor: abi::INTERFACE_MINOR,
        layout: layout_of::<abi::Entry>(),
        describe: describe::<P>,
        connect: platform::connect::<P>,
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
    match (name.as_str(), version) {
        ("longshore.platform", 1) => reference(platform::table::<P>()),
        ("longshore.device", 1) => reference(device::table::<P>()),
        ("longshore.module", 1) => reference(module::table::<P>()),
        ("longshore.queue", 1) => reference(queue::table::<P>()),
        ("longshore.event", 1) => reference(queue::event_table::<P>()),
        ("longshore.pinning", 1) => reference(device::pinning_table::<P>()),
        ("longshore.peer", 1) => reference(device::peer_table::<P>()),
        ("longshore.prefetch", 1) => reference(queue::prefetch_table::<P>()),
        ("longshore.occupancy", 1) => reference(device::occupancy_table::<P>()),
        ("longshore.selection", 1) => reference(device::selection_table::<P>()),
        ("longshore.extent", 1) => reference(device::extent_table::<P>()),
        ("longshore.cluster", 1) => reference(queue::cluster_table::<P>()),
        ("longshore.adoption", 1) => reference(device::adoption_table::<P>()),
        ("longshore.lazy", 1) => reference(device::lazy_table::<P>()),
        ("longshore.arguments", 1) => reference(module::arguments_table::<P>()),
        ("longshore.instrumentation", 1) => reference(module::instrumentation_table::<P>()),
        _ => NONE,
    }
}

fn reference<T: StableAbi>(table: &'static T) -> abi::TableRef {
    abi::TableRef { table: std::ptr::from_ref(table).cast(), layout: layout_of::<T>() }
}

/// Runs a call of the plugin; a panic becomes an error that names the plugin and the call.
#[inline]
fn guard<P: Plugin>(
    call: &'static str,
    body: impl FnOnce() -> Result<()>,
) -> *mut abi::ErrorObject {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(result) => to_raw(result),
        Err(payload) => {
            let backend = P::DESCRIPTION.backend;
            to_raw(Err(Error::of_panic(&format!("plugin '{backend}' in {call}"), payload)))
        }
    }
}

/// Hands an object out as a handle.
fn give<T, H>(object: T, handle: *mut *mut H) {
    // SAFETY: the host passes a place to write a handle to.
    unsafe { handle.write(Box::into_raw(Box::new(object)).cast()) }
}

/// The object behind a handle that the host lent us.
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

/// Reads an enumerator.
fn known<T>(what: &str, value: u32, from_raw: fn(u32) -> Option<T>) -> Result<T> {
    from_raw(value)
        .ok_or_else(|| Error::new(ErrorCode::InvalidEnumeration, format!("{value} is no {what}")))
}

fn services(raw: *const abi::Services) -> Services {
    // SAFETY: the host promises that its services stay valid until the library is closed.
    let services = unsafe { Services::from_raw(raw) };
    services.forward_log();
    services
}
