//! The item and the group that code belongs to.

use std::collections::{HashMap, HashSet};

use longshore_llvm::types::*;

use super::annotations::is_dynamic;
use super::{EXIT, Kernel, MARKER, operands};
use crate::entry::{SELF_WORK, WORK_DYNAMIC, WORK_FIXED};
use crate::ir::{Ir, ll};
use crate::markers::Marker;

/// Name of the variable that is an item, in its function.
pub(super) const ITEM: &str = "longshore_item";
/// The variable of a thread with its current item, for functions that cannot be inlined.
const CURRENT: &std::ffi::CStr = c"longshore_current_item";
/// Shared variables are this far apart, as in `longshore_device.h`.
const SHARED_ALIGNMENT: u64 = 64;
/// The runtime's function that learns of a shared variable.
const REGISTER: &std::ffi::CStr = c"__longshore_check_shared";
/// `LLVMGeneralDynamicTLSModel`.
const GENERAL_DYNAMIC: u32 = 1;

/// The shared memory of kernels.
pub(super) struct Layout {
    /// Bytes of the variables that each kernel uses.
    pub(super) bytes: HashMap<ValueRef, u64>,
    /// The functions with dynamic shared memory.
    pub(super) dynamic: HashSet<ValueRef>,
    /// The functions that take the item from the thread's variable.
    pub(super) late: HashSet<ValueRef>,
}

/// Returns all functions that need the item: they call the marker, use shared variables, or call
/// such functions.
pub(super) fn users(ir: &Ir<'_>, kernels: &[Kernel], shared: &[ValueRef]) -> HashSet<ValueRef> {
    let bodies: HashSet<ValueRef> = kernels.iter().map(|kernel| kernel.body).collect();
    let mut found = HashSet::new();
    let mut rest = direct_users(ir, shared);
    while let Some(function) = rest.pop() {
        if found.insert(function) && !bodies.contains(&function) {
            let users = ir.users(function).into_iter().filter(|it| ir.is_instruction(*it));
            let calls = users.filter(|it| ir.callee(*it) == Some(function));
            rest.extend(calls.map(|call| ir.function_of(call)));
        }
    }
    found
}

fn direct_users(ir: &Ir<'_>, shared: &[ValueRef]) -> Vec<ValueRef> {
    let named =
        |name: &std::ffi::CStr| ll!(ir, LLVMGetNamedFunction(ir.module, name.as_ptr())).present();
    let values = shared.iter().copied().chain(named(MARKER)).chain(named(EXIT));
    let uses = values.flat_map(|value| operands::instructions(ir, value));
    let mut functions: Vec<ValueRef> = uses.map(|it| ir.function_of(it)).collect();
    functions.sort_unstable();
    functions.dedup();
    functions
}

/// Replaces markers and shared variables in all functions.
///
/// # Errors
/// A use of a shared variable that has no equivalent on a CPU.
pub(super) fn resolve(
    ir: &Ir<'_>,
    kernels: &[Kernel],
    shared: &[ValueRef],
    is_checked: bool,
) -> Result<Layout, String> {
    let items: HashSet<ValueRef> = kernels.iter().map(|kernel| kernel.item).collect();
    let users = direct_users(ir, shared);
    let late = late(ir, &items, &users);
    let mut layout = Layout { bytes: HashMap::new(), dynamic: HashSet::new(), late };
    let (places, common, current) = (HashMap::new(), 0, None);
    let mut resolver = Resolver { ir, shared, is_checked, places, common, current };
    // Functions that several kernels may call agree on the places of their variables.
    for function in &layout.late {
        resolver.place_common(*function);
    }
    if !layout.late.is_empty() {
        resolver.current = Some(make_current(ir));
    }
    let mut functions: Vec<ValueRef> = users;
    functions.extend(&layout.late);
    functions.extend(items.iter().filter(|_| !layout.late.is_empty()));
    functions.sort_unstable();
    functions.dedup();
    for function in functions {
        resolver.resolve(function, items.contains(&function), &mut layout)?;
    }
    for item in items {
        let bytes = layout.bytes.entry(item).or_default();
        *bytes = (*bytes).max(resolver.common);
    }
    if let Some(marker) = ll!(ir, LLVMGetNamedFunction(ir.module, MARKER.as_ptr())).present() {
        ll!(ir, LLVMDeleteFunction(marker));
    }
    super::debug::hide_names(ir, shared);
    for variable in shared.iter().filter(|it| ir.users(**it).is_empty()) {
        ll!(ir, LLVMDeleteGlobal(*variable));
    }
    Ok(layout)
}

/// Returns the name of a variable in the source: the end of the symbol of a function's variable.
fn shown_name(symbol: &str) -> String {
    let end = symbol.rsplit_once('E').map_or(symbol, |(_, end)| end);
    let name = end.trim_start_matches(|c: char| c.is_ascii_digit());
    if symbol.starts_with("_Z") && !name.is_empty() { name } else { symbol }.to_owned()
}

