//! Arithmetic, comparisons and conversions.

use crate::body::{Body, EXACT};
use crate::numbers::{Number, numbers};
use longshore_llvm::ll;
use longshore_llvm::types::*;
use rspirv::spirv::{Op, Word};

impl Body<'_> {
    /// Emits an operation on each number of its operands.
    pub(crate) fn arithmetic(&mut self, it: ValueRef, opcode: u32) -> Result<Vec<Word>, String> {
        let ir = self.ir;
        if self.is_wide(it) {
            return self.wide(it, opcode);
        }
        let from: Vec<Number> =
            numbers(ir, ir.type_of(ir.operand(it, 0)))?.into_iter().map(|part| part.0).collect();
        let to: Vec<Number> = numbers(ir, ir.type_of(it))?.into_iter().map(|part| part.0).collect();
        let operands = ir.operands(it);
        let values = operands.iter().map(|it| self.value(*it)).collect::<Result<Vec<_>, _>>()?;
        let mut made = Vec::new();
        for (index, to) in to.into_iter().enumerate() {
            let values: Vec<Word> = values.iter().map(|value| value[index]).collect();
            made.push(self.on_numbers(it, opcode, from[index], to, &values)?);
        }
        Ok(made)
    }

    fn on_numbers(
        &mut self,
        it: ValueRef,
        opcode: u32,
        from: Number,
        to: Number,
        values: &[Word],
    ) -> Result<Word, String> {
        let ir = self.ir;
        match opcode {
            opcode::ICMP => {
                let predicate = ll!(ir, LLVMGetICmpPredicate(it));
                self.compare_integers(predicate, from, values[0], values[1])
            }
            opcode::FCMP => {
                let predicate = ll!(ir, LLVMGetFCmpPredicate(it));
                Ok(self.compare_reals(predicate, values[0], values[1]))
            }
            opcode::TRUNC | opcode::ZEXT => Ok(self.convert(from, to, values[0])),
            opcode::SEXT => {
                let Number::Int(width) = to else { return Ok(values[0]) };
                let wide = self.signed_to(from, values[0], Number::register(width));
                Ok(self.masked(wide, width))
            }
            opcode::FP_TO_UI | opcode::FP_TO_SI => {
                let Number::Int(width) = to else {
                    return Err("a conversion of a floating-point number to a truth".to_owned());
                };
                let ty = self.to.register(to);
                let op = if opcode == opcode::FP_TO_SI { Op::ConvertFToS } else { Op::ConvertFToU };
                let made = self.to.op(op, ty, values);
                Ok(self.masked(made, width))
            }
            opcode::UI_TO_FP | opcode::SI_TO_FP => {
                let is_signed = opcode == opcode::SI_TO_FP;
                let op = if is_signed { Op::ConvertSToF } else { Op::ConvertUToF };
                let value = match is_signed {
                    true => self.signed(from, values[0]),
                    false => self.bits_of(from, values[0]),
                };
                let ty = self.to.register(to);
                Ok(self.to.op(op, ty, &[value]))
            }
            opcode::FP_TRUNC | opcode::FP_EXT => {
                let ty = self.to.register(to);
                Ok(self.to.op(Op::FConvert, ty, values))
            }
            _ => match to {
                Number::Float(_) => self.on_reals(opcode, to, values),
                Number::Bool => self.on_truths(opcode, values),
                Number::Int(width) => self.on_integers(opcode, width, values),
            },
        }
    }

    fn on_reals(&mut self, opcode: u32, number: Number, values: &[Word]) -> Result<Word, String> {
        let op = match opcode {
            opcode::FADD => Op::FAdd,
            opcode::FSUB => Op::FSub,
            opcode::FMUL => Op::FMul,
            opcode::FDIV => Op::FDiv,
            opcode::FNEG => Op::FNegate,
            opcode::FREM => {
                return Err("the remainder of floating-point numbers is not exact in SPIR-V; use \
                            longshore_fmod"
                    .to_owned());
            }
            _ => return Err(unknown(opcode)),
        };
        Ok(self.exact(op, number, values))
    }

    /// Emits an operation on floating-point numbers that drivers do not fuse with others.
    pub(crate) fn exact(&mut self, op: Op, number: Number, values: &[Word]) -> Word {
        let ty = self.to.register(number);
        let made = self.to.op(op, ty, values);
        self.to.decorate(made, EXACT, &[]);
        made
    }

    fn on_truths(&mut self, opcode: u32, values: &[Word]) -> Result<Word, String> {
        let op = match opcode {
            opcode::AND | opcode::MUL => Op::LogicalAnd,
            opcode::OR => Op::LogicalOr,
            opcode::XOR | opcode::ADD | opcode::SUB => Op::LogicalNotEqual,
            _ => return Err(unknown(opcode)),
        };
        let truth = self.to.bool();
        Ok(self.to.op(op, truth, values))
    }

    /// Emits an operation on integers of this width.
    pub(crate) fn on_integers(
        &mut self,
        opcode: u32,
        width: u32,
        values: &[Word],
    ) -> Result<Word, String> {
        let number = Number::Int(width);
        let ty = self.to.register(number);
        let op = match opcode {
            opcode::ADD => Op::IAdd,
            opcode::SUB => Op::ISub,
            opcode::MUL => Op::IMul,
            opcode::UDIV => Op::UDiv,
            opcode::UREM => Op::UMod,
            opcode::SHL => Op::ShiftLeftLogical,
            opcode::LSHR => Op::ShiftRightLogical,
            opcode::AND => Op::BitwiseAnd,
            opcode::OR => Op::BitwiseOr,
            opcode::XOR => Op::BitwiseXor,
            opcode::ASHR => {
                let value = self.signed(number, values[0]);
                let made = self.to.op(Op::ShiftRightArithmetic, ty, &[value, values[1]]);
                return Ok(self.masked(made, width));
            }
            opcode::SDIV | opcode::SREM => {
                let dividend = self.signed(number, values[0]);
                let divisor = self.signed(number, values[1]);
                let mut made = self.to.op(Op::SDiv, ty, &[dividend, divisor]);
                if opcode == opcode::SREM {
                    // OpSRem of negative numbers is undefined in Vulkan.
                    let whole = self.to.op(Op::IMul, ty, &[made, divisor]);
                    made = self.to.op(Op::ISub, ty, &[dividend, whole]);
                }
                return Ok(self.masked(made, width));
            }
            _ => return Err(unknown(opcode)),
        };
        let made = self.to.op(op, ty, values);
        let grows = matches!(opcode, opcode::ADD | opcode::SUB | opcode::MUL | opcode::SHL);
        Ok(if grows { self.masked(made, width) } else { made })
    }

    // ---- Comparisons ----

    pub(crate) fn compare_integers(
        &mut self,
        predicate: u32,
        number: Number,
        first: Word,
        second: Word,
    ) -> Result<Word, String> {
        let truth = self.to.bool();
        let op = match predicate {
            predicate::EQ => Op::IEqual,
            predicate::NE => Op::INotEqual,
            predicate::UGT => Op::UGreaterThan,
            predicate::UGE => Op::UGreaterThanEqual,
            predicate::ULT => Op::ULessThan,
            predicate::ULE => Op::ULessThanEqual,
            predicate::SGT => Op::SGreaterThan,
            predicate::SGE => Op::SGreaterThanEqual,
            predicate::SLT => Op::SLessThan,
            predicate::SLE => Op::SLessThanEqual,
            other => return Err(format!("the comparison {other} of integers is unknown")),
        };
        let [first, second] = [first, second].map(|value| match predicate >= predicate::SGT {
            true => self.signed(number, value),
            false => self.bits_of(number, value),
        });
        Ok(self.to.op(op, truth, &[first, second]))
    }

    /// Emits a comparison of floating-point numbers by LLVM's predicate.
    fn compare_reals(&mut self, predicate: u32, first: Word, second: Word) -> Word {
        let truth = self.to.bool();
        let op = match predicate {
            0 => return self.to.truth(false),
            1 => Op::FOrdEqual,
            2 => Op::FOrdGreaterThan,
            3 => Op::FOrdGreaterThanEqual,
            4 => Op::FOrdLessThan,
            5 => Op::FOrdLessThanEqual,
            6 => Op::FOrdNotEqual,
            9 => Op::FUnordEqual,
            10 => Op::FUnordGreaterThan,
            11 => Op::FUnordGreaterThanEqual,
            12 => Op::FUnordLessThan,
            13 => Op::FUnordLessThanEqual,
            14 => Op::FUnordNotEqual,
            7 | 8 => {
                let nans = [first, second].map(|it| self.to.op(Op::IsNan, truth, &[it]));
                let any = self.to.op(Op::LogicalOr, truth, &nans);
                return match predicate {
                    8 => any,
                    _ => self.to.op(Op::LogicalNot, truth, &[any]),
                };
            }
            _ => return self.to.truth(true),
        };
        self.to.op(op, truth, &[first, second])
    }

    // ---- Conversions of integers ----

    /// Emits a cast between integers and pointers.
    pub(crate) fn integer_cast(&mut self, it: ValueRef, _: u32) -> Result<Vec<Word>, String> {
        let value = self.ir.operand(it, 0);
        let from = self.number(self.ir.type_of(value))?;
        let to = self.number(self.ir.type_of(it))?;
        let value = self.one(value)?;
        Ok(vec![self.convert(from, to, value)])
    }

    /// Emits an integer as one of another width, with zeros for new bits.
    pub(crate) fn convert(&mut self, from: Number, to: Number, value: Word) -> Word {
        let truth = self.to.bool();
        match (from, to) {
            _ if from == to => value,
            (Number::Bool, Number::Int(width)) => {
                let register = Number::register(width);
                let ty = self.to.int(register);
                let (one, zero) = (self.to.constant(register, 1), self.to.constant(register, 0));
                self.to.op(Op::Select, ty, &[value, one, zero])
            }
            (Number::Int(width), Number::Bool) => {
                let register = Number::register(width);
                let ty = self.to.int(register);
                let (one, zero) = (self.to.constant(register, 1), self.to.constant(register, 0));
                let bit = self.to.op(Op::BitwiseAnd, ty, &[value, one]);
                self.to.op(Op::INotEqual, truth, &[bit, zero])
            }
            (Number::Int(from), Number::Int(to)) => {
                let (old, new) = (Number::register(from), Number::register(to));
                let ty = self.to.int(new);
                let value = match old == new {
                    true => value,
                    false => self.to.op(Op::UConvert, ty, &[value]),
                };
                if to < from { self.masked(value, to) } else { value }
            }
            _ => value,
        }
    }

    /// Emits an integer with its sign in all bits of its register.
    pub(crate) fn signed(&mut self, number: Number, value: Word) -> Word {
        let width = match number {
            Number::Int(width) => width,
            _ => 1,
        };
        let value = self.bits_of(number, value);
        let register = Number::register(width);
        if width == register {
            return value;
        }
        let ty = self.to.int(register);
        let unused = self.to.word(register - width);
        let high = self.to.op(Op::ShiftLeftLogical, ty, &[value, unused]);
        self.to.op(Op::ShiftRightArithmetic, ty, &[high, unused])
    }

    /// Emits an integer with its sign in all bits of a register of this width.
    pub(crate) fn signed_to(&mut self, number: Number, value: Word, register: u32) -> Word {
        let own = match number {
            Number::Int(width) => Number::register(width),
            _ => 32,
        };
        let value = self.signed(number, value);
        let ty = self.to.int(register);
        match own == register {
            true => value,
            false => self.to.op(Op::SConvert, ty, &[value]),
        }
    }

    // ---- Integers of 128 bits ----

    /// Returns whether an operation takes or returns an integer of 128 bits.
    fn is_wide(&self, it: ValueRef) -> bool {
        let ir = self.ir;
        let is = |ty| ir.kind(ty) == type_kind::INTEGER && ll!(ir, LLVMGetIntTypeWidth(ty)) == 128;
        is(ir.type_of(it)) || is(ir.type_of(ir.operand(it, 0)))
    }

    /// Emits an operation on 128 bits, of the few by which products of 64 bits are computed.
    fn wide(&mut self, it: ValueRef, opcode: u32) -> Result<Vec<Word>, String> {
        let ir = self.ir;
        let long = self.to.int(64);
        let zero = self.to.constant(64, 0);
        let value = self.value(ir.operand(it, 0))?;
        let number = numbers(ir, ir.type_of(ir.operand(it, 0)))?[0].0;
        match opcode {
            opcode::ZEXT => Ok(vec![self.convert(number, Number::Int(64), value[0]), zero]),
            opcode::SEXT => {
                let low = self.signed_to(number, value[0], 64);
                let sign = self.to.word(63);
                Ok(vec![low, self.to.op(Op::ShiftRightArithmetic, long, &[low, sign])])
            }
            opcode::TRUNC => {
                let to = self.number(ir.type_of(it))?;
                Ok(vec![self.convert(Number::Int(64), to, value[0])])
            }
            opcode::LSHR | opcode::ASHR if ir.constant_value(ir.operand(it, 1)) == Some(64) => {
                let sign = self.to.word(63);
                let high = match opcode {
                    opcode::ASHR => self.to.op(Op::ShiftRightArithmetic, long, &[value[1], sign]),
                    _ => zero,
                };
                Ok(vec![value[1], high])
            }
            opcode::MUL => {
                let other = self.value(ir.operand(it, 1))?;
                let low = self.to.op(Op::IMul, long, &[value[0], other[0]]);
                let high = self.high_product(value[0], other[0]);
                let first = self.to.op(Op::IMul, long, &[value[1], other[0]]);
                let second = self.to.op(Op::IMul, long, &[value[0], other[1]]);
                let sum = self.to.op(Op::IAdd, long, &[first, second]);
                Ok(vec![low, self.to.op(Op::IAdd, long, &[high, sum])])
            }
            _ => Err("integers of 128 bits can only be products of 64 bits".to_owned()),
        }
    }

    /// Emits the high 64 bits of the product of two integers of 64 bits.
    pub(crate) fn high_product(&mut self, first: Word, second: Word) -> Word {
        let long = self.to.int(64);
        let (mask, half) = (self.to.constant(64, 0xffff_ffff), self.to.word(32));
        let low = |body: &mut Self, value| body.to.op(Op::BitwiseAnd, long, &[value, mask]);
        let high = |body: &mut Self, value| body.to.op(Op::ShiftRightLogical, long, &[value, half]);
        let (a, b) = (high(self, first), low(self, first));
        let (c, d) = (high(self, second), low(self, second));
        let product = |body: &mut Self, x, y| body.to.op(Op::IMul, long, &[x, y]);
        let (ac, ad, bc, bd) =
            (product(self, a, c), product(self, a, d), product(self, b, c), product(self, b, d));
        let sum = |body: &mut Self, x, y| body.to.op(Op::IAdd, long, &[x, y]);
        let carry = high(self, bd);
        let middle = sum(self, ad, carry);
        let middle_low = low(self, middle);
        let middle_low = sum(self, middle_low, bc);
        let (first, second) = (high(self, middle), high(self, middle_low));
        let whole = sum(self, ac, first);
        sum(self, whole, second)
    }
}

fn unknown(opcode: u32) -> String {
    format!("LLVM's operation {opcode} does not exist in SPIR-V")
}
