//! The calls of the runtime before accesses.

use crate::PREFIX;
use crate::contents;
use crate::fast;
use crate::ir::{Ir, ll};
use crate::places::{Owner, Place, Sites, is_described_in_header, is_entry, owner};
use crate::privates::{Base, Privates, base_of};
use longshore_llvm::types::*;

/// Bits of an access's kind, as the runtime has them.
pub(crate) mod kind {
    pub(crate) const WRITE: u64 = 1;
    pub(crate) const ATOMIC: u64 = 2;
    /// The bytes need not be written before.
    pub(crate) const ANY_CONTENTS: u64 = 4;
    /// The access reads and writes.
    pub(crate) const BOTH: u64 = 8;
    /// Place of the memory order, in LLVM's numbers.
    pub(crate) const ORDER_SHIFT: u32 = 8;
    /// Place of the bits for sixteen parts of the access, or for single bytes of a small one: only
    /// these are read or written. Without a bit, all are.
    pub(crate) const PARTS_SHIFT: u32 = 16;
}

/// Instructions that compute an address from the same operands alike.
const STEPS: [u32; 3] = [opcode::GET_ELEMENT_PTR, opcode::SEXT, opcode::ZEXT];

/// `LLVMAtomicOrderingMonotonic`, and the order of accesses that are not atomic.
const MONOTONIC: u32 = 2;
const NOT_ATOMIC: u32 = 0;

/// Functions of the header in which items wait for each other, or end.
const WAITS: [&str; 6] = [
    "__longshore_barrier",
    "__longshore_grid_barrier",
    "__longshore_ballot",
    "__longshore_shuffle",
    "__longshore_scan_",
    "longshore_fail_at_",
];

/// A load, store or atomic operation.
struct Access {
    instruction: ValueRef,
    /// Index of the operand that is the address.
    operand: u32,
    bytes: u64,
    alignment: u32,
    kind: u64,
}

impl Access {
    fn is_atomic(&self) -> bool {
        self.kind & kind::ATOMIC != 0
    }

    /// Returns the name of the function for a usual access, if this is one.
    fn usual(&self) -> Option<String> {
        let is_usual = self.kind & !kind::WRITE == 0
            && matches!(self.bytes, 1 | 2 | 4 | 8)
            && u64::from(self.alignment) >= self.bytes;
        let writes = self.kind & kind::WRITE != 0;
        let name = if writes { "write" } else { "read" };
        is_usual.then(|| {
            let inlined = fast::name(self.bytes, writes, self.alignment.into());
            inlined.unwrap_or_else(|| format!("{PREFIX}{name}{}", self.bytes))
        })
    }
}

/// Adds the calls to a function. Returns the number of checked accesses.
pub(crate) fn check(
    ir: &Ir<'_>,
    sites: &mut Sites<'_, '_>,
    function: ValueRef,
    privates: &Privates,
) -> u32 {
    let is_entry = is_entry(ir, function);
    let mut checked = 0;
    let instructions = ir.all_instructions(function);
    let compared: Vec<ValueRef> = instructions
        .iter()
        .filter(|it| ir.opcode(**it) == opcode::ATOMIC_CMP_XCHG)
        .map(|exchange| ir.operand(*exchange, 0))
        .collect();
    // The calls take the place of addresses, which are compared before.
    let accesses: Vec<Option<Access>> =
        instructions.iter().map(|it| access(ir, *it, &compared)).collect();
    for (instruction, access) in instructions.into_iter().zip(accesses) {
        let owner = owner(ir, instruction, is_entry);
        checked += match ir.opcode(instruction) {
            opcode::CALL => check_call(ir, sites, instruction, owner, privates),
            opcode::FENCE if owner.is_some() => {
                ir.at(instruction);
                ir.call(&format!("{PREFIX}fence"), ir.void(), &[]);
                0
            }
            _ => match access {
                Some(access) => check_access(ir, sites, &access, owner, privates),
                None => 0,
            },
        };
    }
    checked
}

