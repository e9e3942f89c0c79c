//! The translation of PTX, the assembly of NVIDIA GPUs, to C++ with the functions of
//! `longshore_cuda/ptx.h`.
//!
//! A register of PTX has bits without a type; each instruction says how it reads them. Here it is a
//! variable of 64 bits, whose upper bits an instruction of fewer bits ignores. The names and the
//! meanings of instructions are from NVIDIA's manual of PTX.

use super::assembly::{Operand, Statement};
use std::fmt::Write;

/// The beginning of a translation.
const BEGIN: &str = "{ ";

/// Returns an expression in C++ with the effect of a statement; `None` if a part of it has no
/// equivalent.
pub(super) fn translate(statement: &Statement<'_>) -> Option<String> {
    // Without an instruction, a statement keeps the order of the compiler's accesses.
    if statement.code.trim().is_empty() {
        return None;
    }
    let mut code = String::from(BEGIN);
    let Statement { outputs, inputs, .. } = statement;
    let all: Vec<&Operand<'_>> = outputs.iter().chain(inputs).collect();
    for (index, operand) in all.iter().enumerate() {
        let is_output = index < outputs.len();
        let kind = operand.constraint.trim_start_matches(['=', '+', '&']);
        let tied: Option<usize> = kind.parse().ok();
        let is_known = matches!(kind, "r" | "l" | "f" | "d" | "h") || !is_output && kind == "n";
        let value = one_line(operand.value)?;
        if !is_known && tied.is_none_or(|it| is_output || it >= outputs.len()) {
            return None;
        }
        let is_read = !is_output || operand.constraint.contains('+');
        let read = if is_read { format!("longshore_ptx::in({value})") } else { "0".to_owned() };
        let _ = write!(code, "longshore_ptx::W longshore_{index}_ = {read}; ");
        if let Some(output) = tied {
            let _ = write!(code, "longshore_{output}_ = longshore_{index}_; ");
        }
    }
    let text = named(&statement.code, &all)?;
    let mut translator =
        Translator { operands: all.len(), registers: vec![Vec::new()], has_carry: false, code };
    translator.statements(&text)?;
    let mut code = translator.code;
    for (index, output) in outputs.iter().enumerate() {
        let value = one_line(output.value)?;
        let _ = write!(code, "longshore_ptx::out({value}, longshore_{index}_); ");
    }
    code.push('}');
    Some(format!("({code})"))
}

/// Returns an expression in one line, which has no comment.
fn one_line(value: &str) -> Option<String> {
    let is_plain = !value.contains("//") && !value.contains("/*");
    is_plain.then(|| value.replace("\\\n", " ").replace(['\n', '\r'], " "))
}

/// Replaces the references to operands in an assembly text by names that no register has.
fn named(code: &str, operands: &[&Operand<'_>]) -> Option<String> {
    let mut text = String::new();
    let mut rest = code;
    while let Some((before, after)) = rest.split_once('%') {
        text.push_str(before);
        if let Some(register) = after.strip_prefix('%') {
            text.push('%');
            rest = register;
            continue;
        }
        let (index, behind) = match after.strip_prefix('[') {
            Some(name) => {
                let (name, behind) = name.split_once(']')?;
                (operands.iter().position(|it| it.name == Some(name))?, behind)
            }
            None => {
                let end = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
                (after[..end].parse().ok()?, &after[end..])
            }
        };
        let _ = write!(text, "${index}$");
        rest = behind;
    }
    text.push_str(rest);
    Some(text)
}

struct Translator {
    /// Number of operands.
    operands: usize,
    /// Variables of the declared registers, by the braces that are open.
    registers: Vec<Vec<String>>,
    /// Whether an instruction has set the carry bit.
    has_carry: bool,
    code: String,
}

/// An instruction: `mul.wide.u32` has the parts `mul`, `wide` and `u32`.
struct Instruction<'t> {
    parts: Vec<&'t str>,
    operands: Vec<&'t str>,
}

