//! The translation of one kernel: its arguments, variables and values.

use crate::constants::{bits, elements};
use crate::globals::{GLOBALS, Globals};
use crate::kernels::{Kernel, Kind, Parameter};
use crate::module::{Module, option};
use crate::numbers::{Number, numbers};
use crate::objects::{Class, Object, Objects, TAG_SHIFT, object_tag, operation};
use longshore_llvm::types::*;
use longshore_llvm::{Ir, ll};
use rspirv::spirv::{Capability, Decoration, Op, StorageClass, Word};
use std::collections::HashMap;

/// A kernel under translation.
pub(crate) struct Body<'a> {
    pub(crate) ir: &'a Ir<'a>,
    pub(crate) to: &'a mut Module,
    pub(crate) kernel: &'a Kernel,
    pub(crate) globals: &'a Globals,
    pub(crate) objects: Objects,
    /// The numbers of each translated instruction.
    pub(crate) values: HashMap<ValueRef, Vec<Word>>,
    /// The variables of each phi.
    pub(crate) phis: HashMap<ValueRef, Vec<Word>>,
    /// The arrays of the kernel's variables.
    pub(crate) arrays: Vec<Word>,
    /// The block of push constants.
    pub(crate) block: Option<Word>,
    pub(crate) arguments: Vec<Argument>,
    /// The address of the module's variables.
    pub(crate) base: Option<Word>,
}

/// An argument in the block of push constants.
pub(crate) struct Argument {
    pub(crate) member: u32,
    /// Type of the member, or of its elements.
    pub(crate) ty: Word,
    pub(crate) shape: Shape,
}

/// The form of an argument.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// An integer of this many bytes.
    Integer(u32),
    /// A floating-point number of this many bytes.
    Float(u32),
    Pointer,
    /// An array of integers of this many bytes.
    Array(u32),
}

/// Translates a kernel to a function and an entry point.
pub(crate) fn translate(
    ir: &Ir<'_>,
    to: &mut Module,
    kernel: &Kernel,
    globals: &Globals,
    block: Option<Word>,
) -> Result<(), String> {
    let objects = Objects::find(ir, kernel.function)?;
    let function = to.begin();
    let mut body = Body {
        ir,
        to,
        kernel,
        globals,
        objects,
        values: HashMap::new(),
        phis: HashMap::new(),
        arrays: Vec::new(),
        block: None,
        arguments: Vec::new(),
        base: None,
    };
    let block = block.filter(|_| globals.are_used(ir, kernel.function));
    body.declare_arguments(block);
    body.declare_objects()?;
    if kernel.has_dynamic_shared {
        // A launch may request dynamic shared memory, even if the code does not reach it.
        let (word, bytes) = (body.to.int(32), body.to.option(option::DYNAMIC_SHARED));
        body.to.op(Op::CopyObject, word, &[bytes]);
    }
    body.emit_blocks()?;
    let size = kernel.size;
    body.to.end(function, &kernel.name, size);
    Ok(())
}

