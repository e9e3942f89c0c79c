//! The translation of PTX, the assembly of NVIDIA GPUs, to C++ with the functions of
//! `longshore_cuda/ptx.h`.
//!
//! A register of PTX has bits without a type; each instruction says how it reads them. Here it is a
//! variable of 64 bits, whose upper bits an instruction of fewer bits ignores. The names and the
//! meanings of instructions are from NVIDIA's manual of PTX.
//!
//! Functions that translate an instruction return `None` for one that has no equivalent, or whose
//! operands are not the manual's.

mod arithmetic;
mod memory;
mod registers;
mod waits;

use super::assembly::{Operand, Statement};
use registers::{bits, register, special};
use std::fmt::Write;

/// The beginning of a translation.
const BEGIN: &str = "{ ";

/// Returns an expression in C++ with the effect of a statement; `None` if a part of it has no
/// equivalent.
pub(crate) fn translate(statement: &Statement<'_>) -> Option<String> {
    attempt(statement, &mut None)
}

/// Returns the name of the first instruction of a statement that has no equivalent.
pub(crate) fn obstacle(statement: &Statement<'_>) -> Option<String> {
    let mut failed = None;
    let _ = attempt(statement, &mut failed);
    failed
}

fn attempt(statement: &Statement<'_>, failed: &mut Option<String>) -> Option<String> {
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
    translator.statements(&text, failed)?;
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
    /// The declared registers, by the braces that are open.
    registers: Vec<Vec<Register>>,
    /// Whether an instruction has set the carry bit.
    has_carry: bool,
    code: String,
}

/// A declared register.
struct Register {
    variable: String,
    is_predicate: bool,
}

/// An instruction: `mul.wide.u32` has the parts `mul`, `wide` and `u32`.
struct Instruction<'t> {
    parts: Vec<&'t str>,
    operands: Vec<&'t str>,
}

impl Translator {
    /// Translates all instructions, and names the first one that fails.
    fn statements(&mut self, text: &str, failed: &mut Option<String>) -> Option<()> {
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
                let (one, others) = rest.split_once(';').unwrap_or((rest, ""));
                let done = self.statement(one.trim()).filter(|()| rest.len() > one.len());
                if done.is_none() {
                    let mut words = one.split_whitespace().filter(|word| !word.starts_with('@'));
                    *failed = words.next().map(str::to_owned);
                }
                done?;
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
        let is_predicate = ty == "pred";
        (is_predicate || bits(ty).is_some()).then_some(())?;
        for name in names.split(',') {
            let variable = register(name.trim())?;
            let _ = write!(self.code, "longshore_ptx::W {variable} = 0; ");
            self.registers.last_mut()?.push(Register { variable, is_predicate });
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
        register(text).filter(|it| self.declared(it).is_some())
    }

    /// Returns the register of a variable, by its innermost declaration.
    fn declared(&self, variable: &str) -> Option<&Register> {
        self.registers.iter().rev().flatten().find(|known| known.variable == variable)
    }

    fn is_predicate(&self, text: &str) -> bool {
        let variable = register(text.trim()).unwrap_or_default();
        self.declared(&variable).is_some_and(|register| register.is_predicate)
    }

    /// Returns the variable that an instruction sets.
    fn target(&self, text: &str) -> Option<String> {
        let text = text.trim();
        let is_special = text.strip_prefix('%').is_some_and(|name| special(name).is_some());
        let is_number = text.starts_with(|c: char| c.is_ascii_digit() || c == '-');
        self.value(text).filter(|_| !is_special && !is_number)
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

    /// Returns an operand as a number of a type.
    fn typed(&self, text: &str, ty: &str) -> Option<String> {
        Some(format!("longshore_ptx::as<longshore_ptx::{ty}>({})", self.value(text)?))
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
    use crate::cuda::assembly::translated;

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
            "\"add.sat.u32 %0, %1, %1;\" : \"=r\"(x) : \"r\"(y)",
            "\"mad.lo.sat.s32 %0, %1, %1, %1;\" : \"=r\"(x) : \"r\"(y)",
            "\"mad.hi.sat.u32 %0, %1, %1, %1;\" : \"=r\"(x) : \"r\"(y)",
            "\"max.relu.u32 %0, %1, %1;\" : \"=r\"(x) : \"r\"(y)",
            "\"cp.async.ca.shared.global [%0], [%1], 8, 8, %2;\" :: \"r\"(t), \"l\"(f), \"l\"(p)",
            "\"cp.async.ca.shared.global.L2::cache_hint [%0], [%1], %2;\" :: \"r\"(t), \"l\"(f), \
             \"l\"(p)",
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
    fn copies_have_a_size_or_a_predicate_and_no_policy() {
        let copied = |operands: &str| {
            let code = format!(
                "\"{{ .reg .pred q; .reg .u32 n; cp.async.ca.shared.global{operands}; }}\" :: \
                 \"r\"(t), \"l\"(f), \"r\"(n), \"l\"(p)"
            );
            let code = translation(&code)?;
            let (_, bytes) = code.split_once("longshore_1_ + ((longshore_ptx::W)0ull)), ")?;
            Some(bytes.split(");").next()?.replace("longshore_ptx::", ""))
        };
        let (bytes, given) = ("as<u32>(((W)8ull))", "as<u32>(longshore_2_)");
        let hint = ".L2::cache_hint.L2::128B";
        for (operands, expected) in [
            (" [%0], [%1], 8".to_owned(), bytes.to_owned()),
            (" [%0], [%1], 8, %2".to_owned(), given.to_owned()),
            (format!("{hint} [%0], [%1], 8, %3"), bytes.to_owned()),
            (format!("{hint} [%0], [%1], 8, %2, %3"), given.to_owned()),
            (" [%0], [%1], 8, n".to_owned(), "as<u32>(longshore_r_n_)".to_owned()),
            (" [%0], [%1], 8, q".to_owned(), format!("(longshore_r_q_ & 1 ? 0 : {bytes})")),
        ] {
            let expected = format!("{bytes}, {expected}");
            assert_eq!(copied(&operands), Some(expected), "{operands}");
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
