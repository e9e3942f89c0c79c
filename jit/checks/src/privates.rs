//! Variables on an item's stack: their bounds, and bits for the bytes that are written.
//!
//! A variable gets memory around it:
//!
//! ```text
//! | gap | variable, filled up to 8 bytes | a bit for each byte | gap |
//! ```
//!
//! The runtime finds the bits behind the variable. A variable whose address leaves the function's
//! own code is registered as well, so that the runtime finds it by addresses inside it.

use crate::PREFIX;
use crate::globals::is_of_header as is_own_of_header;
use crate::ir::{Ir, ll};
use crate::places::{Owner, Place, Sites, is_entry, is_function_of_header, owner};
use longshore_llvm::types::*;

/// Least number of bytes around a variable with its bits.
const GAP: u64 = 32;
/// Prefix of the names of the header's structures.
const OF_HEADER: &str = "struct.longshore_";
/// Name of the runtime's function that registers shared memory.
const SHARED: &str = "__longshore_check_shared";

/// The variables on a function's stack that the pass checks.
#[derive(Default)]
pub(crate) struct Privates {
    pub(crate) own: Vec<Private>,
    /// Variables that the items share, which the header registers.
    pub(crate) shared: Vec<ValueRef>,
}

/// A checked variable of an item on the stack.
pub(crate) struct Private {
    pub(crate) alloca: ValueRef,
    pub(crate) bytes: u64,
    /// Whether other code may have the address.
    pub(crate) escapes: bool,
}

/// The object to which an address belongs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Base {
    /// A variable on the stack.
    Variable(ValueRef),
    /// A variable of the module, of this number of bytes.
    Global(ValueRef, u64),
    /// A structure of the header, or a variable that only the header uses.
    Header,
    Unknown,
}

/// Returns the object to which an address belongs.
pub(crate) fn base_of(ir: &Ir<'_>, address: ValueRef) -> Base {
    base(ir, address, &mut Vec::new()).unwrap_or(Base::Unknown)
}

/// Returns `None` for an address that only depends on the phis of `seen`.
fn base(ir: &Ir<'_>, mut at: ValueRef, seen: &mut Vec<ValueRef>) -> Option<Base> {
    loop {
        if let Some(variable) = ll!(ir, LLVMIsAGlobalVariable(at)).present() {
            return Some(global_base(ir, variable));
        }
        let is_constant = !ll!(ir, LLVMIsAConstantExpr(at)).is_null();
        let code = match is_constant {
            true => ll!(ir, LLVMGetConstOpcode(at)),
            false if ir.is_instruction(at) => ir.opcode(at),
            false => return Some(Base::Unknown),
        };
        match code {
            opcode::ALLOCA if is_of_header(ir, ll!(ir, LLVMGetAllocatedType(at))) => {
                return Some(Base::Header);
            }
            opcode::ALLOCA => return Some(Base::Variable(at)),
            opcode::GET_ELEMENT_PTR => {
                if is_of_header(ir, ll!(ir, LLVMGetGEPSourceElementType(at))) {
                    return Some(Base::Header);
                }
                at = ir.operand(at, 0);
            }
            opcode::BIT_CAST | opcode::ADDR_SPACE_CAST => at = ir.operand(at, 0),
            opcode::PHI if seen.contains(&at) => return None,
            opcode::PHI => {
                seen.push(at);
                let mut found = None;
                for value in ir.incoming(at) {
                    match (base(ir, value, seen), found) {
                        (None, _) => {}
                        (other, None) => found = other,
                        (other, _) if other == found => {}
                        _ => return Some(Base::Unknown),
                    }
                }
                return found;
            }
            _ => return Some(Base::Unknown),
        }
    }
}

fn is_of_header(ir: &Ir<'_>, ty: TypeRef) -> bool {
    ir.struct_name(ty).starts_with(OF_HEADER)
}

fn global_base(ir: &Ir<'_>, variable: ValueRef) -> Base {
    let is_of_thread = ll!(ir, LLVMIsThreadLocal(variable)) != 0;
    if is_of_thread || is_own_of_header(&ir.name(variable)) {
        return Base::Header;
    }
    // Another module may define the variable with another size.
    let is_whole = ll!(ir, LLVMIsDeclaration(variable)) == 0;
    let ty = ll!(ir, LLVMGlobalGetValueType(variable));
    let bytes = ll!(ir, LLVMABISizeOfType(ir.layout, ty));
    if is_whole { Base::Global(variable, bytes) } else { Base::Unknown }
}

/// Finds the variables of a function to be checked.
pub(crate) fn find(ir: &Ir<'_>, function: ValueRef) -> Privates {
    let mut found = Privates::default();
    if is_function_of_header(ir, function) {
        return found;
    }
    let allocas = ir.all_instructions(function).into_iter();
    for alloca in allocas.filter(|it| ir.opcode(*it) == opcode::ALLOCA) {
        let uses = uses(ir, alloca);
        match uses.is_shared {
            true => found.shared.push(alloca),
            false => found.own.extend(private(ir, alloca, uses.escapes)),
        }
    }
    found
}

fn private(ir: &Ir<'_>, alloca: ValueRef, escapes: bool) -> Option<Private> {
    let ty = ll!(ir, LLVMGetAllocatedType(alloca));
    let count = ll!(ir, LLVMIsAConstantInt(ir.operand(alloca, 0))).present()?;
    if is_of_header(ir, ty) {
        return None;
    }
    let count = ll!(ir, LLVMConstIntGetZExtValue(count));
    let bytes = ll!(ir, LLVMABISizeOfType(ir.layout, ty)).checked_mul(count)?;
    (bytes > 0).then_some(Private { alloca, bytes, escapes })
}

