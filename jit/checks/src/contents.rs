//! The bytes of an access that count as read or written.
//!
//! Clang reads more than the program asks for: the word around a bit field, the vector around an
//! element, and a structure as the numbers by which functions pass it. Some of the bytes need not
//! be written.

use crate::accesses::{is_same, kind};
use crate::ir::{Ir, ll};
use crate::privates::{Base, base_of};
use longshore_llvm::types::*;

/// Most elements of a vector, and most parts of an access.
const MOST: usize = 16;

/// Lanes of a vector, each with its place in the vector that was loaded.
type Lanes = Vec<Option<usize>>;

/// Returns the bits of an access's kind about the bytes of a load or store that count.
pub(crate) fn kind_of(ir: &Ir<'_>, access: ValueRef, bytes: u64) -> u64 {
    let is_load = ir.opcode(access) == opcode::LOAD;
    if is_load && (is_word_of_bit_field(ir, access) || is_passed_structure(ir, access)) {
        return kind::ANY_CONTENTS;
    }
    let value = if is_load { access } else { ir.operand(access, 0) };
    let Some(count) = lanes_of(ir, value, bytes) else { return 0 };
    let mut counts = vec![false; count];
    if is_load {
        let lanes: Lanes = (0..count).map(Some).collect();
        mark_used(ir, access, &lanes, ir.operand(access, 0), &mut counts);
        if !counts.contains(&true) {
            return kind::ANY_CONTENTS;
        }
    } else {
        let address = ir.operand(access, 1);
        for (lane, counts) in counts.iter_mut().enumerate() {
            *counts = !is_kept(ir, value, (lane, lane), address);
        }
    }
    parts(&counts, bytes)
}

/// Returns the bits of the parts of an access that count; none if all do.
fn parts(counts: &[bool], bytes: u64) -> u64 {
    let lane = bytes as usize / counts.len();
    let size = (bytes as usize).div_ceil(MOST);
    let is_even = lane.is_multiple_of(size);
    if !is_even || !counts.contains(&true) || !counts.contains(&false) {
        return 0;
    }
    let parts = (0..bytes as usize / size).filter(|part| counts[part * size / lane]);
    parts.fold(0, |bits, part| bits | 1 << (kind::PARTS_SHIFT as usize + part))
}

/// Returns the number of elements of a vector of whole bytes.
fn lanes_of(ir: &Ir<'_>, value: ValueRef, bytes: u64) -> Option<usize> {
    let ty = ir.type_of(value);
    if ir.kind(ty) != type_kind::VECTOR {
        return None;
    }
    let element = ir.bytes_of(ll!(ir, LLVMGetElementType(ty)));
    let count = u64::from(ll!(ir, LLVMGetVectorSize(ty)));
    (count * element == bytes && count <= MOST as u64).then_some(count as usize)
}

/// Marks the lanes of a loaded vector that have another use than to be stored where they are from.
fn mark_used(ir: &Ir<'_>, value: ValueRef, lanes: &Lanes, from: ValueRef, used: &mut [bool]) {
    for user in ir.users(value) {
        let index = |operand| ir.constant_value(ir.operand(user, operand)).map(|it| it as usize);
        match ir.opcode(user) {
            opcode::EXTRACT_ELEMENT if index(1).is_some_and(|index| index < lanes.len()) => {
                mark(lanes.iter().skip(index(1).unwrap_or_default()).take(1), used);
            }
            opcode::INSERT_ELEMENT if ir.operand(user, 0) == value => {
                let mut rest = lanes.clone();
                if let Some(lane) = index(2).and_then(|index| rest.get_mut(index)) {
                    *lane = None;
                }
                mark_used(ir, user, &rest, from, used);
            }
            opcode::SHUFFLE_VECTOR => {
                let place = |operand| ir.operand(user, operand) == value;
                let source = |index: usize| match index.checked_sub(lanes.len()) {
                    None => lanes[index].filter(|_| place(0)),
                    Some(index) => lanes.get(index).copied().flatten().filter(|_| place(1)),
                };
                let count = ll!(ir, LLVMGetNumMaskElements(user));
                let mask = (0..count).map(|index| ll!(ir, LLVMGetMaskValue(user, index)));
                let rest = mask.map(|index| usize::try_from(index).ok().and_then(source)).collect();
                mark_used(ir, user, &rest, from, used);
            }
            opcode::STORE
                if ir.operand(user, 0) == value && is_same(ir, from, ir.operand(user, 1)) =>
            {
                let moved = lanes.iter().enumerate().filter(|(to, from)| **from != Some(*to));
                mark(moved.map(|(_, from)| from), used);
            }
            _ => mark(lanes.iter(), used),
        }
    }
}

fn mark<'a>(lanes: impl Iterator<Item = &'a Option<usize>>, used: &mut [bool]) {
    for lane in lanes.copied().flatten() {
        used[lane] = true;
    }
}

/// Returns whether a lane of a stored vector is lane `home` of the vector at the same address.
fn is_kept(ir: &Ir<'_>, value: ValueRef, (lane, home): (usize, usize), address: ValueRef) -> bool {
    if !ir.is_instruction(value) {
        return false;
    }
    match ir.opcode(value) {
        opcode::LOAD => lane == home && is_same(ir, ir.operand(value, 0), address),
        opcode::INSERT_ELEMENT => match ir.constant_value(ir.operand(value, 2)) {
            Some(index) => {
                index != lane as u64 && is_kept(ir, ir.operand(value, 0), (lane, home), address)
            }
            None => false,
        },
        opcode::SHUFFLE_VECTOR => {
            let first = ir.operand(value, 0);
            let count = ll!(ir, LLVMGetVectorSize(ir.type_of(first))) as usize;
            let lane = usize::try_from(ll!(ir, LLVMGetMaskValue(value, lane as u32)));
            lane.is_ok_and(|lane| match lane.checked_sub(count) {
                None => is_kept(ir, first, (lane, home), address),
                Some(lane) => is_kept(ir, ir.operand(value, 1), (lane, home), address),
            })
        }
        _ => false,
    }
}

