//! Initial values.

use crate::Reference;
use crate::contents::{References, without_zeros_at_end};

/// The value after a "=".
pub(super) struct Value {
    pub(super) bytes: Vec<u8>,
    pub(super) references: Vec<Reference>,
    /// Number of elements in the text.
    pub(super) elements: u64,
}

/// Reads a value or a list of values. Nested lists are flattened, as in memory. Addresses of fewer
/// than 64 bits are omitted.
pub(super) fn read(tokens: &[&str], element_bytes: u64) -> Value {
    let (mut bytes, mut references, mut elements) = (Vec::new(), References::default(), 0);
    let written = tokens.split(|token| matches!(*token, "," | "{" | "}"));
    for tokens in written.filter(|tokens| !tokens.is_empty()) {
        let offset = bytes.len() as u64;
        let element = Element::read(tokens, element_bytes);
        bytes.extend(element.bits.to_le_bytes().iter().take(element_bytes as usize));
        elements += 1;
        let Some(symbol) = element.symbol else { continue };
        let reference = Reference { offset, symbol: symbol.to_owned(), addend: element.addend };
        match element.byte {
            Some(index) if element_bytes == 1 => references.add_byte(reference, index),
            None if element_bytes == 8 => references.add(reference),
            _ => {}
        }
    }
    Value { bytes: without_zeros_at_end(bytes), references: references.finish(), elements }
}

/// Parses a decimal, octal, hexadecimal or binary number, which may have the suffix of unsigned
/// numbers.
pub(super) fn number(token: &str) -> Option<u64> {
    let digits = token.strip_suffix('U').unwrap_or(token);
    let (digits, radix) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (&digits[2..], 16),
        [b'0', b'b' | b'B', ..] => (&digits[2..], 2),
        [b'0', _, ..] => (&digits[1..], 8),
        _ => (digits, 10),
    };
    u64::from_str_radix(digits, radix).ok()
}

/// One element: a number, or an address, whose bits are zeros.
#[derive(Default)]
struct Element<'a> {
    bits: i128,
    symbol: Option<&'a str>,
    addend: i64,
    /// Index of a byte of the address: `0xFF00(symbol)` is byte 1.
    byte: Option<u8>,
}

impl<'a> Element<'a> {
    /// Reads a sum, such as `-3`, `generic(x)+8`, `0xFF(generic(x)+8)`. Any other expression is
    /// zero.
    fn read(tokens: &[&'a str], element_bytes: u64) -> Element<'a> {
        let mut element = Element::default();
        let mut sum = 0i128;
        let mut sign = Sign::default();
        for (at, token) in tokens.iter().enumerate() {
            match *token {
                "+" | "generic" => {}
                "-" => sign.flip(),
                "(" => sign.open(),
                ")" => sign.close(),
                token => {
                    let is_negative = sign.take();
                    if let Some(term) = number(token) {
                        if at == 0 && tokens.get(1) == Some(&"(") {
                            element.byte = byte_of_mask(term);
                            continue;
                        }
                        let term = i128::from(term);
                        sum = sum.wrapping_add(if is_negative { -term } else { term });
                    } else if let Some(term) = float(token) {
                        sum = float_bits(if is_negative { -term } else { term }, element_bytes);
                    } else if is_name(token) {
                        element.symbol = Some(token);
                    } else {
                        return Element::default();
                    }
                }
            }
        }
        match element.symbol {
            Some(_) => element.addend = sum as i64,
            None => element.bits = sum,
        }
        element
    }
}

/// The sign of the next term in an expression.
#[derive(Default)]
struct Sign {
    is_negative: bool,
    /// Signs of the innermost parentheses, and of those around them.
    inner: bool,
    outer: Vec<bool>,
}

impl Sign {
    fn flip(&mut self) {
        self.is_negative = !self.is_negative;
    }

    fn open(&mut self) {
        self.outer.push(self.inner);
        self.inner = self.take();
    }

    fn close(&mut self) {
        self.inner = self.outer.pop().unwrap_or_default();
    }

    /// Returns whether the next term is negative, and resets its own sign.
    fn take(&mut self) -> bool {
        std::mem::take(&mut self.is_negative) != self.inner
    }
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '_' | '$' | '%'))
}

