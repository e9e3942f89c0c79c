//! The records of an `.eh_frame`, as far as an unwinder trusts them. libgcc's unwinder aborts at an
//! unknown encoding, so such records are found here.

use std::ops::ControlFlow;

/// Calls `each` with the offsets of the frame description entries, up to the first malformed
/// record.
pub(super) fn for_each_description(
    content: &[u8],
    mut each: impl FnMut(usize),
) -> Result<(), String> {
    let mut common = Vec::new();
    let mut offset = 0;
    while let ControlFlow::Continue(record) = record(content, offset)? {
        let of = |problem: &str| format!("the record of .eh_frame at {offset:#x} {problem}");
        match record.common_at {
            None => {
                check_common(record.body).map_err(of)?;
                common.push(offset);
            }
            // A description usually refers to the last common record.
            Some(at) if common.last() == Some(&at) || common.binary_search(&at).is_ok() => {
                each(offset);
            }
            Some(_) => return Err(of("refers to no common record")),
        }
        offset = record.end;
    }
    Ok(())
}

/// A common information entry or a frame description entry.
struct Record<'a> {
    /// The offset of the common information, for a description.
    common_at: Option<usize>,
    /// The bytes after the identifier.
    body: &'a [u8],
    end: usize,
}

/// Returns the record at `offset`; `Break` for the zero word.
fn record(content: &[u8], offset: usize) -> Result<ControlFlow<(), Record<'_>>, String> {
    let outside = || {
        format!(
            "the record of .eh_frame at {offset:#x} is not within its {:#x} bytes",
            content.len()
        )
    };
    let rest = content.get(offset..).ok_or_else(outside)?;
    let (length, rest) = rest.split_first_chunk::<4>().ok_or_else(outside)?;
    let (length, rest) = match u32::from_le_bytes(*length) {
        0 => return Ok(ControlFlow::Break(())),
        u32::MAX => {
            let (length, rest) = rest.split_first_chunk::<8>().ok_or_else(outside)?;
            (u64::from_le_bytes(*length), rest)
        }
        length => (u64::from(length), rest),
    };
    let start = content.len() - rest.len();
    let whole =
        usize::try_from(length).ok().and_then(|length| rest.get(..length)).ok_or_else(outside)?;
    let (id, body) = whole.split_first_chunk::<4>().ok_or_else(outside)?;
    let common_at = match u32::from_le_bytes(*id) {
        0 => None,
        back => Some(start.checked_sub(back as usize).ok_or_else(outside)?),
    };
    Ok(ControlFlow::Continue(Record { common_at, body, end: start + whole.len() }))
}

/// Checks that a common information entry contains only data that unwinders understand.
fn check_common(body: &[u8]) -> Result<(), &'static str> {
    const DAMAGED: &str = "is damaged";
    let mut body = Reader(body);
    let version = body.byte().ok_or(DAMAGED)?;
    if ![1, 3].contains(&version) {
        return Err("has a version other than 1 and 3");
    }
    let augmentation = body.string().ok_or(DAMAGED)?;
    let Some(letters) = augmentation.strip_prefix(b"z") else {
        return if augmentation.is_empty() { Ok(()) } else { Err("has an unknown augmentation") };
    };
    // The skipped fields: code and data alignment, the register of the return address, the length
    // of the augmentation data.
    body.skip_leb().and_then(|()| body.skip_leb()).ok_or(DAMAGED)?;
    if version == 1 { body.byte().map(drop) } else { body.skip_leb() }.ok_or(DAMAGED)?;
    body.skip_leb().ok_or(DAMAGED)?;
    for letter in letters {
        match letter {
            b'R' | b'L' | b'P' => {
                let encoding = body.byte().ok_or(DAMAGED)?;
                let size =
                    size_of_encoded(encoding).ok_or("has pointers in an unknown encoding")?;
                if *letter == b'P' {
                    body.skip(size).ok_or(DAMAGED)?;
                }
            }
            b'S' | b'B' | b'G' => {}
            _ => return Err("has an unknown augmentation"),
        }
    }
    Ok(())
}

