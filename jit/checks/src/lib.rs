//! Checks of the memory accesses of kernels: a pass over LLVM's IR.
//!
//! The pass adds a call of the runtime before each load, store, copy and atomic operation. The call
//! gets the address and a *site*: the access's file, line and function. It returns the address to
//! use, which is harmless memory if the access is wrong, so one run finds many errors.
//!
//! 1. `places.rs` decides by the source lines which accesses are the program's own, and which are
//!    part of `longshore_device.h`. It makes the sites.
//! 2. `privates.rs` gives the variables on an item's stack bounds, and bits for written bytes.
//! 3. `accesses.rs` adds the calls, and `contents.rs` finds the bytes that they are about.
//! 4. `fast.rs` defines the usual case of an access in the module itself.
//! 5. `globals.rs` adds a table of the module's variables, which a constructor registers.
//!
//! The functions are in `plugin-host/src/check/`. Between 3 and 4, `jit/work-items` makes loops
//! over items, and replaces the checks of a loop by one call where it can.

mod accesses;
mod contents;
mod fast;
mod globals;
mod ir;
mod places;
mod privates;

use ir::Ir;
use longshore_llvm::Library;
use longshore_llvm::types::{ContextRef, ModuleRef, TargetMachineRef};

/// Prefix of the runtime's functions.
pub const PREFIX: &str = "__longshore_check_";

/// Passes before the checks: values instead of variables whose address is not taken. They change
/// no access of memory that can be wrong.
const PREPARE: &str = "always-inline,function(mem2reg)";

/// Adds checks to a module, unless it has some. Between the calls of the runtime and their inlined
/// parts, `make_loops` may change the module. Returns the number of checked accesses.
///
/// # Errors
/// LLVM's message if a pass fails, or if the result is no valid IR: then the module must not be
/// used any more. The error of `make_loops`.
///
/// # Safety
/// The module is alive, valid and of this context, and nothing else uses the context.
pub unsafe fn run(
    library: &Library,
    context: ContextRef,
    module: ModuleRef,
    make_loops: impl FnOnce() -> Result<(), String>,
) -> Result<u32, String> {
    // SAFETY: promised by the caller.
    let ir = unsafe { Ir::new(library, context, module) };
    if ir.all_functions().into_iter().any(|it| ir.name(it) == globals::REGISTER) {
        return Ok(0);
    }
    ir.run_passes(PREPARE, TargetMachineRef::NULL)?;
    let mut sites = places::Sites::new(&ir);
    let functions: Vec<_> =
        ir.all_functions().into_iter().filter(|it| ir.is_defined(*it)).collect();
    let mut checked = 0;
    for function in functions {
        let privates = privates::find(&ir, function);
        checked += accesses::check(&ir, &mut sites, function, &privates);
        privates::enlarge(&ir, &mut sites, function, &privates);
    }
    globals::register(&ir);
    make_loops()?;
    fast::define(&ir)?;
    ir.verify().map_err(|problem| format!("the checked code is invalid: {problem}"))?;
    Ok(checked)
}

/// Adds checks to a module of bitcode, as [`run`] does, and returns the new bitcode, without
/// descriptions for debuggers if `strip`.
///
/// # Errors
/// As for [`run`], and for bytes that are no bitcode of this version.
///
/// # Safety
/// The bitcode is a compiler's: LLVM does not check all of it, and can end the process.
pub unsafe fn run_on_bitcode(
    library: &Library,
    bitcode: &[u8],
    strip: bool,
    make_loops: impl FnOnce(ContextRef, ModuleRef) -> Result<(), String>,
) -> Result<Vec<u8>, String> {
    // SAFETY: promised by the caller.
    let made = unsafe {
        let change =
            |context, module| run(library, context, module, || make_loops(context, module));
        longshore_llvm::change_bitcode(library, &[bitcode], strip, change)
    };
    made.map(|(bitcode, _)| bitcode)
}
