//! Atomic operations and fences.

use crate::body::Body;
use crate::numbers::Number;
use crate::objects::{Class, Origin};
use longshore_llvm::ll;
use longshore_llvm::types::*;
use rspirv::spirv::{Capability, MemorySemantics, Op, Scope, Word};

/// Memory semantics of barriers: all memory, in both directions.
pub(crate) const FULL: u32 = MemorySemantics::ACQUIRE_RELEASE.bits() | MEMORY;
/// Memory that orders apply to.
const MEMORY: u32 =
    MemorySemantics::UNIFORM_MEMORY.bits() | MemorySemantics::WORKGROUP_MEMORY.bits();

/// `LLVMAtomicOrdering`.
mod ordering {
    pub(super) const ACQUIRE: u32 = 4;
    pub(super) const RELEASE: u32 = 5;
    pub(super) const ACQUIRE_RELEASE: u32 = 6;
}

/// The memory and the order of an atomic operation.
struct Place {
    pointer: Word,
    scope: Word,
    order: Word,
    number: Number,
    /// Type of the integer in memory.
    ty: Word,
}

impl Body<'_> {
    /// Emits a fence of an order.
    pub(crate) fn fence(&mut self, order: u32) {
        let (scope, order) = (self.to.word(Scope::Device as u32), self.semantics(order));
        self.to.act(Op::MemoryBarrier, &[scope, order]);
    }

    /// Returns the memory semantics of LLVM's order.
    fn semantics(&mut self, order: u32) -> Word {
        let bits = match order {
            0..ordering::ACQUIRE => 0,
            ordering::ACQUIRE => MemorySemantics::ACQUIRE.bits() | MEMORY,
            ordering::RELEASE => MemorySemantics::RELEASE.bits() | MEMORY,
            ordering::ACQUIRE_RELEASE.. => FULL,
        };
        self.to.word(bits)
    }

    /// Emits a pointer to the memory of an atomic operation on a value of this type.
    fn atomic(&mut self, pointer: ValueRef, ty: TypeRef, order: u32) -> Result<Place, String> {
        let number = self.number(ty)?;
        let bytes = number.bytes();
        let origins = self.objects.origins(self.ir, pointer);
        let address = self.one(pointer)?;
        if !matches!(bytes, 4 | 8) {
            return Err(format!("an atomic operation on {bytes} bytes does not exist in SPIR-V"));
        }
        if bytes == 8 {
            self.to.need(Capability::Int64Atomics);
        }
        let origin = match &*origins.into_iter().collect::<Vec<_>>() {
            [origin] => *origin,
            _ => {
                return Err(
                    "an atomic operation on memory that may be shared or not; use a branch \
                            for each"
                        .to_owned(),
                );
            }
        };
        let (pointer, ty) = match origin {
            Origin::Memory => self.memory(address, bytes),
            Origin::Object(object) => {
                let object_of = &self.objects.list[object];
                if object_of.class == Class::Item {
                    return Err("an atomic operation on a variable of the item".to_owned());
                }
                if object_of.width != bytes {
                    return Err(format!(
                        "an atomic operation of {bytes} bytes on shared memory that is also \
                         accessed in parts of {} bytes",
                        object_of.width
                    ));
                }
                self.element(object, address)
            }
            Origin::Argument(_) => return Err("an atomic operation on an argument".to_owned()),
        };
        let (scope, order) = (self.to.word(Scope::Device as u32), self.semantics(order));
        Ok(Place { pointer, scope, order, number, ty })
    }

    pub(crate) fn atomic_load(&mut self, it: ValueRef) -> Result<Vec<Word>, String> {
        let ir = self.ir;
        let order = match ll!(ir, LLVMGetOrdering(it)) {
            order @ 0..=ordering::ACQUIRE => order,
            _ => ordering::ACQUIRE,
        };
        let place = self.atomic(ir.operand(it, 0), ir.type_of(it), order)?;
        let operands = [place.pointer, place.scope, place.order];
        let bits = self.to.op(Op::AtomicLoad, place.ty, &operands);
        Ok(vec![self.number_of(place.number, bits)])
    }

    pub(crate) fn atomic_store(&mut self, it: ValueRef) -> Result<Vec<Word>, String> {
        let ir = self.ir;
        let order = match ll!(ir, LLVMGetOrdering(it)) {
            order @ 0..ordering::ACQUIRE => order,
            _ => ordering::RELEASE,
        };
        let value = ir.operand(it, 0);
        let place = self.atomic(ir.operand(it, 1), ir.type_of(value), order)?;
        let value = self.one(value)?;
        let bits = self.bits_of(place.number, value);
        self.to.act(Op::AtomicStore, &[place.pointer, place.scope, place.order, bits]);
        Ok(Vec::new())
    }

    /// Emits a change of memory, and returns the old value.
    pub(crate) fn atomic_change(&mut self, it: ValueRef) -> Result<Vec<Word>, String> {
        let ir = self.ir;
        let value = ir.operand(it, 1);
        let order = ll!(ir, LLVMGetOrdering(it));
        let place = self.atomic(ir.operand(it, 0), ir.type_of(value), order)?;
        let value = self.one(value)?;
        let change = ll!(ir, LLVMGetAtomicRMWBinOp(it));
        let op = match change {
            0 => Op::AtomicExchange,
            1 => Op::AtomicIAdd,
            2 => Op::AtomicISub,
            3 => Op::AtomicAnd,
            5 => Op::AtomicOr,
            6 => Op::AtomicXor,
            7 => Op::AtomicSMax,
            8 => Op::AtomicSMin,
            9 => Op::AtomicUMax,
            10 => Op::AtomicUMin,
            4 | 11..=14 => return self.change_in_loop(&place, change, value),
            other => {
                return Err(format!("LLVM's atomic operation {other} does not exist in SPIR-V"));
            }
        };
        let bits = self.bits_of(place.number, value);
        let operands = [place.pointer, place.scope, place.order, bits];
        let old = self.to.op(op, place.ty, &operands);
        Ok(vec![self.number_of(place.number, old)])
    }

    /// Emits a loop that tries to exchange the old value by the new one.
    fn change_in_loop(
        &mut self,
        place: &Place,
        change: u32,
        value: Word,
    ) -> Result<Vec<Word>, String> {
        let (ty, truth) = (place.ty, self.to.bool());
        let variable = self.to.local(ty);
        let none = self.to.word(0);
        let first = self.to.op(Op::AtomicLoad, ty, &[place.pointer, place.scope, none]);
        self.to.act(Op::Store, &[variable, first]);
        let [header, body, next, merge] = [(); 4].map(|()| self.to.id());
        self.to.branch(header);
        self.to.label(header);
        self.to.a_loop(merge, next);
        self.to.branch(body);
        self.to.label(body);
        let old = self.to.op(Op::Load, ty, &[variable]);
        let new = self.changed(place.number, change, old, value);
        let failed = match self.order_of(place.order) {
            0 => none,
            _ => self.semantics(ordering::ACQUIRE),
        };
        let operands = [place.pointer, place.scope, place.order, failed, new, old];
        let found = self.to.op(Op::AtomicCompareExchange, ty, &operands);
        self.to.act(Op::Store, &[variable, found]);
        let is_done = self.to.op(Op::IEqual, truth, &[found, old]);
        self.to.branch(next);
        self.to.label(next);
        self.to.branch_if(is_done, merge, header);
        self.to.label(merge);
        let old = self.to.op(Op::Load, ty, &[variable]);
        Ok(vec![self.number_of(place.number, old)])
    }

    /// Returns 0 for the semantics of a relaxed order.
    fn order_of(&mut self, order: Word) -> u32 {
        u32::from(order != self.to.word(0))
    }

    /// Emits the new bits of a change: NAND, or one of floating-point numbers.
    fn changed(&mut self, number: Number, change: u32, old: Word, value: Word) -> Word {
        let ty = self.to.register(number);
        let current = self.number_of(number, old);
        let made = match change {
            4 => {
                let both = self.to.op(Op::BitwiseAnd, ty, &[current, value]);
                self.to.op(Op::Not, ty, &[both])
            }
            11 => self.exact(Op::FAdd, number, &[current, value]),
            12 => self.exact(Op::FSub, number, &[current, value]),
            13 => self.to.extended(rspirv::spirv::GlslStd450Op::NMax, ty, &[current, value]),
            _ => self.to.extended(rspirv::spirv::GlslStd450Op::NMin, ty, &[current, value]),
        };
        self.bits_of(number, made)
    }

    /// Emits a comparison and exchange, and returns the old value and whether it was as expected.
    pub(crate) fn atomic_compare(&mut self, it: ValueRef) -> Result<Vec<Word>, String> {
        let ir = self.ir;
        let (expected, value) = (ir.operand(it, 1), ir.operand(it, 2));
        let order = ll!(ir, LLVMGetCmpXchgSuccessOrdering(it));
        let place = self.atomic(ir.operand(it, 0), ir.type_of(value), order)?;
        let (expected, value) = (self.one(expected)?, self.one(value)?);
        let [expected, value] = [expected, value].map(|it| self.bits_of(place.number, it));
        // A failure has no stronger order than a success, and none that releases.
        let failed = match order {
            ordering::ACQUIRE | ordering::ACQUIRE_RELEASE.. => self.semantics(ordering::ACQUIRE),
            _ => self.to.word(0),
        };
        let operands = [place.pointer, place.scope, place.order, failed, value, expected];
        let old = self.to.op(Op::AtomicCompareExchange, place.ty, &operands);
        let truth = self.to.bool();
        let is_same = self.to.op(Op::IEqual, truth, &[old, expected]);
        Ok(vec![self.number_of(place.number, old), is_same])
    }
}
