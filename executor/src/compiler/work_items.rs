//! The passes over kernels: one adds variants, the other makes loops of work-items that wait for
//! each other.

use longshore_compiler::{CompileError, NumberKind, Variant, VariantProblem};
use longshore_llvm::Library;
use longshore_llvm::types::{ContextRef, ModuleRef, TargetMachineRef};
use longshore_work_items::{self as pass, Problem, VariantError};

/// Adds variants of kernels to a module, and makes loops of the kernels whose items wait for each
/// other. Returns the kernels whose items keep their stacks, with the reasons. A compiler calls it
/// before it optimises.
///
/// # Errors
/// [`CompileError::Variant`] for a variant that the module does not allow, otherwise LLVM's
/// message.
pub fn change_kernels(
    library: &Library,
    context: ContextRef,
    module: ModuleRef,
    variants: &[Variant],
) -> Result<Vec<String>, CompileError> {
    let requests: Vec<pass::Variant<'_>> = variants.iter().map(request).collect();
    // SAFETY: the compiler passes a verified module that it alone uses, and its context.
    unsafe { pass::add_variants(library, context, module, &requests) }.map_err(error)?;
    // SAFETY: as above; the pass has verified the module.
    let report = unsafe { pass::run(library, context, module, TargetMachineRef::NULL) };
    let kernels = report.map_err(CompileError::Failed)?.kernels;
    let refused = kernels.into_iter().filter_map(|outcome| {
        let reason = outcome.result.err()?;
        Some(format!("the items of kernel '{}' keep their stacks: {reason}", outcome.kernel))
    });
    Ok(refused.collect())
}

fn request(variant: &Variant) -> pass::Variant<'_> {
    let kind = |kind| match kind {
        NumberKind::Integer => pass::NumberKind::Integer,
        NumberKind::Float => pass::NumberKind::Float,
    };
    let arguments = variant.arguments.iter().map(|constant| pass::Constant {
        index: constant.index,
        bytes: &constant.bytes,
        kind: constant.kind.map(kind),
    });
    pass::Variant {
        kernel: &variant.kernel,
        symbol: &variant.symbol,
        group: variant.group,
        arguments: arguments.collect(),
    }
}

fn error(error: VariantError) -> CompileError {
    let (problem, message) = match error {
        VariantError::Failed(message) => return CompileError::Failed(message),
        VariantError::Refused { problem, message } => (problem, message),
    };
    let problem = match problem {
        Problem::Kernel => VariantProblem::Kernel,
        Problem::Value => VariantProblem::Value,
        Problem::Size => VariantProblem::Size,
        Problem::Code => VariantProblem::Code,
    };
    CompileError::Variant { problem, message }
}
