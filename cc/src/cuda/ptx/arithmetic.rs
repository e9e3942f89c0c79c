//! Instructions that compute: arithmetic, bits, comparisons and conversions.

use super::registers::{bits, plain, wider};
use super::{BEGIN, Instruction, Translator};
use std::fmt::Write;

/// An instruction whose operands are numbers.
struct Numbers<'a> {
    of: &'a Translator,
    it: &'a Instruction<'a>,
    ty: &'static str,
    /// The type in which sums wrap around.
    wrapping: String,
}

/// The number of an instruction's operands, and its result in C++.
type Computed = Option<(usize, String)>;

impl Numbers<'_> {
    fn get(&self, index: usize, ty: &str) -> Option<String> {
        self.of.typed(self.it.operands.get(index)?, ty)
    }

    /// Returns an operand as a number of the instruction's type.
    fn own(&self, index: usize) -> Option<String> {
        self.get(index, self.ty)
    }

    /// Returns an operand as a number that wraps around.
    fn free(&self, index: usize) -> Option<String> {
        self.get(index, &self.wrapping)
    }

    fn word(&self, index: usize) -> Option<String> {
        self.get(index, "u32")
    }

    /// Returns the bits of an operand.
    fn raw(&self, index: usize) -> Option<String> {
        self.of.value(self.it.operands.get(index)?)
    }

    fn is_float(&self) -> bool {
        self.ty.starts_with('f')
    }

    /// Computes products, and sums of products.
    fn products(&self) -> Computed {
        let (it, ty) = (self.it, self.ty);
        let name = it.parts[0];
        let is_sum = matches!(name, "mad" | "mad24");
        let product = match name {
            "fma" | "mad" if self.is_float() => {
                let (a, b, c) = (self.own(1)?, self.own(2)?, self.own(3)?);
                return Some((4, format!("longshore_ptx::fused({a}, {b}, {c})")));
            }
            "mul" if self.is_float() => format!("{} * {}", self.own(1)?, self.own(2)?),
            "mul" | "mad" if it.has("lo") => {
                format!("(longshore_ptx::W){} * {}", self.free(1)?, self.free(2)?)
            }
            "mad" if it.has("sat") => {
                let high = format!("longshore_ptx::mul_high({}, {})", self.own(1)?, self.own(2)?);
                return Some((4, self.clamped(&format!("{high} + {}", self.own(3)?))));
            }
            "mul" | "mad" if it.has("hi") => {
                let high = format!("longshore_ptx::mul_high({}, {})", self.own(1)?, self.own(2)?);
                format!("(longshore_ptx::{}){high}", self.wrapping)
            }
            "mul" | "mad" if it.has("wide") => {
                let (wide, a, b) = (wider(ty)?, self.own(1)?, self.own(2)?);
                let product = format!("((longshore_ptx::{wide}){a} * (longshore_ptx::{wide}){b})");
                format!("(longshore_ptx::u{}){product}", bits(wide)?)
            }
            "mul24" | "mad24" if it.has("lo") && bits(ty)? == 32 => {
                let function = if ty == "s32" { "__mul24" } else { "__umul24" };
                format!("(longshore_ptx::u32){function}({}, {})", self.own(1)?, self.own(2)?)
            }
            _ => return None,
        };
        if !is_sum {
            return Some((3, product));
        }
        let wide = if it.has("wide") { wider(ty)? } else { ty };
        Some((4, format!("{product} + {}", self.get(3, &format!("u{}", bits(wide)?))?)))
    }

    /// Computes sums and quotients, and chooses numbers by their size.
    fn sums(&self) -> Computed {
        let (it, is_float) = (self.it, self.is_float());
        let two = |function: &str| {
            Some(format!("longshore_ptx::{function}({}, {})", self.own(1)?, self.own(2)?))
        };
        Some(match it.parts[0] {
            "add" if !it.has("sat") || is_float => {
                (3, format!("{} + {}", self.free(1)?, self.free(2)?))
            }
            "sub" if !it.has("sat") || is_float => {
                (3, format!("{} - {}", self.free(1)?, self.free(2)?))
            }
            "add" => (3, self.clamped(&format!("{} + {}", self.own(1)?, self.own(2)?))),
            "sub" => (3, self.clamped(&format!("{} - {}", self.own(1)?, self.own(2)?))),
            "div" if is_float => (3, format!("{} / {}", self.own(1)?, self.own(2)?)),
            "div" => (3, two("divide")?),
            "rem" if !is_float => (3, two("remainder")?),
            "neg" if is_float => (2, format!("-{}", self.own(1)?)),
            "neg" => (2, format!("0 - {}", self.free(1)?)),
            "abs" => (2, format!("longshore_ptx::absolute({})", self.own(1)?)),
            "min" | "max" if !it.has("NaN") && !it.has("xorsign") => {
                let chosen = two(if it.parts[0] == "min" { "smaller" } else { "greater" })?;
                match (it.has("relu"), self.ty) {
                    (false, _) => (3, chosen),
                    (true, "s32") => (3, format!("longshore_ptx::greater({chosen}, 0)")),
                    (true, _) => return None,
                }
            }
            "sad" if bits(self.ty)? == 32 => {
                let function = if self.ty == "s32" { "__sad" } else { "__usad" };
                let (a, b, c) = (self.own(1)?, self.own(2)?, self.free(3)?);
                (4, format!("{function}({a}, {b}, {c})"))
            }
            "copysign" => (3, two("sign_of")?),
            "vadd" if it.parts[1..] == ["u32", "u32", "u32", "add"] => {
                (4, format!("{} + {} + {}", self.word(1)?, self.word(2)?, self.word(3)?))
            }
            _ => return None,
        })
    }

    /// Returns a sum or a difference of numbers of 32 bits, or the nearest such number.
    fn clamped(&self, sum: &str) -> String {
        format!("longshore_ptx::clamped<longshore_ptx::s32>((longshore_ptx::s64){sum})")
    }

    /// Returns whether the instruction has no `.sat`, or can have it.
    fn may_saturate(&self) -> bool {
        let name = self.it.parts[0];
        let has_limits = matches!(name, "add" | "sub") || name == "mad" && self.it.has("hi");
        !self.it.has("sat") || self.is_float() || has_limits && self.ty == "s32"
    }

    /// Computes functions of one number.
    fn functions(&self) -> Computed {
        let name = self.it.parts[0];
        let value = || self.own(1);
        Some(match (name, self.ty) {
            ("sqrt", "f32" | "f64") => (2, format!("longshore_ptx::root({})", value()?)),
            ("rcp", "f32" | "f64") => (2, format!("1 / {}", value()?)),
            ("rsqrt", "f32" | "f64") => (2, format!("longshore_rsqrt({})", value()?)),
            ("ex2", "f32") => (2, format!("longshore_exp2({})", value()?)),
            ("lg2", "f32") => (2, format!("longshore_log2({})", value()?)),
            ("sin" | "cos" | "tanh", "f32") => (2, format!("longshore_{name}({})", value()?)),
            _ => return None,
        })
    }

    /// Computes with the bits of words.
    fn bits(&self) -> Computed {
        let it = self.it;
        let one = |function: &str| Some(format!("longshore_ptx::{function}({})", self.free(1)?));
        let shift = |side: &str, value: String| {
            Some(format!("longshore_ptx::shift_{side}({value}, {})", self.word(2)?))
        };
        Some(match it.parts[0] {
            "and" => (3, format!("{} & {}", self.raw(1)?, self.raw(2)?)),
            "or" => (3, format!("{} | {}", self.raw(1)?, self.raw(2)?)),
            "xor" => (3, format!("{} ^ {}", self.raw(1)?, self.raw(2)?)),
            "not" => (2, format!("~{}", self.raw(1)?)),
            "cnot" => (2, format!("{} == 0 ? 1 : 0", self.free(1)?)),
            "selp" => (4, format!("{} & 1 ? {} : {}", self.raw(3)?, self.raw(1)?, self.raw(2)?)),
            "shl" => (3, shift("left", self.free(1)?)?),
            "shr" => (3, shift("right", self.own(1)?)?),
            "vshl" | "vshr" if it.parts[1..] == ["u32", "u32", "u32", "clamp", "add"] => {
                let side = if it.parts[0] == "vshl" { "left" } else { "right" };
                (4, format!("{} + {}", shift(side, self.word(1)?)?, self.word(3)?))
            }
            "shf" if it.has("wrap") || it.has("clamp") => {
                let side = if it.has("l") { "l" } else { "r" };
                let clamp = if it.has("clamp") { "c" } else { "" };
                let (low, high, by) = (self.word(1)?, self.word(2)?, self.word(3)?);
                (4, format!("__funnelshift_{side}{clamp}({low}, {high}, {by})"))
            }
            "popc" => (2, one("count_ones")?),
            "clz" => (2, one("leading_zeros")?),
            "brev" => (2, one("reversed")?),
            "bfind" => {
                let function = if it.has("shiftamt") { "highest_shift" } else { "highest" };
                (2, format!("longshore_ptx::{function}({})", self.own(1)?))
            }
            "bfe" => {
                let (from, count) = (self.word(2)?, self.word(3)?);
                (4, format!("longshore_ptx::field({}, {from}, {count})", self.own(1)?))
            }
            "bfi" => {
                let (part, whole) = (self.free(1)?, self.free(2)?);
                let (from, count) = (self.word(3)?, self.word(4)?);
                (5, format!("longshore_ptx::with_field({part}, {whole}, {from}, {count})"))
            }
            "prmt" if it.parts.len() == 2 => {
                let (a, b, selectors) = (self.word(1)?, self.word(2)?, self.word(3)?);
                (4, format!("longshore_ptx::permuted({a}, {b}, {selectors})"))
            }
            "lop3" if it.parts.len() == 2 => {
                let (a, b, c, table) = (self.word(1)?, self.word(2)?, self.word(3)?, self.word(4)?);
                (5, format!("longshore_ptx::logic({a}, {b}, {c}, {table})"))
            }
            "dp4a" if it.parts[1..] == ["u32", "u32"] || it.parts[1..] == ["s32", "s32"] => {
                (4, format!("__dp4a({}, {}, {})", self.own(1)?, self.own(2)?, self.own(3)?))
            }
            _ => return None,
        })
    }

    /// Returns the result of arithmetic that does not round to nearest.
    fn rounded(&self) -> Computed {
        let (it, ty) = (self.it, self.ty);
        let letter = if ty == "f32" { "f" } else { "d" };
        let modes = [("rz", "rz"), ("rm", "rd"), ("rp", "ru")];
        let (_, mode) = modes.into_iter().find(|(known, _)| it.has(known))?;
        let name = match (it.parts[0], ty) {
            ("fma", "f32") => "fmaf".to_owned(),
            ("fma", "f64") => "fma".to_owned(),
            (name @ ("add" | "sub" | "mul" | "div" | "rcp" | "sqrt"), "f32" | "f64") => {
                format!("{letter}{name}")
            }
            _ => return None,
        };
        let values = it.operands.get(1..)?.iter().map(|operand| self.of.typed(operand, ty));
        let count = match it.parts[0] {
            "fma" => 3,
            "rcp" | "sqrt" => 1,
            _ => 2,
        };
        let values: Vec<String> = values.collect::<Option<_>>()?;
        Some((count + 1, format!("__{name}_{mode}({})", values.join(", "))))
    }

    /// Returns the type of the result; `None` for bits.
    fn made(&self) -> Option<String> {
        Some(match self.it.parts[0] {
            "and" | "or" | "xor" | "not" | "selp" => return None,
            "mul" | "mad" if self.it.has("wide") => format!("u{}", bits(wider(self.ty)?)?),
            "popc" | "clz" | "bfind" | "vadd" | "vshl" | "vshr" => "u32".to_owned(),
            "add" | "sub" | "mul" | "mad" | "mul24" | "mad24" | "neg" | "shl" | "cnot" | "sad" => {
                self.wrapping.clone()
            }
            _ => self.ty.to_owned(),
        })
    }
}