impl Translator {
    fn statements(&mut self, text: &str) -> Option<()> {
        let text = without_comments(text)?;
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            if let Some(inner) = rest.strip_prefix('{') {
                self.registers.push(Vec::new());
                self.code.push_str("{ ");
                rest = inner.trim_start();
            } else if let Some(outer) = rest.strip_prefix('}') {
                self.registers.pop().filter(|_| !self.registers.is_empty())?;
                self.code.push_str("} ");
                rest = outer.trim_start().trim_start_matches(';').trim_start();
            } else {
                let (one, others) = rest.split_once(';')?;
                self.statement(one.trim())?;
                rest = others.trim_start();
            }
        }
        (self.registers.len() == 1).then_some(())
    }

    fn statement(&mut self, text: &str) -> Option<()> {
        if let Some(registers) = text.strip_prefix(".reg") {
            return self.registers(registers);
        }
        if text.is_empty() || text.starts_with(".pragma") {
            return Some(());
        }
        let Some(predicated) = text.strip_prefix('@') else { return self.instruction(text) };
        let (predicate, instruction) = predicated.split_once(char::is_whitespace)?;
        let (sign, predicate) = match predicate.strip_prefix('!') {
            Some(predicate) => ("!", predicate),
            None => ("", predicate),
        };
        let _ = write!(self.code, "if ({sign}({} & 1)) {{ ", self.value(predicate)?);
        self.instruction(instruction.trim())?;
        self.code.push_str("} ");
        Some(())
    }

    fn registers(&mut self, text: &str) -> Option<()> {
        let (ty, names) = text.trim_start().strip_prefix('.')?.split_once(char::is_whitespace)?;
        if ty != "pred" && bits(ty)? > 64 {
            return None;
        }
        for name in names.split(',') {
            let variable = register(name.trim())?;
            let _ = write!(self.code, "longshore_ptx::W {variable} = 0; ");
            self.registers.last_mut()?.push(variable);
        }
        Some(())
    }

    fn instruction(&mut self, text: &str) -> Option<()> {
        let (name, operands) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let it = Instruction { parts: name.split('.').collect(), operands: list(operands)? };
        let code = self.translate(&it)?;
        self.code.push_str(&code);
        self.code.push(' ');
        Some(())
    }

    fn translate(&mut self, it: &Instruction<'_>) -> Option<String> {
        match it.parts[0] {
            "ld" | "ldu" | "st" | "mov" | "cvta" | "prefetch" | "prefetchu" | "discard" | "cp" => {
                self.memory(it)
            }
            "atom" | "red" => self.atomic(it),
            "setp" => self.comparison(it),
            "cvt" => self.conversion(it),
            "bar" | "barrier" | "membar" | "fence" | "vote" | "activemask" | "shfl" | "match"
            | "redux" | "nanosleep" | "trap" | "brkpt" | "exit" | "griddepcontrol" => self.wait(it),
            "add" | "addc" | "sub" | "subc" | "mad" | "madc"
                if it.has("cc") || it.parts[0].ends_with('c') =>
            {
                self.carry(it)
            }
            _ => self.arithmetic(it),
        }
    }

    /// Returns the variable of an operand or register, or a number.
    fn value(&self, text: &str) -> Option<String> {
        let text = text.trim();
        if let Some(index) = text.strip_prefix('$').and_then(|rest| rest.strip_suffix('$')) {
            let index: usize = index.parse().ok()?;
            return (index < self.operands).then(|| format!("longshore_{index}_"));
        }
        if let Some(special) = text.strip_prefix('%').and_then(special) {
            return Some(format!("((longshore_ptx::W)({special}))"));
        }
        let (sign, digits) = match text.strip_prefix('-') {
            Some(digits) => ("-", digits),
            None => ("", text),
        };
        if digits.starts_with(|c: char| c.is_ascii_digit()) {
            return number(digits).map(|it| format!("({sign}(longshore_ptx::W){it}ull)"));
        }
        // Other names are variables of PTX.
        register(text).filter(|it| self.registers.iter().flatten().any(|known| known == it))
    }

    /// Returns the variable that an instruction sets.
    fn target(&self, text: &str) -> Option<String> {
        let text = text.trim();
        let is_special = text.strip_prefix('%').is_some_and(|name| special(name).is_some());
        let is_number = text.starts_with(|c: char| c.is_ascii_digit() || c == '-');
        self.value(text).filter(|_| !is_special && !is_number)
    }

    /// Returns an operand as a number of a type.
    fn typed(&self, text: &str, ty: &str) -> Option<String> {
        Some(format!("longshore_ptx::as<longshore_ptx::{ty}>({})", self.value(text)?))
    }

    fn arithmetic(&self, it: &Instruction<'_>) -> Option<String> {
        let (name, ty) = (it.parts[0], it.ty()?);
        let ty = if name.starts_with('v') { "u32" } else { ty };
        let (is_float, ty) = (ty.starts_with('f'), plain(ty)?);
        let wrapping = if is_float { ty.to_owned() } else { format!("u{}", bits(ty)?) };
        let get = |index: usize, ty: &str| self.typed(it.operands.get(index)?, ty);
        let raw = |index: usize| self.value(it.operands.get(index)?);
        let own = |index: usize| get(index, ty);
        let free = |index: usize| get(index, &wrapping);
        let word = |index: usize| get(index, "u32");
        let is_rounded = ["rz", "rm", "rp"].into_iter().any(|mode| it.has(mode));
        let (counts, result) = match name {
            _ if is_rounded => (0, self.rounded(it, ty)?),
            "add" if !it.has("sat") || is_float => (3, format!("{} + {}", free(1)?, free(2)?)),
            "sub" if !it.has("sat") || is_float => (3, format!("{} - {}", free(1)?, free(2)?)),
            "mul" if it.has("hi") => {
                (3, format!("longshore_ptx::mul_high({}, {})", own(1)?, own(2)?))
            }
            "mul" if it.has("wide") => {
                let wide = wider(ty)?;
                let (a, b) = (own(1)?, own(2)?);
                (3, format!("(longshore_ptx::{wide}){a} * (longshore_ptx::{wide}){b}"))
            }
            "mul" if is_float || it.has("lo") => (3, product(&free(1)?, &free(2)?, is_float)),
            "mad" if it.has("hi") => {
                let high = format!("longshore_ptx::mul_high({}, {})", own(1)?, own(2)?);
                (4, format!("(longshore_ptx::{wrapping}){high} + {}", free(3)?))
            }
            "mad" if it.has("wide") => {
                let wide = wider(ty)?;
                let (a, b, c) = (own(1)?, own(2)?, get(3, &format!("u{}", bits(wide)?))?);
                let (wide, free) = (format!("longshore_ptx::{wide}"), bits(wide)?);
                let product = format!("(longshore_ptx::u{free})(({wide}){a} * ({wide}){b})");
                (4, format!("{product} + {c}"))
            }
            "mad" if it.has("lo") => {
                (4, format!("{} + {}", product(&free(1)?, &free(2)?, false), free(3)?))
            }
            "mul24" | "mad24" if it.has("lo") && bits(ty)? == 32 => {
                let function = if ty == "s32" { "__mul24" } else { "__umul24" };
                let product = format!("(longshore_ptx::u32){function}({}, {})", own(1)?, own(2)?);
                match name {
                    "mul24" => (3, product),
                    _ => (4, format!("{product} + {}", free(3)?)),
                }
            }
            "fma" | "mad" if is_float => {
                (4, format!("longshore_ptx::fused({}, {}, {})", own(1)?, own(2)?, own(3)?))
            }
            "div" if is_float => (3, format!("{} / {}", own(1)?, own(2)?)),
            "div" => (3, format!("longshore_ptx::divide({}, {})", own(1)?, own(2)?)),
            "rem" if !is_float => {
                (3, format!("longshore_ptx::remainder({}, {})", own(1)?, own(2)?))
            }
            "neg" if is_float => (2, format!("-{}", own(1)?)),
            "neg" => (2, format!("0 - {}", free(1)?)),
            "abs" => (2, format!("longshore_ptx::absolute({})", own(1)?)),
            "min" | "max" if !it.has("NaN") && !it.has("xorsign") && it.operands.len() == 3 => {
                let function = if name == "min" { "smaller" } else { "greater" };
                (3, format!("longshore_ptx::{function}({}, {})", own(1)?, own(2)?))
            }
            "sad" if bits(ty)? == 32 => {
                let function = if ty == "s32" { "__sad" } else { "__usad" };
                (4, format!("{function}({}, {}, {})", own(1)?, own(2)?, free(3)?))
            }
            "sqrt" => (2, format!("longshore_ptx::root({})", own(1)?)),
            "rcp" => (2, format!("1 / {}", own(1)?)),
            "rsqrt" => (2, format!("longshore_rsqrt({})", own(1)?)),
            "ex2" if ty == "f32" => (2, format!("longshore_exp2({})", own(1)?)),
            "lg2" if ty == "f32" => (2, format!("longshore_log2({})", own(1)?)),
            "sin" | "cos" | "tanh" if ty == "f32" => (2, format!("longshore_{name}({})", own(1)?)),
            "copysign" => (3, format!("longshore_ptx::sign_of({}, {})", own(1)?, own(2)?)),
            "and" | "or" | "xor" => {
                let operator = [("and", '&'), ("or", '|'), ("xor", '^')];
                let (_, operator) = operator.into_iter().find(|(known, _)| *known == name)?;
                (3, format!("{} {operator} {}", raw(1)?, raw(2)?))
            }
            "not" => (2, format!("~{}", raw(1)?)),
            "cnot" => (2, format!("{} == 0 ? 1 : 0", free(1)?)),
            "shl" => (3, format!("longshore_ptx::shift_left({}, {})", free(1)?, word(2)?)),
            "shr" => (3, format!("longshore_ptx::shift_right({}, {})", own(1)?, word(2)?)),
            "shf" if it.has("wrap") || it.has("clamp") => {
                let side = if it.has("l") { "l" } else { "r" };
                let clamp = if it.has("clamp") { "c" } else { "" };
                let (low, high, by) = (word(1)?, word(2)?, word(3)?);
                (4, format!("__funnelshift_{side}{clamp}({low}, {high}, {by})"))
            }
            "popc" => (2, format!("longshore_ptx::count_ones({})", free(1)?)),
            "clz" => (2, format!("longshore_ptx::leading_zeros({})", free(1)?)),
            "brev" => (2, format!("longshore_ptx::reversed({})", free(1)?)),
            "bfind" if it.has("shiftamt") => {
                (2, format!("longshore_ptx::highest_shift({})", own(1)?))
            }
            "bfind" => (2, format!("longshore_ptx::highest({})", own(1)?)),
            "bfe" => (4, format!("longshore_ptx::field({}, {}, {})", own(1)?, word(2)?, word(3)?)),
            "bfi" => {
                let (part, whole) = (free(1)?, free(2)?);
                let (from, count) = (word(3)?, word(4)?);
                (5, format!("longshore_ptx::with_field({part}, {whole}, {from}, {count})"))
            }
            "prmt" if it.parts.len() == 2 => {
                (4, format!("longshore_ptx::permuted({}, {}, {})", word(1)?, word(2)?, word(3)?))
            }
            "lop3" if it.parts.len() == 2 => {
                let (a, b, c, table) = (word(1)?, word(2)?, word(3)?, word(4)?);
                (5, format!("longshore_ptx::logic({a}, {b}, {c}, {table})"))
            }
            "dp4a" if it.parts[1..] == ["u32", "u32"] || it.parts[1..] == ["s32", "s32"] => {
                (4, format!("__dp4a({}, {}, {})", own(1)?, own(2)?, own(3)?))
            }
            "vshl" | "vshr" if it.parts[1..] == ["u32", "u32", "u32", "clamp", "add"] => {
                let side = if name == "vshl" { "left" } else { "right" };
                let shifted = format!("longshore_ptx::shift_{side}({}, {})", word(1)?, word(2)?);
                (4, format!("{shifted} + {}", word(3)?))
            }
            "vadd" if it.parts[1..] == ["u32", "u32", "u32", "add"] => {
                (4, format!("{} + {} + {}", word(1)?, word(2)?, word(3)?))
            }
            "selp" => (4, format!("{} & 1 ? {} : {}", raw(3)?, raw(1)?, raw(2)?)),
            _ => return None,
        };
        if counts != 0 && counts != it.operands.len() {
            return None;
        }
        let result = match name {
            "and" | "or" | "xor" | "not" | "selp" => result,
            _ => {
                let made = made(it, ty, &wrapping)?;
                let cast = format!("(longshore_ptx::{made})({result})");
                let is_saturated = is_float && it.has("sat");
                let cast = match is_saturated {
                    true => format!("longshore_ptx::saturated({cast})"),
                    false => cast,
                };
                format!("longshore_ptx::from({cast})")
            }
        };
        Some(format!("{} = {result};", self.target(it.operands[0])?))
    }

    /// Returns the result of arithmetic that does not round to nearest.
    fn rounded(&self, it: &Instruction<'_>, ty: &str) -> Option<String> {
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
        let values = it.operands.get(1..)?.iter().map(|operand| self.typed(operand, ty));
        let count = match it.parts[0] {
            "fma" => 3,
            "rcp" | "sqrt" => 1,
            _ => 2,
        };
        let values: Vec<String> = values.collect::<Option<_>>()?;
        (values.len() == count).then(|| format!("__{name}_{mode}({})", values.join(", ")))
    }

    /// Sums with the carry bit, which a variable of this statement holds.
    fn carry(&mut self, it: &Instruction<'_>) -> Option<String> {
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

    fn comparison(&self, it: &Instruction<'_>) -> Option<String> {
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

    fn conversion(&self, it: &Instruction<'_>) -> Option<String> {
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
            (true, true) => {
                let result = format!("(longshore_ptx::{to}){}", rounded(&value));
                if it.has("sat") { format!("longshore_ptx::saturated({result})") } else { result }
            }
            (true, false) => format!("(longshore_ptx::{to}){value}"),
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

    fn memory(&self, it: &Instruction<'_>) -> Option<String> {
        let (name, first) = (it.parts[0], it.operands.first());
        match name {
            "prefetch" | "prefetchu" | "discard" => return Some(String::new()),
            "cp" => return self.copy(it),
            "cvta" => {
                let [target, source] = it.operands[..] else { return None };
                let value = self.value(source)?;
                let value = match (it.has("shared"), it.has("to")) {
                    (true, true) => {
                        format!("(longshore_ptx::W)__cvta_generic_to_shared((const void *){value})")
                    }
                    (true, false) => format!("longshore_ptx::of_shared({value})"),
                    (false, _) => value,
                };
                return Some(format!("{} = {value};", self.target(target)?));
            }
            "mov" => return self.moved(it),
            _ => {}
        }
        let ty = it.ty()?;
        let ty =
            if ty.starts_with('b') { format!("u{}", bits(ty)?) } else { plain(ty)?.to_owned() };
        let is_store = name == "st";
        let [one, other] = it.operands[..] else { return None };
        let (address, values) = if is_store { (one, other) } else { (other, one) };
        let values = match values.trim().strip_prefix('{') {
            Some(values) => list(values.strip_suffix('}')?)?,
            None => vec![values],
        };
        let lanes = [("v2", 2), ("v4", 4), ("v8", 8)].into_iter().find(|(lanes, _)| it.has(lanes));
        if lanes.map_or(1, |(_, lanes)| lanes) != values.len() || first.is_none() {
            return None;
        }
        let spaces = ["param", "const", "tex"];
        if it.parts.iter().any(|part| spaces.iter().any(|space| part.starts_with(space))) {
            return None;
        }
        let address = self.address(address, it.parts.iter().any(|it| it.starts_with("shared")))?;
        let mut code = format!("{{ const longshore_ptx::W longshore_at_ = {address}; ");
        let ordered = ["acquire", "release"].into_iter().any(|order| it.has(order));
        let way = match it.has("relaxed") || ordered || it.has("mmio") {
            true => "_atomic",
            false if it.has("volatile") => "_volatile",
            false => "",
        };
        if way == "_atomic" && !matches!(bits(&ty)?, 32 | 64) {
            return None;
        }
        let more = if way == "_atomic" { format!(", {ordered}") } else { String::new() };
        for (index, value) in values.iter().enumerate() {
            let at = format!("longshore_at_ + {}", index * bits(&ty)? as usize / 8);
            let _ = match is_store {
                true => write!(
                    code,
                    "longshore_ptx::store{way}<longshore_ptx::{ty}>({at}, {}{more}); ",
                    self.value(value)?
                ),
                false => {
                    let load = format!("longshore_ptx::load{way}<longshore_ptx::{ty}>({at}{more})");
                    // A register of more bits than the type gets the sign too.
                    let load = match ty.as_str() {
                        "s8" | "s16" | "s32" => format!(
                            "(longshore_ptx::W)(longshore_ptx::s64)longshore_ptx::as<longshore_ptx::\
                             {ty}>({load})"
                        ),
                        _ => load,
                    };
                    write!(code, "{} = {load}; ", self.target(value)?)
                }
            };
        }
        code.push('}');
        Some(code)
    }

    /// Returns an address: `[register + offset]`.
    fn address(&self, text: &str, is_shared: bool) -> Option<String> {
        let inner = text.trim().strip_prefix('[')?.strip_suffix(']')?;
        let (base, offset) = match inner.find(['+', '-']).filter(|at| *at > 0) {
            Some(at) => (&inner[..at], inner[at..].trim_start_matches('+').replace(' ', "")),
            None => (inner, "0".to_owned()),
        };
        let (base, offset) = (self.value(base)?, self.value(&offset)?);
        let sum = format!("({base} + {offset})");
        Some(if is_shared { format!("longshore_ptx::of_shared({base}) + {offset}") } else { sum })
    }

    /// Copies a value, or parts of it.
    fn moved(&self, it: &Instruction<'_>) -> Option<String> {
        let [target, source] = it.operands[..] else { return None };
        let inside = |text: &str| {
            let parts = text.trim().strip_prefix('{')?.strip_suffix('}')?;
            list(parts).map(|parts| parts.into_iter().map(str::to_owned).collect::<Vec<_>>())
        };
        let size = |parts: &[String]| {
            let bits = bits(it.ty()?)?;
            bits.checked_div(parts.len() as u32).filter(|bits| *bits >= 8)
        };
        match (inside(target), inside(source)) {
            (None, None) => {
                let ty = it.ty()?;
                let value = self.value(source)?;
                // The name of a variable is not the value of a register.
                let is_known = ty == "pred" || bits(ty).is_some();
                is_known.then_some(())?;
                Some(format!("{} = {value};", self.target(target)?))
            }
            (Some(parts), None) => {
                let (size, value) = (size(&parts)?, self.value(source)?);
                let mut code = format!("{{ const longshore_ptx::W longshore_all_ = {value}; ");
                for (index, part) in parts.iter().enumerate().filter(|(_, part)| *part != "_") {
                    let shifted = format!("longshore_all_ >> {}", index as u32 * size);
                    let part = self.target(part)?;
                    let _ = write!(code, "{part} = longshore_ptx::field({shifted}, 0, {size}); ");
                }
                code.push('}');
                Some(code)
            }
            (None, Some(parts)) => {
                let size = size(&parts)?;
                let values = parts.iter().enumerate().map(|(index, part)| {
                    let part = self.value(part)?;
                    let shift = index as u32 * size;
                    Some(format!("longshore_ptx::field({part}, 0, {size}) << {shift}"))
                });
                let values: Vec<String> = values.collect::<Option<_>>()?;
                Some(format!("{} = {};", self.target(target)?, values.join(" | ")))
            }
            (Some(_), Some(_)) => None,
        }
    }

    /// Copies memory to the group's, at once instead of some time before the wait for it.
    fn copy(&self, it: &Instruction<'_>) -> Option<String> {
        if it.parts.get(1) != Some(&"async") || it.has("bulk") || it.has("mbarrier") {
            return None;
        }
        if matches!(it.parts.get(2), Some(&"commit_group" | &"wait_group" | &"wait_all")) {
            return Some(String::new());
        }
        let is_copy = it.has("global") && it.parts.iter().any(|part| part.starts_with("shared"));
        let (3 | 4, true) = (it.operands.len(), is_copy) else { return None };
        let (to, from) =
            (self.address(it.operands[0], true)?, self.address(it.operands[1], false)?);
        let bytes = self.typed(it.operands[2], "u32")?;
        let given = self.typed(it.operands.get(3).unwrap_or(&it.operands[2]), "u32")?;
        Some(format!("longshore_ptx::copy({to}, {from}, {bytes}, {given});"))
    }

    fn atomic(&self, it: &Instruction<'_>) -> Option<String> {
        let (has_result, ty) = (it.parts[0] == "atom", it.ty()?);
        let operands = it.operands.get(usize::from(has_result)..)?;
        let ty =
            if ty.starts_with('b') { format!("u{}", bits(ty)?) } else { plain(ty)?.to_owned() };
        if !matches!(ty.as_str(), "u32" | "s32" | "u64" | "s64" | "f32" | "f64") {
            return None;
        }
        let names = [
            ("add", "Add"),
            ("min", "Min"),
            ("max", "Max"),
            ("and", "And"),
            ("or", "Or"),
            ("xor", "Xor"),
            ("exch", "Exch"),
            ("cas", "CAS"),
            ("inc", "Inc"),
            ("dec", "Dec"),
        ];
        let (operation, name) = names.into_iter().find(|(name, _)| it.has(name))?;
        let count = if operation == "cas" { 3 } else { 2 };
        if operands.len() != count || it.parts.iter().any(|part| part.starts_with('v')) {
            return None;
        }
        let scope = match (it.has("cta"), it.has("sys")) {
            (true, _) => "_block",
            (_, true) => "_system",
            _ => "",
        };
        let is_shared = it.parts.iter().any(|part| part.starts_with("shared"));
        let address = self.address(operands[0], is_shared)?;
        let values = operands[1..].iter().map(|value| self.typed(value, &ty));
        let values: Vec<String> = values.collect::<Option<_>>()?;
        let call = format!(
            "atomic{name}{scope}((longshore_ptx::{ty} *)({address}), {})",
            values.join(", ")
        );
        let orders = |words: &[&str]| words.iter().any(|word| it.has(word));
        let fence = |is_here: bool| if is_here { "__threadfence(); " } else { "" };
        let before = fence(orders(&["release", "acq_rel"]));
        let after = fence(orders(&["acquire", "acq_rel"]));
        Some(match has_result {
            true if it.operands[0].trim() != "_" => {
                let target = self.target(it.operands[0])?;
                format!("{{ {before}{target} = longshore_ptx::from({call}); {after}}}")
            }
            _ => format!("{{ {before}{call}; {after}}}"),
        })
    }

    /// Translates barriers, fences, operations of warps, and the end of an item.
    fn wait(&self, it: &Instruction<'_>) -> Option<String> {
        let operands = &it.operands;
        let word = |index: usize| self.typed(operands.get(index)?, "u32");
        let truth = |index: usize| {
            let text = operands.get(index)?.trim();
            Some(match text.strip_prefix('!') {
                Some(opposite) => format!("(int)(~{} & 1)", self.value(opposite)?),
                None => format!("(int)({} & 1)", self.value(text)?),
            })
        };
        let all = "0xffffffffu".to_owned();
        Some(match it.parts[0] {
            "bar" | "barrier" if it.has("warp") => format!("__syncwarp({});", word(0)?),
            "bar" | "barrier" if it.has("red") => {
                let kinds = [("popc", "count"), ("and", "and"), ("or", "or")];
                let (_, kind) = kinds.into_iter().find(|(name, _)| it.has(name))?;
                (operands.len() == 3 && operands[1].trim() == "0").then_some(())?;
                format!("{} = __syncthreads_{kind}({});", self.target(operands[0])?, truth(2)?)
            }
            // All threads of the block meet at barrier 0.
            "bar" | "barrier" => {
                (it.has("sync") && operands.len() == 1 && operands[0].trim() == "0")
                    .then_some(())?;
                "__syncthreads();".to_owned()
            }
            "membar" | "fence" if !it.has("proxy") && !it.has("mbarrier_init") => {
                match (it.has("cta"), it.has("sys")) {
                    (true, _) => "__threadfence_block();".to_owned(),
                    (_, true) => "__threadfence_system();".to_owned(),
                    _ => "__threadfence();".to_owned(),
                }
            }
            "activemask" => format!("{} = __activemask();", self.target(operands.first()?)?),
            "vote" => {
                let lanes = if it.has("sync") { word(2)? } else { all };
                let kinds = ["all", "any", "uni", "ballot"];
                let kind = kinds.into_iter().find(|kind| it.has(kind))?;
                let call = format!("__{kind}_sync({lanes}, {})", truth(1)?);
                let call = if kind == "ballot" { call } else { format!("({call} != 0)") };
                format!("{} = {call};", self.target(operands.first()?)?)
            }
            "match" if it.has("any") => {
                let (value, lanes) = (self.typed(operands.get(1)?, sized(it.ty()?)?)?, word(2)?);
                format!("{} = __match_any_sync({lanes}, {value});", self.target(operands[0])?)
            }
            "redux" if !it.ty()?.starts_with('f') => {
                let kinds = ["add", "min", "max", "and", "or", "xor"];
                let kind = kinds.into_iter().find(|kind| it.has(kind))?;
                let value = self.typed(operands.get(1)?, sized(it.ty()?)?)?;
                let call = format!("__reduce_{kind}_sync({}, {value})", word(2)?);
                format!("{} = longshore_ptx::from({call});", self.target(operands[0])?)
            }
            "shfl" => {
                let kinds = ["up", "down", "bfly", "idx"];
                let kind = kinds.into_iter().position(|kind| it.has(kind))?;
                let (target, inside) = match operands.first()?.split_once('|') {
                    Some((target, inside)) => (target, Some(self.target(inside)?)),
                    None => (operands[0], None),
                };
                let lanes = if it.has("sync") { word(4)? } else { all };
                let set = inside.map_or(String::new(), |it| format!("{it} = longshore_in_; "));
                format!(
                    "{{ longshore_ptx::W longshore_in_; {} = longshore_ptx::shuffle({lanes}, {}, {}, \
                     {}, {kind}, &longshore_in_); {set}}}",
                    self.target(target)?,
                    word(1)?,
                    word(2)?,
                    word(3)?
                )
            }
            "nanosleep" => format!("__nanosleep({});", word(0)?),
            "trap" => "__trap();".to_owned(),
            "brkpt" | "griddepcontrol" => String::new(),
            "exit" => "longshore_ptx::leave();".to_owned(),
            _ => return None,
        })
    }
}

impl<'t> Instruction<'t> {
    fn has(&self, part: &str) -> bool {
        self.parts[1..].contains(&part)
    }

    /// Returns the type, which comes last.
    fn ty(&self) -> Option<&'t str> {
        self.parts.last().copied().filter(|_| self.parts.len() > 1)
    }
}

/// Returns the type of an instruction's result.
fn made(it: &Instruction<'_>, ty: &str, wrapping: &str) -> Option<String> {
    Some(match it.parts[0] {
        "mul" | "mad" if it.has("wide") => format!("u{}", bits(wider(ty)?)?),
        "popc" | "clz" | "bfind" | "vadd" | "vshl" | "vshr" => "u32".to_owned(),
        "add" | "sub" | "mul" | "mad" | "neg" | "shl" | "cnot" | "sad" => wrapping.to_owned(),
        _ => ty.to_owned(),
    })
}

/// Returns a product that wraps around.
fn product(a: &str, b: &str, is_float: bool) -> String {
    if is_float { format!("{a} * {b}") } else { format!("(longshore_ptx::W){a} * {b}") }
}

/// Returns the number of bits of a type.
fn bits(ty: &str) -> Option<u32> {
    let bits = ty.strip_prefix(['u', 's', 'b', 'f'])?.parse().ok()?;
    matches!(bits, 8 | 16 | 32 | 64).then_some(bits)
}

/// Returns a type that C++ has: an unsigned one for bits. There is no `float` of 16 bits.
fn plain(ty: &str) -> Option<&'static str> {
    const TYPES: [(&str, &str); 14] = [
        ("u8", "u8"),
        ("u16", "u16"),
        ("u32", "u32"),
        ("u64", "u64"),
        ("s8", "s8"),
        ("s16", "s16"),
        ("s32", "s32"),
        ("s64", "s64"),
        ("b8", "u8"),
        ("b16", "u16"),
        ("b32", "u32"),
        ("b64", "u64"),
        ("f32", "f32"),
        ("f64", "f64"),
    ];
    // Predicates have one bit.
    let known = TYPES.iter().find(|(known, _)| *known == ty).map(|(_, plain)| *plain);
    known.or((ty == "pred").then_some("u8"))
}

