//! SPIR-V as words: byte order, instructions, strings, and the operands that are ids.
//!
//! These functions suffice to read and to change a module. `rspirv`'s loader is not used: it
//! rejects some valid modules (debug information outside of functions, constant shuffles) and
//! panics on some invalid ones. Its grammar is used.

use std::collections::HashMap;
use std::sync::LazyLock;

use rspirv::grammar::{self, OperandKind, OperandQuantifier};
use rspirv::spirv::{MAGIC_NUMBER, MemoryAccess, Op};

use crate::fault::Fault;

/// Words before the first instruction: magic, version, generator, bound of ids, 0.
pub(crate) const HEADER: usize = 5;

/// Returns whether the bytes begin like SPIR-V, in either byte order.
pub(crate) fn is_spirv(image: &[u8]) -> bool {
    order(image).is_some()
}

/// Returns the words of an image in this machine's byte order. All instructions lie within the
/// image.
pub(crate) fn read(image: &[u8]) -> Result<Vec<u32>, Fault> {
    let order = order(image).ok_or_else(|| Fault::malformed("not SPIR-V: no magic number"))?;
    let (words, rest) = image.as_chunks::<4>();
    if !rest.is_empty() {
        let bytes = image.len();
        return Err(Fault::malformed(format!(
            "SPIR-V of {bytes} bytes, expected a multiple of 4; it may be truncated"
        )));
    }
    let words: Vec<u32> = words.iter().map(|&word| order(word)).collect();
    if words.len() < HEADER {
        return Err(Fault::malformed("SPIR-V that ends within its header"));
    }
    if words[HEADER - 1] != 0 {
        let schema = words[HEADER - 1];
        return Err(Fault::malformed(format!(
            "SPIR-V with the reserved word {schema:#x}, expected 0"
        )));
    }
    let end = HEADER + instructions(&words).map(|found| 1 + found.operands.len()).sum::<usize>();
    if end < words.len() {
        return Err(Fault::malformed(format!(
            "SPIR-V of {} words: the instruction at word {end} has no length or is truncated",
            words.len()
        )));
    }
    Ok(words)
}

/// Returns the module with each alignment of 0, which is invalid, replaced by 1, which always
/// holds. glslang of 2022 writes 0 for members of buffer references.
pub(crate) fn with_alignments(mut words: Vec<u32>) -> Vec<u32> {
    const ALIGNED: u32 = MemoryAccess::ALIGNED.bits();
    let mut at = HEADER;
    while let Some(&first) = words.get(at) {
        let operands = match Op::from_u32(first & 0xffff) {
            Some(Op::Load) => Some(at + 4),
            Some(Op::Store) => Some(at + 3),
            _ => None,
        };
        let end = at + (first >> 16) as usize;
        if let Some(mask) = operands.filter(|mask| mask + 1 < end)
            && words[mask] & ALIGNED != 0
            && words[mask + 1] == 0
        {
            words[mask + 1] = 1;
        }
        at = end;
    }
    words
}

fn order(image: &[u8]) -> Option<fn([u8; 4]) -> u32> {
    let &magic = image.first_chunk()?;
    let orders: [fn([u8; 4]) -> u32; 2] = [u32::from_le_bytes, u32::from_be_bytes];
    orders.into_iter().find(|order| order(magic) == MAGIC_NUMBER)
}

/// An instruction.
#[derive(Clone, Copy)]
pub(crate) struct Instruction<'a> {
    /// The instruction's number.
    pub(crate) opcode: u16,
    /// The words after the first one.
    pub(crate) operands: &'a [u32],
}

/// Returns the instructions of a module, up to one that does not lie within `words`.
pub(crate) fn instructions(words: &[u32]) -> impl Iterator<Item = Instruction<'_>> {
    let mut rest = words.get(HEADER..).unwrap_or_default();
    std::iter::from_fn(move || {
        let &first = rest.first()?;
        let (instruction, others) = rest.split_at_checked((first >> 16) as usize)?;
        let (_, operands) = instruction.split_first()?;
        rest = others;
        Some(Instruction { opcode: first as u16, operands })
    })
}