impl Translator {
    pub(crate) fn arithmetic(&self, it: &Instruction<'_>) -> Option<String> {
        let ty = if it.parts[0].starts_with('v') { "u32" } else { plain(it.ty()?)? };
        let is_float = ty.starts_with('f');
        let wrapping = if is_float { ty.to_owned() } else { format!("u{}", bits(ty)?) };
        let numbers = Numbers { of: self, it, ty, wrapping };
        numbers.may_saturate().then_some(())?;
        let is_rounded = ["rz", "rm", "rp"].into_iter().any(|mode| it.has(mode));
        let computed = match is_rounded {
            true => numbers.rounded(),
            false => (numbers.products().or_else(|| numbers.sums()))
                .or_else(|| numbers.functions())
                .or_else(|| numbers.bits()),
        };
        let (_, result) = computed.filter(|(count, _)| *count == it.operands.len())?;
        let target = self.target(it.operands[0])?;
        let Some(made) = numbers.made() else { return Some(format!("{target} = {result};")) };
        let typed = format!("(longshore_ptx::{made})({result})");
        let typed = match is_float && it.has("sat") {
            true => format!("longshore_ptx::saturated({typed})"),
            false => typed,
        };
        Some(format!("{target} = longshore_ptx::from({typed});"))
    }

    /// Sums with the carry bit, which a variable of this statement holds.
    pub(crate) fn carry(&mut self, it: &Instruction<'_>) -> Option<String> {
        let (name, ty) = (it.parts[0], it.ty()?);
        let bits = bits(ty)?;
        let (uses, sets) = (name.ends_with('c'), it.has("cc"));
        if uses && !self.has_carry || !matches!(bits, 32 | 64) || ty.starts_with('f') {
            return None;
        }
        let free = format!("u{bits}");
        let (mut a, b, count);
        if name.starts_with("mad") {
            let (x, y) = (&it.operands.get(1)?, &it.operands.get(2)?);
            a = match it.has("hi") {
                true => {
                    let high = format!("{}, {}", self.typed(x, ty)?, self.typed(y, ty)?);
                    format!("(longshore_ptx::{free})longshore_ptx::mul_high({high})")
                }
                false if it.has("lo") => {
                    format!("({} * {})", self.typed(x, &free)?, self.typed(y, &free)?)
                }
                false => return None,
            };
            (b, count) = (self.typed(it.operands.get(3)?, &free)?, 4);
        } else {
            a = self.typed(it.operands.get(1)?, &free)?;
            (b, count) = (self.typed(it.operands.get(2)?, &free)?, 3);
        }
        if it.operands.len() != count {
            return None;
        }
        let is_difference = name.starts_with("sub");
        let operator = if is_difference { '-' } else { '+' };
        a = format!("(unsigned __int128){a} {operator} {b}");
        if uses {
            let _ = write!(a, " {operator} longshore_carry_");
        }
        let carry = match sets {
            true => {
                format!("longshore_carry_ = (longshore_ptx::W)(longshore_sum_ >> {bits}) & 1; ")
            }
            false => String::new(),
        };
        if !self.has_carry {
            // The bit outlives the braces of PTX.
            self.code.insert_str(BEGIN.len(), "longshore_ptx::W longshore_carry_ = 0; ");
        }
        self.has_carry |= sets;
        let target = self.target(it.operands[0])?;
        Some(format!(
            "{{ const unsigned __int128 longshore_sum_ = {a}; {carry}{target} = \
             (longshore_ptx::{free})longshore_sum_; }}"
        ))
    }