/// Returns the functions that take the item from the thread's variable: they need the item, or call
/// functions that may do so.
fn late(ir: &Ir<'_>, items: &HashSet<ValueRef>, users: &[ValueRef]) -> HashSet<ValueRef> {
    let mut late: HashSet<ValueRef> =
        users.iter().copied().filter(|it| !items.contains(it)).collect();
    if late.is_empty() {
        return late;
    }
    let functions = ir.all_functions().into_iter();
    let others: Vec<ValueRef> = functions
        .filter(|it| ir.is_defined(*it) && !items.contains(it) && !is_of_header(ir, *it))
        .collect();
    loop {
        let before = late.len();
        for function in &others {
            let mut calls = ir.all_instructions(*function).into_iter();
            if calls.any(|call| may_call(ir, call, &late)) {
                late.insert(*function);
            }
        }
        if late.len() == before {
            return late;
        }
    }
}

/// Returns whether an instruction may call one of these functions: directly, or by an address.
fn may_call(ir: &Ir<'_>, call: ValueRef, functions: &HashSet<ValueRef>) -> bool {
    if ir.opcode(call) != opcode::CALL {
        return false;
    }
    let called = ll!(ir, LLVMGetCalledValue(call));
    match ir.callee(call) {
        Some(callee) => functions.contains(&callee),
        None => ll!(ir, LLVMIsAInlineAsm(called)).is_null(),
    }
}

/// Returns whether a function is one of the header's that calls the runtime, or makes the entry.
fn is_of_header(ir: &Ir<'_>, function: ValueRef) -> bool {
    const PARTS: [&str; 6] = [
        "longshore_fail_at_",
        "longshore_print_",
        "longshore_gather_",
        "longshore_run_",
        "longshore_traced_",
        "__longshore_",
    ];
    let name = ir.name(function);
    Marker::from_symbol(&name).is_some() || PARTS.iter().any(|part| name.contains(part))
}

fn make_current(ir: &Ir<'_>) -> ValueRef {
    let byte = ir.pointer_to(ir.int(8));
    let current = ll!(ir, LLVMAddGlobal(ir.module, byte, CURRENT.as_ptr()));
    let nothing = ll!(ir, LLVMConstNull(byte));
    ll!(ir, LLVMSetInitializer(current, nothing));
    ll!(ir, LLVMSetLinkage(current, INTERNAL_LINKAGE));
    ll!(ir, LLVMSetThreadLocalMode(current, GENERAL_DYNAMIC));
    current
}

struct Resolver<'r, 'l> {
    ir: &'r Ir<'l>,
    shared: &'r [ValueRef],
    /// Whether the runtime learns of shared variables.
    is_checked: bool,
    /// Offsets of the variables of functions that several kernels may call, and their bytes.
    places: HashMap<ValueRef, u64>,
    common: u64,
    /// The thread's variable, if a function needs it.
    current: Option<ValueRef>,
}

impl Resolver<'_, '_> {
    fn bytes_of(&self, variable: ValueRef) -> u64 {
        let ir = self.ir;
        let ty = ll!(ir, LLVMGlobalGetValueType(variable));
        let layout = ll!(ir, LLVMGetModuleDataLayout(ir.module));
        let bytes = ll!(ir, LLVMABISizeOfType(layout, ty)).next_multiple_of(SHARED_ALIGNMENT);
        if self.is_checked { bytes + SHARED_ALIGNMENT } else { bytes }
    }

    fn uses(&self, function: ValueRef) -> Vec<ValueRef> {
        let ir = self.ir;
        let is_used = |variable: &&ValueRef| {
            operands::instructions(ir, **variable).iter().any(|it| ir.function_of(*it) == function)
        };
        self.shared.iter().filter(is_used).copied().collect()
    }

    fn place_common(&mut self, function: ValueRef) {
        for variable in self.uses(function) {
            if !is_dynamic(self.ir, variable) && !self.places.contains_key(&variable) {
                self.places.insert(variable, self.common);
                self.common += self.bytes_of(variable);
            }
        }
    }