/// Returns a type of 32 or 64 bits.
fn sized(ty: &str) -> Option<&'static str> {
    plain(ty).filter(|ty| matches!(bits(ty), Some(32 | 64)))
}

/// Returns the type with twice the bits.
fn wider(ty: &str) -> Option<&'static str> {
    Some(match ty {
        "u16" => "u32",
        "s16" => "s32",
        "u32" => "u64",
        "s32" => "s64",
        _ => return None,
    })
}

/// Returns the value of a special register, whose name has no `%`.
fn special(name: &str) -> Option<String> {
    let dimension = |of: &str, name: &str| {
        let axis = name.strip_prefix('.')?;
        matches!(axis, "x" | "y" | "z").then(|| format!("{of}.{axis}"))
    };
    const DIMENSIONS: [(&str, &str); 4] =
        [("ntid", "blockDim"), ("tid", "threadIdx"), ("nctaid", "gridDim"), ("ctaid", "blockIdx")];
    let found = DIMENSIONS.iter().find_map(|(known, of)| dimension(of, name.strip_prefix(known)?));
    found.or_else(|| {
        let value = match name {
            "laneid" => "__lane_id()",
            "warpid" => "longshore_ptx::thread_rank() / 32",
            "nwarpid" => "longshore_ptx::warp_count()",
            "smid" | "gridid" => "0",
            "nsmid" => "1",
            "lanemask_eq" => "longshore_ptx::lane_bit()",
            "lanemask_lt" => "longshore_ptx::lanes_before()",
            "lanemask_le" => "(longshore_ptx::lanes_before() | longshore_ptx::lane_bit())",
            "lanemask_gt" => "(~(longshore_ptx::lanes_before() | longshore_ptx::lane_bit()))",
            "lanemask_ge" => "(~longshore_ptx::lanes_before())",
            "clock" => "(longshore_ptx::u32)clock64()",
            "clock_hi" => "clock64() >> 32",
            "clock64" => "clock64()",
            "globaltimer" => "wall_clock64()",
            "globaltimer_lo" => "(longshore_ptx::u32)wall_clock64()",
            "globaltimer_hi" => "wall_clock64() >> 32",
            _ => return None,
        };
        Some(value.to_owned())
    })
}

