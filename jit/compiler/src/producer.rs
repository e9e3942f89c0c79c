//! The writer of a file of bitcode, from the identification at its beginning.

use crate::bitstream::{Item, Record, Stream};

/// Number of the block that names the writer.
pub const IDENTIFICATION: u64 = 13;

const RAW: &[u8] = b"BC\xc0\xde";
const WRAPPED: &[u8] = b"\xde\xc0\x17\x0b";

/// The writer of a file of bitcode, such as `LLVM19.1.7`. Empty if the file names none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Producer(pub String);

impl Producer {
    /// Reads the identification of bitcode. Reads no other part of it.
    ///
    /// # Errors
    /// The malformed part, for other bytes than bitcode.
    pub fn read(bytes: &[u8]) -> Result<Producer, String> {
        let mut stream = Stream::new(unwrapped(bytes)?);
        let mut record = Record::default();
        match stream.next_block()? {
            Some((mut block, common)) if block.id == IDENTIFICATION => {
                let mut producer = Producer::default();
                while let Some(item) = block.next(common, &mut record)? {
                    if let Some(named) = Producer::from_record(&item, &record) {
                        producer = named;
                    }
                }
                Ok(producer)
            }
            Some(_) => Ok(Producer::default()),
            None => Err("damaged bitcode: it has no module".to_owned()),
        }
    }

    /// Returns the writer that an item of the identification's block names.
    pub fn from_record(item: &Item<'_>, record: &Record<'_>) -> Option<Producer> {
        let is_name = matches!(item, Item::Record) && record.code == 1;
        is_name.then(|| Producer(text(&record.fields)))
    }

    /// Returns the major version of LLVM, if the writer is LLVM itself.
    pub fn version(&self) -> Option<u32> {
        let version = self.0.strip_prefix("LLVM")?;
        version.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    }
}

/// Returns whether bytes begin as bitcode does.
pub fn is_bitcode(bytes: &[u8]) -> bool {
    bytes.starts_with(RAW) || bytes.starts_with(WRAPPED)
}

/// Returns the stream without its signature, and without the wrapper header of some writers.
///
/// # Errors
/// A text, for other bytes than bitcode.
pub fn unwrapped(bytes: &[u8]) -> Result<&[u8], String> {
    let raw = if bytes.starts_with(WRAPPED) {
        let word = |at: usize| {
            let word = bytes.get(at..at + 4)?.try_into().ok()?;
            usize::try_from(u32::from_le_bytes(word)).ok()
        };
        let range = word(8).zip(word(12));
        let range = range.and_then(|(offset, size)| Some(offset..offset.checked_add(size)?));
        let inner = range.and_then(|range| bytes.get(range));
        inner.ok_or("damaged bitcode: the range in its header ends beyond the file")?
    } else {
        bytes
    };
    let missing = "it is not LLVM bitcode: expected a file that begins with `BC` and 0xc0de";
    Ok(raw.strip_prefix(RAW).ok_or(missing)?)
}

/// Returns the text of a record of characters.
pub fn text(fields: &[u64]) -> String {
    let bytes: Vec<u8> = fields.iter().map(|character| *character as u8).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
