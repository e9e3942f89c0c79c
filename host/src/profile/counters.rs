//! The counters of each function of an image. LLVM: `RawInstrProfReader`, `InstrProfSymtab`.

use super::{Profile, counter_file};
use flate2::read::ZlibDecoder;
use longshore_plugin_api::{Error, ErrorCode, ProfileSection, Result};
use std::collections::HashMap;
use std::fmt;
use std::io::Read;

/// Most bytes of decompressed names that are read.
const MOST_NAME_BYTES: usize = 64 << 20;
/// Most names that are read.
const MOST_NAMES: usize = 1 << 20;
/// Most counters of all functions together: records may share counters.
const MOST_COUNTERS: usize = 1 << 22;
/// The byte between names.
const SEPARATOR: u8 = 1;

/// A function of an instrumented image, with the execution counts of its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FunctionCounters {
    /// The function's name in the format of `llvm-profdata`: the name of a local function follows
    /// its file. `None` if the image does not contain the name.
    pub name: Option<String>,
    /// The low 64 bits of the name's MD5 hash, by which profiles are looked up.
    pub name_hash: u64,
    /// A hash of the function's structure. A profile with another hash does not belong to the
    /// function.
    pub hash: u64,
    /// The counters in the order of the image. A counter that only records whether a part ran is 1
    /// if it did.
    pub counts: Vec<u64>,
}

impl fmt::Display for FunctionCounters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{name}: ")?,
            None => write!(f, "(name {:#018x}): ", self.name_hash)?,
        }
        write!(f, "hash {:#018x}, counters", self.hash)?;
        self.counts.iter().try_for_each(|count| write!(f, " {count}"))
    }
}

/// Returns the functions of an image in the order of their records. The list is empty for an image
/// without instrumentation.
///
/// # Errors
/// As for [`super::write`], except errors of the file. `InvalidBinary` for missing counters, for
/// unreadable names, and for records whose shared names or counters exceed [`MOST_NAME_BYTES`] or
/// [`MOST_COUNTERS`] in total.
pub(crate) fn functions(sections: &[ProfileSection]) -> Result<Vec<FunctionCounters>> {
    let Some(profile) = Profile::from_sections(sections)? else { return Ok(Vec::new()) };
    let names = names(profile.names())?;
    let records = profile.data.contents.chunks_exact(profile.layout.bytes).enumerate();
    let (mut counters_left, mut name_bytes_left) = (MOST_COUNTERS, MOST_NAME_BYTES);
    let functions = records.map(|(index, record)| {
        let name_hash = word(record, 0);
        let name = names.get(&name_hash);
        let name_bytes = name.map_or(0, String::len);
        let count = profile.layout.counters_of(record) as usize;
        let left = counters_left.checked_sub(count).zip(name_bytes_left.checked_sub(name_bytes));
        (counters_left, name_bytes_left) = left.ok_or_else(|| shared_too_often(index))?;
        let counts = counts(&profile, index, record)?;
        Ok(FunctionCounters { name: name.cloned(), name_hash, hash: word(record, 8), counts })
    });
    functions.collect()
}

fn shared_too_often(index: usize) -> Error {
    let message = format!(
        "up to record {index}, the functions of the image's profile have more than \
         {MOST_NAME_BYTES} bytes of names, or more than {MOST_COUNTERS} counters"
    );
    Error::new(ErrorCode::InvalidBinary, message)
}

/// Prints the functions of an image to standard error, or its counters if it has no functions.
/// Prints nothing for an image without instrumentation.
///
/// # Errors
/// As for [`functions`]; after an error nothing is printed.
pub(crate) fn print(what: impl fmt::Display, sections: &[ProfileSection]) -> Result<()> {
    if let Some(text) = shown(sections)? {
        // One call, so that output of other threads does not mix with the lines.
        eprint!("{what}: {text}");
    }
    Ok(())
}

