//! MessagePack, decoded into no more than so many values, however it is made.

use rmpv::ValueRef;
use rmpv::decode::read_value_ref_with_max_depth;
use rmpv::decode::value_ref::BorrowRead;
use std::io::{self, ErrorKind, Read};

/// What is decoded of a code object in all. A kernel is some 250 readings, a value takes one or two.
pub(crate) const MOST_READINGS: u32 = 1 << 23;
/// The depth is counted twice for each container and its parts.
const DEEPEST: usize = 32;

/// The value that bytes start with. `left` is how many readings are left, and becomes less.
pub(crate) fn decode<'a>(bytes: &'a [u8], left: &mut u32) -> Result<ValueRef<'a>, String> {
    let mut source = Source { rest: bytes, left };
    let decoded = read_value_ref_with_max_depth(&mut source, DEEPEST);
    match (decoded, *source.left) {
        (Ok(value), _) => Ok(value),
        (Err(_), 0) => Err(format!("it has more than some {} values", MOST_READINGS / 2)),
        (Err(error), _) => Err(error.to_string()),
    }
}

/// Bytes that can be read so many times. Text is taken as it is and costs nothing.
struct Source<'a, 'b> {
    rest: &'a [u8],
    left: &'b mut u32,
}

impl Read for Source<'_, '_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        *self.left = self.left.checked_sub(1).ok_or(ErrorKind::OutOfMemory)?;
        self.rest.read(into)
    }
}

impl<'a> BorrowRead<'a> for Source<'a, '_> {
    fn fill_buf(&self) -> &'a [u8] {
        self.rest
    }

    fn consume(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_and_text_is_not() {
        // {"key": [1, 300]}
        let bytes = b"\x81\xa3key\x92\x01\xcd\x01\x2c and more";
        let mut left = 100;
        let value = decode(bytes, &mut left).unwrap();
        assert_eq!(left, 94);
        assert_eq!(value.to_string(), r#"{"key": [1, 300]}"#);
        assert_eq!(decode(bytes, &mut 6).unwrap(), value);
        assert!(decode(bytes, &mut 5).unwrap_err().contains("more than"));
    }

    #[test]
    fn depth_and_claims_are_bounded() {
        let deep = [0x91; 100_000];
        assert!(decode(&deep, &mut 1000).unwrap_err().contains("depth"));
        for claim in
            [&b"\xdd\xff\xff\xff\xff"[..], b"\xdf\xff\xff\xff\xff", b"\xdb\xff\xff\xff\xffx"]
        {
            let mut left = 1000;
            assert!(decode(claim, &mut left).is_err());
            assert!(left > 900);
        }
        let nils = [&b"\xdd\xff\xff\xff\xff"[..], &[0xc0; 10_000]].concat();
        assert!(decode(&nils, &mut 1000).unwrap_err().contains("more than"));
    }
}