/// Returns the bytes of a pointer in an encoding of fixed size, absolute or relative to its place;
/// 0 for an omitted one, and `None` for an unknown encoding.
fn size_of_encoded(encoding: u8) -> Option<usize> {
    const OMITTED: u8 = 0xff;
    const INDIRECT: u8 = 0x80;
    match (encoding, encoding & !INDIRECT & 0x70, encoding & 0x0f) {
        (OMITTED, _, _) => Some(0),
        (_, 0x00 | 0x10, 0x0 | 0x4 | 0xc) => Some(8),
        (_, 0x00 | 0x10, 0x2 | 0xa) => Some(2),
        (_, 0x00 | 0x10, 0x3 | 0xb) => Some(4),
        _ => None,
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    fn string(&mut self) -> Option<&'a [u8]> {
        let end = memchr::memchr(0, self.0)?;
        let (string, rest) = self.0.split_at(end);
        self.0 = &rest[1..];
        Some(string)
    }

    fn skip_leb(&mut self) -> Option<()> {
        while self.byte()? & 0x80 != 0 {}
        Some(())
    }

    fn skip(&mut self, bytes: usize) -> Option<()> {
        self.0 = self.0.get(bytes..)?;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptions(content: &[u8]) -> Result<Vec<usize>, String> {
        let mut offsets = Vec::new();
        for_each_description(content, |offset| offsets.push(offset)).map(|()| offsets)
    }

    /// Returns a common record with this version and augmentation, and these bytes after the
    /// register.
    fn common(version: u8, augmentation: &str, data: &[u8]) -> Vec<u8> {
        let mut body = vec![0, 0, 0, 0, version];
        body.extend(augmentation.as_bytes());
        body.extend([0, 1, 0x78, 16]);
        body.extend(data);
        body.resize(body.len().next_multiple_of(4), 0);
        [&(body.len() as u32).to_le_bytes()[..], &body].concat()
    }

    fn with_description(mut common: Vec<u8>, back: u32) -> Vec<u8> {
        common.extend(20u32.to_le_bytes());
        common.extend(back.to_le_bytes());
        common.extend([0; 16]);
        common.extend([0; 4]);
        common
    }

    #[test]
    fn output_of_compilers_is_valid() {
        for (augmentation, data) in [
            ("zR", &[1, 0x1b][..]),
            ("zPLR", &[7, 0x9b, 0, 0, 0, 0, 0x1b, 0x1b]),
            ("zRS", &[1, 0x1c]),
            ("zPLR", &[11, 0x00, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0x03]),
            ("", &[]),
        ] {
            let common = common(1, augmentation, data);
            let at = common.len();
            let content = with_description(common, at as u32 + 4);
            assert_eq!(descriptions(&content), Ok(vec![at]), "{augmentation}");
        }
    }

    #[test]
    fn operations_that_would_end_the_process_are_errors() {
        for (version, augmentation, data) in [
            (1, "zR", &[1, 0x0f][..]),
            (1, "zR", &[1, 0x01]),
            (1, "zR", &[1, 0x3b]),
            (2, "zR", &[1, 0x1b]),
            (1, "eh", &[0; 8]),
            (1, "zQ", &[0; 8]),
            (1, "zP", &[1, 0x1c, 0]),
        ] {
            let content = with_description(common(version, augmentation, data), 4);
            assert!(descriptions(&content).is_err(), "{version} {augmentation} {data:x?}");
        }
    }

    #[test]
    fn a_description_belongs_to_a_common_record() {
        let common = common(1, "zR", &[1, 0x1b]);
        let right = common.len() as u32 + 4;
        for back in [right + 4, right - 4, 4, u32::MAX] {
            assert!(descriptions(&with_description(common.clone(), back)).is_err(), "{back}");
        }
    }

    #[test]
    fn descriptions_with_an_extended_length_are_read() {
        let mut content = common(1, "zR", &[1, 0x1b]);
        let at = content.len();
        content.extend([0xff; 4]);
        content.extend(8u64.to_le_bytes());
        content.extend((at as u32 + 12).to_le_bytes());
        content.extend([0; 8]);
        assert_eq!(descriptions(&content), Ok(vec![at]));
        content[at + 4..at + 12].fill(0xff);
        assert!(descriptions(&content).is_err());
    }
}
