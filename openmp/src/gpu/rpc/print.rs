//! `printf` of device code: formats, and arguments in a buffer.
//!
//! The host parses the format twice: first for the size of the arguments, which the device waits
//! for, then to print them. On AMD's GPUs the arguments lie side by side, on NVIDIA's each has its
//! alignment.

use std::ffi::{CString, c_char, c_int, c_longlong, c_void};

/// Most characters of a width or precision.
const MOST_CHARACTERS: i64 = 1 << 20;

/// A piece of a format.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece<'a> {
    Text(&'a [u8]),
    Conversion(Conversion<'a>),
}

/// A conversion.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Conversion<'a> {
    flags: &'a [u8],
    width: Number,
    precision: Number,
    /// Modifiers as the format has them.
    modifier: &'a [u8],
    letter: u8,
}

/// A width or precision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    Absent,
    Value(i64),
    /// The next argument has the number.
    Argument,
}

/// An iterator over the pieces of a format.
struct Pieces<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        let (first, _) = self.rest.split_first()?;
        if *first != b'%' {
            let text = self.take(|byte| byte != b'%');
            return Some(Piece::Text(text));
        }
        let start = self.rest;
        self.rest = &self.rest[1..];
        let flags = self.take(|byte| b" -+#0'".contains(&byte));
        let width = self.number();
        let precision = match self.rest.split_first() {
            Some((b'.', rest)) => {
                self.rest = rest;
                match self.number() {
                    Number::Absent => Number::Value(0),
                    number => number,
                }
            }
            _ => Number::Absent,
        };
        let modifier = self.take(|byte| b"hljztqL".contains(&byte));
        let Some((letter, rest)) = self.rest.split_first() else {
            // An incomplete conversion is text.
            return Some(Piece::Text(start));
        };
        self.rest = rest;
        let letter = *letter;
        Some(Piece::Conversion(Conversion { flags, width, precision, modifier, letter }))
    }
}

impl<'a> Pieces<'a> {
    /// Parses the bytes before the first zero byte.
    fn new(format: &'a [u8]) -> Pieces<'a> {
        Pieces { rest: format.split(|byte| *byte == 0).next().unwrap_or_default() }
    }

    fn take(&mut self, fits: impl Fn(u8) -> bool) -> &'a [u8] {
        let end = self.rest.iter().position(|byte| !fits(*byte)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    fn number(&mut self) -> Number {
        if let Some((b'*', rest)) = self.rest.split_first() {
            self.rest = rest;
            return Number::Argument;
        }
        let digits = self.take(|byte| byte.is_ascii_digit());
        let digits = std::str::from_utf8(digits).expect("digits are ASCII");
        match digits.parse() {
            Ok(number) => Number::Value(number),
            Err(_) if digits.is_empty() => Number::Absent,
            Err(_) => Number::Value(MOST_CHARACTERS),
        }
    }
}

/// The kind of a conversion's argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    None,
    Int,
    Long,
    Double,
    Pointer,
    String,
}

impl Conversion<'_> {
    fn kind(&self) -> Kind {
        let is_long = !self.modifier.is_empty() && !self.modifier.starts_with(b"h");
        match self.letter {
            b'c' => Kind::Int,
            b'd' | b'i' | b'b' | b'B' | b'o' | b'x' | b'X' | b'u' => {
                if is_long {
                    Kind::Long
                } else {
                    Kind::Int
                }
            }
            b'f' | b'F' | b'e' | b'E' | b'a' | b'A' | b'g' | b'G' => Kind::Double,
            b'p' | b'n' => Kind::Pointer,
            b's' => Kind::String,
            _ => Kind::None,
        }
    }
}

/// A cursor over a buffer of arguments.
struct Arguments<'a> {
    bytes: &'a [u8],
    at: usize,
    is_packed: bool,
}

