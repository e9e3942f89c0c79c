//! The memory behind each pointer of a kernel.
//!
//! A pointer is a number of 64 bits. It is an address of device memory, or it names a variable of
//! the item or the group. Then its highest bits are [`object_tag`], and the lowest 32 bits are an
//! offset in bytes.

use crate::constants::located;
use crate::numbers::numbers;
use longshore_llvm::types::*;
use longshore_llvm::{Ir, ll};
use std::collections::{BTreeSet, HashMap, HashSet};

/// The memory that a pointer may lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Origin {
    /// Device memory.
    Memory,
    /// An argument of the kernel.
    Argument(u32),
    /// A variable of the item or the group.
    Object(usize),
}

/// A variable of the item or the group.
pub(crate) struct Object {
    pub(crate) class: Class,
    pub(crate) bytes: u64,
    /// Bytes of its elements, and of its smallest access.
    pub(crate) width: u32,
}

/// The owner of a variable.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    Item,
    Group,
    /// The group; the launch chooses the size.
    Dynamic,
}

/// Number of bits below the tag of a pointer to a variable.
pub(crate) const TAG_SHIFT: u32 = 40;
/// Address space of the group's variables.
const GROUP_SPACE: u32 = 3;

/// Returns the highest bits of pointers to a variable, shifted by [`TAG_SHIFT`].
pub(crate) fn object_tag(object: usize) -> u64 {
    0xf0_0000 | object as u64
}

/// The variables of a kernel.
pub(crate) struct Objects {
    pub(crate) list: Vec<Object>,
    by_value: HashMap<ValueRef, usize>,
    /// Variables whose addresses the kernel stores in memory.
    escaped: BTreeSet<Origin>,
}

impl Objects {
    /// Finds the variables of a kernel and their accesses.
    pub(crate) fn find(ir: &Ir<'_>, function: ValueRef) -> Result<Objects, String> {
        let mut objects =
            Objects { list: Vec::new(), by_value: HashMap::new(), escaped: BTreeSet::new() };
        let instructions = ir.all_instructions(function);
        for instruction in &instructions {
            objects
                .add_variables(ir, *instruction)
                .map_err(|problem| located(ir, *instruction, problem))?;
        }
        for instruction in &instructions {
            objects.note_escape(ir, *instruction);
        }
        let mut widths: HashMap<usize, u32> = HashMap::new();
        for instruction in &instructions {
            let accesses = accesses(ir, *instruction);
            for (pointer, bytes) in
                accesses.map_err(|problem| located(ir, *instruction, problem))?
            {
                for origin in objects.origins(ir, pointer) {
                    let Origin::Object(object) = origin else { continue };
                    let width = widths.entry(object).or_insert(bytes);
                    *width = bytes.min(*width);
                }
            }
        }
        for (object, width) in widths {
            objects.list[object].width = width;
        }
        Ok(objects)
    }

    /// Returns the variable that this value is.
    pub(crate) fn number_of(&self, value: ValueRef) -> Option<usize> {
        self.by_value.get(&value).copied()
    }

    /// Returns the memory that a pointer may lead to.
    pub(crate) fn origins(&self, ir: &Ir<'_>, pointer: ValueRef) -> BTreeSet<Origin> {
        let (mut found, mut seen) = (BTreeSet::new(), HashSet::new());
        let mut pending = vec![pointer];
        while let Some(value) = pending.pop() {
            if seen.insert(value) {
                self.step(ir, value, &mut found, &mut pending);
            }
        }
        match found.is_empty() {
            // A null or undefined pointer: the access never happens.
            true => BTreeSet::from([Origin::Memory]),
            false => found,
        }
    }

