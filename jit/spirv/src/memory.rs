//! Loads and stores.

use crate::body::{Body, Shape};
use crate::numbers::{Number, numbers};
use crate::objects::{Class, Origin, TAG_SHIFT, object_tag, part_of};
use longshore_llvm::types::*;
use rspirv::dr::{Instruction, Operand};
use rspirv::spirv::{Capability, MemoryAccess, Op, StorageClass, Word};
use std::collections::BTreeSet;

/// A part of memory that one load or store accesses.
#[derive(Clone, Copy)]
pub(crate) struct Span {
    /// The pointer, a number of 64 bits.
    pub(crate) address: Word,
    pub(crate) bytes: u32,
    /// Bytes of the largest aligned parts.
    pub(crate) unit: u32,
    pub(crate) is_volatile: bool,
}

impl Body<'_> {
    /// Emits the load of a value.
    pub(crate) fn load(
        &mut self,
        pointer: ValueRef,
        ty: TypeRef,
        align: u32,
        is_volatile: bool,
    ) -> Result<Vec<Word>, String> {
        let origins = self.objects.origins(self.ir, pointer);
        let base = self.one(pointer)?;
        let mut loaded = Vec::new();
        for (number, at) in numbers(self.ir, ty)? {
            let (address, bytes) = (self.behind(base, at), number.bytes());
            let span = Span { address, bytes, unit: part_of(bytes, align, at), is_volatile };
            let bits = self.load_bits(&origins, span)?;
            loaded.push(self.number_of(number, bits));
        }
        Ok(loaded)
    }

    /// Emits the store of a value.
    pub(crate) fn store(
        &mut self,
        pointer: ValueRef,
        value: ValueRef,
        align: u32,
        is_volatile: bool,
    ) -> Result<(), String> {
        let origins = self.objects.origins(self.ir, pointer);
        let (base, parts) = (self.one(pointer)?, self.value(value)?);
        for ((number, at), part) in numbers(self.ir, self.ir.type_of(value))?.into_iter().zip(parts)
        {
            let (address, bytes) = (self.behind(base, at), number.bytes());
            let span = Span { address, bytes, unit: part_of(bytes, align, at), is_volatile };
            let bits = self.bits_of(number, part);
            self.store_bits(&origins, span, bits)?;
        }
        Ok(())
    }

    /// Emits the pointer a number of bytes behind another.
    pub(crate) fn behind(&mut self, base: Word, bytes: u64) -> Word {
        if bytes == 0 {
            return base;
        }
        let (long, bytes) = (self.to.int(64), self.to.constant(64, bytes));
        self.to.op(Op::IAdd, long, &[base, bytes])
    }

    /// Emits the load of up to 8 bytes as an integer register.
    pub(crate) fn load_bits(
        &mut self,
        origins: &BTreeSet<Origin>,
        span: Span,
    ) -> Result<Word, String> {
        let width = if span.bytes > 4 { 64 } else { 32 };
        let ty = self.to.int(width);
        let [first, rest @ ..] = &*origins.iter().copied().collect::<Vec<_>>() else {
            return Ok(self.to.constant(width, 0));
        };
        if rest.is_empty() {
            return self.load_from(*first, span);
        }
        let result = self.to.local(ty);
        self.each_origin(*first, rest, span.address, &mut |body, origin| {
            let loaded = body.load_from(origin, span)?;
            body.to.act(Op::Store, &[result, loaded]);
            Ok(())
        })?;
        Ok(self.to.op(Op::Load, ty, &[result]))
    }

    /// Emits the store of up to 8 bytes of an integer register.
    pub(crate) fn store_bits(
        &mut self,
        origins: &BTreeSet<Origin>,
        span: Span,
        bits: Word,
    ) -> Result<(), String> {
        let [first, rest @ ..] = &*origins.iter().copied().collect::<Vec<_>>() else {
            return Ok(());
        };
        if rest.is_empty() {
            return self.store_to(*first, span, bits);
        }
        self.each_origin(*first, rest, span.address, &mut |body, origin| {
            body.store_to(origin, span, bits)
        })
    }

    /// Emits an access for each memory that a pointer may lead to, and the choice between them.
    fn each_origin(
        &mut self,
        first: Origin,
        rest: &[Origin],
        address: Word,
        access: &mut dyn FnMut(&mut Self, Origin) -> Result<(), String>,
    ) -> Result<(), String> {
        // Device memory has no tag, so it is the last alternative.
        let (last, others): (Origin, Vec<Origin>) = match first {
            Origin::Memory => (first, rest.to_vec()),
            _ => {
                let (last, rest) = rest.split_last().expect("there are several origins");
                (*last, [first].into_iter().chain(rest.iter().copied()).collect())
            }
        };
        let merge = self.to.id();
        let mut merges = vec![merge];
        for origin in others {
            let Origin::Object(object) = origin else {
                return Err("a pointer may lead to an argument or to other memory".to_owned());
            };
            let (long, truth) = (self.to.int(64), self.to.bool());
            let (shift, tag) = (self.to.word(TAG_SHIFT), self.to.constant(64, object_tag(object)));
            let own = self.to.op(Op::ShiftRightLogical, long, &[address, shift]);
            let is_own = self.to.op(Op::IEqual, truth, &[own, tag]);
            let (yes, no, end) = (self.to.id(), self.to.id(), self.to.id());
            self.to.selection(end);
            self.to.branch_if(is_own, yes, no);
            self.to.label(yes);
            access(self, origin)?;
            self.to.branch(end);
            self.to.label(no);
            merges.push(end);
        }
        access(self, last)?;
        while let Some(end) = merges.pop() {
            self.to.branch(end);
            self.to.label(end);
        }
        Ok(())
    }

    fn load_from(&mut self, origin: Origin, span: Span) -> Result<Word, String> {
        let unit = self.unit(origin, span)?;
        let mut parts = Vec::new();
        for at in (0..span.bytes).step_by(unit as usize) {
            let address = self.behind(span.address, u64::from(at));
            parts.push(match origin {
                Origin::Memory => self.load_memory(address, unit, span.is_volatile),
                Origin::Object(object) => self.load_element(object, address, unit),
                Origin::Argument(argument) => self.load_argument(argument, address, unit)?,
            });
        }
        Ok(self.joined(&parts, unit))
    }

    fn store_to(&mut self, origin: Origin, span: Span, bits: Word) -> Result<(), String> {
        let unit = self.unit(origin, span)?;
        for at in (0..span.bytes).step_by(unit as usize) {
            let address = self.behind(span.address, u64::from(at));
            let part = self.cut(bits, span.bytes, at, unit);
            match origin {
                Origin::Memory => self.store_memory(address, unit, part, span.is_volatile),
                Origin::Object(object) => {
                    let (pointer, ty) = self.element(object, address);
                    let part = self.narrow(part, unit, ty);
                    self.to.act(Op::Store, &[pointer, part]);
                }
                Origin::Argument(_) => return Err("the kernel writes to its argument".to_owned()),
            }
        }
        Ok(())
    }

    /// Returns the bytes of each access to this memory.
    fn unit(&self, origin: Origin, span: Span) -> Result<u32, String> {
        Ok(match origin {
            Origin::Memory => span.unit,
            Origin::Object(object) => self.objects.list[object].width.min(span.bytes),
            Origin::Argument(argument) => {
                let known = self.arguments.get(argument as usize);
                match known.ok_or("the kernel reads an argument that it does not have")?.shape {
                    Shape::Integer(bytes) | Shape::Float(bytes) | Shape::Array(bytes) => {
                        span.unit.min(bytes)
                    }
                    Shape::Pointer => span.unit.min(8),
                }
            }
        })
    }

    // ---- Device memory ----

    /// Emits a pointer to an integer in device memory.
    pub(crate) fn memory(&mut self, address: Word, bytes: u32) -> (Word, Word) {
        match bytes {
            1 => self.to.need(Capability::StorageBuffer8BitAccess),
            2 => self.to.need(Capability::StorageBuffer16BitAccess),
            _ => {}
        }
        let ty = self.to.int(bytes * 8);
        let pointer = self.to.pointer(StorageClass::PhysicalStorageBuffer, ty);
        (self.to.op(Op::ConvertUToPtr, pointer, &[address]), ty)
    }

    fn load_memory(&mut self, address: Word, bytes: u32, is_volatile: bool) -> Word {
        let (pointer, ty) = self.memory(address, bytes);
        let id = self.to.id();
        let mut operands = vec![Operand::IdRef(pointer)];
        operands.extend(aligned(bytes, is_volatile));
        self.to.add(Instruction::new(Op::Load, Some(ty), Some(id), operands));
        self.widen(id, bytes)
    }

    pub(crate) fn store_memory(
        &mut self,
        address: Word,
        bytes: u32,
        bits: Word,
        is_volatile: bool,
    ) {
        let (pointer, ty) = self.memory(address, bytes);
        let bits = self.narrow(bits, bytes, ty);
        let mut operands = vec![Operand::IdRef(pointer), Operand::IdRef(bits)];
        operands.extend(aligned(bytes, is_volatile));
        self.to.add(Instruction::new(Op::Store, None, None, operands));
    }

    // ---- Variables ----

    /// Emits a pointer to an element of a variable, with the element's type.
    pub(crate) fn element(&mut self, object: usize, address: Word) -> (Word, Word) {
        let width = self.objects.list[object].width;
        let class = match self.objects.list[object].class {
            Class::Item => StorageClass::Function,
            Class::Group | Class::Dynamic => StorageClass::Workgroup,
        };
        let word = self.to.int(32);
        let offset = self.to.op(Op::UConvert, word, &[address]);
        let shift = self.to.word(width.trailing_zeros());
        let index = self.to.op(Op::ShiftRightLogical, word, &[offset, shift]);
        let ty = self.to.int(width * 8);
        let pointer = self.to.pointer(class, ty);
        let array = self.arrays[object];
        (self.to.op(Op::AccessChain, pointer, &[array, index]), ty)
    }

    fn load_element(&mut self, object: usize, address: Word, bytes: u32) -> Word {
        let (pointer, ty) = self.element(object, address);
        let loaded = self.to.op(Op::Load, ty, &[pointer]);
        self.widen(loaded, bytes)
    }

    // ---- Arguments ----

    /// Emits the load of a part of an argument.
    fn load_argument(&mut self, argument: u32, address: Word, bytes: u32) -> Result<Word, String> {
        let known = &self.arguments[argument as usize];
        let (member, ty, shape) = (known.member, known.ty, known.shape);
        let word = self.to.int(32);
        let offset = self.to.op(Op::UConvert, word, &[address]);
        if let Shape::Array(unit) = shape {
            let shift = self.to.word(unit.trailing_zeros());
            let index = self.to.op(Op::ShiftRightLogical, word, &[offset, shift]);
            let pointer = self.member(member, ty, &[index]);
            let loaded = self.to.op(Op::Load, ty, &[pointer]);
            let whole = self.widen(loaded, unit);
            return Ok(self.at(whole, unit, offset, bytes));
        }
        let pointer = self.member(member, ty, &[]);
        let loaded = self.to.op(Op::Load, ty, &[pointer]);
        let (whole, size) = match shape {
            Shape::Pointer => {
                let long = self.to.int(64);
                (self.to.op(Op::ConvertPtrToU, long, &[loaded]), 8)
            }
            Shape::Float(size) => (self.bits_of(Number::Float(size * 8), loaded), size),
            Shape::Integer(size) | Shape::Array(size) => (self.widen(loaded, size), size),
        };
        Ok(self.at(whole, size, offset, bytes))
    }

    /// Emits the `bytes` bytes at an offset in an integer of `size` bytes.
    fn at(&mut self, whole: Word, size: u32, offset: Word, bytes: u32) -> Word {
        if size == bytes {
            return whole;
        }
        let (word, long) = (self.to.int(32), if size > 4 { 64 } else { 32 });
        let ty = self.to.int(long);
        let (mask, eight) = (self.to.word(size - 1), self.to.word(8));
        let within = self.to.op(Op::BitwiseAnd, word, &[offset, mask]);
        let shift = self.to.op(Op::IMul, word, &[within, eight]);
        let shifted = self.to.op(Op::ShiftRightLogical, ty, &[whole, shift]);
        let shifted = match long {
            64 => self.to.op(Op::UConvert, word, &[shifted]),
            _ => shifted,
        };
        self.masked(shifted, bytes * 8)
    }

    // ---- Integers of several parts ----

    /// Emits the low 32 bits of an integer, or its low part of fewer bits.
    pub(crate) fn masked(&mut self, value: Word, bits: u32) -> Word {
        if bits == 32 || bits == 64 {
            return value;
        }
        let register = Number::register(bits);
        let ty = self.to.int(register);
        let mask = self.to.constant(register, (1u64 << bits) - 1);
        self.to.op(Op::BitwiseAnd, ty, &[value, mask])
    }

    /// Emits a loaded integer of 1, 2, 4 or 8 bytes as a register.
    fn widen(&mut self, value: Word, bytes: u32) -> Word {
        match bytes {
            1 | 2 => {
                let word = self.to.int(32);
                self.to.op(Op::UConvert, word, &[value])
            }
            _ => value,
        }
    }

    /// Emits a register as an integer to store, of 1, 2, 4 or 8 bytes and this type.
    fn narrow(&mut self, value: Word, bytes: u32, ty: Word) -> Word {
        match bytes {
            1 | 2 => self.to.op(Op::UConvert, ty, &[value]),
            _ => value,
        }
    }

    /// Emits the integer of these parts, the lowest first, each of this many bytes.
    pub(crate) fn joined(&mut self, parts: &[Word], bytes: u32) -> Word {
        let [only] = *parts else { return self.joined_several(parts, bytes) };
        only
    }

    fn joined_several(&mut self, parts: &[Word], bytes: u32) -> Word {
        let width = if parts.len() as u32 * bytes > 4 { 64 } else { 32 };
        let ty = self.to.int(width);
        let mut whole = None;
        for (index, part) in (0..).zip(parts) {
            let wide = match width {
                64 if bytes <= 4 => self.to.op(Op::UConvert, ty, &[*part]),
                _ => *part,
            };
            let shift = self.to.word(index * bytes * 8);
            let shifted = match index {
                0 => wide,
                _ => self.to.op(Op::ShiftLeftLogical, ty, &[wide, shift]),
            };
            whole = Some(match whole {
                None => shifted,
                Some(whole) => self.to.op(Op::BitwiseOr, ty, &[whole, shifted]),
            });
        }
        whole.unwrap_or_else(|| self.to.constant(width, 0))
    }

    /// Emits a part of an integer of `bytes` bytes.
    pub(crate) fn cut(&mut self, bits: Word, bytes: u32, at: u32, unit: u32) -> Word {
        if bytes == unit {
            return bits;
        }
        let ty = self.to.int(if bytes > 4 { 64 } else { 32 });
        let word = self.to.int(32);
        let shift = self.to.word(at * 8);
        let shifted = match at {
            0 => bits,
            _ => self.to.op(Op::ShiftRightLogical, ty, &[bits, shift]),
        };
        match bytes > 4 && unit <= 4 {
            true => self.to.op(Op::UConvert, word, &[shifted]),
            false => shifted,
        }
    }

    /// Emits a number of these bits.
    pub(crate) fn number_of(&mut self, number: Number, bits: Word) -> Word {
        let ty = self.to.register(number);
        match number {
            Number::Bool => {
                let zero = self.to.word(0);
                self.to.op(Op::INotEqual, ty, &[bits, zero])
            }
            Number::Int(_) => bits,
            Number::Float(16) => {
                self.to.need(Capability::Int16);
                let short = self.to.int(16);
                let short = self.to.op(Op::UConvert, short, &[bits]);
                self.to.op(Op::Bitcast, ty, &[short])
            }
            Number::Float(_) => self.to.op(Op::Bitcast, ty, &[bits]),
        }
    }

    /// Emits the bits of a number.
    pub(crate) fn bits_of(&mut self, number: Number, value: Word) -> Word {
        let word = self.to.int(32);
        match number {
            Number::Bool => {
                let (one, zero) = (self.to.word(1), self.to.word(0));
                self.to.op(Op::Select, word, &[value, one, zero])
            }
            Number::Int(_) => value,
            Number::Float(16) => {
                self.to.need(Capability::Int16);
                let short = self.to.int(16);
                let short = self.to.op(Op::Bitcast, short, &[value]);
                self.to.op(Op::UConvert, word, &[short])
            }
            Number::Float(bits) => {
                let ty = self.to.int(bits);
                self.to.op(Op::Bitcast, ty, &[value])
            }
        }
    }
}

/// Returns the operands of an access with this alignment in bytes.
fn aligned(bytes: u32, is_volatile: bool) -> [Operand; 2] {
    let volatile = if is_volatile { MemoryAccess::VOLATILE } else { MemoryAccess::NONE };
    [Operand::MemoryAccess(MemoryAccess::ALIGNED | volatile), Operand::LiteralBit32(bytes)]
}
