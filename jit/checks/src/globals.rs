//! The table of a module's variables, and the constructor that registers it.

use crate::ir::{Ir, ll};
use longshore_llvm::types::*;

/// The runtime's function that registers a table of variables.
pub(crate) const REGISTER: &str = "__longshore_check_register";
const UNREGISTER: &str = "__longshore_check_unregister";
/// Priority of the constructor: before all others, which may run kernels' functions.
const PRIORITY: u64 = 0;

/// Adds a table of the module's variables, with a constructor and a destructor.
pub(crate) fn register(ir: &Ir<'_>) {
    let entries: Vec<ValueRef> =
        variables(ir).into_iter().map(|variable| entry(ir, variable)).collect();
    let row = match entries.first() {
        Some(first) => ir.type_of(*first),
        None => ir.int(64),
    };
    let count = entries.len() as u32;
    let table = ll!(ir, LLVMConstArray(row, entries.as_ptr(), count));
    let table = ir.constant_pointer(ir.add_variable(table));
    add_to(ir, c"llvm.global_ctors", function(ir, REGISTER, table, count));
    add_to(ir, c"llvm.global_dtors", function(ir, UNREGISTER, table, count));
}

/// Returns whether a variable of this name is the header's or this pass's.
pub(crate) fn is_of_header(name: &str) -> bool {
    let parts = ["longshore_note", "longshore_check", "__longshore_kernel_", "__longshore_grid_"];
    parts.iter().any(|part| name.contains(part))
}

/// Returns the module's own variables in memory that all items share.
fn variables(ir: &Ir<'_>) -> Vec<ValueRef> {
    let mut next = ll!(ir, LLVMGetFirstGlobal(ir.module)).present();
    let all = std::iter::from_fn(|| {
        let variable = next?;
        next = ll!(ir, LLVMGetNextGlobal(variable)).present();
        Some(variable)
    });
    let is_own = |variable: &ValueRef| {
        let name = ir.name(*variable);
        let is_defined = ll!(ir, LLVMIsDeclaration(*variable)) == 0;
        let is_of_thread = ll!(ir, LLVMIsThreadLocal(*variable)) != 0;
        is_defined && !is_of_thread && !name.starts_with("llvm.") && !is_of_header(&name)
    };
    all.filter(is_own).collect()
}

/// Returns the address, the size and the name of a variable.
fn entry(ir: &Ir<'_>, variable: ValueRef) -> ValueRef {
    let ty = ll!(ir, LLVMGlobalGetValueType(variable));
    let bytes = ll!(ir, LLVMABISizeOfType(ir.layout, ty));
    let name = ir.add_text(&ir.name(variable));
    ir.structure(&[ir.constant_pointer(variable), ir.constant(64, bytes), name])
}

/// Adds a function that calls a function of the runtime with the table.
fn function(ir: &Ir<'_>, callee: &str, table: ValueRef, count: u32) -> ValueRef {
    let ty = ll!(ir, LLVMFunctionType(ir.void(), std::ptr::null(), 0, 0));
    let name = c"longshore_checked_module".as_ptr();
    let function = ll!(ir, LLVMAddFunction(ir.module, name, ty));
    ll!(ir, LLVMSetLinkage(function, INTERNAL_LINKAGE));
    let block = c"".as_ptr();
    let block = ll!(ir, LLVMAppendBasicBlockInContext(ir.context, function, block));
    ll!(ir, LLVMPositionBuilderAtEnd(ir.builder, block));
    ll!(ir, LLVMSetCurrentDebugLocation2(ir.builder, MetadataRef::NULL));
    ir.call(callee, ir.void(), &[table, ir.constant(64, count.into())]);
    ll!(ir, LLVMBuildRetVoid(ir.builder));
    function
}

/// Adds a function to the module's list of constructors or destructors.
fn add_to(ir: &Ir<'_>, list: &std::ffi::CStr, function: ValueRef) {
    let null = ll!(ir, LLVMConstNull(ir.pointer));
    let own = ir.structure(&[ir.constant(32, PRIORITY), function, null]);
    let old = ll!(ir, LLVMGetNamedGlobal(ir.module, list.as_ptr())).present();
    let mut entries = vec![own];
    if let Some(old) = old {
        let value = ll!(ir, LLVMGetInitializer(old));
        let count = ll!(ir, LLVMGetNumOperands(value)).max(0) as u32;
        entries.extend((0..count).map(|index| ir.operand(value, index)));
        ll!(ir, LLVMDeleteGlobal(old));
    }
    let row = ir.type_of(own);
    let value = ll!(ir, LLVMConstArray(row, entries.as_ptr(), entries.len() as u32));
    let made = ll!(ir, LLVMAddGlobal(ir.module, ir.type_of(value), list.as_ptr()));
    ll!(ir, LLVMSetInitializer(made, value));
    ll!(ir, LLVMSetLinkage(made, APPENDING_LINKAGE));
}
