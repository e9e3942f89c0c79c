//! The kernels of a module whose items wait for each other, and the preparation of their code.

use std::collections::{HashMap, HashSet};
use std::ffi::CString;

use longshore_llvm::types::*;

use crate::ir::{Ir, ll};
use crate::markers::Marker;
use crate::plain;
use crate::regions::Obstacle;

/// Beginning of the symbols of functions of one item.
pub(crate) const ITEM: &str = "__longshore_item_";
/// Parts of the symbols of kernels' versions with and without recorded items.
pub(crate) const TRACED: &str = "longshore_traced_";
pub(crate) const RUN: &str = "longshore_run_";
/// Name of the variables that keep functions of one item.
pub(crate) const KEPT: &std::ffi::CStr = c"longshore_kept";
/// Most instructions of functions that become part of a kernel's code for speed alone.
const INLINED: usize = 100_000;

/// A kernel of items that wait for each other.
pub(crate) struct Kernel {
    pub(crate) name: String,
    pub(crate) function: ValueRef,
    /// The work of one item.
    pub(crate) item: ValueRef,
    /// Whether the items never wait: the kernel's code runs without loops of the pass too.
    pub(crate) is_plain: bool,
    /// The version with recorded items, if it is a function of its own.
    pub(crate) traced: Option<ValueRef>,
    /// Symbol of the version without recorded items, if it is a function of its own. LLVM may
    /// inline and delete it.
    run: Option<CString>,
}

impl Kernel {
    /// Returns the calls in the code that loops replace, if it consists of calls.
    fn replaced_calls(&self, ir: &Ir<'_>) -> Vec<ValueRef> {
        let (Some(_), Some(run)) = (self.traced, self.run(ir)) else { return Vec::new() };
        let all = [self.function, run].map(|function| ir.all_instructions(function));
        let mut calls = all.concat();
        calls.retain(|it| ir.callee(*it).is_some_and(|callee| ir.is_defined(callee)));
        calls
    }

    fn run(&self, ir: &Ir<'_>) -> Option<ValueRef> {
        let name = self.run.as_ref()?.as_ptr();
        ll!(ir, LLVMGetNamedFunction(ir.module, name)).present()
    }

    /// Deletes the code that loops have replaced.
    pub(crate) fn delete_replaced(&self, ir: &Ir<'_>) {
        let called = self.replaced_calls(ir);
        let mut called: Vec<ValueRef> = called.into_iter().filter_map(|it| ir.callee(it)).collect();
        called.sort_unstable();
        called.dedup();
        let run = self.run(ir);
        let inner = called.into_iter().filter(|it| run != Some(*it));
        for function in [self.function].into_iter().chain(run).chain(inner) {
            let is_own =
                function == self.function || ll!(ir, LLVMGetLinkage(function)) == INTERNAL_LINKAGE;
            if is_own && ir.users(function).is_empty() {
                ll!(ir, LLVMDeleteFunction(function));
            }
        }
    }
}

/// The functions of a module and their calls.
pub(crate) struct Calls {
    calls: HashMap<ValueRef, Vec<ValueRef>>,
    /// Functions that wait, or call such functions.
    waiting: HashSet<ValueRef>,
}

impl Calls {
    pub(crate) fn new(ir: &Ir<'_>) -> Calls {
        let mut calls = HashMap::new();
        let mut waiting = HashSet::new();
        for function in ir.all_functions() {
            if let Some(marker) = Marker::from_symbol(&ir.name(function)) {
                // The calls of a marker do not count, because the pass replaces it.
                if marker.waits() {
                    waiting.insert(function);
                }
                continue;
            }
            let called = ir.all_instructions(function).into_iter();
            let mut called: Vec<ValueRef> = called.filter_map(|it| ir.callee(it)).collect();
            called.sort_unstable();
            called.dedup();
            calls.insert(function, called);
        }
        let mut calls = Calls { calls, waiting };
        while calls.spread() {}
        calls
    }

    fn spread(&mut self) -> bool {
        let calls = self.calls.iter();
        let new: Vec<ValueRef> = calls
            .filter(|(function, called)| {
                let waits = called.iter().any(|called| self.waiting.contains(called));
                waits && !self.waiting.contains(function)
            })
            .map(|(function, _)| *function)
            .collect();
        self.waiting.extend(&new);
        !new.is_empty()
    }

    /// Returns whether a kernel's items call sub-group operations.
    pub(crate) fn has_subgroups(&self, ir: &Ir<'_>, kernel: &Kernel) -> bool {
        let is_of_subgroup =
            |it: &ValueRef| Marker::from_symbol(&ir.name(*it)).is_some_and(Marker::is_of_subgroup);
        self.reach(kernel.item).iter().any(is_of_subgroup)
    }

    pub(crate) fn waits(&self, function: ValueRef) -> bool {
        self.waiting.contains(&function)
    }

