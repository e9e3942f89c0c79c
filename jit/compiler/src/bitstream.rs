//! LLVM's bitstream container: blocks of records, whose fields are encoded by abbreviations.
//!
//! Reading is total: any bytes give items or a fault. Memory and time are bounded by the actual
//! bytes, not by the sizes that they claim.

use std::collections::HashMap;
use std::rc::Rc;

/// The outcome of a read; the error has the problem and its offset.
pub type Result<T> = std::result::Result<T, String>;

/// Limit for the fields of an abbreviation, higher than any writer's. A field may take no bits, so
/// only this limit bounds a record of few bits.
const MOST_FIELDS: u64 = 256;

/// A stream, with the abbreviations read so far for later blocks.
pub struct Stream<'a> {
    top: Block<'a>,
    common: Common,
}

/// A block that is being read.
pub struct Block<'a> {
    /// The block's kind.
    pub id: u64,
    cursor: Cursor<'a>,
    /// Width in bits of the numbers that introduce items.
    width: u32,
    abbreviations: Vec<Rc<Abbreviation>>,
}

/// The next item in a block.
pub enum Item<'a> {
    /// A block inside, which can be read or skipped.
    Block(Block<'a>),
    /// A record, which is in the caller's [`Record`].
    Record,
}

/// A record: its code, and its fields with the elements of an array that may follow them.
#[derive(Default)]
pub struct Record<'a> {
    /// The record's kind.
    pub code: u64,
    /// Numbers, without the code.
    pub fields: Vec<u64>,
    /// Bytes that follow the fields.
    pub blob: &'a [u8],
}

/// Abbreviations that all blocks of a kind begin with.
#[derive(Default)]
pub struct Common(HashMap<u64, Vec<Rc<Abbreviation>>>);

type Abbreviation = Vec<Field>;

#[derive(Clone, Copy)]
enum Field {
    Literal(u64),
    Fixed(u32),
    Variable(u32),
    Char6,
    /// Array, the second to last field; the last field is the encoding of the elements.
    Array,
    Blob,
}

/// A position in bytes, counted in bits.
#[derive(Clone, Copy)]
struct Cursor<'a> {
    bytes: &'a [u8],
    position: usize,
}

const END_BLOCK: u64 = 0;
const ENTER_BLOCK: u64 = 1;
const DEFINE_ABBREVIATION: u64 = 2;
const UNABBREVIATED: u64 = 3;
const BLOCK_INFO: u64 = 0;
const SET_BLOCK: u64 = 1;

impl<'a> Stream<'a> {
    /// Creates a stream from bytes without the signature.
    pub fn new(bytes: &'a [u8]) -> Self {
        let cursor = Cursor { bytes, position: 0 };
        let top = Block { id: u64::MAX, cursor, width: 2, abbreviations: Vec::new() };
        Self { top, common: Common::default() }
    }

    /// Returns the next block of the outermost level, and the common abbreviations.
    ///
    /// # Errors
    /// The malformed part, for bytes that are no stream.
    pub fn next_block(&mut self) -> Result<Option<(Block<'a>, &mut Common)>> {
        // Some writers pad a file, with at most four bytes.
        if self.top.cursor.rest() < 32 {
            return Ok(None);
        }
        match self.top.next(&mut self.common, &mut Record::default())? {
            Some(Item::Block(block)) => Ok(Some((block, &mut self.common))),
            _ => Err(self.top.cursor.fault("something other than a block")),
        }
    }
}

