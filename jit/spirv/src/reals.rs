//! LLVM's functions of floating-point numbers.

use crate::body::Body;
use crate::numbers::Number;
use longshore_llvm::types::*;
use rspirv::spirv::{GlslStd450Op, Op, Word};

impl Body<'_> {
    pub(crate) fn real_function(&mut self, name: &str, bits: u32, values: &[Word]) -> Option<Word> {
        let number = Number::Float(bits);
        let ty = self.to.register(number);
        let op = match name {
            "fmuladd" => {
                let product = self.exact(Op::FMul, number, &values[..2]);
                return Some(self.exact(Op::FAdd, number, &[product, values[2]]));
            }
            "copysign" => return Some(self.copy_sign(bits, values[0], values[1])),
            "round" => return Some(self.round(bits, values[0])),
            "fma" => GlslStd450Op::Fma,
            "sqrt" => GlslStd450Op::Sqrt,
            "floor" => GlslStd450Op::Floor,
            "ceil" => GlslStd450Op::Ceil,
            "trunc" => GlslStd450Op::Trunc,
            "rint" | "nearbyint" | "roundeven" => GlslStd450Op::RoundEven,
            "fabs" => GlslStd450Op::FAbs,
            "minnum" | "minimumnum" => GlslStd450Op::NMin,
            "maxnum" | "maximumnum" => GlslStd450Op::NMax,
            "exp" if bits == 32 => GlslStd450Op::Exp,
            "exp2" if bits == 32 => GlslStd450Op::Exp2,
            "log" if bits == 32 => GlslStd450Op::Log,
            "log2" if bits == 32 => GlslStd450Op::Log2,
            "sin" if bits == 32 => GlslStd450Op::Sin,
            "cos" if bits == 32 => GlslStd450Op::Cos,
            "pow" if bits == 32 => GlslStd450Op::Pow,
            _ => return None,
        };
        Some(self.to.extended(op, ty, values))
    }

    fn copy_sign(&mut self, bits: u32, size: Word, sign: Word) -> Word {
        let (number, integer) = (Number::Float(bits), Number::Int(bits));
        let register = Number::register(bits);
        let ty = self.to.register(integer);
        let [size, sign] = [size, sign].map(|it| self.bits_of(number, it));
        let top = 1u64 << (bits - 1);
        let (top, rest) = (self.to.constant(register, top), self.to.constant(register, top - 1));
        let size = self.to.op(Op::BitwiseAnd, ty, &[size, rest]);
        let sign = self.to.op(Op::BitwiseAnd, ty, &[sign, top]);
        let both = self.to.op(Op::BitwiseOr, ty, &[size, sign]);
        self.number_of(number, both)
    }

    /// Emits the nearest whole number, away from zero between two.
    fn round(&mut self, bits: u32, value: Word) -> Word {
        let number = Number::Float(bits);
        let (ty, truth) = (self.to.register(number), self.to.bool());
        let real = |value: f64| match bits {
            16 => {
                if value == 0.5 {
                    0x3800
                } else {
                    0x3c00
                }
            }
            32 => u64::from((value as f32).to_bits()),
            _ => value.to_bits(),
        };
        let [half, one, zero] = [0.5, 1.0, 0.0].map(|it| match it {
            0.0 => self.scalar(number, 0),
            _ => self.scalar(number, real(it)),
        });
        let whole = self.to.extended(GlslStd450Op::Trunc, ty, &[value]);
        let rest = self.exact(Op::FSub, number, &[value, whole]);
        let rest = self.to.extended(GlslStd450Op::FAbs, ty, &[rest]);
        let is_more = self.to.op(Op::FOrdGreaterThanEqual, truth, &[rest, half]);
        let step = self.to.op(Op::Select, ty, &[is_more, one, zero]);
        let step = self.copy_sign(bits, step, value);
        let sum = self.exact(Op::FAdd, number, &[whole, step]);
        self.copy_sign(bits, sum, value)
    }

    /// Emits whether a number is of one of these classes, by LLVM's bits.
    pub(crate) fn is_of_class(&mut self, number: Number, value: Word, classes: u64) -> Word {
        let Number::Float(width) = number else { return self.to.truth(false) };
        let mantissa = match width {
            16 => 10,
            32 => 23,
            _ => 52,
        };
        let register = Number::register(width);
        let (ty, truth) = (self.to.int(register), self.to.bool());
        let bits = self.bits_of(number, value);
        let [size_mask, infinity, least, quiet, zero] = [
            (1 << (width - 1)) - 1,
            ((1 << (width - 1 - mantissa)) - 1) << mantissa,
            1 << mantissa,
            1 << (mantissa - 1),
            0u64,
        ]
        .map(|it: u64| self.to.constant(register, it));
        let size = self.to.op(Op::BitwiseAnd, ty, &[bits, size_mask]);
        let is_negative = self.to.op(Op::INotEqual, truth, &[size, bits]);
        let quiet = self.to.op(Op::BitwiseAnd, ty, &[bits, quiet]);
        let is_quiet = self.to.op(Op::INotEqual, truth, &[quiet, zero]);
        let is_nan = self.to.op(Op::UGreaterThan, truth, &[size, infinity]);
        let is_infinite = self.to.op(Op::IEqual, truth, &[size, infinity]);
        let is_zero = self.to.op(Op::IEqual, truth, &[size, zero]);
        let is_below = self.to.op(Op::ULessThan, truth, &[size, least]);
        let is_other = self.to.op(Op::LogicalNotEqual, truth, &[is_below, is_zero]);
        let is_less = self.to.op(Op::ULessThan, truth, &[size, infinity]);
        let is_normal = self.to.op(Op::LogicalNotEqual, truth, &[is_less, is_below]);
        // A kind, the bits of its halves with the mark and without it, and the mark.
        let kinds = [
            (is_nan, 1 << 1, 1 << 0, is_quiet),
            (is_infinite, 1 << 2, 1 << 9, is_negative),
            (is_normal, 1 << 3, 1 << 8, is_negative),
            (is_other, 1 << 4, 1 << 7, is_negative),
            (is_zero, 1 << 5, 1 << 6, is_negative),
        ];
        let mut any = self.to.truth(false);
        for (kind, with, without, mark) in kinds {
            let is_it = match (classes & with != 0, classes & without != 0) {
                (false, false) => continue,
                (true, true) => kind,
                (true, false) => self.to.op(Op::LogicalAnd, truth, &[kind, mark]),
                (false, true) => {
                    let not = self.to.op(Op::LogicalNot, truth, &[mark]);
                    self.to.op(Op::LogicalAnd, truth, &[kind, not])
                }
            };
            any = self.to.op(Op::LogicalOr, truth, &[any, is_it]);
        }
        any
    }

    /// Emits -1, 0 or 1 as the first integer is less than, equal to or greater than the second.
    pub(crate) fn order(
        &mut self,
        is_signed: bool,
        from: Number,
        to: Number,
        [first, second]: [Word; 2],
    ) -> Result<Word, String> {
        let (less, more) = match is_signed {
            true => (predicate::SLT, predicate::SGT),
            false => (predicate::ULT, predicate::UGT),
        };
        let is_less = self.compare_integers(less, from, first, second)?;
        let is_more = self.compare_integers(more, from, first, second)?;
        let ty = self.to.register(to);
        let Number::Int(width) = to else { return Ok(is_more) };
        let [low, none, high] =
            [u64::MAX >> (64 - width), 0, 1].map(|value| self.scalar(to, value));
        let other = self.to.op(Op::Select, ty, &[is_more, high, none]);
        Ok(self.to.op(Op::Select, ty, &[is_less, low, other]))
    }

    /// Emits the nearest integer of this width towards zero; 0 for NaN.
    pub(crate) fn saturated(
        &mut self,
        is_signed: bool,
        from: Number,
        width: u32,
        value: Word,
    ) -> Word {
        let (to, truth) = (Number::Int(width), self.to.bool());
        let ty = self.to.register(to);
        let Number::Float(bits) = from else { return value };
        let all = u64::MAX >> (64 - width);
        let (top, bottom) = match is_signed {
            true => (all >> 1, (all >> 1) + 1),
            false => (all, 0),
        };
        // The first number above the type is a power of two, and so exact.
        let above =
            (top as f64 + 1.0).max(2f64.powi(if is_signed { width - 1 } else { width } as i32));
        let below = if is_signed { -above } else { 0.0 };
        let real = |body: &mut Self, value: f64| match bits {
            64 => body.scalar(from, value.to_bits()),
            // Half-precision numbers are within all types of 32 bits.
            16 => body.scalar(from, if value > 0.0 { 0x7c00 } else { 0xfc00 }),
            _ => body.scalar(from, u64::from((value as f32).to_bits())),
        };
        let (above, below) = (real(self, above), real(self, below));
        let op = if is_signed { Op::ConvertFToS } else { Op::ConvertFToU };
        let made = self.to.op(op, ty, &[value]);
        let made = self.masked(made, width);
        let (top, bottom, zero) =
            (self.scalar(to, top), self.scalar(to, bottom), self.scalar(to, 0));
        let is_high = self.to.op(Op::FOrdGreaterThanEqual, truth, &[value, above]);
        let is_low = self.to.op(Op::FOrdLessThanEqual, truth, &[value, below]);
        let is_nan = self.to.op(Op::IsNan, truth, &[value]);
        let made = self.to.op(Op::Select, ty, &[is_high, top, made]);
        let made = self.to.op(Op::Select, ty, &[is_low, bottom, made]);
        self.to.op(Op::Select, ty, &[is_nan, zero, made])
    }
}
