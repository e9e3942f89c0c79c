//! Copies of the functions of one item, which become functions of groups. A kernel has a copy for
//! each kind of chunks that its groups may need, and for their likely size.

use longshore_llvm::types::*;

use crate::chunk::{self, Chunk};
use crate::ir::{Ir, ll};
use crate::kernels::{self, Calls, Kernel};
use crate::{early, fields, group_atomics, guess, markers, notes, strides, widen};

/// Passes that make a kernel's code regular: values instead of variables, no dead code.
const SIMPLIFY: &str = "function(lower-expect,sroa,early-cse,instcombine,simplifycfg,sroa,\
                        early-cse,instcombine,simplifycfg,adce)";
/// Passes that replace loops of few rounds by their rounds. Rounds with barriers then have constant
/// bounds, and LLVM can vectorise the loops over items around loops without barriers.
const UNROLL: &str = "function(loop-simplify,lcssa,\
                      loop-unroll<O3;no-partial;no-runtime;no-peeling;no-upperbound>)";
/// Passes that give loops entries and exits of their own.
const REGULAR: &str = "function(loop-simplify,lcssa,break-crit-edges)";
/// Most instructions of all kernels of a module whose kernels get copies for likely groups:
/// compilation of a module with hundreds of kernels takes minutes.
const COPIED: usize = 100_000;

/// A function with the code of a kernel's item, which becomes that of a group.
pub(crate) struct Copy {
    pub(crate) kernel: String,
    pub(crate) function: ValueRef,
    pub(crate) chunk: Chunk,
    /// The size of the only groups for which this copy is.
    pub(crate) likely: Option<[u32; 3]>,
}

/// The copies that kernels get.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Choice {
    /// Copies for all groups, and for likely sizes unless the module is large.
    #[default]
    All,
    /// Copies for all groups.
    AnyGroup,
    /// One copy. Groups that it is not for keep their stacks, as the kernel's note says.
    First,
}

/// Makes the copies of all kernels, in the form that [`crate::transform`] expects.
///
/// # Errors
/// LLVM's message if it refuses a pass.
pub(crate) fn make(
    ir: &Ir<'_>,
    calls: &Calls,
    kernels: &[Kernel],
    choice: Choice,
    machine: TargetMachineRef,
) -> Result<Vec<Copy>, String> {
    let wanted = wanted(ir, calls, kernels, choice);
    let first = |kernel: &Kernel| {
        kernels::keep_item(ir, kernel);
        kernels::copy(ir, &kernel.name, kernel.item)
    };
    let firsts: Vec<ValueRef> = kernels.iter().map(first).collect();
    ir.run_passes("always-inline", machine)?;
    for (kernel, first) in kernels.iter().zip(&firsts) {
        kernels::restore_item(ir, kernel, *first);
    }
    simplify(ir, &firsts, machine)?;
    let copies = spread(ir, kernels, &firsts, wanted, machine)?;
    finish(ir, &copies, machine)?;
    Ok(copies)
}

/// The purpose of a copy.
type Purpose = (Chunk, Option<[u32; 3]>);

/// Returns the purposes of the copies that each kernel needs. Copies for any group come first.
fn wanted(ir: &Ir<'_>, calls: &Calls, kernels: &[Kernel], choice: Choice) -> Vec<Vec<Purpose>> {
    let is_small = choice == Choice::All && calls.size(ir, kernels) <= COPIED;
    let of_kernel = |kernel: &Kernel| {
        let has_subgroups = calls.has_subgroups(ir, kernel);
        let required = notes::required_group(ir, &kernel.name);
        let likely = guess::likely_group(ir, kernel.item);
        let likely = likely.filter(|_| required == [0; 3] && is_small);
        let mut chunks = chunks(has_subgroups, required);
        if choice == Choice::First {
            chunks = &chunks[..1];
        }
        let mut wanted: Vec<Purpose> = chunks.iter().map(|chunk| (*chunk, None)).collect();
        if let Some(group) = likely {
            let chunks = self::chunks(has_subgroups, group).iter();
            wanted.extend(chunks.map(|chunk| (*chunk, likely)));
        }
        wanted
    };
    kernels.iter().map(of_kernel).collect()
}

/// Returns the kinds of chunks that groups of this size may need; 0 is an open dimension. Groups
/// that do not fit the first one can keep their stacks.
fn chunks(has_subgroups: bool, group: [u32; 3]) -> &'static [Chunk] {
    let [x, y, z] = group.map(u64::from);
    let is_regular = x != 0 && x % chunk::WIDTH == 0 || (y, z) == (1, 1);
    let is_known = x != 0 && y != 0 && z != 0;
    match has_subgroups {
        false => &[Chunk::Row],
        true if is_regular => &[Chunk::Subgroup],
        true if is_known => &[Chunk::Flat],
        true => &[Chunk::Subgroup, Chunk::Flat],
    }
}

/// Makes the code of items regular, as all copies need it.
fn simplify(ir: &Ir<'_>, functions: &[ValueRef], machine: TargetMachineRef) -> Result<(), String> {
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
    functions.iter().for_each(|function| early::load_early(ir, *function));
    Ok(())
}

/// Makes all copies of each kernel from the first one.
fn spread(
    ir: &Ir<'_>,
    kernels: &[Kernel],
    firsts: &[ValueRef],
    wanted: Vec<Vec<Purpose>>,
    machine: TargetMachineRef,
) -> Result<Vec<Copy>, String> {
    let mut copies = Vec::new();
    let mut copied = Vec::new();
    for ((kernel, first), wanted) in kernels.iter().zip(firsts).zip(wanted) {
        let kept = (wanted.len() > 1).then(|| kernels::keep(ir, *first));
        copied.extend(kept.map(|kept| (*first, kept)));
        for (index, (chunk, likely)) in wanted.into_iter().enumerate() {
            let function = match index {
                0 => *first,
                _ => kernels::copy(ir, &kernel.name, *first),
            };
            copies.push(Copy { kernel: kernel.name.clone(), function, chunk, likely });
        }
    }
    if !copied.is_empty() {
        ir.run_passes("always-inline", machine)?;
    }
    for (first, kept) in copied {
        kernels::restore(ir, first);
        ll!(ir, LLVMDeleteGlobal(kept));
    }
    Ok(copies)
}

/// Makes the changes that differ between copies.
fn finish(ir: &Ir<'_>, copies: &[Copy], machine: TargetMachineRef) -> Result<(), String> {
    let functions: Vec<ValueRef> = copies.iter().map(|copy| copy.function).collect();
    for copy in copies {
        if let Some(group) = copy.likely {
            guess::fix(ir, copy.function, group);
        }
        group_atomics::unlock(ir, copy.function);
    }
    functions.iter().for_each(|function| widen::widen_differences(ir, *function));
    ir.run_passes_on(&functions, REGULAR, machine)?;
    let strides = |copy: &&Copy| strides::interchange(ir, copy.function, copy.chunk);
    if copies.iter().filter(strides).count() > 0 {
        ir.run_passes_on(&functions, "function(break-crit-edges)", machine)?;
    }
    Ok(())
}
