//! Parts of a module with many kernels, which compile side by side and become one object again.
//!
//! Each part has some of the kernels, and all device functions. The first part has the module's
//! variables, which the others refer to.

use std::collections::{HashMap, HashSet};

use longshore_llvm::types::*;

use super::annotations::Annotations;
use crate::Part;
use crate::ir::{Ir, ll};
use crate::kernels::Calls;
use crate::markers::Marker;

/// Most instructions of a part, as [`sizes`] counts them. Optimisation of a part takes seconds.
const MOST_IN_PART: u64 = 20_000;
/// Times by which a kernel's code compiles faster without waits of its items. There is one loop
/// over items then, and none of its functions needs to be inlined.
const WITHOUT_WAITS: u64 = 8;
/// Beginning of the names of variables that are not visible outside of their source.
const SHARED_NAME: &str = "longshore_of_parts_";
/// LLVM's lists of functions that run when an image is loaded and unloaded.
const TO_RUN: [&str; 2] = ["llvm.global_ctors", "llvm.global_dtors"];

/// Returns the number of parts for a module.
pub(crate) fn count(ir: &Ir<'_>) -> u32 {
    let kernels = Annotations::read(ir).kernels;
    if !is_divisible(ir, &kernels) {
        return 1;
    }
    let all: u64 = sizes(ir, &kernels).iter().sum();
    let parts = all.div_ceil(MOST_IN_PART).min(kernels.len() as u64);
    u32::try_from(parts).unwrap_or(u32::MAX).max(1)
}

/// Returns whether the code of several parts would work together. Functions with an address take
/// their item from a variable of the thread, which is one of a part.
fn is_divisible(ir: &Ir<'_>, kernels: &[ValueRef]) -> bool {
    let mut length = 0;
    ll!(ir, LLVMGetModuleInlineAsm(ir.module, &raw mut length));
    let functions = ir.all_functions().into_iter();
    // Markers use themselves, and are replaced.
    let is_marker = |it: &ValueRef| Marker::from_symbol(&ir.name(*it)).is_some();
    let mut own =
        functions.filter(|it| ir.is_defined(*it) && !kernels.contains(it) && !is_marker(it));
    length == 0 && own.all(|it| ir.users(it).into_iter().all(|user| is_call(ir, user, it)))
}

/// Returns whether a use of a function is a direct call, or an entry of one of LLVM's lists.
fn is_call(ir: &Ir<'_>, user: ValueRef, function: ValueRef) -> bool {
    if ir.is_instruction(user) {
        let operands = ir.operands(user);
        let uses = operands.iter().filter(|it| **it == function).count();
        return ir.callee(user) == Some(function) && uses == 1;
    }
    match ll!(ir, LLVMIsAGlobalVariable(user)).present() {
        Some(list) => ir.name(list).starts_with("llvm."),
        None => {
            ir.users(user).into_iter().all(|it| !ir.is_instruction(it) && is_call(ir, it, user))
        }
    }
}

/// Leaves a part's kernels in a module, and removes the others.
///
/// # Errors
/// LLVM's message if it refuses a pass.
pub(super) fn keep_kernels(
    ir: &Ir<'_>,
    kernels: &mut Vec<ValueRef>,
    part: Part,
) -> Result<(), String> {
    let own: HashSet<ValueRef> = members(ir, kernels, part).into_iter().collect();
    for kernel in kernels.iter().filter(|it| !own.contains(it)) {
        ll!(ir, LLVMSetComdat(*kernel, ComdatRef::NULL));
        ll!(ir, LLVMSetLinkage(*kernel, AVAILABLE_EXTERNALLY_LINKAGE));
    }
    kernels.retain(|it| own.contains(it));
    ir.run_passes("elim-avail-extern", TargetMachineRef::NULL)
}

/// Leaves the definitions of variables to the first part. `shared` variables belong to groups.
pub(super) fn share_variables(ir: &Ir<'_>, shared: &[ValueRef], part: Part) {
    for variable in ir.all_globals() {
        if ir.is_defined(variable) && !shared.contains(&variable) {
            show(ir, variable);
            if part.number > 0 {
                refer(ir, variable);
            }
        }
    }
}