#[derive(Default)]
struct Uses {
    /// The header registers the variable as shared memory.
    is_shared: bool,
    escapes: bool,
    seen: Vec<ValueRef>,
}

fn uses(ir: &Ir<'_>, alloca: ValueRef) -> Uses {
    let mut uses = Uses::default();
    follow(ir, alloca, &mut uses);
    uses
}

fn follow(ir: &Ir<'_>, value: ValueRef, uses: &mut Uses) {
    for user in ir.users(value) {
        if uses.seen.contains(&user) {
            continue;
        }
        match ir.opcode(user) {
            opcode::GET_ELEMENT_PTR | opcode::BIT_CAST | opcode::PHI => {
                // The runtime has to find out which of several variables it is.
                let is_one_of_many = base_of(ir, user) == Base::Unknown;
                uses.escapes |= is_one_of_many;
                uses.seen.push(user);
                follow(ir, user, uses);
            }
            opcode::LOAD => {}
            opcode::STORE => uses.escapes |= ir.operand(user, 0) == value,
            _ => match ir.callee_name(user) {
                Some(name) if name == SHARED => uses.is_shared = true,
                Some(name) if name.starts_with("llvm.lifetime.") => {}
                _ => uses.escapes = true,
            },
        }
    }
}

/// Gives the variables of a function the memory around them.
pub(crate) fn enlarge(
    ir: &Ir<'_>,
    sites: &mut Sites<'_, '_>,
    function: ValueRef,
    privates: &Privates,
) {
    let is_entry = is_entry(ir, function);
    for private in &privates.own {
        let place = private_place(ir, private.alloca, is_entry);
        let site = sites.site(&place);
        enlarge_one(ir, function, private, site);
    }
}

/// Returns the place of a variable's first use.
fn private_place(ir: &Ir<'_>, alloca: ValueRef, is_entry: bool) -> Place {
    let places = ir.users(alloca).into_iter().filter(|user| ir.is_instruction(*user));
    let mut places = places.filter_map(|user| match owner(ir, user, is_entry)? {
        Owner::Program(place) | Owner::Header(place) => Some(place),
        Owner::Entry => None,
    });
    places.next().unwrap_or_default()
}

fn enlarge_one(ir: &Ir<'_>, function: ValueRef, private: &Private, site: ValueRef) {
    let (alloca, bytes) = (private.alloca, private.bytes);
    let alignment = u64::from(ll!(ir, LLVMGetAlignment(alloca))).max(16);
    let before = GAP.max(alignment);
    let filled = bytes.next_multiple_of(8);
    let bits = bytes.div_ceil(8);
    let whole = before + filled + bits.next_multiple_of(8) + GAP;
    ir.at(alloca);
    let count = ir.constant(64, whole);
    let memory = ll!(ir, LLVMBuildArrayAlloca(ir.builder, ir.int(8), count, c"".as_ptr()));
    ll!(ir, LLVMSetAlignment(memory, alignment as u32));
    let data = ir.behind(memory, before);
    let lifetimes = lifetimes(ir, alloca);
    let start = |ends: bool| lifetimes.iter().filter(move |(_, end)| *end == ends);
    let begin = |forget: bool| {
        if forget {
            let (zero, length) = (ir.constant(8, 0), ir.constant(64, bits));
            let at = ir.behind(data, filled);
            ll!(ir, LLVMBuildMemSet(ir.builder, at, zero, length, 1));
        }
        if private.escapes {
            let size = ir.constant(64, bytes);
            ir.call(&format!("{PREFIX}begin_private"), ir.void(), &[data, size, site]);
        }
    };
    begin(true);
    for (call, _) in start(false) {
        ir.at(*call);
        begin(true);
    }
    if private.escapes {
        let ends = start(true).map(|(call, _)| *call);
        for end in ends.chain(returns(ir, function)) {
            ir.at(end);
            ir.call(&format!("{PREFIX}end_private"), ir.void(), &[data]);
        }
    }
    for (call, _) in &lifetimes {
        ll!(ir, LLVMInstructionEraseFromParent(*call));
    }
    ir.at(alloca);
    let replacement = ir.cast(data, ir.type_of(alloca));
    ll!(ir, LLVMReplaceAllUsesWith(alloca, replacement));
    ll!(ir, LLVMInstructionEraseFromParent(alloca));
}

/// Returns the calls that begin and end the variable's lifetime, and whether each ends it.
fn lifetimes(ir: &Ir<'_>, alloca: ValueRef) -> Vec<(ValueRef, bool)> {
    let mut found = Vec::new();
    for user in ir.users(alloca) {
        if ir.opcode(user) == opcode::BIT_CAST {
            found.extend(lifetimes(ir, user));
            continue;
        }
        match ir.callee_name(user) {
            Some(name) if name.starts_with("llvm.lifetime.start") => found.push((user, false)),
            Some(name) if name.starts_with("llvm.lifetime.end") => found.push((user, true)),
            _ => {}
        }
    }
    found
}

fn returns(ir: &Ir<'_>, function: ValueRef) -> impl Iterator<Item = ValueRef> {
    let all = ir.all_instructions(function).into_iter();
    all.filter(|it| ir.opcode(*it) == opcode::RET).collect::<Vec<_>>().into_iter()
}
