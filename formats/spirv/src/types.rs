//! Types, and how large what they describe is.

use std::cmp::max;

use rspirv::spirv::{Decoration, Op, StorageClass};

use crate::constants::Dependence;
use crate::fault::Fault;
use crate::tables::{Tables, define};
use crate::words::Instruction;

/// How deep arrays of arrays may be.
const DEEPEST: usize = 64;

/// A type.
pub(crate) enum Type<'a> {
    /// So many numbers: a scalar or a vector.
    Numbers { bytes: u64, count: u64, float: bool },
    /// Columns of vectors.
    Matrix { bytes: u64, rows: u64, columns: u64 },
    /// So many elements, if the number is known.
    Array { element: u32, length: Option<u64>, stride: Option<u64> },
    /// As many elements as there is memory.
    RuntimeArray { element: u32 },
    /// Types of its members.
    Structure { members: &'a [u32] },
    /// Its pointee may be declared later, and refer to the pointer.
    Pointer { storage: Option<StorageClass>, pointee: u32 },
    /// An image, a function and so on.
    Opaque,
}

/// How large what a type describes is.
#[derive(Clone, Copy, Default)]
pub(crate) struct Layout {
    /// Bytes by its decorations, without what is after the last element of an array. `None` if it
    /// lacks them, or they depend on what is not known.
    pub(crate) bytes: Option<u64>,
    /// Whether a runtime array is at its end; `bytes` counts one element.
    pub(crate) runtime: bool,
    /// Bytes without decorations, by the rules of std430, as Vulkan counts shared memory.
    natural: u64,
    /// Alignment by the same rules.
    align: u64,
    /// Which choices of a launch it depends on.
    pub(crate) dependence: Dependence,
}

impl Layout {
    fn numbers(bytes: u64, count: u64) -> Layout {
        let all = bytes.saturating_mul(count);
        let align = bytes.saturating_mul(count.next_power_of_two());
        Layout { bytes: Some(all), natural: all, align, ..Layout::default() }
    }

    /// Where what is of this type ends if it begins at the next place after `start` that is aligned
    /// for it.
    pub(crate) fn natural_end(self, start: u64) -> u64 {
        self.natural.saturating_add(align_up(start, self.align))
    }
}

impl<'a> Tables<'a> {
    /// Enters a pointer that is declared before what it points to.
    pub(crate) fn read_forward_pointer(&mut self, found: Instruction<'a>) -> Result<(), Fault> {
        let storage = StorageClass::from_u32(found.operand(1)?);
        self.layouts.insert(found.operand(0)?, pointer_layout(storage));
        Ok(())
    }

    /// Enters a type.
    pub(crate) fn read_type(&mut self, op: Op, found: Instruction<'a>) -> Result<(), Fault> {
        let id = found.operand(0)?;
        let (described, layout) = match op {
            Op::TypeBool => {
                let layout = Layout { bytes: None, ..Layout::numbers(4, 1) };
                (Type::Numbers { bytes: 4, count: 1, float: false }, layout)
            }
            Op::TypeInt => numbers(u64::from(found.operand(1)? / 8), 1, false),
            Op::TypeFloat => numbers(u64::from(found.operand(1)? / 8), 1, true),
            Op::TypeVector => self.vector(found.operand(1)?, found.operand(2)?),
            Op::TypeMatrix => self.matrix(found.operand(1)?, found.operand(2)?),
            Op::TypeArray => self.array(id, found.operand(1)?, found.operand(2)?),
            Op::TypeRuntimeArray => {
                let element = found.operand(1)?;
                let layout = Layout { runtime: true, ..self.layout(element) };
                (Type::RuntimeArray { element }, layout)
            }
            Op::TypeStruct => {
                let members = found.operands_from(1);
                (Type::Structure { members }, self.structure_layout(id, members))
            }
            Op::TypePointer => {
                let storage = StorageClass::from_u32(found.operand(1)?);
                let pointee = found.operand(2)?;
                let dependence = self.layout(pointee).dependence;
                let layout = Layout { dependence, ..pointer_layout(storage) };
                (Type::Pointer { storage, pointee }, layout)
            }
            _ => (Type::Opaque, Layout::default()),
        };
        define(&mut self.types, id, described)?;
        self.layouts.insert(id, layout);
        Ok(())
    }

    /// How large a type is; opaque if it is not (or not yet) declared.
    pub(crate) fn layout(&self, id: u32) -> Layout {
        self.layouts.get(&id).copied().unwrap_or_default()
    }

