//! The printed layouts of all types that cross the boundary, for the golden file.

use crate::abi::*;
use abi_stable::StableAbi;
use abi_stable::type_layout::{TLField, TLFunction, TypeLayout};

/// Returns the layouts of all types that cross the boundary, in the form of the golden file. Each
/// type has a line, followed by a line for each field with its offset in bytes, name and type.
pub fn describe_layouts() -> String {
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
        RectEnd,
        Rect,
        CollectiveMember,
        Collective,
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

with_interface!(longshore_interface_macros::layouts_of);

/// Adds the layout of a type.
fn describe<T: StableAbi>(into: &mut String) {
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
    let result = function.return_type_layout().map(|layout| format!(" -> {}", type_name(layout())));
    format!("fn({}){}", parameters.join(", "), result.unwrap_or_default())
}

fn type_name(layout: &'static TypeLayout) -> String {
    layout.full_type().to_string().trim().to_owned()
}
