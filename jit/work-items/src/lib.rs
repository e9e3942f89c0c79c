//! Kernels of work-items as loops: a pass over LLVM's IR.
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
//! In code with checks of accesses, `checked_ranges.rs` then adds copies of loops. The runtime
//! checks the accesses of such a copy before the loop begins.
//!
//! Kernels whose items never wait become such loops if that is faster: `plain.rs` decides, and
//! `clip.rs` leaves out items that return at once.
//!
//! PoCL does so with its work-group functions, AdaptiveCpp with continuations. Kernels that cannot
//! be divided stay as they are, and the report says why.
//!
//! A further pass adds variants of kernels, whose arguments and group size are constants:
//! `variants.rs`.

mod bounds;
mod checked;
mod checked_graph;
mod checked_items;
mod checked_ranges;
mod checked_search;
mod checked_values;
mod chunk;
mod clip;
mod copies;
mod copy;
mod cuda;
mod cuts;
mod early;
mod entry;
mod exchange;
mod fields;
mod flow;
mod group_atomics;
mod guess;
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
mod plain;
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
use longshore_llvm::types::{ContextRef, ModuleRef, TargetMachineRef};

pub use variants::{Constant, NumberKind, Problem, Variant, VariantError, add_variants};

use chunk::Chunk;
use copies::Copy;
use ir::{Ir, ll};
use kernels::Kernel;
use plain::Worth;
use regions::Obstacle;
use transform::Kind;

/// The outcome for each kernel whose items wait for each other, and for other kernels that became
/// loops.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Report {
    /// The kernels, in the order of the module.
    pub kernels: Vec<Outcome>,
    /// Number of kernels that [`Options::is_cuda`] made.
    pub made: usize,
    /// Number of parts into which [`Options::may_divide`] would divide the module. If there are
    /// several, nothing else was done.
    pub parts: u32,
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
    unsafe { loops(library, context, module, machine, How::default()) }
}

/// Makes loops as [`run`] does, after the pass of checks has added calls of the runtime before
/// accesses, of all kernels. Kernels with sub-group operations or barriers of the grid keep their
/// stacks.
///
/// # Errors
/// As for [`run`].
///
/// # Safety
/// As for [`run`].
pub unsafe fn run_checked(
    library: &Library,
    context: ContextRef,
    module: ModuleRef,
) -> Result<Report, String> {
    // SAFETY: promised by the caller.
    unsafe {
        let how = How { is_checked: true, ..How::default() };
        loops(library, context, module, TargetMachineRef::NULL, how)
    }
}

/// The kind of loops.
#[derive(Clone, Copy, Default)]
struct How {
    /// Whether accesses have checks.
    is_checked: bool,
    /// Whether kernels whose items never wait become loops even if that is not better.
    is_forced: bool,
    choice: copies::Choice,
}

/// Makes loops.
///
/// # Safety
/// As for [`run`].
unsafe fn loops(
    library: &Library,
    context: ContextRef,
    module: ModuleRef,
    machine: TargetMachineRef,
    how: How,
) -> Result<Report, String> {
    // SAFETY: promised by the caller.
    let ir = unsafe { Ir::new(library, context, module) };
    let calls = kernels::Calls::new(&ir);
    let mut report = Report::default();
    let mut found = kernels::find(&ir, &calls, how.is_checked);
    // Large modules take long enough without.
    found.retain(|kernel| !kernel.is_plain || how.choice == copies::Choice::All);
    let check = |kernel: &Kernel| match how.is_checked {
        true => checked_items::check(&ir, &calls, kernel),
        false => Ok(()),
    };
    found.retain(|kernel| match kernels::check(&ir, &calls, kernel).and_then(|()| check(kernel)) {
        Ok(()) => true,
        Err(_) if kernel.is_plain => false,
        Err(obstacle) => {
            refuse(&ir, kernel, reason(&ir, &obstacle), &mut report);
            false
        }
    });
    if found.is_empty() {
        return Ok(report);
    }
    kernels::inline_into(&ir, &calls, &found);
    let copies = copies::make(&ir, &calls, &found, how.choice, machine)?;
    for kernel in &found {
        let own: Vec<&Copy> = copies.iter().filter(|copy| copy.kernel == kernel.name).collect();
        match kernel.is_plain {
            true => make_plain_loops(&ir, kernel, &own, how.is_forced, &mut report),
            false => make_loops(&ir, kernel, &own, how.is_checked, &mut report),
        }
    }
    ir.verify().map_err(|problem| format!("the loops over items are invalid: {problem}"))?;
    Ok(report)
}

