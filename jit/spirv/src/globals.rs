//! The variables of a module: one block in device memory, and its initial values.

use crate::constants::{bits, elements};
use crate::module::Module;
use crate::names::{DESCRIPTION, NOTE};
use crate::numbers::numbers;
use crate::objects::{is_of_group, operation, size_of};
use longshore_llvm::types::*;
use longshore_llvm::{Ir, ll};
use rspirv::dr::{Instruction, Operand};
use rspirv::spirv::{Capability, MemoryAccess, Op, StorageClass, Word};
use std::collections::{HashMap, HashSet};

/// Name of the block, as the Vulkan backend knows it.
pub(crate) const GLOBALS: &str = "longshore_globals";
/// Name of the entry point that sets the initial values.
const CONSTRUCTOR: &str = "longshore_constructor_0_initial_values";
/// Least alignment of a variable in bytes: all variables can be read in words.
const LEAST_ALIGNMENT: u64 = 8;

/// The variables of a module.
pub(crate) struct Globals {
    list: Vec<Global>,
    by_value: HashMap<ValueRef, usize>,
}

/// A variable.
struct Global {
    name: String,
    offset: u64,
    initial: Initial,
}

/// Initial contents of a variable.
#[derive(Default)]
pub(crate) struct Initial {
    pub(crate) bytes: Vec<u8>,
    /// Places that contain the address of a variable, with an offset.
    addresses: Vec<(u64, ValueRef, u64)>,
}

impl Globals {
    /// Finds the variables in device memory.
    pub(crate) fn find(ir: &Ir<'_>) -> Result<Globals, String> {
        let mut globals = Globals { list: Vec::new(), by_value: HashMap::new() };
        let mut offset = 0u64;
        for global in ir.all_globals() {
            let name = ir.name(global);
            if name == "llvm.global_ctors" || name == "llvm.global_dtors" {
                return Err(
                    "constructors of variables do not exist for SPIR-V; give the variables \
                            constant initial values"
                        .to_owned(),
                );
            }
            let is_note = name.starts_with(DESCRIPTION) || name.contains(NOTE);
            if is_note || name.starts_with("llvm.") || is_of_group(ir, global) {
                continue;
            }
            if !ir.is_defined(global) {
                // An unused declaration does not matter; a used one is an error at its use.
                continue;
            }
            let initial = initial_bytes(ir, global)?;
            let align = u64::from(ll!(ir, LLVMGetAlignment(global))).max(LEAST_ALIGNMENT);
            offset = offset.next_multiple_of(align);
            globals.by_value.insert(global, globals.list.len());
            let bytes = initial.bytes.len().max(1) as u64;
            globals.list.push(Global { name, offset, initial });
            offset += bytes;
        }
        match u32::try_from(offset) {
            Ok(_) => Ok(globals),
            Err(_) => Err("the variables of the module exceed 4 GiB".to_owned()),
        }
    }

    /// Returns the offset of a variable in the block.
    pub(crate) fn offset(&self, global: ValueRef) -> Option<u64> {
        self.by_value.get(&global).map(|index| self.list[*index].offset)
    }

    /// Returns whether a function uses a variable.
    pub(crate) fn are_used(&self, ir: &Ir<'_>, function: ValueRef) -> bool {
        let (mut seen, mut pending) = (HashSet::new(), ir.all_instructions(function));
        while let Some(value) = pending.pop() {
            if self.by_value.contains_key(&value) {
                return true;
            }
            let is_plain = !ir.is_instruction(value) && ll!(ir, LLVMIsConstant(value)) == 0;
            if is_plain || !ll!(ir, LLVMIsAFunction(value)).is_null() || !seen.insert(value) {
                continue;
            }
            if ll!(ir, LLVMIsAGlobalVariable(value)).is_null() {
                pending.extend(ir.operands(value));
            }
        }
        false
    }

