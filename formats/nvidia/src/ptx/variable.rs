//! Declarations of variables and parameters.

use super::value::{self, number};
use crate::Reference;

/// A variable or parameter.
#[derive(Debug, PartialEq)]
pub(super) struct Declared<'a> {
    pub(super) name: &'a str,
    pub(super) bytes: u64,
    pub(super) alignment: u64,
    pub(super) initial: Vec<u8>,
    pub(super) references: Vec<Reference>,
}

/// The common properties of all names of a declaration.
struct Shape {
    element_bytes: u64,
    /// Number of elements of a vector.
    lanes: u64,
    alignment: Option<u64>,
}

/// Returns the variables in the tokens after a state space: `[.align N] [.attribute(...)] .type
/// name[dimensions] [= value], name ...`. Variables of opaque types (textures, samplers, surfaces)
/// are skipped.
pub(super) fn declared<'a>(tokens: &[&'a str]) -> Vec<Declared<'a>> {
    let mut declarators = Vec::new();
    if let Some((shape, mut rest)) = shape(tokens) {
        while let Some((variable, behind)) = declarator(&shape, rest) {
            declarators.push(variable);
            rest = behind;
        }
    }
    declarators
}

fn shape<'a, 'b>(tokens: &'b [&'a str]) -> Option<(Shape, &'b [&'a str])> {
    let (mut element_bytes, mut lanes, mut alignment) = (None, 1, None);
    let mut rest = tokens;
    loop {
        let (token, behind) = rest.split_first()?;
        rest = match *token {
            ".align" => {
                let (bytes, behind) = behind.split_first()?;
                alignment = number(bytes).filter(|bytes| bytes.is_power_of_two());
                behind
            }
            ".attribute" => &behind[behind.iter().position(|token| *token == ")")? + 1..],
            ".v2" => {
                lanes = 2;
                behind
            }
            ".v4" => {
                lanes = 4;
                behind
            }
            token if token.starts_with('.') => {
                element_bytes = type_bytes(token).or(element_bytes);
                behind
            }
            _ => break,
        };
    }
    Some((Shape { element_bytes: element_bytes?, lanes, alignment }, rest))
}

/// Reads `name[dimensions] [= value]`, and returns it with the tokens after its comma.
fn declarator<'a, 'b>(
    shape: &Shape,
    tokens: &'b [&'a str],
) -> Option<(Declared<'a>, &'b [&'a str])> {
    let (name, rest) = tokens.split_first()?;
    let end = end_of_declarator(rest);
    let (own, behind) = (&rest[..end], rest.get(end + 1..).unwrap_or_default());
    let split = own.iter().position(|token| *token == "=").unwrap_or(own.len());
    let (dimensions, initial) = (&own[..split], own.get(split + 1..).unwrap_or_default());
    let value = value::read(initial, shape.element_bytes);
    let bytes = bytes_of(shape, dimensions, value.elements);
    let natural = shape.element_bytes.saturating_mul(shape.lanes);
    let mut variable = Declared {
        name,
        bytes,
        alignment: shape.alignment.unwrap_or(natural),
        initial: value.bytes,
        references: value.references,
    };
    variable.initial.truncate(usize::try_from(bytes).unwrap_or(usize::MAX));
    variable.references.retain(|at| at.offset.checked_add(8).is_some_and(|end| end <= bytes));
    Some((variable, behind))
}

/// Returns the position of the first comma outside of braces, brackets and parentheses.
fn end_of_declarator(tokens: &[&str]) -> usize {
    let mut depth = 0i64;
    let end = tokens.iter().position(|token| {
        match *token {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth -= 1,
            token => return token == "," && depth <= 0,
        }
        false
    });
    end.unwrap_or(tokens.len())
}

/// Returns the size in bytes according to the dimensions. An omitted first dimension is as large as
/// the initial value requires.
fn bytes_of(shape: &Shape, dimensions: &[&str], elements: u64) -> u64 {
    let numbers = dimensions.iter().filter_map(|token| number(token));
    let known = numbers.fold(shape.lanes, u64::saturating_mul);
    let all = match dimensions {
        ["[", "]", ..] => elements.checked_next_multiple_of(known.max(1)).unwrap_or(u64::MAX),
        _ => known,
    };
    all.saturating_mul(shape.element_bytes)
}

/// Returns the size in bytes of a type, such as ".u32" or ".f16x2".
fn type_bytes(name: &str) -> Option<u64> {
    let packed = name.strip_suffix("x2");
    let bits = packed.unwrap_or(name).trim_start_matches(['.', 'b', 'u', 's', 'f']);
    let bits: u64 = bits.parse().ok().filter(|bits| matches!(bits, 8 | 16 | 32 | 64 | 128))?;
    Some(bits / 8 * if packed.is_some() { 2 } else { 1 })
}