/// Returns the access that an instruction makes. `compared` has the addresses of the function's
/// operations that compare and exchange.
fn access(ir: &Ir<'_>, instruction: ValueRef, compared: &[ValueRef]) -> Option<Access> {
    let (operand, value, mut kind, order) = match ir.opcode(instruction) {
        opcode::LOAD => (0, instruction, 0, ll!(ir, LLVMGetOrdering(instruction))),
        opcode::STORE => {
            let order = ll!(ir, LLVMGetOrdering(instruction));
            (1, ir.operand(instruction, 0), kind::WRITE, order)
        }
        opcode::ATOMIC_RMW => {
            let order = ll!(ir, LLVMGetOrdering(instruction));
            (0, ir.operand(instruction, 1), kind::WRITE | kind::BOTH, order)
        }
        opcode::ATOMIC_CMP_XCHG => {
            let order = ll!(ir, LLVMGetCmpXchgSuccessOrdering(instruction));
            (0, ir.operand(instruction, 1), kind::WRITE | kind::BOTH, order)
        }
        _ => return None,
    };
    let bytes = ir.bytes_of(ir.type_of(value));
    let is_volatile = ll!(ir, LLVMGetVolatile(instruction)) != 0;
    if order != NOT_ATOMIC {
        kind |= kind::ATOMIC | u64::from(order) << kind::ORDER_SHIFT;
    } else if is_volatile && bytes <= 8 {
        // Items use volatile variables as flags.
        kind |= kind::ATOMIC | u64::from(MONOTONIC) << kind::ORDER_SHIFT;
    }
    let is_guess = || compared.iter().any(|at| is_same(ir, *at, ir.operand(instruction, operand)));
    if kind == 0 && matches!(bytes, 2 | 4 | 8) && is_guess() {
        // The first guess in `old = *p; do ... while (!compare_exchange(p, &old, new))`: the
        // operation finds out whether it is right.
        kind |= kind::ATOMIC | u64::from(MONOTONIC) << kind::ORDER_SHIFT;
    }
    if kind & !kind::WRITE == 0 {
        kind |= contents::kind_of(ir, instruction, bytes);
    }
    let alignment = ll!(ir, LLVMGetAlignment(instruction));
    Some(Access { instruction, operand, bytes, alignment, kind })
}

/// Returns whether two addresses are computed alike.
pub(crate) fn is_same(ir: &Ir<'_>, one: ValueRef, other: ValueRef) -> bool {
    if one == other {
        return true;
    }
    let is_step = |it: ValueRef| ir.is_instruction(it) && STEPS.contains(&ir.opcode(it));
    if ir.is_instruction(one) && ir.opcode(one) == opcode::BIT_CAST {
        return is_same(ir, ir.operand(one, 0), other);
    }
    if ir.is_instruction(other) && ir.opcode(other) == opcode::BIT_CAST {
        return is_same(ir, one, ir.operand(other, 0));
    }
    if !is_step(one) || !is_step(other) || ir.opcode(one) != ir.opcode(other) {
        return false;
    }
    let is_address = ir.opcode(one) == opcode::GET_ELEMENT_PTR;
    let element = |it| ll!(ir, LLVMGetGEPSourceElementType(it));
    let (ones, others) = (ir.operands(one), ir.operands(other));
    (!is_address || element(one) == element(other))
        && ir.type_of(one) == ir.type_of(other)
        && ones.len() == others.len()
        && ones.into_iter().zip(others).all(|(one, other)| is_same(ir, one, other))
}

