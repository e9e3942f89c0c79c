//! Limits of the memory for a source's constants, checked before naga reads it.
//!
//! naga evaluates constant expressions while it reads a source. It copies the whole value of a
//! constant to each use, and writes out the elements of `array<T, N>()` in computations. Therefore
//! a short source of doubling constants makes values of any size. This module counts the copies
//! from the text, never fewer than naga makes.

use std::collections::HashMap;
use std::ops::Range;

use super::length;
use crate::fault::Fault;

/// Most parts of all copies of constants together; naga needs up to 300 bytes for each.
const MOST_PARTS: u64 = 1 << 21;
/// Parts of a matrix of four columns: its numbers, its columns and the matrix itself.
const MATRIX: u64 = 21;
/// Parts of a vector of four components.
const VECTOR: u64 = 5;

/// Checks that naga does not make too many copies of a source's constants.
///
/// The source must have no comments. Recursive over declarations and brackets, whose number and
/// depth `nesting.rs` limits.
pub(super) fn check(source: &str) -> Result<(), Fault> {
    let tokens = tokens(source);
    let Some(at) = Declarations::new(&tokens).first_beyond_limit() else { return Ok(()) };
    let offset = tokens[at].as_ptr().addr() - source.as_ptr().addr();
    let line = 1 + source[..offset].matches('\n').count();
    Err(Fault::source(format!(
        "{line}:1: constants become too large: the copies at their uses have more than \
         {MOST_PARTS} parts; keep large tables in a storage buffer, or use them in fewer places"
    )))
}

/// Splits a source into words, numbers and single marks.
fn tokens(source: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = source.trim_start();
    while let Some(first) = rest.chars().next() {
        let word = rest.find(|letter| !is_of_word(letter)).unwrap_or(rest.len());
        let (token, after) = rest.split_at(word.max(first.len_utf8()));
        tokens.push(token);
        rest = after.trim_start();
    }
    tokens
}

fn is_of_word(letter: char) -> bool {
    letter == '_' || letter.is_alphanumeric() || (!letter.is_ascii() && !letter.is_whitespace())
}

fn is_word(token: &str) -> bool {
    token.starts_with(is_of_word)
}

/// The constants and types of a module.
pub(super) struct Declarations<'a> {
    pub(super) tokens: &'a [&'a str],
    /// Initial values of constants.
    pub(super) constants: HashMap<&'a str, Range<usize>>,
    /// Types of aliases, and bodies of structures.
    types: HashMap<&'a str, Range<usize>>,
}

/// Weights of constants and types known so far; 0 while a weight is being computed.
#[derive(Default)]
struct Known<'a> {
    constants: HashMap<&'a str, u64>,
    types: HashMap<&'a str, u64>,
    /// Constants of functions, by block.
    scopes: Vec<HashMap<&'a str, u64>>,
}

