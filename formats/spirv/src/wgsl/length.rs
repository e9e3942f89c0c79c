//! Lengths of arrays, computed from the text of a source.

use std::cell::Cell;
use std::ops::Range;

use super::weight::Declarations;

/// Most constants in the computation of a length, counted at each use.
const MOST_CONSTANTS: u32 = 256;

/// Returns the value of an integer expression of numbers and constants with the operators
/// `+ - * / % << >> & | ^`. Exact in 32 bits, signed or not; `None` for any other expression.
pub(super) fn evaluate(declarations: &Declarations<'_>, expression: Range<usize>) -> Option<u64> {
    value(declarations, expression, &Cell::new(MOST_CONSTANTS))
}

fn value(
    declarations: &Declarations<'_>,
    expression: Range<usize>,
    left: &Cell<u32>,
) -> Option<u64> {
    let mut reader = Reader { declarations, at: expression.start, end: expression.end, left };
    let value = reader.operation(0)?;
    // A comma may follow the last argument of a template.
    (reader.at == reader.end || reader.peek(0) == ",").then_some(value)
}

struct Reader<'a> {
    declarations: &'a Declarations<'a>,
    at: usize,
    end: usize,
    /// Number of constants that may still be used.
    left: &'a Cell<u32>,
}

impl<'a> Reader<'a> {
    /// Reads operations that bind more strongly than `binding`.
    fn operation(&mut self, binding: u8) -> Option<u64> {
        let mut left = self.operand()?;
        while let Some((mark, tokens, own)) = self.operator().filter(|found| found.2 > binding) {
            self.at += tokens;
            let right = self.operation(own)?;
            left = match mark {
                "|" => left | right,
                "^" => left ^ right,
                "&" => left & right,
                "<" => left.checked_shl(u32::try_from(right).ok().filter(|bits| *bits < 32)?)?,
                ">" => left >> u32::try_from(right).ok().filter(|bits| *bits < 32)?,
                "+" => left + right,
                "-" => left.checked_sub(right)?,
                "*" => left * right,
                "/" => left.checked_div(right)?,
                _ => left.checked_rem(right)?,
            };
            // The meaning of a larger value depends on the types.
            left = Some(left).filter(|value| *value <= i32::MAX as u64)?;
        }
        Some(left)
    }

    /// Returns the next operator, its number of tokens, and its strength of binding.
    fn operator(&self) -> Option<(&'a str, usize, u8)> {
        let mark = self.peek(0);
        let binding = match mark {
            "|" => 1,
            "^" => 2,
            "&" => 3,
            "<" | ">" if self.peek(1) == mark => 4,
            "+" | "-" => 5,
            "*" | "/" | "%" => 6,
            _ => return None,
        };
        Some((mark, if binding == 4 { 2 } else { 1 }, binding))
    }

    fn operand(&mut self) -> Option<u64> {
        let token = self.peek(0);
        self.at += 1;
        if token == "(" {
            let value = self.operation(0)?;
            let closes = self.peek(0) == ")";
            self.at += 1;
            return closes.then_some(value);
        }
        if token.starts_with(|digit: char| digit.is_ascii_digit()) {
            return number(token).filter(|_| self.peek(0) != ".");
        }
        let of_constant = self.declarations.constants.get(token)?;
        self.left.set(self.left.get().checked_sub(1)?);
        value(self.declarations, of_constant.clone(), self.left)
    }

    fn peek(&self, ahead: usize) -> &'a str {
        let at = self.at + ahead;
        let token = self.declarations.tokens.get(at).filter(|_| at < self.end);
        token.copied().unwrap_or_default()
    }
}

/// Parses a number, such as "64", "64u", "0x40i".
fn number(token: &str) -> Option<u64> {
    let hexadecimal = token.strip_prefix("0x").or_else(|| token.strip_prefix("0X"));
    let digits = hexadecimal.unwrap_or(token).trim_end_matches(['u', 'i']);
    let value = u64::from_str_radix(digits, if hexadecimal.is_some() { 16 } else { 10 }).ok()?;
    Some(value).filter(|value| *value <= u32::MAX.into())
}