    /// Declares the block, and returns the type of pointers to it; `None` without variables.
    pub(crate) fn declare(&self, to: &mut Module) -> Option<Word> {
        if self.list.is_empty() {
            return None;
        }
        let mut members = Vec::new();
        for global in &self.list {
            let bytes = global.initial.bytes.len().max(1) as u32;
            let ty = match bytes {
                4 | 8 => to.int(bytes * 8),
                _ => {
                    let unit = if bytes.is_multiple_of(4) { 4 } else { 1 };
                    if unit == 1 {
                        to.need(Capability::StorageBuffer8BitAccess);
                        // A block of push constants with a pointer to bytes counts as one of bytes.
                        to.need(Capability::StoragePushConstant8);
                    }
                    let (element, length) = (to.int(unit * 8), to.word(bytes / unit));
                    to.array(element, length, unit)
                }
            };
            members.push((global.name.clone(), ty, global.offset as u32));
        }
        let block = to.block(GLOBALS, &members);
        Some(to.pointer(StorageClass::PhysicalStorageBuffer, block))
    }

    /// Emits the constructor, unless all initial values are zero.
    pub(crate) fn construct(&self, to: &mut Module, block: Option<Word>) {
        let Some(block) = block else { return };
        let is_zero = |global: &Global| {
            global.initial.addresses.is_empty() && global.initial.bytes.iter().all(|it| *it == 0)
        };
        if self.list.iter().all(is_zero) {
            return;
        }
        let function = to.begin();
        let ty = to.block("arguments of the constructor", &[(GLOBALS.to_owned(), block, 0)]);
        let variable = to.variable(StorageClass::PushConstant, ty);
        let pointer = to.pointer(StorageClass::PushConstant, block);
        let (zero, long) = (to.word(0), to.int(64));
        let place = to.op(Op::AccessChain, pointer, &[variable, zero]);
        let base = to.op(Op::Load, block, &[place]);
        let base = to.op(Op::ConvertPtrToU, long, &[base]);
        for global in self.list.iter().filter(|global| !is_zero(global)) {
            self.initialise(to, base, global);
        }
        to.ret();
        to.end(function, CONSTRUCTOR, [1; 3]);
    }

    fn initialise(&self, to: &mut Module, base: Word, global: &Global) {
        let long = to.int(64);
        for (index, word) in (0..).zip(global.initial.bytes.chunks(4)) {
            let at = global.offset + index * 4;
            if let Ok(word) = <[u8; 4]>::try_from(word) {
                let word = u32::from_le_bytes(word);
                let value = to.word(word);
                if word != 0 {
                    write(to, base, at, value, 4);
                }
                continue;
            }
            for (index, byte) in (0..).zip(word).filter(|(_, byte)| **byte != 0) {
                let (value, ty) = (to.word(u32::from(*byte)), to.int(8));
                let value = to.op(Op::UConvert, ty, &[value]);
                write(to, base, at + index, value, 1);
            }
        }
        for (at, target, behind) in &global.initial.addresses {
            let offset = self.offset(*target).unwrap_or_default().wrapping_add(*behind);
            let offset = to.constant(64, offset);
            let address = to.op(Op::IAdd, long, &[base, offset]);
            write(to, base, global.offset + at, address, 8);
        }
    }
}

/// Emits the store of an integer at an offset in the block.
fn write(to: &mut Module, base: Word, offset: u64, value: Word, bytes: u32) {
    let (ty, long) = (to.int(bytes * 8), to.int(64));
    let pointer = to.pointer(StorageClass::PhysicalStorageBuffer, ty);
    let offset = to.constant(64, offset);
    let address = to.op(Op::IAdd, long, &[base, offset]);
    let place = to.op(Op::ConvertUToPtr, pointer, &[address]);
    let aligned = Operand::MemoryAccess(MemoryAccess::ALIGNED);
    let operands =
        vec![Operand::IdRef(place), Operand::IdRef(value), aligned, Operand::LiteralBit32(bytes)];
    to.add(Instruction::new(Op::Store, None, None, operands));
}