/// Returns the index of the byte that a mask selects: 1 for `0xFF00`.
fn byte_of_mask(mask: u64) -> Option<u8> {
    (0..8).find(|index| mask == 0xff << (8 * index))
}

/// Parses a floating-point number: bits after `0f` or `0d`, or decimal with a point or an
/// exponent.
fn float(token: &str) -> Option<f64> {
    match token.as_bytes() {
        [b'0', b'f' | b'F', ..] => {
            u32::from_str_radix(&token[2..], 16).ok().map(|bits| f32::from_bits(bits).into())
        }
        [b'0', b'd' | b'D', ..] => u64::from_str_radix(&token[2..], 16).ok().map(f64::from_bits),
        [b'0'..=b'9' | b'.', ..] if token.contains(['.', 'e', 'E']) => token.parse().ok(),
        _ => None,
    }
}

/// Returns the bits of a floating-point number for an element of 4 or 8 bytes, the only sizes of
/// such elements.
fn float_bits(value: f64, element_bytes: u64) -> i128 {
    match element_bytes {
        4 => (value as f32).to_bits().into(),
        8 => value.to_bits().into(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tokens::Tokens;
    use super::*;

    fn value(text: &str, element_bytes: u64) -> Value {
        read(&Tokens::new(text).collect::<Vec<_>>(), element_bytes)
    }

    fn reference(offset: u64, symbol: &str, addend: i64) -> Reference {
        Reference { offset, symbol: symbol.into(), addend }
    }

    #[test]
    fn numbers_are_bytes_of_the_elements_size() {
        assert_eq!(value("{-1, 0x102, 017, 0b101U}", 2).bytes, [255, 255, 2, 1, 15, 0, 5]);
        assert_eq!(value("{{1, 2}, {3, 4, 5}}", 1).bytes, [1, 2, 3, 4, 5]);
        assert_eq!(value("-(3+4)+-(1-(2))", 8).bytes, (-6i64).to_le_bytes());
        assert_eq!(value("18446744073709551615", 16).bytes, [255; 8]);
        let zeros = value("{0, 0}", 4);
        assert_eq!((zeros.bytes.len(), zeros.elements), (0, 2));
    }

    #[test]
    fn floats_are_their_bits_however_they_are_written() {
        let floats = [1.5f32, -2.0, 0.5, 1e-3].map(f32::to_le_bytes).concat();
        assert_eq!(value("{0f3FC00000, -2.0, .5, 1e-3}", 4).bytes, floats);
        assert_eq!(value("{0d400A000000000000}", 8).bytes, 3.25f64.to_le_bytes()[..]);
    }

    #[test]
    fn addresses_of_variables_and_functions_are_references() {
        let found = value("{generic(x)+8, 7, f, generic(y)+-4, z - 2}", 8);
        let expected = [
            reference(0, "x", 8),
            reference(16, "f", 0),
            reference(24, "y", -4),
            reference(32, "z", -2),
        ];
        assert_eq!(found.references, expected);
        assert_eq!((found.bytes.len(), found.bytes[8]), (9, 7));
        assert!(value("x", 4).references.is_empty());
    }

    #[test]
    fn eight_bytes_of_an_address_are_one_reference() {
        let bytes = |of: std::ops::Range<u32>| {
            of.map(|index| format!("{:#X}(generic(g)+20)", 0xffu64 << (8 * index)))
                .collect::<Vec<_>>()
        };
        let whole = value(&format!("{{1, {}, 2}}", bytes(0..8).join(", ")), 1);
        assert_eq!(whole.references, [reference(1, "g", 20)]);
        assert_eq!(whole.bytes, [1, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
        assert!(value(&format!("{{{}}}", bytes(0..4).join(", ")), 1).references.is_empty());
        assert!(value(&format!("{{{}}}", bytes(1..8).join(", ")), 1).references.is_empty());
    }

    #[test]
    fn other_expressions_are_zero() {
        assert_eq!(value("{4*5, 1<<4, 7}", 1).bytes, [0, 0, 7]);
        assert_eq!(value("{), (, -, 3}", 1).bytes, [0, 0, 0, 3]);
    }
}
