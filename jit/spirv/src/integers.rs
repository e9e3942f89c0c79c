//! LLVM's functions of integers.

use crate::body::Body;
use crate::numbers::Number;
use rspirv::spirv::{GlslStd450Op, Op, Word};

impl Body<'_> {
    pub(crate) fn integer_function(
        &mut self,
        name: &str,
        width: u32,
        values: &[Word],
    ) -> Option<Word> {
        let number = Number::Int(width);
        let ty = self.to.register(number);
        let signed = |body: &mut Self| -> Vec<Word> {
            values.iter().map(|value| body.signed(number, *value)).collect()
        };
        let made = match name {
            "umin" => self.to.extended(GlslStd450Op::UMin, ty, values),
            "umax" => self.to.extended(GlslStd450Op::UMax, ty, values),
            "smin" => {
                let values = signed(self);
                self.to.extended(GlslStd450Op::SMin, ty, &values)
            }
            "smax" => {
                let values = signed(self);
                self.to.extended(GlslStd450Op::SMax, ty, &values)
            }
            "abs" => {
                let values = signed(self);
                self.to.extended(GlslStd450Op::SAbs, ty, &values[..1])
            }
            "ctpop" => return Some(self.count(width, values[0])),
            "ctlz" => return Some(self.leading_zeros(width, values[0])),
            "cttz" => return Some(self.trailing_zeros(width, values[0])),
            "bswap" => return self.swapped(width, values[0]),
            "bitreverse" => return Some(self.reversed(width, values[0])),
            "fshl" | "fshr" => return self.funnel(name == "fshl", width, values),
            "usub.sat" => {
                let least = self.to.extended(GlslStd450Op::UMin, ty, values);
                self.to.op(Op::ISub, ty, &[values[0], least])
            }
            "uadd.sat" => {
                let register = Number::register(width);
                let all = self.to.constant(register, u64::MAX >> (64 - width));
                let room = self.to.op(Op::ISub, ty, &[all, values[0]]);
                let least = self.to.extended(GlslStd450Op::UMin, ty, &[room, values[1]]);
                self.to.op(Op::IAdd, ty, &[values[0], least])
            }
            _ => return None,
        };
        Some(self.masked(made, width))
    }

    /// Returns the halves of 32 bits of a register: one, or the low and the high one.
    fn halves(&mut self, width: u32, value: Word) -> Vec<Word> {
        let (word, long, half) = (self.to.int(32), self.to.int(64), self.to.word(32));
        if width <= 32 {
            return vec![value];
        }
        let low = self.to.op(Op::UConvert, word, &[value]);
        let high = self.to.op(Op::ShiftRightLogical, long, &[value, half]);
        vec![low, self.to.op(Op::UConvert, word, &[high])]
    }

    /// Emits a small count of 32 bits as a number of this width.
    fn counted(&mut self, width: u32, count: Word) -> Word {
        self.convert(Number::Int(32), Number::Int(Number::register(width)), count)
    }

    fn count(&mut self, width: u32, value: Word) -> Word {
        let word = self.to.int(32);
        let halves = self.halves(width, value);
        let counts: Vec<Word> =
            halves.into_iter().map(|it| self.to.op(Op::BitCount, word, &[it])).collect();
        let all = match *counts.as_slice() {
            [low, high] => self.to.op(Op::IAdd, word, &[low, high]),
            _ => counts[0],
        };
        self.counted(width, all)
    }

    fn leading_zeros(&mut self, width: u32, value: Word) -> Word {
        let (word, truth) = (self.to.int(32), self.to.bool());
        let zero = self.to.word(0);
        // The highest bit's number is -1 for 0.
        let last = self.to.word(31);
        let halves = self.halves(width, value);
        let zeros: Vec<Word> = halves
            .iter()
            .map(|it| {
                let top = self.to.extended(GlslStd450Op::FindUMsb, word, &[*it]);
                self.to.op(Op::ISub, word, &[last, top])
            })
            .collect();
        let mut all = zeros[0];
        if let [low, high] = *zeros.as_slice() {
            let is_low = self.to.op(Op::IEqual, truth, &[halves[1], zero]);
            let half = self.to.word(32);
            let low = self.to.op(Op::IAdd, word, &[low, half]);
            all = self.to.op(Op::Select, word, &[is_low, low, high]);
        }
        let unused = self.to.word(Number::register(width) - width);
        let all = match width {
            32 | 64 => all,
            _ => self.to.op(Op::ISub, word, &[all, unused]),
        };
        self.counted(width, all)
    }

    fn trailing_zeros(&mut self, width: u32, value: Word) -> Word {
        let (word, truth) = (self.to.int(32), self.to.bool());
        let (zero, whole) = (self.to.word(0), self.to.word(width));
        let halves = self.halves(width, value);
        let firsts: Vec<Word> = halves
            .iter()
            .map(|it| self.to.extended(GlslStd450Op::FindILsb, word, &[*it]))
            .collect();
        let mut all = firsts[0];
        let mut is_zero = self.to.op(Op::IEqual, truth, &[halves[0], zero]);
        if let [low, high] = *firsts.as_slice() {
            let half = self.to.word(32);
            let high = self.to.op(Op::IAdd, word, &[high, half]);
            all = self.to.op(Op::Select, word, &[is_zero, high, low]);
            let is_high_zero = self.to.op(Op::IEqual, truth, &[halves[1], zero]);
            is_zero = self.to.op(Op::LogicalAnd, truth, &[is_zero, is_high_zero]);
        }
        let all = self.to.op(Op::Select, word, &[is_zero, whole, all]);
        self.counted(width, all)
    }

    fn swapped(&mut self, width: u32, value: Word) -> Option<Word> {
        let bytes = width / 8;
        if !matches!(width, 16 | 32 | 64) {
            return None;
        }
        let mut parts = Vec::new();
        for at in (0..bytes).rev() {
            let part = self.cut(value, bytes, at, 1);
            parts.push(self.masked(part, 8));
        }
        Some(self.joined(&parts, 1))
    }

    fn reversed(&mut self, width: u32, value: Word) -> Word {
        let word = self.to.int(32);
        let halves = self.halves(width, value);
        let turned: Vec<Word> =
            halves.into_iter().rev().map(|it| self.to.op(Op::BitReverse, word, &[it])).collect();
        let whole = self.joined(&turned, 4);
        let register = Number::register(width);
        if width == register {
            return whole;
        }
        let (ty, unused) = (self.to.int(register), self.to.word(register - width));
        self.to.op(Op::ShiftRightLogical, ty, &[whole, unused])
    }

    /// Emits the part of two joined integers that a shift moves to the left or right one.
    fn funnel(&mut self, is_left: bool, width: u32, values: &[Word]) -> Option<Word> {
        if !width.is_power_of_two() {
            return None;
        }
        let register = Number::register(width);
        let (ty, truth) = (self.to.int(register), self.to.bool());
        let [mask, whole, zero] =
            [width - 1, width, 0].map(|it| self.to.constant(register, u64::from(it)));
        let shift = self.to.op(Op::BitwiseAnd, ty, &[values[2], mask]);
        let rest = self.to.op(Op::ISub, ty, &[whole, shift]);
        // The other shift is by the whole width, which is undefined, if this one is by 0.
        let rest = self.to.op(Op::BitwiseAnd, ty, &[rest, mask]);
        let is_none = self.to.op(Op::IEqual, truth, &[shift, zero]);
        let (up, down) = if is_left { (shift, rest) } else { (rest, shift) };
        let high = self.to.op(Op::ShiftLeftLogical, ty, &[values[0], up]);
        let low = self.to.op(Op::ShiftRightLogical, ty, &[values[1], down]);
        let both = self.to.op(Op::BitwiseOr, ty, &[high, low]);
        let own = if is_left { values[0] } else { values[1] };
        let made = self.to.op(Op::Select, ty, &[is_none, own, both]);
        Some(self.masked(made, width))
    }
}