impl Body<'_> {
    /// Declares the block of push constants, and reads the address of the module's variables.
    fn declare_arguments(&mut self, globals: Option<Word>) {
        let (mut members, mut offset) = (Vec::new(), 0u32);
        if let Some(globals) = globals {
            members.push((GLOBALS.to_owned(), globals, 0));
            offset = 8;
        }
        let kernel = self.kernel;
        for parameter in &kernel.parameters {
            let (argument, ty, bytes, align) = self.argument(parameter, members.len() as u32);
            offset = offset.next_multiple_of(align);
            members.push((parameter.name.clone(), ty, offset));
            self.arguments.push(argument);
            offset += bytes;
        }
        if members.is_empty() {
            return;
        }
        let ty = self.to.block(&format!("arguments of {}", kernel.name), &members);
        let variable = self.to.variable(StorageClass::PushConstant, ty);
        self.block = Some(variable);
        if let Some(globals) = globals {
            let pointer = self.member(0, globals, &[]);
            let loaded = self.to.op(Op::Load, globals, &[pointer]);
            let long = self.to.int(64);
            self.base = Some(self.to.op(Op::ConvertPtrToU, long, &[loaded]));
        }
    }

    /// Returns an argument with its member's type, bytes and alignment.
    fn argument(&mut self, parameter: &Parameter, member: u32) -> (Argument, Word, u32, u32) {
        let bytes = parameter.bytes;
        let simple = |ty, shape, bytes: u32| (Argument { member, ty, shape }, ty, bytes, bytes);
        match parameter.kind {
            Kind::Pointer => {
                let word = self.to.int(32);
                let ty = self.to.pointer(StorageClass::PhysicalStorageBuffer, word);
                simple(ty, Shape::Pointer, 8)
            }
            Kind::Float if matches!(bytes, 2 | 4 | 8) => {
                self.push_constants_of(bytes);
                let ty = self.to.float(bytes * 8);
                simple(ty, Shape::Float(bytes), bytes)
            }
            Kind::Integer if matches!(bytes, 1 | 2 | 4 | 8) => {
                self.push_constants_of(bytes);
                let ty = self.to.int(bytes * 8);
                simple(ty, Shape::Integer(bytes), bytes)
            }
            _ => {
                let unit = if bytes.is_multiple_of(4) { 4 } else { 1 };
                self.push_constants_of(unit);
                let element = self.to.int(unit * 8);
                let length = self.to.word((bytes / unit).max(1));
                let ty = self.to.array(element, length, unit);
                (Argument { member, ty: element, shape: Shape::Array(unit) }, ty, bytes.max(1), 8)
            }
        }
    }

    fn push_constants_of(&mut self, bytes: u32) {
        match bytes {
            1 => self.to.need(Capability::StoragePushConstant8),
            2 => self.to.need(Capability::StoragePushConstant16),
            _ => {}
        }
    }

    /// Emits a pointer to a member of the block of push constants, or to an element in it.
    pub(crate) fn member(&mut self, member: u32, ty: Word, rest: &[Word]) -> Word {
        let block = self.block.expect("a kernel with members has a block");
        let pointer = self.to.pointer(StorageClass::PushConstant, ty);
        let index = self.to.word(member);
        let operands: Vec<Word> = [block, index].into_iter().chain(rest.iter().copied()).collect();
        self.to.op(Op::AccessChain, pointer, &operands)
    }

    /// Declares an array for each variable of the item and the group.
    fn declare_objects(&mut self) -> Result<(), String> {
        for index in 0..self.objects.list.len() {
            let Object { class, bytes, width } = self.objects.list[index];
            let count = u32::try_from(bytes.div_ceil(u64::from(width)).max(1));
            let count = count.map_err(|_| "a variable has more than 4 GiB")?;
            let length = match class {
                Class::Dynamic => self.dynamic_length(width),
                _ => self.to.word(count),
            };
            match width {
                1 => self.to.need(Capability::Int8),
                2 => self.to.need(Capability::Int16),
                _ => {}
            }
            let element = self.to.int(width * 8);
            let ty = self.to.array(element, length, 0);
            let array = match class {
                Class::Item => self.to.local(ty),
                _ => self.to.variable(StorageClass::Workgroup, ty),
            };
            self.arrays.push(array);
        }
        Ok(())
    }

    /// Returns the length of dynamic shared memory in elements of this many bytes.
    fn dynamic_length(&mut self, width: u32) -> Word {
        let word = self.to.int(32);
        let bytes = self.to.option(option::DYNAMIC_SHARED);
        let (width, one) = (self.to.word(width), self.to.word(1));
        let length = self.to.computed(Op::UDiv, word, &[bytes, width]);
        self.to.computed(Op::IAdd, word, &[length, one])
    }

    // ---- Values ----

    /// Returns the numbers of a value.
    pub(crate) fn value(&mut self, value: ValueRef) -> Result<Vec<Word>, String> {
        if let Some(known) = self.values.get(&value) {
            return Ok(known.clone());
        }
        let ir = self.ir;
        if let Some(object) = self.objects.number_of(value) {
            return Ok(vec![self.to.constant(64, object_tag(object) << TAG_SHIFT)]);
        }
        if !ll!(ir, LLVMIsAGlobalVariable(value)).is_null() {
            return Ok(vec![self.address_of(value)?]);
        }
        if !ll!(ir, LLVMIsAFunction(value)).is_null() {
            return Err(
                "pointers to functions do not exist in SPIR-V; call the function by its name"
                    .to_owned(),
            );
        }
        if ll!(ir, LLVMIsConstant(value)) != 0 {
            return self.constant(value);
        }
        Err(format!("the value '{}' is used before its definition", ir.name(value)))
    }

    /// Returns the number of a value that has one.
    pub(crate) fn one(&mut self, value: ValueRef) -> Result<Word, String> {
        let ty = self.ir.type_of(value);
        match *self.value(value)?.as_slice() {
            [one] => Ok(one),
            _ => Err(format!("a value of type {} is no number", self.ir.show_type(ty))),
        }
    }

    /// Returns the number that a type consists of.
    pub(crate) fn number(&self, ty: TypeRef) -> Result<Number, String> {
        match *numbers(self.ir, ty)?.as_slice() {
            [(number, _)] => Ok(number),
            _ => Err(format!("a value of type {} is no number", self.ir.show_type(ty))),
        }
    }

    /// Emits the address of a variable of the module.
    fn address_of(&mut self, global: ValueRef) -> Result<Word, String> {
        let name = self.ir.name(global);
        let offset = self.globals.offset(global);
        let offset = offset.ok_or_else(|| format!("the variable '{name}' is not defined"))?;
        let base = self.base.ok_or_else(|| format!("the variable '{name}' is not found"))?;
        let (long, offset) = (self.to.int(64), self.to.constant(64, offset));
        Ok(self.to.op(Op::IAdd, long, &[base, offset]))
    }

    /// Returns the numbers of a constant, and emits the numbers that depend on addresses.
    fn constant(&mut self, constant: ValueRef) -> Result<Vec<Word>, String> {
        let ir = self.ir;
        let ty = ir.type_of(constant);
        let is_empty = ll!(ir, LLVMIsUndef(constant)) != 0 || ll!(ir, LLVMIsNull(constant)) != 0;
        if is_empty {
            let parts = numbers(ir, ty)?;
            return Ok(parts.into_iter().map(|(number, _)| self.scalar(number, 0)).collect());
        }
        if let Some(operation) = operation(ir, constant) {
            return self.instruction(constant, operation);
        }
        match ir.kind(ty) {
            type_kind::STRUCT | type_kind::ARRAY | type_kind::VECTOR => {
                let mut whole = Vec::new();
                for element in elements(ir, constant) {
                    whole.extend(self.value(element)?);
                }
                Ok(whole)
            }
            _ => match bits(ir, constant) {
                Some(bits) if numbers(ir, ty)?.len() == 1 => {
                    let number = self.number(ty)?;
                    Ok(vec![self.scalar(number, bits)])
                }
                _ => self.wide_constant(constant),
            },
        }
    }

    /// Returns the two numbers of a constant of 128 bits.
    fn wide_constant(&mut self, constant: ValueRef) -> Result<Vec<Word>, String> {
        let shown = self.ir.show_type(self.ir.type_of(constant));
        let value = self.ir.constant_value(constant);
        let value = value.filter(|_| shown == "i128" && self.is_small(constant));
        let low = value.ok_or_else(|| format!("a constant of type {shown} has no number"))?;
        Ok(vec![self.to.constant(64, low), self.to.constant(64, 0)])
    }

    /// Returns whether an integer constant is less than 2 to the power of 64.
    fn is_small(&self, constant: ValueRef) -> bool {
        let value = self.ir.constant_value(constant).unwrap_or_default();
        let ty = self.ir.type_of(constant);
        // Equal constants are one object.
        ll!(self.ir, LLVMConstInt(ty, value, 0)) == constant
    }

    /// Returns a constant of a kind of number, by its bits.
    pub(crate) fn scalar(&mut self, number: Number, bits: u64) -> Word {
        match number {
            Number::Bool => self.to.truth(bits & 1 != 0),
            Number::Int(width) => self.to.constant(Number::register(width), bits),
            Number::Float(width) => self.to.real(width, bits),
        }
    }
}

/// The decoration by which a driver keeps an operation as it is.
pub(crate) const EXACT: Decoration = Decoration::NoContraction;