impl<'a> Declarations<'a> {
    fn new(tokens: &'a [&'a str]) -> Declarations<'a> {
        let mut found = Declarations { tokens, constants: HashMap::new(), types: HashMap::new() };
        let (mut depth, mut at) = (0usize, 0);
        while at < tokens.len() {
            match tokens[at] {
                "{" => depth += 1,
                "}" => depth = depth.saturating_sub(1),
                "const" | "alias" if depth == 0 => {
                    let (name, value) = found.declaration(at);
                    let list = match tokens[at] {
                        "const" => &mut found.constants,
                        _ => &mut found.types,
                    };
                    list.entry(name).or_insert(value);
                }
                "struct" if depth == 0 => {
                    let body = at + 2..found.end(at, "}");
                    found.types.entry(found.token(at + 1)).or_insert(body);
                }
                _ => {}
            }
            at += 1;
        }
        found
    }

    /// Returns the token at which the copies exceed the limit.
    fn first_beyond_limit(&self) -> Option<usize> {
        let mut known = Known { scopes: vec![HashMap::new()], ..Known::default() };
        let (mut total, mut at) = (0u64, 0);
        while at < self.tokens.len() {
            let start = at;
            match self.tokens[at] {
                "{" => known.scopes.push(HashMap::new()),
                "}" if known.scopes.len() > 1 => drop(known.scopes.pop()),
                "const" => {
                    let (name, value) = self.declaration(at);
                    at = value.end.max(at);
                    // A name keeps the greatest weight that it has in the enclosing blocks.
                    let parts = self.parts(value, &mut known);
                    let before = self.constant(name, &mut known);
                    if let Some(scope) = known.scopes.last_mut() {
                        scope.insert(name, parts.max(before));
                    }
                    total = total.saturating_add(parts);
                }
                _ => total = total.saturating_add(self.copied(at, &mut known)),
            }
            if total > MOST_PARTS {
                return Some(start);
            }
            at += 1;
        }
        None
    }

    /// Returns the number of parts of an expression's value, and of values evaluated for it.
    fn parts(&self, expression: Range<usize>, known: &mut Known<'a>) -> u64 {
        let each = expression.map(|at| {
            let own = match self.tokens[at] {
                "," | ";" | "(" | ")" | "[" | "]" | "." => 0,
                "+" | "-" | "*" | "/" | "%" => MATRIX,
                token if token.starts_with("mat") => MATRIX,
                token if is_word(token) && self.token(at + 1) != "(" => 1,
                _ => VECTOR,
            };
            self.copied(at, known).saturating_add(own)
        });
        each.fold(0, u64::saturating_add)
    }

    /// Returns the number of parts that are copied or written out for the name at a place.
    fn copied(&self, at: usize, known: &mut Known<'a>) -> u64 {
        let name = self.tokens[at];
        let is_member = at > 0 && self.tokens[at - 1] == ".";
        if is_member || !is_word(name) {
            return 0;
        }
        let (elements, end) = self.type_at(at, known);
        let is_zero_value = self.token(end) == "(" && self.token(end + 1) == ")";
        let of_zero_value = if is_zero_value { elements } else { 0 };
        of_zero_value.saturating_add(self.constant(name, known))
    }

    /// Returns the number of parts of the constant with this name, 0 if there is no such constant.
    fn constant(&self, name: &'a str, known: &mut Known<'a>) -> u64 {
        let local = known.scopes.iter().rev().find_map(|scope| scope.get(name));
        if let Some(parts) = local.or_else(|| known.constants.get(name)) {
            return *parts;
        }
        let Some(value) = self.constants.get(name) else { return 0 };
        known.constants.insert(name, 0);
        let scopes = std::mem::take(&mut known.scopes);
        let parts = self.parts(value.clone(), known);
        known.scopes = scopes;
        known.constants.insert(name, parts);
        parts
    }

    /// Returns the number of elements of the type at a place, and the type's end. The number is 0
    /// for a type that neither is nor contains an array.
    fn type_at(&self, at: usize, known: &mut Known<'a>) -> (u64, usize) {
        let name = self.token(at);
        if self.token(at + 1) != "<" {
            return (self.named_type(name, known), at + 1);
        }
        let (arguments, end) = self.template(at + 1);
        if name != "array" {
            return (0, end);
        }
        let (element, element_end) = self.type_at(arguments.start, known);
        if self.token(element_end) != "," {
            return (element, end);
        }
        let count = length::evaluate(self, element_end + 1..arguments.end);
        (element.max(1).saturating_mul(count.unwrap_or(u64::MAX)), end)
    }

    fn named_type(&self, name: &'a str, known: &mut Known<'a>) -> u64 {
        if let Some(elements) = known.types.get(name) {
            return *elements;
        }
        let Some(body) = self.types.get(name) else { return 0 };
        known.types.insert(name, 0);
        let mut elements = 0u64;
        let mut at = body.start;
        while at < body.end {
            let (more, end) = self.type_at(at, known);
            elements = elements.saturating_add(more);
            at = end.max(at + 1);
        }
        known.types.insert(name, elements);
        elements
    }

    /// Returns the text between the brackets of a template that opens at a place, and its end.
    fn template(&self, open: usize) -> (Range<usize>, usize) {
        let (mut depth, mut parentheses) = (0usize, 0usize);
        let mut at = open;
        while at < self.tokens.len() {
            match self.tokens[at] {
                "(" | "[" => parentheses += 1,
                ")" | "]" if parentheses == 0 => break,
                ")" | "]" => parentheses -= 1,
                ";" | "{" | "}" => break,
                // A shift operator.
                "<" if self.token(at + 1) == "<" => at += 1,
                "<" if parentheses == 0 => depth += 1,
                ">" if parentheses == 0 => depth -= 1,
                _ => {}
            }
            at += 1;
            if depth == 0 {
                return (open + 1..at - 1, at);
            }
        }
        // A comparison instead of a template.
        (open..open, open)
    }

    /// Returns the name and the value of the constant or alias declared at a place.
    fn declaration(&self, at: usize) -> (&'a str, Range<usize>) {
        let end = self.end(at, ";");
        let value = (at + 2..end).find(|at| self.tokens[*at] == "=").map_or(end, |at| at + 1);
        (self.token(at + 1), value..end)
    }

    /// Returns the place of the first such mark from a place on.
    fn end(&self, from: usize, mark: &str) -> usize {
        let rest = self.tokens.get(from..).unwrap_or_default();
        rest.iter().position(|token| *token == mark).map_or(self.tokens.len(), |at| from + at)
    }

    fn token(&self, at: usize) -> &'a str {
        self.tokens.get(at).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn doubling(levels: usize, first: &str) -> String {
        let later =
            (1..levels).map(|level| format!("const a{level} = array(a{0}, a{0});\n", level - 1));
        format!("const a0 = {first};\n{}", later.collect::<String>())
    }

    fn assert_refused(source: &str, line: usize) {
        let fault = check(source).expect_err(source).message;
        assert!(fault.starts_with(&format!("{line}:1: constants become too large")), "{fault}");
    }

    #[test]
    fn constants_that_double_are_refused_where_they_become_too_large() {
        assert!(check(&doubling(15, "array(1, 1)")).is_ok());
        assert_refused(&doubling(30, "array(1, 1)"), 18);
        assert_refused(&format!("fn f() {{\n{}}}", doubling(30, "1")), 20);
    }

    #[test]
    fn constants_are_found_in_any_order_and_through_blocks_that_hide_them() {
        let lines: Vec<_> = doubling(30, "array(1, 1)").lines().map(str::to_owned).collect();
        let reversed: Vec<_> = lines.into_iter().rev().collect();
        assert_refused(&reversed.join("\n"), 1);
        let hiding = "{ const a = array(a, a);\n".repeat(40);
        assert_refused(&format!("const a = 1;\nfn f() {hiding}{}", "}".repeat(40)), 19);
        let small = "for (const t = 1; false;) {}\n";
        let table = "1, ".repeat(50_000);
        let uses = "let x = t[1];\n".repeat(50);
        assert_refused(&format!("const t = array({table});\nfn f() {{ {small}{uses} }}"), 43);
    }

    #[test]
    fn large_zero_values_are_refused_and_large_types_are_not() {
        for zero in [
            "const x = array<u32, 300000000>();",
            "alias A = array<array<u32, 1 << 14>, N>; const N = 1u << 14; const x = A();",
            "struct S { first: u32, @align(16) second: array<vec4<f32>, (1 << 20) * 4> } const x = S();",
            "fn f(i: u32) -> u32 { return array<u32, max(1, 1 << 28)>()[i]; }",
            "const x = array<u32, (0u - 1u >> 4)>();",
        ] {
            assert_refused(zero, 1);
        }
        for fine in [
            "var<storage> x: array<u32, 300000000>; fn f() { let y = x[3]; }",
            "const N = 64; const x = array<array<f32, N * 4>, N / 2 + 15>();",
            "fn f(i: u32) -> bool { return i < (300000000) && i > 3; }",
        ] {
            assert_eq!(check(fine), Ok(()), "{fine}");
        }
    }

    #[test]
    fn tables_that_are_used_at_many_places_are_fine() {
        let table = format!("const t = array<f32, 1024>({});\n", "1.5, ".repeat(1024));
        let uses = "o[i] = t[i] + t[i + 1];\n".repeat(100);
        assert_eq!(check(&format!("{table}fn f(i: u32) {{\n{uses}}}")), Ok(()));
    }
}