/// Error of [`run_on_bitcode`] for kernels without descriptions of their parameters: clang must
/// compile the source as [`Options::is_cuda`] wants it.
pub const UNDESCRIBED: &str = "the kernels' parameters have no descriptions";

/// The work of [`run_on_bitcode`].
#[derive(Debug, Default, Clone, Copy)]
pub struct Options {
    /// Leave out descriptions for debuggers.
    pub strip: bool,
    /// The sources are CUDA or HIP, or include gpuintrin.h: the CPU backend needs functions to call
    /// the kernels. Clang has described the kernels' parameters for debuggers.
    pub is_cuda: bool,
    /// Keep a stack for each item: make no loops.
    pub keep_stacks: bool,
    /// The pass of checks follows: the runtime learns of shared variables.
    pub is_checked: bool,
    /// Leave a module in CUDA or HIP as it is if its kernels should compile in parts.
    /// [`Report::parts`] has their number.
    pub may_divide: bool,
    /// Make kernels of this part alone.
    pub part: Option<Part>,
    /// Make loops of kernels whose items never wait even if that is not better, as tests want it.
    pub force_loops: bool,
}

/// A part of a module. The objects of all parts together have the module's kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// The part's number, from 0 on.
    pub number: u32,
    /// Number of all parts.
    pub of: u32,
}

impl Part {
    /// Most parts of modules whose kernels get loops for likely groups.
    const MOST_FOR_LIKELY_GROUPS: u32 = 4;
    /// Most parts of modules whose kernels with sub-group operations get loops for all groups.
    const MOST_FOR_ALL_GROUPS: u32 = 8;

    /// Returns whether the module is so large that its kernels with sub-group operations get loops
    /// only for groups of one dimension, or with a multiple of 32 items in x. The items of other
    /// groups keep their stacks.
    pub fn is_large(self) -> bool {
        self.of > Part::MOST_FOR_ALL_GROUPS
    }

    fn choice(self) -> copies::Choice {
        match self.of {
            _ if self.is_large() => copies::Choice::First,
            ..=Part::MOST_FOR_LIKELY_GROUPS => copies::Choice::All,
            _ => copies::Choice::AnyGroup,
        }
    }
}

/// Makes loops of all kernels of modules of bitcode, as [`run`] does, and returns the bitcode of
/// one new module.
///
/// # Errors
/// As for [`run`], and for bytes that are no bitcode of this version.
///
/// # Safety
/// The bitcode is a compiler's: LLVM does not check all of it, and can end the process.
pub unsafe fn run_on_bitcode(
    library: &Library,
    bitcode: &[&[u8]],
    options: Options,
) -> Result<(Vec<u8>, Report), String> {
    // SAFETY: promised by the caller.
    unsafe {
        let change = |context, module| change(library, context, module, options);
        longshore_llvm::change_bitcode(library, bitcode, options.strip, change)
    }
}

/// Adds descriptions of the arguments of kernels in CUDA and HIP to the bitcode of a GPU, and
/// returns the new bitcode, without descriptions for debuggers if `strip`.
///
/// # Errors
/// Bytes that are no bitcode of this version.
///
/// # Safety
/// As for [`run_on_bitcode`].
pub unsafe fn describe_in_bitcode(
    library: &Library,
    bitcode: &[u8],
    strip: bool,
) -> Result<Vec<u8>, String> {
    // SAFETY: promised by the caller.
    let made = unsafe {
        longshore_llvm::change_bitcode(library, &[bitcode], strip, |context, module| {
            let ir = Ir::new(library, context, module);
            cuda::describe_kernels(&ir);
            ir.verify().map_err(|problem| format!("the descriptions are invalid: {problem}"))
        })
    };
    made.map(|(bitcode, ())| bitcode)
}