impl Arguments<'_> {
    /// Returns the next argument of `size` bytes; all bits are set beyond the buffer.
    fn next(&mut self, size: usize) -> u64 {
        if !self.is_packed {
            self.at = self.at.next_multiple_of(size);
        }
        let mut word = [0; 8];
        match self.bytes.get(self.at..self.at + size) {
            Some(bytes) => word[..size].copy_from_slice(bytes),
            None => word[..size].fill(0xff),
        }
        self.at += size;
        u64::from_le_bytes(word)
    }

    fn number(&mut self, number: Number) -> Option<i64> {
        let number = match number {
            Number::Absent => return None,
            Number::Value(number) => number,
            Number::Argument => i64::from(self.next(4) as u32 as i32),
        };
        Some(number.clamp(-MOST_CHARACTERS, MOST_CHARACTERS))
    }

    fn value(&mut self, kind: Kind) -> u64 {
        match kind {
            Kind::None => 0,
            Kind::Int => self.next(4),
            _ => self.next(8),
        }
    }
}

/// Returns the size in bytes of the arguments of a format.
pub(super) fn arguments_size(format: &[u8], is_packed: bool) -> u64 {
    let mut arguments = Arguments { bytes: &[], at: 0, is_packed };
    each(format, &mut arguments, |_, _, _| {});
    arguments.at as u64
}

/// Returns the addresses of the strings among the arguments, without null pointers.
pub(super) fn strings(format: &[u8], arguments: &[u8], is_packed: bool) -> Vec<u64> {
    let mut found = Vec::new();
    let mut arguments = Arguments { bytes: arguments, at: 0, is_packed };
    each(format, &mut arguments, |piece, _, value| {
        if matches!(piece, Piece::Conversion(it) if it.kind() == Kind::String) && value != 0 {
            found.push(value);
        }
    });
    found
}

/// Returns the text of a format with its arguments. `strings` are the contents of the strings, in
/// order.
pub(super) fn print(
    format: &[u8],
    arguments: &[u8],
    is_packed: bool,
    strings: &[Vec<u8>],
) -> Vec<u8> {
    let mut text = Vec::new();
    let mut strings = strings.iter();
    let mut arguments = Arguments { bytes: arguments, at: 0, is_packed };
    each(format, &mut arguments, |piece, numbers, value| match piece {
        Piece::Text(bytes) => text.extend_from_slice(bytes),
        Piece::Conversion(conversion) => {
            let string = match conversion.kind() {
                Kind::String if value != 0 => strings.next().map(Vec::as_slice),
                _ => None,
            };
            convert(&mut text, conversion, numbers, value, string);
        }
    });
    text
}