impl<'a> Instruction<'a> {
    /// Returns the instruction's opcode; `None` for one outside the grammar.
    pub(crate) fn op(self) -> Option<Op> {
        Op::from_u32(self.opcode.into())
    }

    /// Returns an operand; a module without it is malformed.
    pub(crate) fn operand(self, index: usize) -> Result<u32, Fault> {
        self.operands.get(index).copied().ok_or_else(|| {
            let opcode = self.opcode;
            let name = GRAMMAR.get(&opcode).map_or("?", |known| known.opname);
            Fault::malformed(format!(
                "an instruction {name} ({opcode}) of {} words lacks operands",
                1 + self.operands.len()
            ))
        })
    }

    /// Returns the operands from an index on.
    pub(crate) fn operands_from(self, index: usize) -> &'a [u32] {
        self.operands.get(index..).unwrap_or_default()
    }

    /// Returns the id that the instruction defines, if any.
    pub(crate) fn result(self) -> Option<u32> {
        let known = GRAMMAR.get(&self.opcode)?.operands;
        let place = known.iter().position(|operand| operand.kind == OperandKind::IdResult)?;
        self.operands.get(place).copied()
    }

    /// Returns the id and the type of the value that the instruction defines, if any.
    pub(crate) fn typed_result(self) -> Option<(u32, u32)> {
        let first = GRAMMAR.get(&self.opcode)?.operands.first()?;
        let is_typed = first.kind == OperandKind::IdResultType;
        is_typed.then_some((self.result()?, *self.operands.first()?))
    }

    /// Appends the instruction to a module.
    pub(crate) fn write(self, module: &mut Vec<u32>) {
        module.push((self.operands.len() as u32 + 1) << 16 | u32::from(self.opcode));
        module.extend(self.operands);
    }

    /// Visits the operands that are ids, up to the first operand with its own operands; after such
    /// an operand, no instruction refers to memory. `None` for an instruction outside the grammar.
    pub(crate) fn ids(self, mut visit: impl FnMut(u32)) -> Option<()> {
        let mut rest = self.operands.iter().copied();
        for operand in GRAMMAR.get(&self.opcode)?.operands {
            loop {
                let Some(word) = rest.next() else { return Some(()) };
                match operand.kind {
                    OperandKind::IdRef
                    | OperandKind::IdResultType
                    | OperandKind::IdScope
                    | OperandKind::IdMemorySemantics => visit(word),
                    OperandKind::PairIdRefIdRef => {
                        visit(word);
                        rest.next().map(&mut visit);
                    }
                    OperandKind::IdResult
                    | OperandKind::LiteralInteger
                    | OperandKind::LiteralExtInstInteger
                    | OperandKind::StorageClass
                    | OperandKind::GroupOperation => {}
                    _ => return Some(()),
                }
                if operand.quantifier != OperandQuantifier::ZeroOrMore {
                    break;
                }
            }
        }
        Some(())
    }
}

/// `rspirv`'s table of instructions, by number.
static GRAMMAR: LazyLock<HashMap<u16, &grammar::Instruction<'_>>> = LazyLock::new(|| {
    grammar::INSTRUCTION_TABLE.iter().map(|known| (known.opcode as u16, known)).collect()
});

/// Appends an instruction, whose length must fit into 16 bits.
pub(crate) fn append(out: &mut Vec<u32>, opcode: u16, operands: &[u32]) {
    out.push((operands.len() as u32 + 1) << 16 | u32::from(opcode));
    out.extend_from_slice(operands);
}

/// Returns a string and the number of its words. Bytes that are not UTF-8 are replaced.
pub(crate) fn string(words: &[u32]) -> (String, usize) {
    let bytes = words.iter().flat_map(|word| word.to_le_bytes());
    let bytes: Vec<u8> = bytes.take_while(|&byte| byte != 0).collect();
    let taken = (bytes.len() / 4 + 1).min(words.len());
    (String::from_utf8_lossy(&bytes).into_owned(), taken)
}