    /// Adds the origins of one value, or the values that it is computed from.
    fn step(
        &self,
        ir: &Ir<'_>,
        value: ValueRef,
        found: &mut BTreeSet<Origin>,
        pending: &mut Vec<ValueRef>,
    ) {
        if let Some(object) = self.number_of(value) {
            found.insert(Origin::Object(object));
            return;
        }
        if !ll!(ir, LLVMIsAGlobalVariable(value)).is_null() {
            found.insert(Origin::Memory);
            return;
        }
        match operation(ir, value) {
            Some(opcode::PHI) => {
                let count = ll!(ir, LLVMCountIncoming(value));
                pending.extend((0..count).map(|it| ll!(ir, LLVMGetIncomingValue(value, it))));
            }
            Some(opcode::SELECT) => pending.extend(ir.operands(value).into_iter().skip(1)),
            Some(opcode::GET_ELEMENT_PTR | opcode::FREEZE) => pending.push(ir.operand(value, 0)),
            Some(opcode::BIT_CAST | opcode::ADDR_SPACE_CAST) => pending.push(ir.operand(value, 0)),
            Some(opcode::CALL) => match argument(ir, value) {
                Some(argument) => {
                    found.insert(Origin::Argument(argument));
                }
                None => self.unknown(found),
            },
            Some(_) => self.unknown(found),
            None => {}
        }
    }

    fn unknown(&self, found: &mut BTreeSet<Origin>) {
        found.insert(Origin::Memory);
        found.extend(&self.escaped);
    }

    /// Notes the variables that an instruction uses, or makes.
    fn add_variables(&mut self, ir: &Ir<'_>, instruction: ValueRef) -> Result<(), String> {
        if ir.opcode(instruction) == opcode::ALLOCA {
            let count = ir.constant_value(ir.operand(instruction, 0));
            let count = count.ok_or("an array of variable size cannot be expressed in SPIR-V")?;
            let ty = ll!(ir, LLVMGetAllocatedType(instruction));
            let bytes = size_of(ir, ty).saturating_mul(count);
            self.add(instruction, Class::Item, bytes);
        }
        let mut pending = ir.operands(instruction);
        while let Some(value) = pending.pop() {
            if !ll!(ir, LLVMIsAConstantExpr(value)).is_null() {
                pending.extend(ir.operands(value));
            }
            if is_of_group(ir, value) && self.number_of(value).is_none() {
                let ty = ll!(ir, LLVMGlobalGetValueType(value));
                let bytes = size_of(ir, ty);
                let class = if bytes == 0 { Class::Dynamic } else { Class::Group };
                self.add(value, class, bytes);
            }
        }
        Ok(())
    }

    fn add(&mut self, value: ValueRef, class: Class, bytes: u64) {
        self.by_value.insert(value, self.list.len());
        self.list.push(Object { class, bytes, width: 4 });
    }

    /// Notes the variables whose addresses an instruction stores or makes a number of.
    fn note_escape(&mut self, ir: &Ir<'_>, instruction: ValueRef) {
        let escaping = match ir.opcode(instruction) {
            opcode::STORE | opcode::PTR_TO_INT | opcode::INSERT_VALUE => 0..1,
            opcode::ATOMIC_RMW | opcode::INSERT_ELEMENT => 1..2,
            opcode::ATOMIC_CMP_XCHG => 2..3,
            _ => 0..0,
        };
        let second = ir.opcode(instruction) == opcode::INSERT_VALUE;
        for index in escaping {
            let value = ir.operand(instruction, index + u32::from(second));
            if ir.kind(ir.type_of(value)) == type_kind::POINTER {
                let origins = self.origins(ir, value);
                self.escaped.extend(origins.iter().filter(|it| matches!(it, Origin::Object(_))));
            }
        }
    }
}

/// Returns whether a value is a variable of the group.
pub(crate) fn is_of_group(ir: &Ir<'_>, value: ValueRef) -> bool {
    !ll!(ir, LLVMIsAGlobalVariable(value)).is_null()
        && ll!(ir, LLVMGetPointerAddressSpace(ir.type_of(value))) == GROUP_SPACE
}

/// Returns the bytes of a type in memory.
pub(crate) fn size_of(ir: &Ir<'_>, ty: TypeRef) -> u64 {
    let layout = ll!(ir, LLVMGetModuleDataLayout(ir.module));
    ll!(ir, LLVMABISizeOfType(layout, ty))
}