impl<'a> Block<'a> {
    /// Returns the next item; `None` at the block's end.
    ///
    /// # Errors
    /// The malformed part, for bytes that are no block.
    pub fn next(
        &mut self,
        common: &mut Common,
        record: &mut Record<'a>,
    ) -> Result<Option<Item<'a>>> {
        loop {
            match self.cursor.fixed(self.width)? {
                END_BLOCK => return Ok(None),
                ENTER_BLOCK => match self.enter(common)? {
                    mut info if info.id == BLOCK_INFO => info.read_info(common, record)?,
                    block => return Ok(Some(Item::Block(block))),
                },
                DEFINE_ABBREVIATION => {
                    let abbreviation = self.cursor.abbreviation()?;
                    self.abbreviations.push(Rc::new(abbreviation));
                }
                UNABBREVIATED => {
                    self.cursor.unabbreviated(record)?;
                    return Ok(Some(Item::Record));
                }
                number => {
                    let known = self.abbreviations.get(number as usize - 4).map(Rc::clone);
                    let missing = || self.cursor.fault(&format!("unknown abbreviation {number}"));
                    self.cursor.abbreviated(&known.ok_or_else(missing)?, record)?;
                    return Ok(Some(Item::Record));
                }
            }
        }
    }

    /// Returns the block that begins here, and moves this cursor past it.
    fn enter(&mut self, common: &Common) -> Result<Block<'a>> {
        let id = self.cursor.variable(8)?;
        let width = self.cursor.variable(4)?;
        if !(2..=32).contains(&width) {
            return Err(self.cursor.fault(&format!("a width of {width} bits, expected 2 to 32")));
        }
        self.cursor.align()?;
        let size = self.cursor.fixed(32)? as usize * 4;
        let bytes = self.cursor.bytes(size)?;
        let abbreviations = common.0.get(&id).cloned().unwrap_or_default();
        Ok(Block { id, cursor: Cursor { bytes, position: 0 }, width: width as u32, abbreviations })
    }

    /// Reads a block with abbreviations for later blocks.
    fn read_info(&mut self, common: &mut Common, record: &mut Record<'a>) -> Result<()> {
        let mut described = None;
        loop {
            match self.cursor.fixed(self.width)? {
                END_BLOCK => return Ok(()),
                DEFINE_ABBREVIATION => {
                    let abbreviation = Rc::new(self.cursor.abbreviation()?);
                    let undescribed = || self.cursor.fault("an abbreviation of no block");
                    common
                        .0
                        .entry(described.ok_or_else(undescribed)?)
                        .or_default()
                        .push(abbreviation);
                }
                UNABBREVIATED => {
                    self.cursor.unabbreviated(record)?;
                    if record.code == SET_BLOCK {
                        described = record.fields.first().copied();
                    }
                }
                _ => return Err(self.cursor.fault("an invalid item in a block of abbreviations")),
            }
        }
    }
}

impl<'a> Cursor<'a> {
    fn unabbreviated(&mut self, record: &mut Record<'a>) -> Result<()> {
        record.fields.clear();
        record.blob = &[];
        record.code = self.variable(6)?;
        for _ in 0..self.variable(6)? {
            record.fields.push(self.variable(6)?);
        }
        Ok(())
    }

    fn abbreviated(&mut self, fields: &[Field], record: &mut Record<'a>) -> Result<()> {
        record.fields.clear();
        record.blob = &[];
        let mut fields = fields.iter().copied();
        let first = fields.next().ok_or_else(|| self.fault("an abbreviation without a code"))?;
        record.code = self.scalar(first)?;
        while let Some(field) = fields.next() {
            match field {
                Field::Array => {
                    let element = fields
                        .next()
                        .ok_or_else(|| self.fault("an array without an element type"))?;
                    for _ in 0..self.variable(6)? {
                        record.fields.push(self.scalar(element)?);
                    }
                }
                Field::Blob => {
                    let size = self.variable(6)? as usize;
                    self.align()?;
                    record.blob = self.bytes(size)?;
                    self.align()?;
                }
                field => record.fields.push(self.scalar(field)?),
            }
        }
        Ok(())
    }

    fn scalar(&mut self, field: Field) -> Result<u64> {
        const CHARACTERS: &[u8; 64] =
            b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._";
        match field {
            Field::Literal(value) => Ok(value),
            Field::Fixed(width) => self.fixed(width),
            Field::Variable(width) => self.variable(width),
            Field::Char6 => Ok(CHARACTERS[self.fixed(6)? as usize].into()),
            Field::Array | Field::Blob => Err(self.fault("an array or blob in place of a number")),
        }
    }