    /// Returns the version whose symbol has this prefix and that a kernel calls. C++ mangles its
    /// symbol.
    fn version(&self, ir: &Ir<'_>, prefix: &str, name: &str, kernel: ValueRef) -> Option<ValueRef> {
        let name = format!("{prefix}{name}");
        let type_of = |it: ValueRef| ll!(ir, LLVMGlobalGetValueType(it));
        let mut called = self.calls.get(&kernel)?.iter().copied();
        called.find(|it| {
            let is_own = ll!(ir, LLVMGetLinkage(*it)) == INTERNAL_LINKAGE;
            let is_version = is_own && type_of(*it) == type_of(kernel);
            ir.is_defined(*it) && is_version && ir.name(*it).contains(&name)
        })
    }

    /// Returns the number of instructions of kernels and of the functions that each one calls.
    pub(crate) fn size(&self, ir: &Ir<'_>, kernels: &[Kernel]) -> usize {
        let mut sizes = HashMap::new();
        let mut size = |function: ValueRef| -> usize {
            *sizes.entry(function).or_insert_with(|| ir.all_instructions(function).len())
        };
        let with_called = kernels.iter().map(|kernel| {
            let called = self.reach(kernel.item).into_iter();
            called.map(&mut size).sum::<usize>() + size(kernel.item)
        });
        with_called.sum()
    }

    /// Returns the functions that a function calls, over any number of calls.
    pub(crate) fn reach(&self, from: ValueRef) -> HashSet<ValueRef> {
        let mut reached = HashSet::new();
        let mut rest = vec![from];
        while let Some(function) = rest.pop() {
            for called in self.calls.get(&function).into_iter().flatten() {
                if reached.insert(*called) {
                    rest.push(*called);
                }
            }
        }
        reached
    }
}

/// Returns the kernels of the module that may become loops: all whose items wait for each other,
/// and others whose items have loops. With checks, all kernels with a function of one item.
pub(crate) fn find(ir: &Ir<'_>, calls: &Calls, is_checked: bool) -> Vec<Kernel> {
    let functions = ir.all_functions().into_iter();
    let items = functions.filter(|it| ir.is_defined(*it));
    items
        .filter_map(|item| {
            let name = ir.name(item).strip_prefix(ITEM)?.to_owned();
            let is_plain = !is_checked && !calls.waits(item);
            if is_plain && !plain::has_loops(ir, calls, item) {
                return None;
            }
            let symbol = CString::new(name.as_str()).ok()?;
            let function = ll!(ir, LLVMGetNamedFunction(ir.module, symbol.as_ptr())).present()?;
            let [traced, run] =
                [TRACED, RUN].map(|prefix| calls.version(ir, prefix, &name, function));
            let run = run.and_then(|run| CString::new(ir.name(run)).ok());
            let kernel = Kernel { name, function, item, is_plain, traced, run };
            ir.is_defined(function).then_some(kernel)
        })
        .collect()
}

/// Number of parameters of the function of one item: arguments, group, and three for the item.
const ITEM_PARAMETERS: u32 = 5;

/// Refuses a kernel that the pass cannot see as a whole.
pub(crate) fn check(ir: &Ir<'_>, calls: &Calls, kernel: &Kernel) -> Result<(), Obstacle> {
    const CHANGED: &str = "a compiler has changed the parameters of the header's functions";
    if ll!(ir, LLVMCountParams(kernel.item)) != ITEM_PARAMETERS {
        return Err(Obstacle { at: None, what: CHANGED });
    }
    let mut inside = calls.reach(kernel.item);
    inside.insert(kernel.item);
    // A kernel and its item are used in descriptions and by the header.
    let is_kernel = |function: &ValueRef| {
        let name = ir.name(*function);
        let item = CString::new(format!("{ITEM}{name}"));
        name.starts_with(ITEM)
            || item.is_ok_and(|item| {
                let found = ll!(ir, LLVMGetNamedFunction(ir.module, item.as_ptr()));
                !found.is_null()
            })
    };
    let is_escaped = ir.all_functions().into_iter().any(|it| {
        calls.waits(it) && ir.is_defined(it) && !is_kernel(&it) && is_address_taken(ir, it)
    });
    for function in inside.iter().copied().filter(|it| ir.is_defined(*it)) {
        let is_marker = Marker::from_symbol(&ir.name(function)).is_some();
        if is_marker {
            continue;
        }
        if calls.waits(function) && calls.reach(function).contains(&function) {
            return Err(Obstacle { at: None, what: "recursion to a barrier" });
        }
        for call in ir.all_instructions(function) {
            if Marker::called(ir, call).is_some_and(|marker| !marker.is_called_well(ir, call)) {
                return Err(Obstacle { at: Some(call), what: CHANGED });
            }
            let is_call = matches!(ir.opcode(call), opcode::CALL | opcode::INVOKE);
            let called = is_call.then(|| ll!(ir, LLVMGetCalledValue(call)));
            let is_indirect = called.is_some_and(|called| {
                ir.callee(call).is_none() && ll!(ir, LLVMIsAInlineAsm(called)).is_null()
            });
            if is_indirect && is_escaped {
                let what = "an indirect call may lead to a barrier";
                return Err(Obstacle { at: Some(call), what });
            }
        }
    }
    Ok(())
}