    pub(crate) fn comparison(&self, it: &Instruction<'_>) -> Option<String> {
        let ty = plain(it.ty()?)?;
        let (a, b) = (self.typed(it.operands.get(1)?, ty)?, self.typed(it.operands.get(2)?, ty)?);
        let holds = match *it.parts.get(1)? {
            "eq" => format!("{a} == {b}"),
            "ne" if ty.starts_with('f') => format!("({a} < {b} || {a} > {b})"),
            "ne" => format!("{a} != {b}"),
            "lt" | "lo" => format!("{a} < {b}"),
            "le" | "ls" => format!("{a} <= {b}"),
            "gt" | "hi" => format!("{a} > {b}"),
            "ge" | "hs" => format!("{a} >= {b}"),
            "equ" => format!("!({a} < {b} || {a} > {b})"),
            "neu" => format!("{a} != {b}"),
            "ltu" => format!("!({a} >= {b})"),
            "leu" => format!("!({a} > {b})"),
            "gtu" => format!("!({a} <= {b})"),
            "geu" => format!("!({a} < {b})"),
            "num" => format!("({a} == {a} && {b} == {b})"),
            "nan" => format!("({a} != {a} || {b} != {b})"),
            _ => return None,
        };
        let operators = [("and", "&"), ("or", "|"), ("xor", "^")];
        let operator = operators.into_iter().find(|(name, _)| it.has(name));
        let combined = |holds: &str| match (operator, it.operands.get(3)) {
            (Some((_, operator)), Some(other)) => {
                let (not, other) = match other.trim().strip_prefix('!') {
                    Some(other) => ("~", other),
                    None => ("", *other),
                };
                Some(format!("(({holds}) {operator} ({not}{} & 1))", self.value(other)?))
            }
            (None, None) => Some(format!("({holds})")),
            _ => None,
        };
        let (target, opposite) = match it.operands[0].split_once('|') {
            Some((target, opposite)) => (target, Some(opposite)),
            None => (it.operands[0], None),
        };
        let mut code = format!("const bool longshore_holds_ = {holds}; ");
        let holds = combined("longshore_holds_")?;
        let not = combined("!longshore_holds_")?;
        if target.trim() != "_" {
            let _ = write!(code, "{} = {holds}; ", self.target(target)?);
        }
        if let Some(opposite) = opposite.filter(|it| it.trim() != "_") {
            let _ = write!(code, "{} = {not}; ", self.target(opposite)?);
        }
        Some(format!("{{ {code}}}"))
    }