/// Returns the opcode of an instruction or a constant expression.
pub(crate) fn operation(ir: &Ir<'_>, value: ValueRef) -> Option<u32> {
    match ir.is_instruction(value) {
        true => Some(ir.opcode(value)),
        false => ll!(ir, LLVMIsAConstantExpr(value))
            .present()
            .map(|value| ll!(ir, LLVMGetConstOpcode(value))),
    }
}

/// Returns the argument whose place a call asks for.
pub(crate) fn argument(ir: &Ir<'_>, call: ValueRef) -> Option<u32> {
    let name = ir.name(ir.callee(call)?);
    (name == "__longshore_spirv_argument").then_some(())?;
    u32::try_from(ir.constant_value(ir.operand(call, 0))?).ok()
}

/// Returns the pointers through which an instruction accesses memory, with the bytes of its
/// smallest part.
fn accesses(ir: &Ir<'_>, instruction: ValueRef) -> Result<Vec<(ValueRef, u32)>, String> {
    let of = |index: u32, ty: TypeRef| {
        let align = ll!(ir, LLVMGetAlignment(instruction)).max(1);
        let parts = numbers(ir, ty)?;
        let bytes = parts.iter().map(|(number, at)| part_of(number.bytes(), align, *at)).min();
        Ok(vec![(ir.operand(instruction, index), bytes.unwrap_or(4))])
    };
    match ir.opcode(instruction) {
        opcode::LOAD => of(0, ir.type_of(instruction)),
        opcode::STORE => of(1, ir.type_of(ir.operand(instruction, 0))),
        opcode::ATOMIC_RMW | opcode::ATOMIC_CMP_XCHG => {
            let ty = ir.type_of(ir.operand(instruction, 1));
            let bytes = numbers(ir, ty)?.first().map_or(4, |(number, _)| number.bytes());
            Ok(vec![(ir.operand(instruction, 0), bytes)])
        }
        opcode::CALL => Ok(copied(ir, instruction).map_or_else(Vec::new, |copy| {
            copy.pointers.into_iter().map(|pointer| (pointer, copy.unit)).collect()
        })),
        _ => Ok(Vec::new()),
    }
}

/// Returns the bytes that one instruction accesses of a number: a divisor of its size, by the
/// alignment of a value in which it has an offset.
pub(crate) fn part_of(bytes: u32, align: u32, at: u64) -> u32 {
    let at = if at == 0 { bytes } else { 1 << at.trailing_zeros().min(16) };
    bytes.min(align).min(at).max(1)
}

/// A call that copies or fills memory.
pub(crate) struct Copied {
    /// The destination, and the source of a copy.
    pub(crate) pointers: Vec<ValueRef>,
    /// Bytes of each access.
    pub(crate) unit: u32,
}

/// Largest accesses of calls that copy or fill memory, in bytes.
const LARGEST_UNIT: u64 = 4;

/// Returns the pointers and accesses of a call that copies or fills memory.
pub(crate) fn copied(ir: &Ir<'_>, call: ValueRef) -> Option<Copied> {
    let name = ir.name(ir.callee(call)?);
    let is = |prefix: &str| name.starts_with(prefix);
    let pointers = match is("llvm.memcpy") || is("llvm.memmove") {
        true => 2,
        false if is("llvm.memset") => 1,
        false => return None,
    };
    let align = ll!(ir, LLVMGetEnumAttributeKindForName(c"align".as_ptr(), 5));
    let alignment = |index: u32| {
        let found = ll!(ir, LLVMGetCallSiteEnumAttribute(call, index + 1, align)).present();
        found.map_or(1, |found| ll!(ir, LLVMGetEnumAttributeValue(found)))
    };
    let bytes = ir.constant_value(ir.operand(call, 2)).unwrap_or(1);
    let whole = 1u64 << bytes.trailing_zeros().min(16);
    let unit = (0..pointers).map(alignment).fold(LARGEST_UNIT.min(whole), u64::min);
    let pointers = (0..pointers).map(|index| ir.operand(call, index)).collect();
    Some(Copied { pointers, unit: unit.max(1) as u32 })
}
