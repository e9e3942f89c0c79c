//! The passes over kernels: one adds variants, another makes loops of work-items that wait for each
//! other, and the last adds checks.

use longshore_compiler::{CompileError, NumberKind, Options, Variant, VariantProblem};
use longshore_llvm::Library;
use longshore_llvm::types::{ContextRef, ModuleRef, TargetMachineRef};
use longshore_work_items::{self as pass, Problem, VariantError};
use std::ffi::CStr;

/// Adds variants of kernels to a module, and makes loops of the kernels whose items wait for each
/// other, and adds checks. Returns the kernels whose items keep their stacks, with the reasons. A
/// compiler calls it before it optimises.
///
/// # Errors
/// [`CompileError::Variant`] for a variant that the module does not allow, otherwise LLVM's
/// message.
pub fn change_kernels(
    library: &Library,
    context: ContextRef,
    module: ModuleRef,
    options: &Options,
) -> Result<Vec<String>, CompileError> {
    let requests: Vec<pass::Variant<'_>> = options.variants.iter().map(request).collect();
    // SAFETY: the compiler passes a verified module that it alone uses, and its context.
    unsafe { pass::add_variants(library, context, module, &requests) }.map_err(error)?;
    if options.checks && !is_for_gpu(library, module) {
        // SAFETY: as above; the pass has verified the module.
        let mut kept = Vec::new();
        // SAFETY: as above.
        let checked = unsafe {
            longshore_checks::run(library, context, module, || {
                kept = stacks(pass::run_checked(library, context, module)?);
                Ok(())
            })
        };
        let accesses = checked.map_err(CompileError::Failed)?;
        kept.push(format!("{accesses} accesses of memory are checked"));
        return Ok(kept);
    }
    // SAFETY: as above; the pass has verified the module.
    let report = unsafe { pass::run(library, context, module, TargetMachineRef::NULL) };
    report.map(stacks).map_err(CompileError::Failed)
}

/// Returns the kernels whose items keep their stacks, with the reasons.
fn stacks(report: pass::Report) -> Vec<String> {
    let refused = report.kernels.into_iter().filter_map(|outcome| {
        let reason = outcome.result.err()?;
        Some(format!("the items of kernel '{}' keep their stacks: {reason}", outcome.kernel))
    });
    refused.collect()
}

fn is_for_gpu(library: &Library, module: ModuleRef) -> bool {
    // SAFETY: the module is alive; LLVM returns a text that ends with NUL.
    let triple = unsafe { CStr::from_ptr((library.functions().LLVMGetTarget)(module)) };
    let gpus: [&[u8]; 2] = [b"nvptx", b"amdgcn"];
    gpus.iter().any(|gpu| triple.to_bytes().starts_with(gpu))
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
