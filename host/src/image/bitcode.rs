//! LLVM bitcode: the target triple and the writer of a module, without its code.

use longshore_compiler::Producer;
use longshore_compiler::bitstream::{Item, Record, Stream};
use longshore_compiler::producer::{IDENTIFICATION, text, unwrapped};

/// Kind of a block with a module.
const MODULE: u64 = 8;
/// Kind of the record with a module's triple.
const TRIPLE: u64 = 2;

/// The description of a module at the beginning of a file of bitcode.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct BitcodeHeader {
    /// The target triple; empty if the module names none.
    pub(crate) triple: String,
    /// The writer, such as `LLVM19.1.7`; empty if the file names none.
    pub(crate) producer: String,
}

impl BitcodeHeader {
    /// Reads the description of the first module. Reads no function.
    ///
    /// # Errors
    /// The malformed part, as text for the user.
    pub(crate) fn read(bytes: &[u8]) -> Result<BitcodeHeader, String> {
        let mut header = BitcodeHeader::default();
        let mut stream = Stream::new(unwrapped(bytes)?);
        let mut record = Record::default();
        while let Some((mut block, common)) = stream.next_block()? {
            match block.id {
                IDENTIFICATION => {
                    while let Some(item) = block.next(common, &mut record)? {
                        if let Some(Producer(producer)) = Producer::from_record(&item, &record) {
                            header.producer = producer;
                        }
                    }
                }
                MODULE => {
                    while let Some(item) = block.next(common, &mut record)? {
                        if matches!(item, Item::Record) && record.code == TRIPLE {
                            header.triple = text(&record.fields);
                            return Ok(header);
                        }
                    }
                    return Ok(header);
                }
                _ => {}
            }
        }
        Err("damaged bitcode: it has no module".to_owned())
    }
}