    fn vector(&self, component: u32, count: u32) -> (Type<'a>, Layout) {
        match self.types.get(&component) {
            Some(&Type::Numbers { bytes, count: 1, float }) => numbers(bytes, count.into(), float),
            _ => (Type::Opaque, Layout::default()),
        }
    }

    fn matrix(&self, column: u32, columns: u32) -> (Type<'a>, Layout) {
        let Some(&Type::Numbers { bytes, count: rows, .. }) = self.types.get(&column) else {
            return (Type::Opaque, Layout::default());
        };
        let column = self.layout(column);
        let columns = u64::from(columns);
        let natural = align_up(column.natural, column.align).saturating_mul(columns);
        let layout = Layout { bytes: None, natural, ..column };
        (Type::Matrix { bytes, rows, columns }, layout)
    }

    fn array(&self, id: u32, element: u32, length: u32) -> (Type<'a>, Layout) {
        let inner = self.layout(element);
        let constant = self.constants.get(&length);
        let count = constant.and_then(|constant| constant.value);
        let stride = self.decoration(id, Decoration::ArrayStride).map(u64::from);
        let bytes = match (count, stride, inner.bytes) {
            (Some(count @ 1..), Some(stride), Some(last)) => {
                Some((count - 1).saturating_mul(stride).saturating_add(last))
            }
            _ => None,
        };
        let layout = Layout {
            bytes,
            natural: align_up(inner.natural, inner.align).saturating_mul(count.unwrap_or(1)),
            dependence: inner.dependence | self.dependence(length),
            ..inner
        };
        (Type::Array { element, length: count, stride }, layout)
    }

    fn structure_layout(&self, id: u32, members: &[u32]) -> Layout {
        let mut whole = Layout { bytes: Some(0), align: 1, ..Layout::default() };
        for (index, &member) in (0..).zip(members) {
            let inner = self.layout(member);
            let offset = self.member_decoration(id, index, Decoration::Offset);
            let end = self.member_bytes(id, index, member).zip(offset);
            let end = end.map(|(bytes, offset)| bytes.saturating_add(offset.into()));
            whole.bytes = whole.bytes.zip(end).map(|(bytes, end)| max(bytes, end));
            whole.natural = inner.natural_end(whole.natural);
            whole.align = max(whole.align, inner.align);
            whole.runtime |= inner.runtime;
            whole.dependence = whole.dependence | inner.dependence;
        }
        whole.natural = align_up(whole.natural, whole.align);
        whole
    }

    /// Bytes of a member of a structure, by its own decorations and those of its type.
    pub(crate) fn member_bytes(&self, structure: u32, member: u32, of: u32) -> Option<u64> {
        let mut before_last = 0u64;
        let mut inner = of;
        for _ in 0..DEEPEST {
            match self.types.get(&inner) {
                Some(&Type::Array { element, length, stride }) => {
                    let others = length?.checked_sub(1)?.saturating_mul(stride?);
                    before_last = before_last.saturating_add(others);
                    inner = element;
                }
                Some(&Type::RuntimeArray { element }) => inner = element,
                Some(&Type::Matrix { bytes, rows, columns }) => {
                    let decoration = |which| self.member_decoration(structure, member, which);
                    let stride = u64::from(decoration(Decoration::MatrixStride)?);
                    let row_major = decoration(Decoration::RowMajor).is_some();
                    let (lines, line) = if row_major { (rows, columns) } else { (columns, rows) };
                    let last = lines.checked_sub(1)?.saturating_mul(stride);
                    let end = last.saturating_add(line.saturating_mul(bytes));
                    return Some(before_last.saturating_add(end));
                }
                _ => return Some(before_last.saturating_add(self.layout(inner).bytes?)),
            }
        }
        None
    }
}

fn numbers<'a>(bytes: u64, count: u64, float: bool) -> (Type<'a>, Layout) {
    (Type::Numbers { bytes, count, float }, Layout::numbers(bytes, count))
}

/// Pointers into physical storage are 64-bit addresses; others have no size.
fn pointer_layout(storage: Option<StorageClass>) -> Layout {
    match storage {
        Some(StorageClass::PhysicalStorageBuffer) => Layout::numbers(8, 1),
        _ => Layout::default(),
    }
}

fn align_up(bytes: u64, align: u64) -> u64 {
    bytes.checked_next_multiple_of(align.max(1)).unwrap_or(u64::MAX)
}
