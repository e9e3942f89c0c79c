//! C's formats, with arguments from a device.

use super::{Argument, Arguments};
use std::ffi::{CString, c_char, c_int};

/// Greatest width and precision of a conversion.
const WIDEST: usize = 1 << 16;

/// Appends the text of a message; the first argument is its format. A conversion without a fitting
/// argument is copied unchanged.
pub(super) fn write(text: &mut Vec<u8>, mut arguments: Arguments<'_>) {
    let Some(Argument::Text(mut format)) = arguments.next() else { return };
    while let Some(at) = format.iter().position(|byte| *byte == b'%') {
        text.extend_from_slice(&format[..at]);
        let (conversion, rest) = Conversion::read(&format[at..], &mut arguments);
        conversion.write(text, &mut arguments, &format[at..format.len() - rest.len()]);
        format = rest;
    }
    text.extend_from_slice(format);
}

/// A conversion, such as "%-8.3f".
struct Conversion {
    /// The conversion's flags out of "-+ #0".
    flags: Vec<u8>,
    width: Option<i32>,
    precision: Option<i32>,
    /// The length modifier of a number shorter than an `int`: "", "h" or "hh".
    short: &'static str,
    /// The conversion's letter; 0 if the format ends before it.
    letter: u8,
}

impl Conversion {
    /// Reads the conversion at the start of `format`, and returns it with the rest of the format.
    fn read<'f>(format: &'f [u8], arguments: &mut Arguments<'_>) -> (Conversion, &'f [u8]) {
        let mut rest = &format[1..];
        let flags: Vec<u8> =
            rest.iter().copied().take_while(|byte| b"-+ #0".contains(byte)).collect();
        rest = &rest[flags.len()..];
        let width = number(&mut rest, arguments);
        let precision = match rest.strip_prefix(b".") {
            Some(behind) => {
                rest = behind;
                Some(number(&mut rest, arguments).unwrap_or(0))
            }
            None => None,
        };
        let length = rest.iter().take_while(|byte| b"hljztLq".contains(byte)).count();
        let short = match &rest[..length] {
            b"hh" => "hh",
            b"h" => "h",
            _ => "",
        };
        rest = &rest[length..];
        let letter = rest.first().copied().unwrap_or(0);
        let rest = rest.get(1..).unwrap_or_default();
        (Conversion { flags, width, precision, short, letter }, rest)
    }

    fn write(&self, text: &mut Vec<u8>, arguments: &mut Arguments<'_>, as_it_is: &[u8]) {
        if self.letter == b'%' {
            return text.push(b'%');
        }
        let is_known = b"diouxXcfFeEgGaAps".contains(&self.letter);
        let printed = is_known.then(|| arguments.next()).flatten().and_then(|argument| {
            let by = |length: &str| self.spec(length);
            match (self.letter, argument) {
                (b'd' | b'i', Argument::Word(word)) if self.short.is_empty() => {
                    print(&by("ll"), i64::from(word.cast_signed()))
                }
                (b'd' | b'i' | b'u' | b'o' | b'x' | b'X', Argument::Long(long)) => {
                    print(&by("ll"), long)
                }
                (b'd' | b'i' | b'u' | b'o' | b'x' | b'X', Argument::Word(word)) => {
                    print(&by(self.short), word)
                }
                (b'c', Argument::Word(word)) => print(&by(""), word),
                (b'p', Argument::Pointer(value) | Argument::Long(value)) => print(&by(""), value),
                (b's', Argument::Text(value)) => {
                    let value = CString::new(value.split(|byte| *byte == 0).next()?).ok()?;
                    print(&by(""), value.as_ptr())
                }
                (b'f' | b'F' | b'e' | b'E' | b'g' | b'G' | b'a' | b'A', Argument::Float(value)) => {
                    print(&by(""), value)
                }
                _ => None,
            }
        });
        match printed {
            Some(printed) => text.extend(printed),
            None => text.extend_from_slice(as_it_is),
        }
    }

    /// Returns the conversion as text, with this length modifier.
    fn spec(&self, length: &str) -> Vec<u8> {
        let mut spec = vec![b'%'];
        spec.extend(&self.flags);
        if let Some(width) = self.width {
            spec.extend(width.to_string().bytes());
        }
        if let Some(precision) = self.precision.filter(|precision| *precision >= 0) {
            spec.push(b'.');
            spec.extend(precision.to_string().bytes());
        }
        spec.extend(length.bytes());
        spec.extend([self.letter, 0]);
        spec
    }
}

/// Reads a number of the format, or, for "*", takes the next argument.
fn number(rest: &mut &[u8], arguments: &mut Arguments<'_>) -> Option<i32> {
    let most = WIDEST as i32;
    if let Some(behind) = rest.strip_prefix(b"*") {
        *rest = behind;
        return match arguments.next()? {
            Argument::Word(word) => Some(word.cast_signed().clamp(-most, most)),
            _ => None,
        };
    }
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, behind) = rest.split_at(digits);
    *rest = behind;
    let number = digits.iter().fold(0, |all: i32, digit| {
        (all.saturating_mul(10)).saturating_add(i32::from(digit - b'0')).min(most)
    });
    (!digits.is_empty()).then_some(number)
}

/// Returns the text that C prints for a value. `spec` is one conversion for a value of this type,
/// and ends with NUL.
fn print<T: Value>(spec: &[u8], value: T) -> Option<Vec<u8>> {
    let mut buffer = vec![0u8; 512];
    loop {
        // SAFETY: the conversion is for a value of this type, and the buffer has `buffer.len()`
        // bytes.
        let bytes = unsafe { value.print(buffer.as_mut_ptr().cast(), buffer.len(), spec) };
        let bytes = usize::try_from(bytes).ok()?;
        if bytes < buffer.len() {
            buffer.truncate(bytes);
            return Some(buffer);
        }
        if bytes >= WIDEST * 2 {
            return None;
        }
        buffer.resize(bytes + 1, 0);
    }
}

/// A type that C's variable arguments accept.
trait Value: Copy {
    /// Calls `snprintf` with one conversion.
    ///
    /// # Safety
    /// The conversion is for this type and ends with NUL; the buffer has `bytes` bytes.
    unsafe fn print(self, buffer: *mut c_char, bytes: usize, spec: &[u8]) -> c_int;
}

macro_rules! values {
    ($($kind:ty)*) => {
        $(impl Value for $kind {
            unsafe fn print(self, buffer: *mut c_char, bytes: usize, spec: &[u8]) -> c_int {
                // SAFETY: promised by the caller.
                unsafe { libc::snprintf(buffer, bytes, spec.as_ptr().cast(), self) }
            }
        })*
    };
}
values! { i64 u64 u32 f64 *const c_char }
