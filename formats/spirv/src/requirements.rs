//! Requirements of a module on a device.

use std::collections::{BTreeSet, HashMap, HashSet};

use rspirv::spirv::{self, Op, StorageClass};

use crate::fault::Fault;
use crate::tables::Tables;
use crate::types::Type;
use crate::words::{self, Instruction};

/// Requirements of a module on a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requirements {
    /// Version of SPIR-V: major and minor.
    pub version: (u8, u8),
    /// Capabilities: their numbers in the specification, and their names.
    pub capabilities: Vec<(u32, String)>,
    /// Extensions, such as "SPV_KHR_non_semantic_info".
    pub extensions: Vec<String>,
    /// Atomic operations, whose memory the capabilities do not specify.
    pub atomics: BTreeSet<Atomic>,
    /// Required modes of floating-point numbers.
    pub float_controls: BTreeSet<FloatControl>,
}

/// A kind of atomic instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Atomic {
    /// Whether it operates on shared memory rather than buffers.
    pub shared: bool,
    /// Whether it operates on floating-point numbers rather than integers.
    pub float: bool,
    /// Whether it adds floating-point numbers.
    pub adds: bool,
    /// Size of the numbers in bits.
    pub bits: u32,
}

/// An execution mode for floating-point numbers of a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FloatControl {
    /// Number of the execution mode: from 4459, `DenormPreserve`, to 4463, `RoundingModeRTZ`.
    pub mode: u32,
    /// Size of the numbers in bits.
    pub bits: u32,
}

/// Returns the requirements of a module.
pub(crate) fn read(words: &[u32], tables: &Tables<'_>) -> Result<Requirements, Fault> {
    let named = |number: u32| {
        let known = spirv::Capability::from_u32(number);
        (number, known.map_or_else(|| number.to_string(), |known| format!("{known:?}")))
    };
    let capabilities: BTreeSet<u32> = tables.capabilities.iter().copied().collect();
    let mut values = Values::default();
    let mut requirements = Requirements {
        version: tables.version,
        capabilities: capabilities.into_iter().map(named).collect(),
        extensions: tables.extensions.clone(),
        ..Requirements::default()
    };
    for instruction in words::instructions(words) {
        values.note(instruction);
        match instruction.op() {
            Some(Op::ExecutionMode) => {
                requirements.float_controls.extend(float_control(instruction)?);
            }
            Some(op) => requirements.atomics.extend(values.atomic(tables, op, instruction)),
            None => {}
        }
    }
    Ok(requirements)
}

fn float_control(found: Instruction<'_>) -> Result<Option<FloatControl>, Fault> {
    const FIRST: u32 = spirv::ExecutionMode::DenormPreserve as u32;
    const LAST: u32 = spirv::ExecutionMode::RoundingModeRTZ as u32;
    let mode = found.operand(1)?;
    match (FIRST..=LAST).contains(&mode) {
        true => Ok(Some(FloatControl { mode, bits: found.operand(2)? })),
        false => Ok(None),
    }
}

/// Facts of the ids read so far.
#[derive(Default)]
struct Values {
    /// The types of values.
    types: HashMap<u32, u32>,
    floats: HashSet<u32>,
}

impl Values {
    fn note(&mut self, found: Instruction<'_>) {
        if let Some((value, of)) = found.typed_result() {
            self.types.insert(value, of);
        } else if found.op() == Some(Op::TypeFloat) {
            self.floats.extend(found.result());
        }
    }

    fn atomic(&self, tables: &Tables<'_>, op: Op, found: Instruction<'_>) -> Option<Atomic> {
        let place = pointer_operand(op)?;
        let pointer = self.types.get(found.operands.get(place)?)?;
        let Some(&Type::Pointer { storage, pointee }) = tables.types.get(pointer) else {
            return None;
        };
        let Some(&Type::Numbers { bytes, .. }) = tables.types.get(&pointee) else { return None };
        Some(Atomic {
            shared: storage == Some(StorageClass::Workgroup),
            float: self.floats.contains(&pointee),
            adds: op == Op::AtomicFAddEXT,
            bits: u32::try_from(bytes).ok()?.saturating_mul(8),
        })
    }
}

/// Returns the index of an atomic instruction's pointer operand.
fn pointer_operand(op: Op) -> Option<usize> {
    match op {
        Op::AtomicStore => Some(0),
        Op::AtomicLoad
        | Op::AtomicExchange
        | Op::AtomicCompareExchange
        | Op::AtomicIIncrement
        | Op::AtomicIDecrement
        | Op::AtomicIAdd
        | Op::AtomicISub
        | Op::AtomicSMin
        | Op::AtomicUMin
        | Op::AtomicSMax
        | Op::AtomicUMax
        | Op::AtomicAnd
        | Op::AtomicOr
        | Op::AtomicXor
        | Op::AtomicFAddEXT => Some(2),
        _ => None,
    }
}
