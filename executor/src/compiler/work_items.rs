//! The pass that makes loops of work-items that wait for each other.

use longshore_llvm::Library;
use longshore_llvm::types::{ContextRef, ModuleRef, TargetMachineRef};

/// Makes loops of the kernels of a module whose items wait for each other, and returns the kernels
/// whose items keep their stacks, with the reasons. A compiler calls it before it optimises.
///
/// # Errors
/// LLVM's message.
pub fn make_loops(
    library: &Library,
    context: ContextRef,
    module: ModuleRef,
) -> Result<Vec<String>, String> {
    // SAFETY: the compiler passes a verified module that it alone uses, and its context.
    let report =
        unsafe { longshore_work_items::run(library, context, module, TargetMachineRef::NULL) };
    let refused = report?.kernels.into_iter().filter_map(|outcome| {
        let reason = outcome.result.err()?;
        Some(format!("the items of kernel '{}' keep their stacks: {reason}", outcome.kernel))
    });
    Ok(refused.collect())
}