/// Returns the variable of a register.
fn register(name: &str) -> Option<String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '%');
    let is_register = name.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '_' | '%'))
        && name != "_"
        && name.chars().all(is_name);
    is_register.then(|| format!("longshore_r_{}_", name.replace('%', "p_")))
}

/// Reads a number. `0f` and `0d` stand before the bits of floating-point numbers.
fn number(digits: &str) -> Option<u64> {
    let digits = digits.trim_end_matches(['U', 'u']);
    let hexadecimal = |digits: &str| u64::from_str_radix(digits, 16).ok();
    if let Some(rest) = digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
        return hexadecimal(rest);
    }
    if let Some(rest) = digits.strip_prefix("0f").or(digits.strip_prefix("0F")) {
        return hexadecimal(rest).filter(|_| rest.len() == 8);
    }
    if let Some(rest) = digits.strip_prefix("0d").or(digits.strip_prefix("0D")) {
        return hexadecimal(rest).filter(|_| rest.len() == 16);
    }
    if digits.len() > 1 && digits.starts_with('0') {
        return u64::from_str_radix(&digits[1..], 8).ok();
    }
    digits.parse().ok()
}

/// Divides a list at its commas outside of braces and brackets.
fn list(text: &str) -> Option<Vec<&str>> {
    let (mut parts, mut depth, mut begin) = (Vec::new(), 0, 0);
    for (at, character) in text.char_indices() {
        match character {
            '{' | '[' => depth += 1,
            '}' | ']' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[begin..at].trim());
                begin = at + 1;
            }
            _ => {}
        }
        if depth < 0 {
            return None;
        }
    }
    let last = text[begin..].trim();
    if !last.is_empty() {
        parts.push(last);
    }
    (depth == 0).then_some(parts)
}