    pub(crate) fn conversion(&self, it: &Instruction<'_>) -> Option<String> {
        let [.., to, from] = it.parts[1..] else { return None };
        let (to, from) = (plain(to)?, plain(from)?);
        let [target, source] = it.operands[..] else { return None };
        let (to_float, from_float) = (to.starts_with('f'), from.starts_with('f'));
        let is_directed = ["rz", "rm", "rp", "relu"].into_iter().any(|mode| it.has(mode));
        let to_integer = ["rni", "rzi", "rmi", "rpi"].into_iter().find(|mode| it.has(mode));
        if is_directed || it.has("satfinite") {
            return None;
        }
        let value = self.typed(source, from)?;
        let rounded = |value: &str| match to_integer {
            Some(mode) => format!("longshore_ptx::{mode}({value})"),
            None => value.to_owned(),
        };
        let result = match (to_float, from_float) {
            (true, _) => {
                let value = if from_float { rounded(&value) } else { value };
                let result = format!("(longshore_ptx::{to}){value}");
                if it.has("sat") { format!("longshore_ptx::saturated({result})") } else { result }
            }
            (false, true) => {
                to_integer?;
                format!("longshore_ptx::integer<longshore_ptx::{to}>({})", rounded(&value))
            }
            (false, false) if it.has("sat") => {
                format!("longshore_ptx::clamped<longshore_ptx::{to}>({value})")
            }
            (false, false) => format!("(longshore_ptx::{to}){value}"),
        };
        // A register of more bits than the type gets the sign too.
        let result = match to {
            "s8" | "s16" | "s32" => format!("(longshore_ptx::s64)({result})"),
            _ => result,
        };
        Some(format!("{} = longshore_ptx::from({result});", self.target(target)?))
    }
}