/// Returns whether a load may be of the word around a bit field, most of which need not be written.
fn is_word_of_bit_field(ir: &Ir<'_>, load: ValueRef) -> bool {
    let parts = [opcode::AND, opcode::SHL, opcode::LSHR, opcode::ASHR];
    let is_part = |user: &ValueRef| parts.contains(&ir.opcode(*user));
    let address = ir.operand(load, 0);
    let is_of_structure = || match base_of(ir, address) {
        Base::Variable(alloca) => is_structure(ir, ll!(ir, LLVMGetAllocatedType(alloca))),
        _ => place_of(ir, address).is_some_and(|it| it.is_field || is_structure(ir, it.ty)),
    };
    ir.users(load).iter().all(is_part) && is_of_structure()
}

/// Returns whether a type is a structure, or an array of structures.
fn is_structure(ir: &Ir<'_>, mut ty: TypeRef) -> bool {
    while ir.kind(ty) == type_kind::ARRAY {
        ty = ll!(ir, LLVMGetElementType(ty));
    }
    ir.kind(ty) == type_kind::STRUCT
}

/// Returns whether a load is of a part of a structure that a function takes or returns: by the ABI
/// the function passes it as numbers, whatever members it has.
fn is_passed_structure(ir: &Ir<'_>, load: ValueRef) -> bool {
    // Clang reads a structure or an array as one value for no other purpose.
    if matches!(ir.kind(ir.type_of(load)), type_kind::STRUCT | type_kind::ARRAY) {
        return true;
    }
    let address = ir.operand(load, 0);
    let Some(place) = place_of(ir, address) else { return false };
    let name = ir.struct_name(place.ty);
    let is_whole = ir.kind(place.ty) == type_kind::STRUCT;
    match (is_whole || place.is_of_abi, is_copy(ir, address)) {
        // A plain read of a union's member has the union's own address too.
        (true, _) => is_passed(ir, load, !name.starts_with("union.")),
        (false, is_copy) => is_copy && is_passed(ir, load, false),
    }
}

/// Returns whether calls and returns, and stores if `may_store`, are the only uses of a value.
fn is_passed(ir: &Ir<'_>, value: ValueRef, may_store: bool) -> bool {
    ir.users(value).into_iter().all(|user| match ir.opcode(user) {
        opcode::CALL => ir.callee_name(user).is_none_or(|name| !name.starts_with("llvm.")),
        opcode::RET => true,
        opcode::STORE => may_store && ir.operand(user, 0) == value,
        opcode::INSERT_VALUE => is_passed(ir, user, may_store),
        _ => false,
    })
}

/// Returns whether an address is that of a variable to which a structure was copied for a call.
fn is_copy(ir: &Ir<'_>, mut address: ValueRef) -> bool {
    let is_cast = |at| ir.is_instruction(at) && ir.opcode(at) == opcode::BIT_CAST;
    while is_cast(address) {
        address = ir.operand(address, 0);
    }
    let is_variable = ir.is_instruction(address) && ir.opcode(address) == opcode::ALLOCA;
    let casts = ir.users(address).into_iter().filter(|user| is_cast(*user));
    let mut all =
        casts.chain([address]).flat_map(|at| ir.users(at).into_iter().map(move |it| (at, it)));
    is_variable
        && all.any(|(at, user)| {
            let name = ir.callee_name(user).unwrap_or_default();
            name.starts_with("llvm.memcpy.") && ir.operand(user, 0) == at
        })
}

/// The place in an object to which an address points.
struct PlaceIn {
    ty: TypeRef,
    /// Whether the place is a member of a structure.
    is_field: bool,
    /// Whether the structure has no name: functions pass others as such structures.
    is_of_abi: bool,
}

/// Returns the place of an address, as far as its own instructions tell.
fn place_of(ir: &Ir<'_>, address: ValueRef) -> Option<PlaceIn> {
    if !ir.is_instruction(address) {
        return None;
    }
    match ir.opcode(address) {
        opcode::BIT_CAST => place_of(ir, ir.operand(address, 0)),
        opcode::ALLOCA => {
            let ty = ll!(ir, LLVMGetAllocatedType(address));
            Some(PlaceIn { ty, is_field: false, is_of_abi: false })
        }
        opcode::GET_ELEMENT_PTR => {
            let ty = ll!(ir, LLVMGetGEPSourceElementType(address));
            let mut place = PlaceIn { ty, is_field: false, is_of_abi: false };
            for index in ir.operands(address).into_iter().skip(2) {
                place = inside(ir, place.ty, index)?;
            }
            Some(place)
        }
        _ => None,
    }
}

/// Returns a member of a structure, or an element of an array.
fn inside(ir: &Ir<'_>, ty: TypeRef, index: ValueRef) -> Option<PlaceIn> {
    match ir.kind(ty) {
        type_kind::STRUCT => {
            let index = ir.constant_value(index)? as u32;
            let is_of_abi = ir.struct_name(ty).is_empty();
            let ty = ll!(ir, LLVMStructGetTypeAtIndex(ty, index));
            Some(PlaceIn { ty, is_field: true, is_of_abi })
        }
        type_kind::ARRAY | type_kind::VECTOR => {
            let ty = ll!(ir, LLVMGetElementType(ty));
            Some(PlaceIn { ty, is_field: false, is_of_abi: false })
        }
        _ => None,
    }
}