fn without_comments(text: &str) -> Option<String> {
    let mut result = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("//").into_iter().chain(rest.find("/*")).min() {
        result.push_str(&rest[..at]);
        let (comment, end) =
            (&rest[at + 2..], if rest[at..].starts_with("//") { "\n" } else { "*/" });
        rest = match comment.find(end) {
            Some(end_at) => &comment[end_at + end.len()..],
            None if end == "\n" => "",
            None => return None,
        };
        result.push(' ');
    }
    result.push_str(rest);
    Some(result)
}

#[cfg(test)]
mod tests {
    use crate::cc::cuda::assembly::translated;

    fn translation(code: &str) -> Option<String> {
        let text = format!("asm({code});");
        let changed = translated(&text)?;
        Some(changed.split_once(", (({ ").unwrap().1.to_owned())
    }

    #[test]
    fn registers_are_words_whose_types_are_the_instructions() {
        let code = translation("\"add.f32 %0, %1, 0f3f800000;\" : \"=f\"(x) : \"f\"(y[1])");
        let expected = "longshore_ptx::W longshore_0_ = 0; longshore_ptx::W longshore_1_ = \
                        longshore_ptx::in(y[1]); longshore_0_ = \
                        longshore_ptx::from((longshore_ptx::f32)(longshore_ptx::as<longshore_ptx::\
                        f32>(longshore_1_) + longshore_ptx::as<longshore_ptx::f32>(((longshore_ptx::\
                        W)1065353216ull)))); longshore_ptx::out(x, longshore_0_); })));";
        assert_eq!(code.as_deref(), Some(expected));
    }

