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
//!
//! A further pass adds variants of kernels, whose arguments and group size are constants:
//! `variants.rs`.

mod bounds;
mod chunk;
mod cuts;
mod entry;
mod exchange;
mod fields;
mod flow;
mod hoist;
mod indices;
mod inner_loops;
mod ir;
mod kernels;
mod leave;
mod markers;
mod metadata;
mod notes;
mod passes;
mod phis;
mod predicates;
mod recompute;
mod regions;
mod shape;
mod slots;
mod strides;
mod transform;
mod uniformity;
mod variants;
mod widen;

use longshore_llvm::Library;
use longshore_llvm::types::{ContextRef, ModuleRef, TargetMachineRef, ValueRef};

pub use variants::{Constant, NumberKind, Problem, Variant, VariantError, add_variants};

use chunk::Chunk;
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
            refuse(&ir, kernel, reason(&ir, &obstacle), &mut report);
            false
        }
    });
    if found.is_empty() {
        return Ok(report);
    }
    kernels::inline_into(&ir, &calls, &found);
    let copies = copies(&ir, &calls, &found);
    let functions: Vec<ValueRef> = copies.iter().map(|copy| copy.function).collect();
    ir.run_passes("always-inline", machine)?;
    for kernel in &found {
        let first = copies.iter().find(|copy| copy.kernel == kernel.name);
        kernels::restore_item(&ir, kernel, first.expect("each kernel has copies").function);
    }
    prepare(&ir, &copies, &functions, machine)?;
    for kernel in &found {
        let own = copies.iter().filter(|copy| copy.kernel == kernel.name);
        make_loops(&ir, kernel, own, &mut report);
    }
    ir.verify().map_err(|problem| format!("the loops over items are invalid: {problem}"))?;
    Ok(report)
}

/// A function with the code of a kernel's item, which becomes that of a group.
struct Copy {
    kernel: String,
    function: ValueRef,
    chunk: Chunk,
}

/// Copies the items of all kernels, for each kind of chunks that their groups may need.
fn copies(ir: &Ir<'_>, calls: &kernels::Calls, kernels: &[Kernel]) -> Vec<Copy> {
    let of_kernel = |kernel: &Kernel| {
        let [x, y, z] = notes::required_group(ir, &kernel.name).map(u64::from);
        let is_regular = x != 0 && x % chunk::WIDTH == 0 || (y, z) == (1, 1);
        let is_known = x != 0 && y != 0 && z != 0;
        let chunks: &[Chunk] = match calls.has_subgroups(ir, kernel) {
            false => &[Chunk::Row],
            true if is_regular => &[Chunk::Subgroup],
            true if is_known => &[Chunk::Flat],
            true => &[Chunk::Subgroup, Chunk::Flat],
        };
        kernels::keep_item(ir, kernel);
        let copy = |chunk: &Chunk| {
            let function = kernels::copy_item(ir, kernel);
            Copy { kernel: kernel.name.clone(), function, chunk: *chunk }
        };
        chunks.iter().map(copy).collect::<Vec<_>>()
    };
    kernels.iter().flat_map(of_kernel).collect()
}

/// Brings the copies into the form that [`transform`] expects.
fn prepare(
    ir: &Ir<'_>,
    copies: &[Copy],
    functions: &[ValueRef],
    machine: TargetMachineRef,
) -> Result<(), String> {
    // Since LLVM 18 the pass ends the process if one round is not enough.
    let combine = if ir.major < 18 { "instcombine" } else { "instcombine<no-verify-fixpoint>" };
    let simplify = SIMPLIFY.replace("instcombine", combine);
    ir.run_passes_on(functions, &simplify, machine)?;
    let reads = |function: &&ValueRef| fields::read_from_group(ir, **function);
    if functions.iter().filter(reads).count() > 0 {
        ir.run_passes_on(functions, &simplify, machine)?;
    }
    functions.iter().for_each(|function| markers::may_be_copied(ir, *function));
    ir.run_passes_on(functions, &format!("{UNROLL},{simplify}"), machine)?;
    functions.iter().for_each(|function| widen::widen_differences(ir, *function));
    ir.run_passes_on(functions, REGULAR, machine)?;
    let strides = |copy: &&Copy| strides::interchange(ir, copy.function, copy.chunk);
    if copies.iter().filter(strides).count() > 0 {
        ir.run_passes_on(functions, "function(break-crit-edges)", machine)?;
    }
    Ok(())
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

fn make_loops<'a>(
    ir: &Ir<'_>,
    kernel: &Kernel,
    copies: impl Iterator<Item = &'a Copy>,
    report: &mut Report,
) {
    let required = notes::required_group(ir, &kernel.name);
    let mut groups = entry::Groups { regular: None, any: None };
    let (mut kind, mut bytes, mut failure) = (NOTE_LOOPS, 0, None);
    for copy in copies {
        match transform::transform(ir, copy.function, required, copy.chunk) {
            Ok(made) => {
                bytes = made.item_bytes.max(bytes);
                // The copy for any group, if there is one, comes last.
                kind = match copy.chunk {
                    Chunk::Subgroup => NOTE_SUBGROUP_LOOPS,
                    Chunk::Row | Chunk::Flat => NOTE_LOOPS,
                };
                match copy.chunk {
                    Chunk::Flat => groups.any = Some(copy.function),
                    _ => groups.regular = Some(copy.function),
                }
            }
            Err(obstacle) => {
                failure.get_or_insert_with(|| reason(ir, &obstacle));
                ll!(ir, LLVMDeleteFunction(copy.function));
            }
        }
    }
    match failure {
        Some(reason) if groups.regular.is_none() && groups.any.is_none() => {
            refuse(ir, kernel, reason, report);
        }
        _ => {
            entry::replace_kernel(ir, kernel.function, kernel.traced, groups);
            kernel.delete_replaced(ir);
            let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
            notes::add(ir, &kernel.name, kind, bytes, "");
            report.kernels.push(Outcome { kernel: kernel.name.clone(), result: Ok(()) });
        }
    }
}

fn reason(ir: &Ir<'_>, obstacle: &Obstacle) -> String {
    match obstacle.at.and_then(|at| ir.source_line(at)) {
        Some(line) => format!("{line}: {}", obstacle.what),
        None => obstacle.what.to_owned(),
    }
}

fn refuse(ir: &Ir<'_>, kernel: &Kernel, reason: String, report: &mut Report) {
    log::info!("kernel '{}' keeps a stack for each item: {reason}", kernel.name);
    notes::add(ir, &kernel.name, NOTE_NO_LOOPS, reason.len() as u32, &reason);
    report.kernels.push(Outcome { kernel: kernel.name.clone(), result: Err(reason) });
}