/// Returns whether a function is used but for direct calls. Markers use themselves.
fn is_address_taken(ir: &Ir<'_>, function: ValueRef) -> bool {
    let is_marker = Marker::from_symbol(&ir.name(function)).is_some();
    ir.users(function).into_iter().any(|user| {
        if !ir.is_instruction(user) {
            return true;
        }
        let is_own = is_marker && ir.function_of(user) == function;
        let is_call = ir.callee(user) == Some(function)
            && ir.operands(user).iter().filter(|it| **it == function).count() == 1;
        !is_own && !is_call
    })
}

/// Makes the functions with barriers, and others if that is fast, parts of the kernels' code.
pub(crate) fn inline_into(ir: &Ir<'_>, calls: &Calls, kernels: &[Kernel]) {
    for kernel in kernels {
        let inside = calls.reach(kernel.item);
        let size = |function: &ValueRef| ir.all_instructions(*function).len();
        let is_small = inside.iter().map(size).sum::<usize>() < INLINED;
        for function in inside {
            let is_marker = Marker::from_symbol(&ir.name(function)).is_some();
            if !ir.is_defined(function) || is_marker {
                continue;
            }
            let linkage = ll!(ir, LLVMGetLinkage(function));
            let is_own = matches!(linkage, INTERNAL_LINKAGE | PRIVATE_LINKAGE);
            let is_kept =
                ir.has_attribute(function, "noinline") && !ir.has_attribute(function, "optnone");
            let is_free =
                is_own && is_small && !is_kept && !calls.reach(function).contains(&function);
            if calls.waits(function) || is_free {
                ir.remove_attribute(function, "optnone");
                ir.remove_attribute(function, "noinline");
                ir.add_attribute(function, "alwaysinline");
            }
        }
    }
}

/// Keeps the function of a kernel's item as it is when its copies are made. Keeps the calls in the
/// version without recorded items too: loops replace it.
pub(crate) fn keep_item(ir: &Ir<'_>, kernel: &Kernel) {
    let callers = ir.users(kernel.item).into_iter();
    let callers = callers.filter(|it| ir.callee(*it) == Some(kernel.item));
    for caller in callers.chain(kernel.replaced_calls(ir)) {
        ir.add_call_attribute(caller, "noinline");
    }
    keep(ir, kernel.item);
}

/// Has a function inlined into its copies. Returns the variable that keeps the function itself:
/// LLVM 14 inlines all calls, and would delete the function.
pub(crate) fn keep(ir: &Ir<'_>, function: ValueRef) -> ValueRef {
    let kept = ll!(ir, LLVMAddGlobal(ir.module, ir.type_of(function), KEPT.as_ptr()));
    ll!(ir, LLVMSetInitializer(kept, function));
    ir.remove_attribute(function, "optnone");
    ir.remove_attribute(function, "noinline");
    ir.add_attribute(function, "alwaysinline");
    kept
}

/// Undoes the changes of [`keep`] to a function.
pub(crate) fn restore(ir: &Ir<'_>, function: ValueRef) {
    ir.remove_attribute(function, "alwaysinline");
    ir.add_attribute(function, "noinline");
}

/// Makes a function with the code of another one, which [`keep`] has inlined: that of a kernel's
/// item, which becomes that of a group.
pub(crate) fn copy(ir: &Ir<'_>, kernel: &str, from: ValueRef) -> ValueRef {
    let ty = ll!(ir, LLVMGlobalGetValueType(from));
    let name = format!("longshore_group_of_{kernel}");
    let name = CString::new(name).expect("names have no NUL");
    let copy = ll!(ir, LLVMAddFunction(ir.module, name.as_ptr(), ty));
    ll!(ir, LLVMSetLinkage(copy, INTERNAL_LINKAGE));
    ir.copy_attributes(from, copy);
    restore(ir, copy);
    let entry = ir.append_block(copy, c"entry");
    let arguments: Vec<ValueRef> =
        (0..ITEM_PARAMETERS).map(|index| ir.parameter(copy, index)).collect();
    let build = ir.at_end(entry);
    build.call(ty, from, &arguments);
    build.ret();
    copy
}

/// Undoes the changes of [`keep_item`] to the function of one item, whose description for debuggers
/// goes to the copy.
pub(crate) fn restore_item(ir: &Ir<'_>, kernel: &Kernel, copy: ValueRef) {
    restore(ir, kernel.item);
    for user in ir.users(kernel.item).into_iter().chain(kernel.replaced_calls(ir)) {
        if ir.callee(user).is_some() {
            ir.remove_call_attribute(user, "noinline");
        } else if !ll!(ir, LLVMIsAGlobalVariable(user)).is_null() {
            ll!(ir, LLVMDeleteGlobal(user));
        }
    }
    if let Some(program) = ll!(ir, LLVMGetSubprogram(kernel.item)).present() {
        let kind = crate::metadata::metadata_kind(ir, "dbg");
        ll!(ir, LLVMGlobalEraseMetadata(kernel.item, kind));
        ll!(ir, LLVMSetSubprogram(copy, program));
    }
}