fn check_access(
    ir: &Ir<'_>,
    sites: &mut Sites<'_, '_>,
    access: &Access,
    owner: Option<Owner>,
    privates: &Privates,
) -> u32 {
    let instruction = access.instruction;
    let address = ir.operand(instruction, access.operand);
    let base = base_of(ir, address);
    let own = match base {
        Base::Variable(alloca) => privates.own.iter().find(|it| it.alloca == alloca),
        _ => None,
    };
    let place = match (owner, own) {
        (Some(Owner::Program(place) | Owner::Header(place)), Some(_)) => place,
        (_, Some(_)) => Place::default(),
        (Some(Owner::Program(place)), None) => place,
        (Some(Owner::Header(place)), None) if access.is_atomic() => place,
        (Some(Owner::Header(_)), None) => {
            if access.kind & kind::WRITE != 0 && may_be_private(base, privates) {
                ir.at(instruction);
                let to = ir.cast(address, ir.pointer);
                let bytes = ir.constant(64, access.bytes);
                ir.call(&format!("{PREFIX}mark"), ir.void(), &[to, bytes]);
            }
            return 0;
        }
        _ => return 0,
    };
    let is_right = match base {
        Base::Header => true,
        Base::Variable(alloca) => own.is_none() && !privates.shared.contains(&alloca),
        _ => false,
    };
    if is_right {
        return 0;
    }
    let site = sites.site_of(&place, access.alignment, pointer_of(ir, address));
    ir.at(instruction);
    let kind = ir.constant(32, access.kind);
    let bytes = ir.constant(64, access.bytes);
    let mut checked = ir.cast(address, ir.pointer);
    if let Some(own) = own {
        let arguments = [
            ir.cast(own.alloca, ir.pointer),
            ir.constant(64, own.bytes),
            checked,
            bytes,
            kind,
            site,
        ];
        checked = ir.call(&format!("{PREFIX}private"), ir.pointer, &arguments);
    } else {
        if let Base::Global(variable, size) = base {
            let start = ir.constant_pointer(variable);
            let arguments = [start, ir.constant(64, size), checked, bytes, kind, site];
            checked = ir.call(&format!("{PREFIX}bounds"), ir.pointer, &arguments);
        }
        checked = match access.usual() {
            Some(name) => ir.call(&name, ir.pointer, &[checked, site]),
            None => {
                let name = format!("{PREFIX}access");
                ir.call(&name, ir.pointer, &[checked, bytes, kind, site])
            }
        };
    }
    let checked = ir.cast(checked, ir.type_of(address));
    ll!(ir, LLVMSetOperand(instruction, access.operand, checked));
    1
}

/// Marks the variables as written whose addresses a function of the headers gets, such as a
/// constructor: its own accesses are not checked.
fn mark_arguments(ir: &Ir<'_>, call: ValueRef, privates: &Privates) {
    let is_of_header = |it: &ValueRef| is_described_in_header(ir, *it);
    let Some(callee) = ir.callee(call).filter(is_of_header) else { return };
    for index in 0..ll!(ir, LLVMCountParams(callee)) {
        let Base::Variable(alloca) = base_of(ir, ir.operand(call, index)) else { continue };
        if let Some(own) = privates.own.iter().find(|it| it.alloca == alloca) {
            ir.at(call);
            let arguments = [ir.cast(alloca, ir.pointer), ir.constant(64, own.bytes)];
            ir.call(&format!("{PREFIX}mark"), ir.void(), &arguments);
        }
    }
}

/// Returns whether an address that the header writes to may be of a variable that is checked.
fn may_be_private(base: Base, privates: &Privates) -> bool {
    match base {
        Base::Variable(alloca) => privates.own.iter().any(|it| it.alloca == alloca),
        Base::Unknown => privates.own.iter().any(|it| it.escapes),
        _ => false,
    }
}

/// Returns the pointer that an address begins with.
fn pointer_of(ir: &Ir<'_>, mut address: ValueRef) -> ValueRef {
    let is_step = |code| matches!(code, opcode::GET_ELEMENT_PTR | opcode::BIT_CAST);
    while ir.is_instruction(address) && is_step(ir.opcode(address)) {
        address = ir.operand(address, 0);
    }
    address
}

