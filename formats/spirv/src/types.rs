//! Types, and the sizes of their values.

use std::cmp::max;

use rspirv::spirv::{Decoration, Op, StorageClass};

use crate::constants::Dependence;
use crate::fault::Fault;
use crate::tables::{Tables, define};
use crate::words::Instruction;

/// Deepest nesting of arrays.
const DEEPEST: usize = 64;

/// A type.
pub(crate) enum Type<'a> {
    /// A scalar or a vector of `count` numbers.
    Numbers { bytes: u64, count: u64, float: bool },
    /// A matrix: columns of vectors.
    Matrix { bytes: u64, rows: u64, columns: u64 },
    /// An array; `length` is its number of elements, if that is known.
    Array { element: u32, length: Option<u64>, stride: Option<u64> },
    /// An array with as many elements as the memory has room for.
    RuntimeArray { element: u32 },
    /// A structure, with the types of its members.
    Structure { members: &'a [u32] },
    /// A pointer. Its pointee may be declared later, and may refer to the pointer.
    Pointer { storage: Option<StorageClass>, pointee: u32 },
    /// Another type, such as an image or a function.
    Opaque,
}

/// The size of a type's values.
#[derive(Clone, Copy, Default)]
pub(crate) struct Layout {
    /// Size in bytes according to decorations, without padding after the last element of an array.
    /// `None` if decorations are missing, or depend on unknown values.
    pub(crate) bytes: Option<u64>,
    /// Whether the type ends in a runtime array, of which `bytes` includes one element.
    pub(crate) runtime: bool,
    /// Size in bytes without decorations, by the rules of std430, as Vulkan counts shared memory.
    natural: u64,
    /// Alignment in bytes by the same rules.
    align: u64,
    /// The choices of a launch that the size depends on.
    pub(crate) dependence: Dependence,
}

impl Layout {
    fn numbers(bytes: u64, count: u64) -> Layout {
        let all = bytes.saturating_mul(count);
        let align = bytes.saturating_mul(count.next_power_of_two());
        Layout { bytes: Some(all), natural: all, align, ..Layout::default() }
    }

    /// Returns the end of a value of this type that begins at the first aligned place from `start`
    /// on.
    pub(crate) fn natural_end(self, start: u64) -> u64 {
        self.natural.saturating_add(align_up(start, self.align))
    }
}

impl<'a> Tables<'a> {
    /// Adds a pointer that is declared before its pointee.
    pub(crate) fn read_forward_pointer(&mut self, found: Instruction<'a>) -> Result<(), Fault> {
        let storage = StorageClass::from_u32(found.operand(1)?);
        self.layouts.insert(found.operand(0)?, pointer_layout(storage));
        Ok(())
    }

    /// Adds a type.
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

    /// Returns the layout of a type; an undeclared type is opaque.
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

    /// Returns the size in bytes of a member of a structure, according to the decorations of the
    /// member and of its type.
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

/// Returns the layout of pointers. Pointers into physical storage are 64-bit addresses; any other
/// pointer has no size.
fn pointer_layout(storage: Option<StorageClass>) -> Layout {
    match storage {
        Some(StorageClass::PhysicalStorageBuffer) => Layout::numbers(8, 1),
        _ => Layout::default(),
    }
}

fn align_up(bytes: u64, align: u64) -> u64 {
    bytes.checked_next_multiple_of(align.max(1)).unwrap_or(u64::MAX)
}