    #[test]
    fn statements_with_unknown_parts_are_not_translated() {
        for code in [
            "\"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 %0, %1;\" : \"=f\"(x) : \"f\"(y)",
            "\"add.f16x2 %0, %1, %1;\" : \"=r\"(x) : \"r\"(y)",
            "\"addc.u32 %0, %1, 0;\" : \"=r\"(x) : \"r\"(y)",
            "\"bar.sync 1, 64;\"",
            "\"@p bra L;\"",
            "\"L: mov.u32 %0, 1;\" : \"=r\"(x)",
            "\"mov.u32 %0, variable;\" : \"=x\"(x)",
            "\"mov.u32 %1, 1;\" : \"=r\"(x)",
            "\"add.u32 %0, %1;\" : \"=r\"(x) : \"r\"(y)",
            "\"add.u32 5, %0, %0;\" : : \"r\"(x)",
            "\"{ mov.u32 %0, 1;\" : \"=r\"(x)",
            "\"pause\"",
            "\"v_add_u32 %0, %1, %1\" : \"=r\"(x) : \"r\"(y)",
            "\"\" ::: \"memory\"",
        ] {
            assert_eq!(translation(code), None, "{code}");
        }
    }

    #[test]
    fn any_text_is_read() {
        let whole = "é asm volatile(\"{ .reg .pred p|q; setp.lt.and.s32 p|q, %1, 0x7, !r; @!p ld.\
                     global.v2.u32 {%0, %[b]}, [%2+-4]; mov.b64 {%0, _}, %3; add.rz.f32 %0, 0f00000000, \
                     1; atom.add.u32 %0, [%1], 2; // x\\n }\" : \"=r\"(a), [b] \"+l\"(b(\"é\", 'x')) : \
                     \"r\"(c), \"n\"(1'0) : \"memory\"); asm(\"add.cc.u32 %0, 1, 2; shfl.sync.up.b32 %0|p, \
                     1, 2, 3, 4; red.add.u32; add.rz.f32; bar.red.popc.u32; cvt.u32; .reg; @; %;\");";
        let characters: Vec<char> = whole.chars().collect();
        for at in 0..characters.len() {
            for with in ["", "\"", "(", ";", "%", "{", "}", ",", "|", "\\", "[", "'", "é"] {
                let before: String = characters[..at].iter().collect();
                let after: String = characters[at + 1..].iter().collect();
                let _ = translated(&format!("{before}{with}{after}"));
                let _ = translated(&before);
            }
        }
    }
}
