//! Kernels of work-items with barriers, as loops: a pass over LLVM's IR.
//!
//! A kernel of `longshore_device.h` in the form of one work-item, whose items wait for each other,
//! would need a stack for each item on a CPU. The pass makes a function of the group from the
//! function of the item:
//!
//! 1. `kernels.rs` finds the kernels, and inlines what leads to a barrier or sub-group operation.
//! 2. `uniformity.rs` computes which values are the same for all items of a group or sub-group.
//! 3. `regions.rs` divides the code at barriers, and at branches that all items take alike.
//! 4. `shape.rs` makes loops over the items around each region, `leave.rs` connects them.
//! 5. `slots.rs` keeps the values that cross from one region to another; `hoist.rs` moves code
//!    that is the same for all items out of the loops, `exchange.rs` replaces sub-group operations.
//!
//! PoCL does so with its work-group functions, AdaptiveCpp with continuations. Kernels that cannot
//! be divided stay as they are, and the report says why.

mod bounds;
mod cuts;
mod entry;
mod exchange;
mod fields;
mod flow;
mod hoist;
mod inner_loops;
mod ir;
mod kernels;
mod leave;
mod markers;
mod metadata;
mod notes;
mod passes;
mod recompute;
mod regions;
mod shape;
mod slots;
mod strides;
mod transform;
mod uniformity;
mod widen;

use longshore_llvm::Library;
use longshore_llvm::types::{ContextRef, ModuleRef, TargetMachineRef, ValueRef};

use ir::{Ir, ll};
use kernels::Kernel;
use regions::Obstacle;

/// The outcome for each kernel whose items wait for each other.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Report {
    /// The kernels, in the order of the module.
    pub kernels: Vec<Outcome>,
}

/// The outcome for a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The kernel's name.
    pub kernel: String,
    /// `Ok` if the kernel's items are loops now, otherwise the reason, with the source line if the
    /// module has lines.
    pub result: Result<(), String>,
}

/// Note of a kernel whose items are loops; its value is the number of bytes on the stack for each
/// item.
const NOTE_LOOPS: u32 = 7;
/// The same for a kernel with sub-group operations.
const NOTE_SUBGROUP_LOOPS: u32 = 8;
/// Note of a kernel whose items keep their stacks; its value is the length of the reason, which
/// follows.
const NOTE_NO_LOOPS: u32 = 9;

/// Passes that make a kernel's code regular: values instead of variables, no dead code.
const SIMPLIFY: &str = "function(lower-expect,sroa,early-cse,instcombine,simplifycfg,sroa,\
                        early-cse,instcombine,simplifycfg,adce)";
/// Passes that replace loops of few rounds by their rounds. Rounds with barriers then have constant
/// bounds, and LLVM can vectorise the loops over items around loops without barriers.
const UNROLL: &str = "function(loop-simplify,lcssa,\
                      loop-unroll<O3;no-partial;no-runtime;no-peeling;no-upperbound>)";
/// Passes that give loops entries and exits of their own.
const REGULAR: &str = "function(loop-simplify,lcssa,break-crit-edges)";

/// Makes loops of all kernels of a module whose items wait for each other.
///
/// # Errors
/// LLVM's message if a pass fails, or if the result is no valid IR: then the module must not be
/// used any more.
///
/// # Safety
/// The module is alive, valid and of this context, and nothing else uses the context. The target
/// machine is null or one of this library.
pub unsafe fn run(
    library: &Library,
    context: ContextRef,
    module: ModuleRef,
    machine: TargetMachineRef,
) -> Result<Report, String> {
    // SAFETY: promised by the caller.
    let ir = unsafe { Ir::new(library, context, module) };
    let calls = kernels::Calls::new(&ir);
    let mut report = Report::default();
    let mut found = kernels::find(&ir, &calls);
    found.retain(|kernel| match kernels::check(&ir, &calls, kernel) {
        Ok(()) => true,
        Err(obstacle) => {
            refuse(&ir, kernel, &obstacle, &mut report);
            false
        }
    });
    if found.is_empty() {
        return Ok(report);
    }
    kernels::inline_into(&ir, &calls, &found);
    let copies: Vec<ValueRef> = found.iter().map(|it| kernels::copy_item(&ir, it)).collect();
    ir.run_passes("always-inline", machine)?;
    for (kernel, copy) in found.iter().zip(&copies) {
        kernels::restore_item(&ir, kernel, *copy);
    }
    // Since LLVM 18 the pass ends the process if one round is not enough.
    let combine = if ir.major < 18 { "instcombine" } else { "instcombine<no-verify-fixpoint>" };
    let simplify = SIMPLIFY.replace("instcombine", combine);
    ir.run_passes_on(&copies, &simplify, machine)?;
    let reads = |copy: &ValueRef| fields::read_from_group(&ir, *copy);
    if copies.iter().filter(|copy| reads(copy)).count() > 0 {
        ir.run_passes_on(&copies, &simplify, machine)?;
    }
    copies.iter().for_each(|copy| markers::may_be_copied(&ir, *copy));
    ir.run_passes_on(&copies, &format!("{UNROLL},{simplify}"), machine)?;
    copies.iter().for_each(|copy| widen::widen_differences(&ir, *copy));
    ir.run_passes_on(&copies, REGULAR, machine)?;
    let strides = |copy: &ValueRef| strides::interchange(&ir, *copy, has_subgroups(&ir, *copy));
    if copies.iter().filter(|copy| strides(copy)).count() > 0 {
        ir.run_passes_on(&copies, "function(break-crit-edges)", machine)?;
    }
    for (kernel, copy) in found.iter().zip(copies) {
        make_loops(&ir, kernel, copy, &mut report);
    }
    ir.verify().map_err(|problem| format!("the loops over items are invalid: {problem}"))?;
    Ok(report)
}

