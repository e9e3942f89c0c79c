//! LLVM's bitstream container: blocks of records, whose fields abbreviations say how to read.
//!
//! Total: any bytes give items or a fault. What is allocated, and the time that reading takes, grow with the bytes that are there, not
//! with what they claim.

use std::collections::HashMap;
use std::rc::Rc;

/// What is wrong with a stream, and where.
pub(super) type Result<T> = std::result::Result<T, String>;

/// More fields than any writer gives an abbreviation. Fields may take no bits at all, so their number is what bounds a record of few bits.
const MOST_FIELDS: u64 = 256;

/// A stream, with what it has said by now about the blocks that follow.
pub(super) struct Stream<'a> {
    top: Block<'a>,
    common: Common,
}

/// A block that is being read.
pub(super) struct Block<'a> {
    pub(super) id: u64,
    cursor: Cursor<'a>,
    /// How many bits say what comes next.
    width: u32,
    abbreviations: Vec<Rc<Abbreviation>>,
}

/// What comes next in a block.
pub(super) enum Item<'a> {
    /// A block in it, which can be read or left alone.
    Block(Block<'a>),
    /// A record, which is in the [`Record`] that was given.
    Record,
}

/// A record: its code, and its fields with the elements of an array that may follow them.
#[derive(Default)]
pub(super) struct Record<'a> {
    pub(super) code: u64,
    pub(super) fields: Vec<u64>,
    pub(super) blob: &'a [u8],
}

/// Abbreviations that all blocks of a kind begin with.
#[derive(Default)]
pub(super) struct Common(HashMap<u64, Vec<Rc<Abbreviation>>>);

type Abbreviation = Vec<Field>;

#[derive(Clone, Copy)]
enum Field {
    Literal(u64),
    Fixed(u32),
    Variable(u32),
    Char6,
    /// The last but one; the last says how the elements are read.
    Array,
    Blob,
}

/// A place in bytes, in bits.
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
    /// The stream in these bytes, without what comes before its first block.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        let cursor = Cursor { bytes, position: 0 };
        let top = Block { id: u64::MAX, cursor, width: 2, abbreviations: Vec::new() };
        Self { top, common: Common::default() }
    }

    /// The next block of the outermost level, and what is known of its kind.
    pub(super) fn next(&mut self) -> Result<Option<(Block<'a>, &mut Common)>> {
        // A file may be padded, to four bytes at most as some writers do it.
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
    /// What comes next; nothing at the block's end.
    pub(super) fn next(
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

    /// The block that begins here, after which this one goes on.
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

    /// Reads what a block says about the blocks that follow.
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
                _ => return Err(self.cursor.fault("something unexpected about other blocks")),
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
                    let element = fields.next().ok_or_else(|| self.fault("an array of nothing"))?;
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
            Field::Array | Field::Blob => Err(self.fault("a code or an element that is none")),
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
        // Elements that take no bits could be any number.
        let takes_bits = |field: &Field| match field {
            Field::Fixed(width) | Field::Variable(width) => *width != 0,
            Field::Char6 => true,
            _ => false,
        };
        let is_array = |field: &Field| matches!(field, Field::Array);
        match fields.iter().position(is_array) {
            Some(array) if array + 2 != fields.len() || !takes_bits(&fields[array + 1]) => {
                Err(self.fault("an array of what cannot be its elements"))
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

    /// A number of so many bits, up to 64.
    fn fixed(&mut self, width: u32) -> Result<u64> {
        if self.rest() < width as usize {
            return Err(self.fault("the end, where more was expected"));
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

    /// A number in chunks of so many bits, of which the highest says whether another one follows.
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

    /// Goes on at a multiple of 32 bits.
    fn align(&mut self) -> Result<()> {
        self.position = self.position.next_multiple_of(32);
        match self.position <= self.bytes.len() * 8 {
            true => Ok(()),
            false => Err(self.fault("the end, where more was expected")),
        }
    }

    /// So many whole bytes.
    fn bytes(&mut self, size: usize) -> Result<&'a [u8]> {
        let start = self.position / 8;
        let taken = start.checked_add(size).and_then(|end| self.bytes.get(start..end));
        let missing = || format!("{size} bytes that begin there end beyond what has them");
        let taken = taken.ok_or_else(|| self.fault(&missing()))?;
        self.position += size * 8;
        Ok(taken)
    }

    /// How many bits are left.
    fn rest(&self) -> usize {
        (self.bytes.len() * 8).saturating_sub(self.position)
    }

    fn fault(&self, problem: &str) -> String {
        format!("damaged bitcode: {problem}, {} bytes into a block", self.position / 8)
    }
}