/// Adds the call before a copy or fill, or before items wait for each other.
fn check_call(
    ir: &Ir<'_>,
    sites: &mut Sites<'_, '_>,
    call: ValueRef,
    owner: Option<Owner>,
    privates: &Privates,
) -> u32 {
    let Some(name) = ir.callee_name(call) else { return 0 };
    if WAITS.iter().any(|wait| name.contains(wait)) {
        if let Some(Owner::Program(place) | Owner::Header(place)) = owner {
            let site = sites.site(&place);
            ir.at(call);
            ir.call(&format!("{PREFIX}wait"), ir.void(), &[site]);
        }
        return 0;
    }
    if matches!(name.as_str(), "malloc" | "free") {
        replace_heap_call(ir, sites, call, &name, owner);
        return 0;
    }
    let is_copy = name.starts_with("llvm.memcpy.") || name.starts_with("llvm.memmove.");
    if !is_copy && !name.starts_with("llvm.memset.") {
        mark_arguments(ir, call, privates);
        return 0;
    }
    ir.at(call);
    let length = ir.operand(call, 2);
    let bytes = ir.to_64_bits(length);
    let to = ir.cast(ir.operand(call, 0), ir.pointer);
    let Some(Owner::Program(place)) = owner else {
        if may_be_private(base_of(ir, to), privates) {
            ir.call(&format!("{PREFIX}mark"), ir.void(), &[to, bytes]);
        }
        return 0;
    };
    let site = site_of_argument(ir, sites, &place, (call, 0));
    let checked = match is_copy {
        true => {
            let from = ir.cast(ir.operand(call, 1), ir.pointer);
            let source = site_of_argument(ir, sites, &place, (call, 1));
            ir.call(&format!("{PREFIX}copy"), ir.int(64), &[to, from, bytes, site, source])
        }
        false => ir.call(&format!("{PREFIX}fill"), ir.int(64), &[to, bytes, site]),
    };
    let checked = match ir.type_of(length) == ir.int(64) {
        true => checked,
        false => {
            let (ty, no_name) = (ir.type_of(length), c"".as_ptr());
            ll!(ir, LLVMBuildCast(ir.builder, opcode::TRUNC, checked, ty, no_name))
        }
    };
    ll!(ir, LLVMSetOperand(call, 2, checked));
    1
}

/// Returns the site of the memory that an argument of a copy or fill points to.
fn site_of_argument(
    ir: &Ir<'_>,
    sites: &mut Sites<'_, '_>,
    place: &Place,
    (call, index): (ValueRef, u32),
) -> ValueRef {
    let name = "align";
    let kind = ll!(ir, LLVMGetEnumAttributeKindForName(name.as_ptr().cast(), name.len()));
    // Attributes of the result come before the attributes of arguments.
    let attribute = ll!(ir, LLVMGetCallSiteEnumAttribute(call, index + 1, kind)).present();
    let alignment = attribute.map_or(1, |it| ll!(ir, LLVMGetEnumAttributeValue(it)));
    sites.site_of(place, alignment as u32, pointer_of(ir, ir.operand(call, index)))
}

/// Makes a call of the device's heap one of the runtime, which then knows the memory.
fn replace_heap_call(
    ir: &Ir<'_>,
    sites: &mut Sites<'_, '_>,
    call: ValueRef,
    name: &str,
    owner: Option<Owner>,
) {
    let place = match owner {
        Some(Owner::Program(place) | Owner::Header(place)) => place,
        _ => Place::default(),
    };
    let site = sites.site(&place);
    ir.at(call);
    let argument = ir.operand(call, 0);
    let (name, ty) = (format!("{PREFIX}{name}"), ir.type_of(call));
    if name.ends_with("free") {
        ir.call(&name, ir.void(), &[ir.cast(argument, ir.pointer), site]);
    } else {
        let memory = ir.call(&name, ir.pointer, &[ir.to_64_bits(argument), site]);
        ll!(ir, LLVMReplaceAllUsesWith(call, ir.cast(memory, ty)));
    }
    ll!(ir, LLVMInstructionEraseFromParent(call));
}