/// Makes loops of all kernels of a module of bitcode, as [`run`] does, and returns the new bitcode,
/// without descriptions for debuggers if `strip`.
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
) -> Result<(Vec<u8>, Report), String> {
    let llvm = library.functions();
    // SAFETY: the context is new. The buffer has a copy of the bytes, and is given back.
    unsafe {
        let context = (llvm.LLVMContextCreate)();
        let (start, length) = (bitcode.as_ptr().cast(), bitcode.len());
        let name = c"bitcode".as_ptr();
        let buffer = (llvm.LLVMCreateMemoryBufferWithMemoryRangeCopy)(start, length, name);
        let mut module = ModuleRef::NULL;
        let failed = (llvm.LLVMParseBitcodeInContext2)(context, buffer, &raw mut module);
        (llvm.LLVMDisposeMemoryBuffer)(buffer);
        let result = match failed {
            0 => run(library, context, module, TargetMachineRef::NULL).map(|report| {
                if strip {
                    (llvm.LLVMStripModuleDebugInfo)(module);
                }
                let written = (llvm.LLVMWriteBitcodeToMemoryBuffer)(module);
                let start = (llvm.LLVMGetBufferStart)(written).cast::<u8>();
                let size = (llvm.LLVMGetBufferSize)(written);
                let bytes = std::slice::from_raw_parts(start, size).to_vec();
                (llvm.LLVMDisposeMemoryBuffer)(written);
                (bytes, report)
            }),
            _ => Err(format!("LLVM {} cannot read this bitcode", library.major())),
        };
        if !module.is_null() {
            (llvm.LLVMDisposeModule)(module);
        }
        (llvm.LLVMContextDispose)(context);
        result
    }
}

/// Returns whether a function calls sub-group operations.
fn has_subgroups(ir: &Ir<'_>, function: ValueRef) -> bool {
    let called = |it: &ValueRef| markers::Marker::called(ir, *it);
    let mut markers = ir.all_instructions(function).into_iter();
    markers.any(|it| called(&it).is_some_and(markers::Marker::is_of_subgroup))
}

fn make_loops(ir: &Ir<'_>, kernel: &Kernel, copy: ValueRef, report: &mut Report) {
    let has_subgroups = has_subgroups(ir, copy);
    let required = notes::required_group(ir, &kernel.name);
    match transform::transform(ir, copy, required) {
        Ok(made) => {
            entry::replace_kernel(ir, kernel.function, copy);
            let kind = if has_subgroups { NOTE_SUBGROUP_LOOPS } else { NOTE_LOOPS };
            let bytes = u32::try_from(made.item_bytes).unwrap_or(u32::MAX);
            notes::add(ir, &kernel.name, kind, bytes, "");
            report.kernels.push(Outcome { kernel: kernel.name.clone(), result: Ok(()) });
        }
        Err(obstacle) => {
            refuse(ir, kernel, &obstacle, report);
            ll!(ir, LLVMDeleteFunction(copy));
        }
    }
}

fn refuse(ir: &Ir<'_>, kernel: &Kernel, obstacle: &Obstacle, report: &mut Report) {
    let line = obstacle.at.and_then(|at| ir.source_line(at));
    let reason = match line {
        Some(line) => format!("{line}: {}", obstacle.what),
        None => obstacle.what.to_owned(),
    };
    log::info!("kernel '{}' keeps a stack for each item: {reason}", kernel.name);
    notes::add(ir, &kernel.name, NOTE_NO_LOOPS, reason.len() as u32, &reason);
    report.kernels.push(Outcome { kernel: kernel.name.clone(), result: Err(reason) });
}