/// Makes a variable visible in the other parts. Each part may have its own texts.
fn show(ir: &Ir<'_>, variable: ValueRef) {
    let linkage = match ll!(ir, LLVMGetLinkage(variable)) {
        INTERNAL_LINKAGE => EXTERNAL_LINKAGE,
        LINK_ONCE_ANY_LINKAGE => WEAK_ANY_LINKAGE,
        LINK_ONCE_ODR_LINKAGE => WEAK_ODR_LINKAGE,
        _ => return,
    };
    ll!(ir, LLVMSetLinkage(variable, linkage));
    if linkage == EXTERNAL_LINKAGE {
        ir.set_name(variable, &format!("{SHARED_NAME}{}", ir.name(variable)));
        ll!(ir, LLVMSetVisibility(variable, HIDDEN_VISIBILITY));
    }
}

/// Leaves the definition of a variable to the first part. Optimisations still see its value if it
/// is constant.
fn refer(ir: &Ir<'_>, variable: ValueRef) {
    match ll!(ir, LLVMGetLinkage(variable)) {
        APPENDING_LINKAGE if TO_RUN.contains(&ir.name(variable).as_str()) => {
            ll!(ir, LLVMDeleteGlobal(variable));
        }
        PRIVATE_LINKAGE | APPENDING_LINKAGE => {}
        _ => {
            ll!(ir, LLVMSetComdat(variable, ComdatRef::NULL));
            ll!(ir, LLVMSetLinkage(variable, AVAILABLE_EXTERNALLY_LINKAGE));
        }
    }
}

/// Returns the kernels of a part, in their order: parts of about the same size.
fn members(ir: &Ir<'_>, kernels: &[ValueRef], part: Part) -> Vec<ValueRef> {
    let sizes = sizes(ir, kernels);
    let mut order: Vec<usize> = (0..kernels.len()).collect();
    order.sort_by_key(|index| std::cmp::Reverse(sizes[*index]));
    let mut loads = vec![0; part.of.max(1) as usize];
    let mut members = Vec::new();
    for index in order {
        let lightest = (0..loads.len()).min_by_key(|it| loads[*it]).expect("there is a part");
        loads[lightest] += sizes[index];
        if lightest == part.number as usize {
            members.push(index);
        }
    }
    members.sort_unstable();
    members.into_iter().map(|index| kernels[index]).collect()
}

/// Returns the number of instructions of each kernel with all that it calls, once for each call:
/// the kernel's size when its calls are inlined. Kernels that do not wait count less.
fn sizes(ir: &Ir<'_>, kernels: &[ValueRef]) -> Vec<u64> {
    let calls = Calls::new(ir);
    let mut known: HashMap<ValueRef, u64> = HashMap::new();
    let mut size = |kernel: ValueRef| match size(ir, kernel, &mut known) {
        size if calls.waits(kernel) => size,
        size => size / WITHOUT_WAITS,
    };
    kernels.iter().map(|kernel| size(*kernel)).collect()
}

fn size(ir: &Ir<'_>, function: ValueRef, known: &mut HashMap<ValueRef, u64>) -> u64 {
    // A function is below the functions that it calls, and is counted after them.
    let mut rest = vec![(function, None)];
    while let Some((function, calls)) = rest.pop() {
        match calls {
            None if known.contains_key(&function) => {}
            None => {
                // Recursion counts as nothing.
                known.insert(function, 0);
                let instructions = ir.all_instructions(function);
                let own = instructions.len() as u64;
                let calls: Vec<ValueRef> =
                    instructions.into_iter().filter_map(|it| ir.callee(it)).collect();
                let called: HashSet<ValueRef> = calls.iter().copied().collect();
                rest.push((function, Some((own, calls))));
                rest.extend(called.into_iter().map(|it| (it, None)));
            }
            Some((own, calls)) => {
                let inside = calls.iter().map(|it| known.get(it).copied().unwrap_or_default());
                known.insert(function, inside.fold(own, u64::saturating_add));
            }
        }
    }
    known[&function]
}
