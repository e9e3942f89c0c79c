//! Kernels of `longshore_device.h` as SPIR-V modules for the Vulkan backend.
//!
//! The input is bitcode that clang has written with the macro `__LONGSHORE_SPIRV__`. The output
//! follows the conventions of `docs/vulkan-images.md`.
//!
//! 1. `prepare.rs` runs LLVM's passes: each kernel becomes one function with structured control
//!    flow.
//! 2. `kernels.rs` reads the descriptions that the header leaves in the module.
//! 3. `objects.rs` finds the memory behind each pointer. A pointer is a number of 64 bits: an
//!    address of device memory, or the place of a variable of the item or the group.
//! 4. `flow.rs` emits the blocks of a kernel, and `instructions.rs` dispatches their instructions
//!    to the other files, which emit them by `module.rs`.
//! 5. `globals.rs` makes the block of the module's variables, and the constructor that sets their
//!    initial values.

mod arithmetic;
mod atomics;
mod body;
mod calls;
mod constants;
mod flow;
mod globals;
mod instructions;
mod integers;
mod intrinsics;
mod kernels;
mod memory;
mod module;
mod names;
mod numbers;
mod objects;
mod prepare;
mod reals;

use longshore_llvm::types::{ContextRef, ModuleRef};
use longshore_llvm::{Ir, Library};

/// Translates modules of bitcode to one SPIR-V module, and returns its bytes.
///
/// # Errors
/// The kernel, the source line if it is known, and the operation that SPIR-V cannot express.
///
/// # Safety
/// The bitcode is a compiler's: LLVM does not check all of it, and can end the process.
pub unsafe fn translate_bitcode(library: &Library, bitcode: &[&[u8]]) -> Result<Vec<u8>, String> {
    // SAFETY: promised by the caller.
    let made = unsafe {
        let change = |context, module| translate(library, context, module);
        longshore_llvm::change_bitcode(library, bitcode, false, change)
    };
    made.map(|(_, words)| words.into_iter().flat_map(u32::to_le_bytes).collect())
}

/// Translates a module to the words of a SPIR-V module.
///
/// # Safety
/// The module is alive, valid and of this context, and nothing else uses the context.
unsafe fn translate(
    library: &Library,
    context: ContextRef,
    module: ModuleRef,
) -> Result<Vec<u32>, String> {
    // SAFETY: promised by the caller.
    let ir = unsafe { Ir::new(library, context, module) };
    let kernels = kernels::find(&ir)?;
    prepare::run(&ir, &kernels)?;
    let globals = globals::Globals::find(&ir)?;
    let mut made = module::Module::new();
    let block = globals.declare(&mut made);
    for kernel in &kernels {
        body::translate(&ir, &mut made, kernel, &globals, block)
            .map_err(|problem| format!("kernel '{}': {problem}", kernel.name))?;
    }
    globals.construct(&mut made, block);
    Ok(made.finish())
}
