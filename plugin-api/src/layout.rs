//! The layout check between a host and a plugin that are both written in Rust.

use abi_stable::StableAbi;
use abi_stable::abi_stability::abi_checking::check_layout_compatibility;
use abi_stable::library::AbiHeader;
use abi_stable::type_layout::TypeLayout;
use std::ffi::c_void;
use std::marker::PhantomData;

/// The target of a `layout` field: the header shows whether the rest is readable.
#[repr(C)]
struct RustLayout {
    header: AbiHeader,
    layout: &'static TypeLayout,
}

struct LayoutOf<T>(PhantomData<T>);

impl<T: StableAbi> LayoutOf<T> {
    const LAYOUT: &'static RustLayout = &RustLayout { header: AbiHeader::VALUE, layout: T::LAYOUT };
}

/// Returns the `layout` field for a `T`.
pub(crate) const fn layout_of<T: StableAbi>() -> *const c_void {
    std::ptr::from_ref(LayoutOf::<T>::LAYOUT).cast()
}

/// Checks that the other side's `layout` of a `T` equals this side's. `Err` has the difference, for
/// people. A null layout, from a plugin in another language, is trusted.
///
/// # Safety
/// `layout` is null or was made by `layout_of` in some version of this crate.
pub(crate) unsafe fn check_layout<T: StableAbi>(layout: *const c_void) -> Result<(), String> {
    if layout.is_null() {
        return Ok(());
    }
    // SAFETY: the header is the first field in every version, and its layout is frozen.
    let header = unsafe { &*layout.cast::<AbiHeader>() };
    if !AbiHeader::VALUE.is_compatible(header) {
        let AbiHeader { abi_major, abi_minor, .. } = *header;
        let ours = AbiHeader::VALUE;
        return Err(format!(
            "its layouts are described by abi_stable {abi_major}.{abi_minor}, \
             the host's by {}.{}",
            ours.abi_major, ours.abi_minor
        ));
    }
    // SAFETY: both sides use the same abi_stable, so the layout is readable.
    let theirs = unsafe { (*layout.cast::<RustLayout>()).layout };
    // `abi_stable` requires the implementation's crate to be as new as the interface's. A table
    // never changes, so either side may be the newer one.
    check_layout_compatibility(T::LAYOUT, theirs)
        .or_else(|error| check_layout_compatibility(theirs, T::LAYOUT).map_err(|_| error))
        .map_err(|error| differences(&error.to_string()))
}

/// Returns the differing parts of `abi_stable`'s report, without whole layouts and without lines
/// that never differ.
fn differences(report: &str) -> String {
    let reported = report.split_once("error(s)").map_or(report, |(_, reported)| reported);
    let lines = reported.lines().map(str::trim);
    let kept: Vec<_> = lines
        .filter(|line| !line.is_empty() && *line != "." && !line.starts_with("package:"))
        .collect();
    kept.join("\n  ")
}
