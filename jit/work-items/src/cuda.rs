//! Kernels of CUDA and HIP for CPUs.
//!
//! Clang compiles such a source for a CPU as it does for a GPU: each kernel is a function of one
//! item, with the parameters of the source. `longshore_cuda.h` declares the marker
//! `__longshore_self`, which stands for the item wherever it is called. The functions of this
//! module make of it what `longshore_device.h` makes of its own kernels:
//!
//! 1. `annotations.rs` finds kernels and shared variables by their annotations.
//! 2. `parameters.rs` reads the parameters from the descriptions for debuggers.
//! 3. `entry.rs` makes the functions of an item and of the groups, by which the CPU backend calls
//!    the kernel.
//! 4. All code that needs the item is inlined. `context.rs` replaces the markers by the item, and
//!    shared variables by memory of the group. Functions that cannot be inlined, because they
//!    recurse or have their address taken, take the item from a variable of the thread.
//! 5. `describe.rs` adds the description and the notes of each kernel, `debug.rs` the descriptions
//!    for debuggers.

mod annotations;
mod context;
mod debug;
mod describe;
mod entry;
mod operands;
mod parameters;
mod parts;
mod scalars;

use std::collections::HashSet;

use longshore_llvm::types::*;

use crate::Options;
use crate::ir::{Ir, ll};
use annotations::Annotations;
use parameters::{Argument, Parameter};
pub(crate) use parts::count as parts;

/// The function that returns the current item.
const MARKER: &std::ffi::CStr = c"__longshore_self";

/// The function that ends the current item.
const EXIT: &std::ffi::CStr = c"__longshore_exit";

/// A kernel of the source.
struct Kernel {
    name: String,
    /// The function of the source, and that of one item.
    body: ValueRef,
    item: ValueRef,
    parameters: Vec<Parameter>,
}

/// Returns whether a module has kernels that [`make_kernels`] finds.
pub(crate) fn has_kernels(ir: &Ir<'_>) -> bool {
    !Annotations::read(ir).kernels.is_empty()
}

/// Adds descriptions of the arguments of all kernels of a module for a GPU.
pub(crate) fn describe_kernels(ir: &Ir<'_>) {
    for function in Annotations::take(ir).kernels {
        if let Some(arguments) = parameters::arguments(ir, function) {
            let arguments: Vec<&Argument> = arguments.iter().collect();
            describe::add_description(ir, &ir.name(function), &arguments);
        }
    }
}

/// Makes kernels of `longshore_device.h`'s form from all kernels of a module. Returns their number.
///
/// # Errors
/// LLVM's message, or the reason why a kernel cannot be called on a CPU.
pub(crate) fn make_kernels(ir: &Ir<'_>, options: Options) -> Result<usize, String> {
    let mut annotations = Annotations::take(ir);
    if let Some(part) = options.part {
        parts::keep_kernels(ir, &mut annotations.kernels, part)?;
    }
    let mut kernels = Vec::new();
    let describer = debug::Describer::new(ir, &annotations.kernels)?;
    for function in &annotations.kernels {
        kernels.push(entry::make(ir, *function, describer.as_ref())?);
    }
    drop(describer);
    if kernels.is_empty() {
        // No kernel calls the functions, which would need the arguments of one.
        hide(ir, &kernels);
        ir.run_passes("globaldce", TargetMachineRef::NULL)?;
        return Ok(0);
    }
    if options.strip {
        // All passes would carry the descriptions of variables along.
        ir.run_passes("strip-nonlinetable-debuginfo", TargetMachineRef::NULL)?;
    }
    hide(ir, &kernels);
    if let Some(part) = options.part {
        parts::share_variables(ir, &annotations.shared, part);
    }
    let inlined = context::users(ir, &kernels, &annotations.shared);
    let programs: Vec<_> =
        kernels.iter().map(|kernel| ll!(ir, LLVMGetSubprogram(kernel.body))).collect();
    for function in inlined.into_iter().chain(kernels.iter().map(|kernel| kernel.body)) {
        inline_always(ir, function);
    }
    ir.run_passes("always-inline,globaldce", TargetMachineRef::NULL)?;
    for (kernel, program) in kernels.iter().zip(programs) {
        // The function of the source is gone, and debuggers see its code here.
        ll!(ir, LLVMSetSubprogram(kernel.item, program));
        // The members of a copied structure need not be written, unlike the values of loads.
        if !options.is_checked {
            scalars::divide(ir, kernel.item);
        }
    }
    // Variables of functions that no kernel calls are gone with them.
    let left: HashSet<ValueRef> = ir.all_globals().into_iter().collect();
    let shared: Vec<ValueRef> =
        annotations.shared.iter().copied().filter(|it| left.contains(it)).collect();
    let layout = context::resolve(ir, &kernels, &shared, options.is_checked)?;
    let waiting = crate::kernels::Calls::new(ir);
    for kernel in &kernels {
        // A debugger stops in the item's function, not where LLVM has inlined it.
        if !waiting.waits(kernel.item) && !options.keep_stacks {
            entry::inline_item(ir, kernel);
        }
    }
    ir.run_passes("always-inline,globaldce", TargetMachineRef::NULL)?;
    for kernel in &kernels {
        describe::describe(ir, kernel, &layout, &waiting);
    }
    Ok(kernels.len())
}

fn inline_always(ir: &Ir<'_>, function: ValueRef) {
    ir.remove_attribute(function, "optnone");
    ir.remove_attribute(function, "noinline");
    ir.add_attribute(function, "alwaysinline");
}

/// Keeps all functions but the kernels' inside of the module, and shows the variables of the source
/// to programs.
fn hide(ir: &Ir<'_>, kernels: &[Kernel]) {
    let entries: HashSet<&str> = kernels.iter().map(|kernel| kernel.name.as_str()).collect();
    for function in ir.all_functions() {
        if ir.is_defined(function) && !entries.contains(ir.name(function).as_str()) {
            ll!(ir, LLVMSetComdat(function, ComdatRef::NULL));
            ll!(ir, LLVMSetVisibility(function, 0));
            ll!(ir, LLVMSetLinkage(function, INTERNAL_LINKAGE));
        }
    }
    for variable in ir.all_globals() {
        let is_own = ll!(ir, LLVMGetLinkage(variable)) == EXTERNAL_LINKAGE;
        if is_own && ir.is_defined(variable) {
            ll!(ir, LLVMSetVisibility(variable, 0));
        }
    }
}