/// Returns the initial contents of a variable.
///
/// # Errors
/// The part that is not known before a launch.
pub(crate) fn initial_bytes(ir: &Ir<'_>, global: ValueRef) -> Result<Initial, String> {
    let ty = ll!(ir, LLVMGlobalGetValueType(global));
    let bytes = usize::try_from(size_of(ir, ty)).map_err(|_| "a variable is too large")?;
    let mut initial = Initial { bytes: vec![0; bytes], addresses: Vec::new() };
    if let Some(value) = ll!(ir, LLVMGetInitializer(global)).present() {
        let name = ir.name(global);
        fill(ir, value, 0, &mut initial)
            .map_err(|problem| format!("the initial value of '{name}': {problem}"))?;
    }
    Ok(initial)
}

/// Writes a constant to the contents at an offset.
fn fill(ir: &Ir<'_>, constant: ValueRef, at: u64, to: &mut Initial) -> Result<(), String> {
    if ll!(ir, LLVMIsUndef(constant)) != 0 || ll!(ir, LLVMIsNull(constant)) != 0 {
        return Ok(());
    }
    let ty = ir.type_of(constant);
    let layout = ll!(ir, LLVMGetModuleDataLayout(ir.module));
    if let Some(bits) = bits(ir, constant) {
        let bytes = numbers(ir, ty)?.first().map_or(0, |(number, _)| number.bytes()) as usize;
        let place = to.bytes.get_mut(at as usize..at as usize + bytes);
        let place = place.ok_or("a constant is larger than its variable")?;
        place.copy_from_slice(&bits.to_le_bytes()[..bytes]);
        return Ok(());
    }
    match ir.kind(ty) {
        type_kind::POINTER => {
            let (target, offset) = address(ir, constant, layout)?;
            to.addresses.push((at, target, offset));
            Ok(())
        }
        kind @ (type_kind::STRUCT | type_kind::ARRAY | type_kind::VECTOR) => {
            for (index, element) in (0..).zip(elements(ir, constant)) {
                let offset = match kind {
                    type_kind::STRUCT => ll!(ir, LLVMOffsetOfElement(layout, ty, index)),
                    _ => size_of(ir, ir.type_of(element)) * u64::from(index),
                };
                fill(ir, element, at + offset, to)?;
            }
            Ok(())
        }
        _ => Err(format!("a constant of type {} is not known", ir.show_type(ty))),
    }
}

/// Returns the variable that a constant pointer points into, and the offset.
fn address(
    ir: &Ir<'_>,
    pointer: ValueRef,
    layout: TargetDataRef,
) -> Result<(ValueRef, u64), String> {
    if !ll!(ir, LLVMIsAGlobalVariable(pointer)).is_null() && !is_of_group(ir, pointer) {
        return Ok((pointer, 0));
    }
    match operation(ir, pointer) {
        Some(opcode::BIT_CAST) => address(ir, ir.operand(pointer, 0), layout),
        Some(opcode::GET_ELEMENT_PTR) => {
            let operands = ir.operands(pointer);
            let (variable, mut offset) = address(ir, operands[0], layout)?;
            let mut ty = ll!(ir, LLVMGetGEPSourceElementType(pointer));
            for (place, index) in operands[1..].iter().enumerate() {
                let index = ir.constant_value(*index).ok_or("the address is not constant")?;
                if place > 0 && ir.kind(ty) == type_kind::STRUCT {
                    offset += ll!(ir, LLVMOffsetOfElement(layout, ty, index as u32));
                    ty = ll!(ir, LLVMStructGetTypeAtIndex(ty, index as u32));
                    continue;
                }
                if place > 0 {
                    ty = ll!(ir, LLVMGetElementType(ty));
                }
                offset = offset.wrapping_add(index.wrapping_mul(size_of(ir, ty)));
            }
            Ok((variable, offset))
        }
        _ => Err("it contains an address of a function, or of the group's memory".to_owned()),
    }
}