/// Runs the passes.
///
/// # Safety
/// As for [`run`].
unsafe fn change(
    library: &Library,
    context: ContextRef,
    module: ModuleRef,
    options: Options,
) -> Result<Report, String> {
    // SAFETY: promised by the caller.
    let ir = unsafe { Ir::new(library, context, module) };
    let mut made = 0;
    if options.is_cuda {
        let parts = if options.may_divide { cuda::parts(&ir) } else { 1 };
        if parts > 1 {
            return Ok(Report { parts, ..Report::default() });
        }
        made = cuda::make_kernels(&ir, options)?;
        ir.verify().map_err(|problem| format!("the kernels' functions are invalid: {problem}"))?;
    } else if cuda::has_kernels(&ir) {
        return Err(UNDESCRIBED.to_owned());
    }
    drop(ir);
    let choice = options.part.map_or(copies::Choice::All, Part::choice);
    let how = How { choice, is_forced: options.force_loops, ..How::default() };
    let report = match options.keep_stacks {
        true => Report::default(),
        // SAFETY: promised by the caller.
        false => unsafe { loops(library, context, module, TargetMachineRef::NULL, how) }?,
    };
    Ok(Report { made, parts: 1, ..report })
}

/// Makes loops of a kernel whose items never wait, if that is better or `is_forced`. Otherwise
/// leaves the kernel as it is.
fn make_plain_loops(
    ir: &Ir<'_>,
    kernel: &Kernel,
    copies: &[&Copy],
    is_forced: bool,
    report: &mut Report,
) {
    let mut groups = entry::Groups::default();
    let mut bytes = 0;
    let is_better = copies.iter().all(|copy| {
        let known = copy.likely.unwrap_or(notes::required_group(ir, &kernel.name));
        let is_wanted = match plain::worth(ir, copy.function) {
            Worth::Better => true,
            Worth::NotBetter => is_forced,
            Worth::Wrong => false,
        };
        if !is_wanted {
            return false;
        }
        let Ok(made) =
            transform::transform(ir, copy.function, known, copy.chunk, Kind::Plain(kernel.item))
        else {
            return false;
        };
        bytes = made.item_bytes.max(bytes);
        match copy.likely {
            Some(group) => groups.likely = Some((group, copy.function)),
            None => groups.regular = Some(copy.function),
        }
        made.loops > 1 || is_forced
    });
    if is_better {
        let old = entry::Old::Plain { item_bytes: bytes };
        entry::replace_kernel(ir, kernel.function, old, groups);
        report.kernels.push(Outcome { kernel: kernel.name.clone(), result: Ok(()) });
        return;
    }
    let first = copies.first().and_then(|copy| ll!(ir, LLVMGetSubprogram(copy.function)).present());
    copies.iter().for_each(|copy| ll!(ir, LLVMDeleteFunction(copy.function)));
    if let Some(program) = first {
        ll!(ir, LLVMSetSubprogram(kernel.item, program));
    }
}

fn make_loops(
    ir: &Ir<'_>,
    kernel: &Kernel,
    copies: &[&Copy],
    is_checked: bool,
    report: &mut Report,
) {
    let required = notes::required_group(ir, &kernel.name);
    let mut groups = entry::Groups::default();
    let kind_of_code = if is_checked { Kind::Checked } else { Kind::Waits };
    let (mut kind, mut bytes, mut failure) = (NOTE_LOOPS, 0, None);
    for copy in copies {
        let known = copy.likely.unwrap_or(required);
        let made = transform::transform(ir, copy.function, known, copy.chunk, kind_of_code);
        match (made, copy.likely) {
            (Ok(made), Some(group)) => {
                bytes = made.item_bytes.max(bytes);
                groups.likely = Some((group, copy.function));
            }
            (Err(_), Some(_)) => ll!(ir, LLVMDeleteFunction(copy.function)),
            (Ok(made), None) => {
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
            (Err(obstacle), None) => {
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
            let old = entry::Old::Traced(kernel.traced.unwrap_or(kernel.function));
            entry::replace_kernel(ir, kernel.function, old, groups);
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
