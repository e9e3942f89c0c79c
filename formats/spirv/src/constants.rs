//! Constants, their values, and their dependence on the choices of a launch.

use std::ops::BitOr;

use rspirv::spirv::{Decoration, Op};

use crate::fault::Fault;
use crate::tables::{Tables, define};
use crate::words::Instruction;

/// Name of the constant with the size of dynamic shared memory.
pub(crate) const DYNAMIC_SHARED: &str = "longshore_dynamic_shared_bytes";
/// Name of the constant with the size of sub-groups.
pub(crate) const SUBGROUP_SIZE: &str = "longshore_subgroup_size";

/// The choices of a launch that something depends on, except the sizes of work-groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dependence {
    /// The size of dynamic shared memory.
    pub(crate) dynamic_shared: bool,
    /// The size of sub-groups.
    pub(crate) subgroup_size: bool,
}

impl Dependence {
    pub(crate) fn is_empty(self) -> bool {
        self == Dependence::default()
    }
}

impl BitOr for Dependence {
    type Output = Dependence;

    fn bitor(self, other: Dependence) -> Dependence {
        Dependence {
            dynamic_shared: self.dynamic_shared | other.dynamic_shared,
            subgroup_size: self.subgroup_size | other.subgroup_size,
        }
    }
}

/// A constant.
#[derive(Default)]
pub(crate) struct Constant<'a> {
    /// The value as a number, computed from defaults; `None` if it cannot be computed.
    pub(crate) value: Option<u64>,
    /// The constant's `SpecId`.
    pub(crate) spec_id: Option<u32>,
    /// The ids that the constant is composed of or computed from.
    pub(crate) parts: &'a [u32],
    /// The choices of a launch that the constant depends on.
    pub(crate) dependence: Dependence,
}

impl<'a> Tables<'a> {
    /// Returns the choices of a launch that a constant, or the size of a type, depends on.
    pub(crate) fn dependence(&self, id: u32) -> Dependence {
        match self.constants.get(&id) {
            Some(constant) => constant.dependence,
            None => self.layout(id).dependence,
        }
    }

    /// Adds a constant.
    pub(crate) fn read_constant(&mut self, op: Op, found: Instruction<'a>) -> Result<(), Fault> {
        let id = found.operand(1)?;
        let constant = match op {
            Op::Constant => Constant { value: number(found), ..Constant::default() },
            Op::ConstantNull => Constant { value: Some(0), ..Constant::default() },
            Op::SpecConstant => self.specialisation(id, found)?,
            Op::ConstantComposite | Op::SpecConstantComposite => {
                self.computed(None, found.operands_from(2))
            }
            Op::SpecConstantOp => {
                let parts = found.operands_from(3);
                match Op::from_u32(found.operand(2)?) {
                    Some(Op::CompositeExtract) => self.extracted(parts),
                    Some(op) => self.computed(self.compute(op, parts), parts),
                    None => self.computed(None, parts),
                }
            }
            _ => Constant::default(),
        };
        define(&mut self.constants, id, constant)
    }

    fn specialisation(&self, id: u32, found: Instruction<'a>) -> Result<Constant<'a>, Fault> {
        let spec_id = self.decoration(id, Decoration::SpecId);
        let name = self.name(id);
        let dependence = Dependence {
            dynamic_shared: name == DYNAMIC_SHARED,
            subgroup_size: name == SUBGROUP_SIZE,
        };
        let is_word = self.layout(found.operand(0)?).bytes == Some(4);
        if !dependence.is_empty() && (spec_id.is_none() || !is_word) {
            return Err(Fault::unsupported(format!(
                "the constant {name} must have a SpecId (constant_id) and 32 bits"
            )));
        }
        Ok(Constant { value: number(found), spec_id, parts: &[], dependence })
    }

    fn computed(&self, value: Option<u64>, parts: &'a [u32]) -> Constant<'a> {
        let constants = parts.iter().filter_map(|part| self.constants.get(part));
        let dependence = constants.fold(Dependence::default(), |all, one| all | one.dependence);
        Constant { value, spec_id: None, parts, dependence }
    }

    /// Returns an element of a composite constant. The operands are the composite's id and the
    /// index.
    fn extracted(&self, operands: &[u32]) -> Constant<'a> {
        let &[composite, index] = operands else { return Constant::default() };
        let parts = self.constants.get(&composite).map_or(&[][..], |whole| whole.parts);
        let index = index as usize;
        let part = parts.get(index..).and_then(|parts| parts.get(..1)).unwrap_or_default();
        let value = part.first().and_then(|part| self.constants.get(part)?.value);
        self.computed(value, part)
    }

    /// Computes the operations that occur in sizes, with 32-bit numbers.
    fn compute(&self, op: Op, parts: &[u32]) -> Option<u64> {
        let value = |index: usize| {
            let constant = self.constants.get(parts.get(index)?)?;
            u32::try_from(constant.value?).ok()
        };
        let first = value(0)?;
        let result = match op {
            Op::UConvert | Op::SConvert | Op::Bitcast => first,
            Op::IAdd => first.wrapping_add(value(1)?),
            Op::ISub => first.wrapping_sub(value(1)?),
            Op::IMul => first.wrapping_mul(value(1)?),
            Op::UDiv => first.checked_div(value(1)?)?,
            Op::SDiv => (first as i32).checked_div(value(1)? as i32)? as u32,
            Op::UMod => first.checked_rem(value(1)?)?,
            Op::SRem => (first as i32).checked_rem(value(1)? as i32)? as u32,
            Op::ShiftLeftLogical => first.checked_shl(value(1)?)?,
            Op::ShiftRightLogical => first.checked_shr(value(1)?)?,
            Op::BitwiseAnd => first & value(1)?,
            Op::BitwiseOr => first | value(1)?,
            Op::UGreaterThan => (first > value(1)?).into(),
            Op::UGreaterThanEqual => (first >= value(1)?).into(),
            Op::ULessThan => (first < value(1)?).into(),
            Op::ULessThanEqual => (first <= value(1)?).into(),
            Op::IEqual => (first == value(1)?).into(),
            Op::INotEqual => (first != value(1)?).into(),
            Op::Select if first != 0 => value(1)?,
            Op::Select => value(2)?,
            _ => return None,
        };
        Some(result.into())
    }
}

/// Returns the value of a number of up to 64 bits.
fn number(found: Instruction<'_>) -> Option<u64> {
    match *found.operands_from(2) {
        [low] => Some(low.into()),
        [low, high] => Some(u64::from(low) | u64::from(high) << 32),
        _ => None,
    }
}