fn shown(sections: &[ProfileSection]) -> Result<Option<String>> {
    let functions = functions(sections)?;
    if !functions.is_empty() {
        let lines: String = functions.iter().map(|function| format!("  {function}\n")).collect();
        return Ok(Some(format!("{}\n{lines}", counted(functions.len(), "function"))));
    }
    let counters = counter_file::counters(sections)?;
    let line: String = counters.iter().map(|count| format!(" {count}")).collect();
    let all = counted(counters.len(), "counter");
    Ok((!counters.is_empty()).then(|| format!("{all} of no function\n {line}\n")))
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Returns the low 64 bits of a name's MD5 hash.
pub(super) fn name_hash(name: &[u8]) -> u64 {
    word(&md5::compute(name).0, 0)
}

fn counts(profile: &Profile<'_>, index: usize, record: &[u8]) -> Result<Vec<u64>> {
    let layout = &profile.layout;
    let place = profile.data.address.wrapping_add((index * layout.bytes) as u64);
    let count = layout.counters_of(record) as usize;
    let bytes = layout.counters_at(record, place).and_then(|address| {
        let offset = usize::try_from(address.wrapping_sub(profile.counters.address)).ok()?;
        profile.counters.contents.get(offset..)?.get(..count.checked_mul(layout.counter_bytes)?)
    });
    let Some(bytes) = bytes else {
        let message = format!(
            "record {index} of the image's profile has {count} counters, which lie outside of its {} \
             bytes of counters",
            profile.counters.contents.len()
        );
        return Err(Error::new(ErrorCode::InvalidBinary, message));
    };
    if layout.counter_bytes == 1 {
        return Ok(bytes.iter().map(|byte| u64::from(*byte == 0)).collect());
    }
    let words = bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word));
    Ok(words.skip(usize::from(profile.version.is_temporal())).collect())
}

/// Returns the names of a section, by their hashes. The section has for each object the
/// decompressed and the compressed size of its names, and the names; zero bytes lie between
/// objects.
fn names(mut section: &[u8]) -> Result<HashMap<u64, String>> {
    let mut names = HashMap::new();
    let mut left = MOST_NAME_BYTES;
    loop {
        let zeros = section.iter().take_while(|byte| **byte == 0).count();
        section = &section[zeros..];
        if section.is_empty() {
            return Ok(names);
        }
        let text = next_names(&mut section, left).ok_or_else(|| {
            let message = format!(
                "the names in the image's profile are damaged, or more than {MOST_NAME_BYTES} bytes"
            );
            Error::new(ErrorCode::InvalidBinary, message)
        })?;
        left -= text.len();
        for name in text.split(|byte| *byte == SEPARATOR) {
            names.insert(name_hash(name), String::from_utf8_lossy(name).into_owned());
            if names.len() > MOST_NAMES {
                let message = format!("the image's profile has more than {MOST_NAMES} names");
                return Err(Error::new(ErrorCode::InvalidBinary, message));
            }
        }
    }
}

/// Removes the names of one object from the section and returns them, decompressed. `None` for
/// damaged names and for more than `most` bytes.
fn next_names(section: &mut &[u8], most: usize) -> Option<Vec<u8>> {
    let bytes = uleb128(section).filter(|bytes| *bytes <= most)?;
    let compressed = uleb128(section)?;
    let text = match compressed {
        0 => section.split_off(..bytes)?.to_vec(),
        _ => {
            let mut text = Vec::new();
            let decoder = ZlibDecoder::new(section.split_off(..compressed)?);
            decoder.take(bytes as u64 + 1).read_to_end(&mut text).ok()?;
            text
        }
    };
    (text.len() == bytes).then_some(text)
}