/// Calls a function with each piece of a format, its width and precision, and its argument.
fn each(
    format: &[u8],
    arguments: &mut Arguments<'_>,
    mut function: impl FnMut(&Piece<'_>, (Option<i64>, Option<i64>), u64),
) {
    for piece in Pieces::new(format) {
        let (numbers, value) = match &piece {
            Piece::Text(_) => ((None, None), 0),
            Piece::Conversion(conversion) => {
                let width = arguments.number(conversion.width);
                let precision = arguments.number(conversion.precision);
                ((width, precision), arguments.value(conversion.kind()))
            }
        };
        function(&piece, numbers, value);
    }
}

/// Adds the text of a conversion.
fn convert(
    text: &mut Vec<u8>,
    conversion: &Conversion<'_>,
    (width, precision): (Option<i64>, Option<i64>),
    value: u64,
    string: Option<&[u8]>,
) {
    let letter = conversion.letter;
    match (conversion.kind(), letter) {
        (_, b'%') => return text.push(b'%'),
        (_, b'n') => return,
        (Kind::None, _) => return text.extend_from_slice(&[b'%', letter]),
        _ => {}
    }
    let mut spec = vec![b'%'];
    spec.extend(conversion.flags);
    if let Some(width) = width {
        // A negative width stands for a flag.
        spec.extend(if width < 0 { &b"-"[..] } else { b"" });
        spec.extend(width.unsigned_abs().to_string().bytes());
    }
    if let Some(precision) = precision.filter(|precision| *precision >= 0) {
        spec.extend(format!(".{precision}").bytes());
    }
    match conversion.kind() {
        Kind::Long => spec.extend(b"ll"),
        Kind::Int if letter != b'c' => spec.extend(conversion.modifier.iter().take(2)),
        _ => {}
    }
    spec.push(letter);
    let spec = CString::new(spec).expect("the parts of a conversion have no zero byte");
    let string = string.and_then(super::streams::text);
    // SAFETY: the conversion has one argument, of the type that is passed.
    let print = |to: *mut c_char, size: usize| unsafe {
        match conversion.kind() {
            Kind::Int => libc::snprintf(to, size, spec.as_ptr(), value as c_int),
            Kind::Long => libc::snprintf(to, size, spec.as_ptr(), value as c_longlong),
            Kind::Double => libc::snprintf(to, size, spec.as_ptr(), f64::from_bits(value)),
            Kind::String => {
                let text = string.as_deref().map_or(c"(null)".as_ptr(), |string| string.as_ptr());
                libc::snprintf(to, size, spec.as_ptr(), text)
            }
            _ => libc::snprintf(to, size, spec.as_ptr(), value as *const c_void),
        }
    };
    let count = print(std::ptr::null_mut(), 0);
    let Ok(count) = usize::try_from(count) else { return };
    let mut buffer = vec![0u8; count + 1];
    print(buffer.as_mut_ptr().cast(), count + 1);
    text.extend_from_slice(&buffer[..count]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(words: &[&[u8]]) -> Vec<u8> {
        words.concat()
    }

    #[test]
    fn arguments_are_side_by_side_or_aligned() {
        let format = b"%d %f %c %s %lld %*.*f\0";
        assert_eq!(arguments_size(format, true), 4 + 8 + 4 + 8 + 8 + 4 + 4 + 8);
        assert_eq!(arguments_size(format, false), 4 + 4 + 8 + 4 + 4 + 8 + 8 + 4 + 4 + 8);
        assert_eq!(arguments_size(b"100%% %q", true), 0);
    }

    #[test]
    fn conversions_print_as_in_c() {
        let arguments = packed(&[
            &(-7i32).to_le_bytes(),
            &1.5f64.to_le_bytes(),
            &u64::MAX.to_le_bytes(),
            &6i32.to_le_bytes(),
            &2i32.to_le_bytes(),
            &0.125f64.to_le_bytes(),
            &300i32.to_le_bytes(),
        ]);
        let text = print(b"%05d|%g|%lu|%*.*f|%hhu|%%\n\0", &arguments, true, &[]);
        assert_eq!(String::from_utf8_lossy(&text), "-0007|1.5|18446744073709551615|  0.12|44|%\n");
    }

    #[test]
    fn strings_are_printed_from_their_copies_and_null_pointers_are_named() {
        let arguments =
            packed(&[&0x10u64.to_le_bytes(), &0u64.to_le_bytes(), &0x20u64.to_le_bytes()]);
        let format = b"%s,%s,%.2s";
        assert_eq!(strings(format, &arguments, true), [0x10, 0x20]);
        let copies = [b"one\0".to_vec(), b"three\0".to_vec()];
        assert_eq!(print(format, &arguments, true, &copies), b"one,(null),th");
    }

    #[test]
    fn any_format_and_any_arguments_give_text() {
        let formats: [&[u8]; 9] = [
            b"%",
            b"%-",
            b"%*",
            b"%*.*",
            b"%.",
            b"%99999999999999d",
            b"%llllld",
            b"%n%n",
            b"%\xff",
        ];
        for format in formats {
            for arguments in [&[][..], &[0xff; 3], &[0x80; 64]] {
                let size = arguments_size(format, false);
                assert!(size <= 32, "{format:?}");
                let text = print(format, arguments, false, &[]);
                assert!(text.len() <= 2 * MOST_CHARACTERS as usize, "{format:?}");
            }
        }
    }
}
