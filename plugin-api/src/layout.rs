//! The layout check between a host and a plugin that are both written in Rust.

use crate::interface::remoted::describe_tables;
use abi_stable::StableAbi;
use abi_stable::abi_stability::abi_checking::check_layout_compatibility;
use abi_stable::library::AbiHeader;
use abi_stable::type_layout::{TLField, TLFunction, TypeLayout};
use std::ffi::c_void;
use std::marker::PhantomData;

/// What a `layout` field points at: the header tells whether the rest can be read.
#[repr(C)]
struct RustLayout {
    header: AbiHeader,
    layout: &'static TypeLayout,
}

struct LayoutOf<T>(PhantomData<T>);

impl<T: StableAbi> LayoutOf<T> {
    const LAYOUT: &'static RustLayout = &RustLayout { header: AbiHeader::VALUE, layout: T::LAYOUT };
}

/// The `layout` field for a `T`.
pub(crate) const fn layout_of<T: StableAbi>() -> *const c_void {
    std::ptr::from_ref(LayoutOf::<T>::LAYOUT).cast()
}

/// Checks that the other side's `layout` of what we take to be a `T` is ours. `Err` holds the
/// difference, for people. A null layout, of a plugin in another language, is taken on trust.
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
    // SAFETY: the same abi_stable on both sides, so the layout is one that we can read.
    let theirs = unsafe { (*layout.cast::<RustLayout>()).layout };
    // `abi_stable` wants the implementation's crate to be as new as the interface's. A table never
    // changes, so either side may be the newer one.
    check_layout_compatibility(T::LAYOUT, theirs)
        .or_else(|error| check_layout_compatibility(theirs, T::LAYOUT).map_err(|_| error))
        .map_err(|error| differences(&error.to_string()))
}

/// The differing parts of `abi_stable`'s report, without the layouts that it prints whole and the
/// lines that never differ.
fn differences(report: &str) -> String {
    let told = report.split_once("error(s)").map_or(report, |(_, told)| told);
    let lines = told.lines().map(str::trim);
    let kept: Vec<_> = lines
        .filter(|line| !line.is_empty() && *line != "." && !line.starts_with("package:"))
        .collect();
    kept.join("\n  ")
}

/// The layouts of everything that crosses the boundary, printed: what the golden file holds. One
/// line for a type, and below it one for each field: its offset in bytes, name and type.
pub fn describe_layouts() -> String {
    use crate::abi::*;
    let mut text = String::new();
    macro_rules! all { ($($name:ty),* $(,)?) => { $( describe::<$name>(&mut text); )* }; }
    all!(
        Text,
        Bytes,
        Sink,
        ErrorObject,
        SymbolVisitor,
        ProfileVisitor,
        KernelInfo,
        GlobalInfo,
        PoolTracker,
        Launch,
        CopyRequest,
        Fill,
        HostFunction,
        TableRef,
        Description,
        Services,
        Entry,
    );
    describe_tables(&mut text);
    text
}

/// Adds the layout of a type.
pub(crate) fn describe<T: StableAbi>(into: &mut String) {
    let layout = T::LAYOUT;
    let (name, size, align) = (layout.name(), layout.size(), layout.alignment());
    into.push_str(&format!("{name} size {size} align {align}\n"));
    let mut end: usize = 0;
    for field in layout.get_fields().into_iter().flatten() {
        // `repr(C)`: the next offset that the field's alignment allows.
        let offset = end.next_multiple_of(field.layout().alignment());
        into.push_str(&format!("{offset:>4} {}: {}\n", field.name(), field_type(&field)));
        end = offset + field.layout().size();
    }
}

fn field_type(field: &TLField) -> String {
    match field.function_range().iter().next() {
        Some(function) => function_type(&function),
        None => type_name(field.layout()),
    }
}

fn function_type(function: &TLFunction) -> String {
    let names = function.param_names.as_str().split_terminator(',');
    let types = function.param_type_layouts.iter().map(|layout| type_name(layout()));
    let parameters: Vec<_> =
        names.zip(types).map(|(name, kind)| format!("{name}: {kind}")).collect();
    let answer = function.return_type_layout().map(|layout| format!(" -> {}", type_name(layout())));
    format!("fn({}){}", parameters.join(", "), answer.unwrap_or_default())
}

fn type_name(layout: &'static TypeLayout) -> String {
    layout.full_type().to_string().trim().to_owned()
}