/// Removes a ULEB128 number from the start of the bytes and returns it; `None` above 28 bits.
fn uleb128(from: &mut &[u8]) -> Option<usize> {
    let mut number = 0usize;
    for shift in (0..28).step_by(7) {
        let byte = *from.split_off_first()?;
        number |= usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// Returns the 64-bit number at an offset; 0 beyond the end.
fn word(bytes: &[u8], at: usize) -> u64 {
    let word = bytes.get(at..).and_then(<[u8]>::first_chunk);
    word.map_or(0, |word| u64::from_le_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::super::testing::sections;
    use super::*;
    use flate2::Compression;
    use flate2::write::ZlibEncoder;
    use std::io::Write;

    /// Returns the compressed names of one object.
    fn packed(names: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(names).unwrap();
        let packed = encoder.finish().unwrap();
        assert!(names.len() < 128 && packed.len() < 128);
        [&[names.len() as u8, packed.len() as u8], &packed[..]].concat()
    }

    #[test]
    fn functions_have_their_names_and_counts() {
        let plain = b"\x07\0abc\x01def".to_vec();
        let two_objects = [packed(b"def\x01ghi"), vec![0; 5], packed(b"abc")].concat();
        for names in [plain, two_objects] {
            for version in 8..=10 {
                let functions = functions(&sections(version, &names)).unwrap();
                let [function] = &functions[..] else { panic!("{functions:?}") };
                assert_eq!(function.name.as_deref(), Some("abc"));
                assert_eq!((function.hash, &function.counts[..]), (0x18, &[7, 41][..]));
                let shown = "abc: hash 0x0000000000000018, counters 7 41";
                assert_eq!(function.to_string(), shown);
            }
        }
    }

    #[test]
    fn counters_of_no_function_are_shown_all_the_same() {
        let sections = sections(10, b"");
        assert_eq!(shown(&sections[..1]).unwrap().unwrap(), "2 counters of no function\n  7 41\n");
        let whole = shown(&sections).unwrap().unwrap();
        assert!(whole.starts_with("1 function\n"), "{whole}");
        assert_eq!(shown(&[]).unwrap(), None);
    }

    #[test]
    fn a_function_without_a_name_has_its_hash() {
        let functions = functions(&sections(10, b"")).unwrap();
        assert_eq!(functions[0].name, None);
        assert!(functions[0].to_string().starts_with("(name 0x"));
    }

    #[test]
    fn counters_of_a_byte_say_whether_a_part_ran() {
        let mut sections = sections(10 | 1 << 60, b"");
        sections[0].contents = vec![0, 255, 255];
        assert_eq!(functions(&sections).unwrap()[0].counts, [1, 0]);
        let file = super::super::raw::file(&Profile::from_sections(&sections).unwrap().unwrap());
        assert_eq!(file.len(), 128 + 64 + 8);
        assert_eq!((word(&file, 5 * 8), word(&file, 6 * 8)), (3, 5), "counters and padding");
    }

    #[test]
    fn when_a_function_first_ran_is_no_count() {
        let functions = functions(&sections(10 | 1 << 63, b"")).unwrap();
        assert_eq!(functions[0].counts, [41]);
    }

    #[test]
    fn records_that_share_names_or_counters_do_not_multiply_them() {
        let packed_names = |name: &[u8]| {
            let mut bytes = name.len();
            let mut section = Vec::new();
            while bytes >= 0x80 {
                section.push(bytes as u8 | 0x80);
                bytes >>= 7;
            }
            [&section[..], &[bytes as u8, 0], name].concat()
        };
        let long_name = vec![b'n'; 1 << 20];
        for names in [packed_names(b"abc"), packed_names(&long_name)] {
            let mut sections = sections(10, &names);
            let (first, rest) = sections.split_at_mut(1);
            let (counters, data) = (&mut first[0], &mut rest[0]);
            let record = data.contents.clone();
            let is_long = names.len() > 1000;
            counters.contents = vec![0; if is_long { 16 } else { 8 << 10 }];
            let count = (counters.contents.len() / 8) as u32;
            data.contents.clear();
            let hash = name_hash(if is_long { &long_name } else { b"abc" });
            for index in 0..1 << 13 {
                let mut record = record.clone();
                record[..8].copy_from_slice(&hash.to_le_bytes());
                // Each record refers to all counters.
                let address = data.address + index * record.len() as u64;
                let distance = counters.address.wrapping_sub(address);
                record[16..24].copy_from_slice(&distance.to_le_bytes());
                record[48..52].copy_from_slice(&count.to_le_bytes());
                data.contents.extend_from_slice(&record);
            }
            let error = functions(&sections).unwrap_err();
            assert_eq!(error.code(), ErrorCode::InvalidBinary);
            assert!(error.message().contains("have more than"), "{error}");
        }
    }

    #[test]
    fn damaged_sections_are_refused_and_nothing_else_happens() {
        let names = packed(b"abc");
        for length in 1..names.len() {
            let error = functions(&sections(10, &names[..length])).unwrap_err();
            assert_eq!(error.code(), ErrorCode::InvalidBinary);
        }
        let whole = sections(10, &names);
        for section in 0..whole.len() {
            for bit in 0..whole[section].contents.len() * 8 {
                let mut damaged = whole.clone();
                damaged[section].contents[bit / 8] ^= 1 << (bit % 8);
                let _ = functions(&damaged);
            }
        }
    }

    #[test]
    fn names_that_claim_to_be_large_are_refused() {
        // A declared size of 256 MiB, with three bytes of data.
        assert!(names(b"\xff\xff\xff\x7f\0abc").is_err());
        // A declared size of three bytes, with more data.
        let mut bomb = packed(&[b'a'; 100]);
        bomb[0] = 3;
        assert!(names(&bomb).is_err());
    }
}