    fn abbreviation(&mut self) -> Result<Abbreviation> {
        let count = self.variable(5)?;
        if count > MOST_FIELDS {
            let problem =
                format!("an abbreviation of {count} fields, expected {MOST_FIELDS} at most");
            return Err(self.fault(&problem));
        }
        let mut fields = Vec::new();
        for _ in 0..count {
            fields.push(self.field()?);
        }
        // An array of elements without bits could have any length.
        let takes_bits = |field: &Field| match field {
            Field::Fixed(width) | Field::Variable(width) => *width != 0,
            Field::Char6 => true,
            _ => false,
        };
        let is_array = |field: &Field| matches!(field, Field::Array);
        match fields.iter().position(is_array) {
            Some(array) if array + 2 != fields.len() || !takes_bits(&fields[array + 1]) => {
                Err(self.fault("an array with invalid elements"))
            }
            _ => Ok(fields),
        }
    }

    fn field(&mut self) -> Result<Field> {
        if self.fixed(1)? == 1 {
            return Ok(Field::Literal(self.variable(8)?));
        }
        match self.fixed(3)? {
            1 => Ok(Field::Fixed(self.field_width(64)?)),
            2 => Ok(Field::Variable(self.field_width(32)?)),
            3 => Ok(Field::Array),
            4 => Ok(Field::Char6),
            5 => Ok(Field::Blob),
            other => Err(self.fault(&format!("a field of the unknown kind {other}"))),
        }
    }

    fn field_width(&mut self, most: u64) -> Result<u32> {
        match self.variable(5)? {
            width if width <= most => Ok(width as u32),
            width => Err(self.fault(&format!("a field of {width} bits, expected {most} at most"))),
        }
    }

    /// Reads a number of `width` bits, at most 64.
    fn fixed(&mut self, width: u32) -> Result<u64> {
        if self.rest() < width as usize {
            return Err(self.fault("an unexpected end"));
        }
        let (byte, bit) = (self.position / 8, self.position as u32 % 8);
        // A number of up to 57 bits lies in eight bytes, wherever it begins.
        if let Some(word) = self.bytes[byte..].first_chunk::<8>().filter(|_| width <= 57) {
            self.position += width as usize;
            return Ok(u64::from_le_bytes(*word) >> bit & ((1 << width) - 1));
        }
        let (mut value, mut done) = (0, 0);
        while done < width {
            let (byte, bit) = (self.position / 8, self.position as u32 % 8);
            let taken = (8 - bit).min(width - done);
            let bits = u64::from(self.bytes[byte] >> bit) & ((1 << taken) - 1);
            value |= bits << done;
            done += taken;
            self.position += taken as usize;
        }
        Ok(value)
    }

    /// Reads a number in chunks of `width` bits; the highest bit of a chunk says whether another
    /// one follows.
    fn variable(&mut self, width: u32) -> Result<u64> {
        if width == 0 {
            return Ok(0);
        }
        let more = 1 << (width - 1);
        let (mut value, mut shift) = (0, 0);
        loop {
            let chunk = self.fixed(width)?;
            let bits = chunk & (more - 1);
            if shift >= 64 && bits != 0 || shift > 0 && shift < 64 && bits >> (64 - shift) != 0 {
                return Err(self.fault("a number of more than 64 bits"));
            }
            value |= if shift < 64 { bits << shift } else { 0 };
            if chunk & more == 0 {
                return Ok(value);
            }
            shift += width - 1;
            if width == 1 || shift > 128 {
                return Err(self.fault("a number of more than 64 bits"));
            }
        }
    }

    /// Moves to a multiple of 32 bits.
    fn align(&mut self) -> Result<()> {
        self.position = self.position.next_multiple_of(32);
        match self.position <= self.bytes.len() * 8 {
            true => Ok(()),
            false => Err(self.fault("an unexpected end")),
        }
    }

    /// Reads `size` whole bytes.
    fn bytes(&mut self, size: usize) -> Result<&'a [u8]> {
        let start = self.position / 8;
        let taken = start.checked_add(size).and_then(|end| self.bytes.get(start..end));
        let missing = || format!("{size} bytes that end beyond the enclosing block");
        let taken = taken.ok_or_else(|| self.fault(&missing()))?;
        self.position += size * 8;
        Ok(taken)
    }

    /// Returns the number of bits that are left.
    fn rest(&self) -> usize {
        (self.bytes.len() * 8).saturating_sub(self.position)
    }

    fn fault(&self, problem: &str) -> String {
        format!("damaged bitcode: {problem}, {} bytes into a block", self.position / 8)
    }
}