    fn resolve(
        &mut self,
        function: ValueRef,
        is_item: bool,
        layout: &mut Layout,
    ) -> Result<(), String> {
        let ir = self.ir;
        let first = ir.instructions(ll!(ir, LLVMGetEntryBasicBlock(function)))[0];
        let (item, holder) = match is_item {
            true => {
                let all = ir.instructions(ll!(ir, LLVMGetEntryBasicBlock(function)));
                let own = all.into_iter().find(|it| ir.name(*it) == ITEM);
                (own.expect("an item's function has its item"), ir.parameter(function, 1))
            }
            false => {
                let current = self.current.expect("made for such functions");
                let byte = ir.pointer_to(ir.int(8));
                let item = ir.before(first).load(byte, current);
                (item, item)
            }
        };
        // The memory of the group is read where the function begins.
        let mut at = self.common;
        let mut places = Vec::new();
        let variables = self.uses(function);
        if !variables.is_empty() {
            let byte = ir.pointer_to(ir.int(8));
            let work = ir.before(first).load_field(holder, SELF_WORK, byte);
            for variable in variables {
                let place = match is_dynamic(ir, variable) {
                    true => {
                        layout.dynamic.insert(function);
                        ir.before(first).load_field(work, WORK_DYNAMIC, byte)
                    }
                    false => {
                        let offset = self.places.get(&variable).copied().unwrap_or_else(|| {
                            let offset = at;
                            at += self.bytes_of(variable);
                            offset
                        });
                        let fixed = ir.before(first).load_field(work, WORK_FIXED, byte);
                        let start = ir.before(first).field(fixed, offset, ir.int(8));
                        self.checked(first, work, start, variable)
                    }
                };
                places.push((variable, place));
            }
        }
        layout.bytes.insert(function, at);
        if is_item {
            let types = places.iter().map(|(it, _)| ll!(ir, LLVMGlobalGetValueType(*it)));
            crate::guess::note(ir, function, &types.collect::<Vec<_>>());
            super::debug::describe_shared(ir, function, &places);
        }
        self.replace_markers(function, item);
        for (variable, place) in places {
            operands::replace(ir, function, variable, place)?;
        }
        if is_item {
            self.replace_exits(function)?;
        }
        self.announce(function, item, layout);
        Ok(())
    }

    /// Emits the call by which the runtime learns of a shared variable, if it checks accesses.
    fn checked(
        &self,
        place: ValueRef,
        work: ValueRef,
        start: ValueRef,
        variable: ValueRef,
    ) -> ValueRef {
        if !self.is_checked {
            return start;
        }
        let ir = self.ir;
        let layout = ll!(ir, LLVMGetModuleDataLayout(ir.module));
        let ty = ll!(ir, LLVMGlobalGetValueType(variable));
        let bytes = ll!(ir, LLVMABISizeOfType(layout, ty));
        let (byte, word) = (ir.pointer_to(ir.int(8)), ir.int(64));
        let types = [byte, byte, word, byte];
        let ty = ll!(ir, LLVMFunctionType(byte, types.as_ptr(), types.len() as u32, 0));
        let known = ll!(ir, LLVMGetNamedFunction(ir.module, REGISTER.as_ptr())).present();
        let function =
            known.unwrap_or_else(|| ll!(ir, LLVMAddFunction(ir.module, REGISTER.as_ptr(), ty)));
        let name = crate::entry::text(ir, c"longshore_name", &shown_name(&ir.name(variable)));
        ir.before(place).call(ty, function, &[work, start, ir.constant(64, bytes), name])
    }

    fn replace_markers(&self, function: ValueRef, item: ValueRef) {
        let ir = self.ir;
        for call in ir.all_instructions(function) {
            let is_marker =
                ir.callee(call).is_some_and(|it| ir.name(it).as_bytes() == MARKER.to_bytes());
            if is_marker {
                let value = ir.before(call).cast(opcode::BIT_CAST, item, ir.type_of(call));
                ir.replace(call, value);
                ir.erase(call);
            }
        }
    }

    /// Makes the item's end of the calls of `__longshore_exit`, behind which no code follows.
    fn replace_exits(&self, function: ValueRef) -> Result<(), String> {
        let ir = self.ir;
        for call in ir.all_instructions(function) {
            let is_exit =
                ir.callee(call).is_some_and(|it| ir.name(it).as_bytes() == EXIT.to_bytes());
            if !is_exit {
                continue;
            }
            let block = ir.block_of(call);
            let end = ir.terminator(block);
            if ir.opcode(end) != opcode::UNREACHABLE {
                return Err("code follows the end of an item".to_owned());
            }
            ir.erase(end);
            ir.erase(call);
            ir.at_end(block).ret();
        }
        Ok(())
    }

    /// Stores the item in the thread's variable before each call of a function that takes it from
    /// there, or may do so.
    fn announce(&self, function: ValueRef, item: ValueRef, layout: &Layout) {
        let ir = self.ir;
        let Some(current) = self.current else { return };
        for call in ir.all_instructions(function) {
            let is_late = may_call(ir, call, &layout.late);
            if is_late {
                let byte = ir.pointer_to(ir.int(8));
                let build = ir.before(call);
                let item = build.cast(opcode::BIT_CAST, item, byte);
                build.store(item, current);
            }
        }
    }
}
