//! The dispatch of instructions, and the instructions that only move values.

use crate::body::Body;
use crate::numbers::{Number, numbers};
use crate::objects::size_of;
use longshore_llvm::ll;
use longshore_llvm::types::*;
use rspirv::spirv::{Op, Word};

/// LLVM's number of atomic accesses without an order.
const NOT_ATOMIC: u32 = 0;

impl Body<'_> {
    /// Emits an instruction or a constant expression, and returns its numbers.
    pub(crate) fn instruction(&mut self, it: ValueRef, opcode: u32) -> Result<Vec<Word>, String> {
        let ir = self.ir;
        let align = || ll!(ir, LLVMGetAlignment(it)).max(1);
        let is_volatile = || ll!(ir, LLVMGetVolatile(it)) != 0;
        match opcode {
            opcode::LOAD if ll!(ir, LLVMGetOrdering(it)) != NOT_ATOMIC => self.atomic_load(it),
            opcode::STORE if ll!(ir, LLVMGetOrdering(it)) != NOT_ATOMIC => self.atomic_store(it),
            opcode::LOAD => self.load(ir.operand(it, 0), ir.type_of(it), align(), is_volatile()),
            opcode::STORE => {
                self.store(ir.operand(it, 1), ir.operand(it, 0), align(), is_volatile())?;
                Ok(Vec::new())
            }
            opcode::ALLOCA => self.value(it),
            opcode::GET_ELEMENT_PTR => self.place(it),
            opcode::ATOMIC_RMW => self.atomic_change(it),
            opcode::ATOMIC_CMP_XCHG => self.atomic_compare(it),
            opcode::FENCE => {
                self.fence(ll!(ir, LLVMGetOrdering(it)));
                Ok(Vec::new())
            }
            opcode::CALL => self.call(it),
            opcode::SELECT => self.select(it),
            opcode::FREEZE => self.value(ir.operand(it, 0)),
            opcode::BIT_CAST => self.reinterpret(it),
            opcode::ADDR_SPACE_CAST | opcode::PTR_TO_INT | opcode::INT_TO_PTR => {
                self.integer_cast(it, opcode::ZEXT)
            }
            opcode::EXTRACT_VALUE => self.extract_value(it),
            opcode::INSERT_VALUE => self.insert_value(it),
            opcode::EXTRACT_ELEMENT => self.extract_element(it),
            opcode::INSERT_ELEMENT => self.insert_element(it),
            opcode::SHUFFLE_VECTOR => self.shuffle_vector(it),
            _ => self.arithmetic(it, opcode),
        }
    }

    /// Emits the pointer of a `getelementptr`.
    fn place(&mut self, it: ValueRef) -> Result<Vec<Word>, String> {
        let ir = self.ir;
        let operands = ir.operands(it);
        let (pointer, indices) = operands.split_first().ok_or("an address has no pointer")?;
        let mut address = self.one(*pointer)?;
        let mut ty = ll!(ir, LLVMGetGEPSourceElementType(it));
        let layout = ll!(ir, LLVMGetModuleDataLayout(ir.module));
        let mut fixed = 0u64;
        for (at, index) in indices.iter().enumerate() {
            if at > 0 && ir.kind(ty) == type_kind::STRUCT {
                let member =
                    ir.constant_value(*index).ok_or("the index of a member varies")? as u32;
                fixed = fixed.wrapping_add(ll!(ir, LLVMOffsetOfElement(layout, ty, member)));
                ty = ll!(ir, LLVMStructGetTypeAtIndex(ty, member));
                continue;
            }
            if at > 0 {
                ty = ll!(ir, LLVMGetElementType(ty));
            }
            let stride = size_of(ir, ty);
            match self.signed_constant(*index) {
                Some(index) => fixed = fixed.wrapping_add((index as u64).wrapping_mul(stride)),
                None => address = self.add_index(address, *index, stride)?,
            }
        }
        Ok(vec![self.behind(address, fixed)])
    }

    /// Returns the value of a constant integer with its sign.
    pub(crate) fn signed_constant(&self, value: ValueRef) -> Option<i64> {
        let bits = self.ir.constant_value(value)?;
        let width = ll!(self.ir, LLVMGetIntTypeWidth(self.ir.type_of(value))).clamp(1, 64);
        let unused = 64 - width;
        Some((bits << unused) as i64 >> unused)
    }

    fn add_index(&mut self, address: Word, index: ValueRef, stride: u64) -> Result<Word, String> {
        let number = self.number(self.ir.type_of(index))?;
        let index = self.one(index)?;
        let index = self.signed_to(number, index, 64);
        let (long, bytes) = (self.to.int(64), self.to.constant(64, stride));
        let offset = match stride {
            1 => index,
            _ => self.to.op(Op::IMul, long, &[index, bytes]),
        };
        Ok(self.to.op(Op::IAdd, long, &[address, offset]))
    }

    fn select(&mut self, it: ValueRef) -> Result<Vec<Word>, String> {
        let ir = self.ir;
        let conditions = self.value(ir.operand(it, 0))?;
        let (yes, no) = (self.value(ir.operand(it, 1))?, self.value(ir.operand(it, 2))?);
        let mut chosen = Vec::new();
        for (index, (number, _)) in numbers(ir, ir.type_of(it))?.into_iter().enumerate() {
            let condition = *conditions.get(index).unwrap_or(&conditions[0]);
            let ty = self.to.register(number);
            chosen.push(match number {
                Number::Bool => self.select_truth(condition, yes[index], no[index]),
                _ => self.to.op(Op::Select, ty, &[condition, yes[index], no[index]]),
            });
        }
        Ok(chosen)
    }

    fn select_truth(&mut self, condition: Word, yes: Word, no: Word) -> Word {
        let truth = self.to.bool();
        self.to.op(Op::Select, truth, &[condition, yes, no])
    }

    /// Emits the same bits as another type.
    fn reinterpret(&mut self, it: ValueRef) -> Result<Vec<Word>, String> {
        let ir = self.ir;
        let value = ir.operand(it, 0);
        let (from, to) = (numbers(ir, ir.type_of(value))?, numbers(ir, ir.type_of(it))?);
        let values = self.value(value)?;
        if from.iter().map(|it| it.0).eq(to.iter().map(|it| it.0)) {
            return Ok(values);
        }
        let bits: Vec<Word> = from
            .iter()
            .zip(&values)
            .map(|((number, _), value)| self.bits_of(*number, *value))
            .collect();
        let bytes = |parts: &[(Number, u64)]| parts.first().map_or(0, |part| part.0.bytes());
        let (wide, narrow) = (bytes(&from), bytes(&to));
        let bits = match (wide, narrow) {
            _ if from.iter().chain(&to).any(|it| it.0 == Number::Bool) => {
                return Err("a vector of truths as bits does not exist in SPIR-V".to_owned());
            }
            _ if wide == narrow => bits,
            _ if wide > narrow => self.divided(&bits, wide, narrow),
            _ => {
                let each = (narrow / wide.max(1)).max(1) as usize;
                bits.chunks(each).map(|parts| self.joined(parts, wide)).collect()
            }
        };
        Ok(to.iter().zip(bits).map(|((number, _), bits)| self.number_of(*number, bits)).collect())
    }

    fn divided(&mut self, values: &[Word], wide: u32, narrow: u32) -> Vec<Word> {
        let mut parts = Vec::new();
        for value in values {
            for at in (0..wide).step_by(narrow as usize) {
                let part = self.cut(*value, wide, at, narrow);
                parts.push(if narrow < 4 { self.masked(part, narrow * 8) } else { part });
            }
        }
        parts
    }

    // ---- Parts of values ----

    /// Returns the place of a part among the numbers of a value: the first and their count.
    fn part(&self, whole: TypeRef, indices: &[u32]) -> Result<(usize, usize), String> {
        let (ir, mut ty, mut first) = (self.ir, whole, 0);
        for index in indices {
            let of = |ty| numbers(ir, ty).map(|numbers| numbers.len());
            if ir.kind(ty) == type_kind::STRUCT {
                for before in 0..*index {
                    first += of(ll!(ir, LLVMStructGetTypeAtIndex(ty, before)))?;
                }
                ty = ll!(ir, LLVMStructGetTypeAtIndex(ty, *index));
            } else {
                ty = ll!(ir, LLVMGetElementType(ty));
                first += of(ty)? * *index as usize;
            }
        }
        Ok((first, numbers(ir, ty)?.len()))
    }

    fn indices(&self, it: ValueRef) -> Vec<u32> {
        let count = ll!(self.ir, LLVMGetNumIndices(it)) as usize;
        let start = ll!(self.ir, LLVMGetIndices(it));
        // SAFETY: LLVM returns the address of this many indices.
        unsafe { std::slice::from_raw_parts(start, count) }.to_vec()
    }

    fn extract_value(&mut self, it: ValueRef) -> Result<Vec<Word>, String> {
        let whole = self.ir.operand(it, 0);
        let (first, count) = self.part(self.ir.type_of(whole), &self.indices(it))?;
        Ok(self.value(whole)?[first..first + count].to_vec())
    }

    fn insert_value(&mut self, it: ValueRef) -> Result<Vec<Word>, String> {
        let (whole, part) = (self.ir.operand(it, 0), self.ir.operand(it, 1));
        let (first, count) = self.part(self.ir.type_of(whole), &self.indices(it))?;
        let mut numbers = self.value(whole)?;
        numbers.splice(first..first + count, self.value(part)?);
        Ok(numbers)
    }

    fn extract_element(&mut self, it: ValueRef) -> Result<Vec<Word>, String> {
        let ir = self.ir;
        let (vector, index) = (self.value(ir.operand(it, 0))?, ir.operand(it, 1));
        if let Some(index) = ir.constant_value(index) {
            let element = vector.get(index as usize).or(vector.first());
            return element.map(|it| vec![*it]).ok_or_else(|| "a vector is empty".to_owned());
        }
        let number = self.number(ir.type_of(it))?;
        let ty = self.to.register(number);
        let at = self.index_of(index)?;
        let (first, rest) = vector.split_first().ok_or("a vector is empty")?;
        let mut found = *first;
        for (index, element) in (1..).zip(rest) {
            let is_it = self.is_index(at, index);
            found = self.to.op(Op::Select, ty, &[is_it, *element, found]);
        }
        Ok(vec![found])
    }

    fn insert_element(&mut self, it: ValueRef) -> Result<Vec<Word>, String> {
        let ir = self.ir;
        let (mut vector, index) = (self.value(ir.operand(it, 0))?, ir.operand(it, 2));
        let part = self.one(ir.operand(it, 1))?;
        if let Some(index) = ir.constant_value(index) {
            if let Some(element) = vector.get_mut(index as usize) {
                *element = part;
            }
            return Ok(vector);
        }
        let number = self.number(ir.type_of(ir.operand(it, 1)))?;
        let ty = self.to.register(number);
        let at = self.index_of(index)?;
        for (index, element) in (0..).zip(&mut vector) {
            let is_it = self.is_index(at, index);
            *element = self.to.op(Op::Select, ty, &[is_it, part, *element]);
        }
        Ok(vector)
    }

    /// Emits an index of 32 bits.
    fn index_of(&mut self, index: ValueRef) -> Result<Word, String> {
        let number = self.number(self.ir.type_of(index))?;
        let (word, value) = (self.to.int(32), self.one(index)?);
        Ok(match number {
            Number::Int(33..) => self.to.op(Op::UConvert, word, &[value]),
            _ => value,
        })
    }

    fn is_index(&mut self, at: Word, index: u32) -> Word {
        let (truth, index) = (self.to.bool(), self.to.word(index));
        self.to.op(Op::IEqual, truth, &[at, index])
    }

    fn shuffle_vector(&mut self, it: ValueRef) -> Result<Vec<Word>, String> {
        let ir = self.ir;
        let mut both = self.value(ir.operand(it, 0))?;
        both.extend(self.value(ir.operand(it, 1))?);
        let count = ll!(ir, LLVMGetNumMaskElements(it));
        let chosen = (0..count).map(|at| ll!(ir, LLVMGetMaskValue(it, at)));
        // A negative number chooses any value.
        let chosen = chosen.map(|index| both.get(index.max(0) as usize).copied());
        chosen.collect::<Option<_>>().ok_or_else(|| "a vector is shorter than its mask".to_owned())
    }
}
