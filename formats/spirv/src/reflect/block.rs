//! Blocks whose members are arguments or globals.

use std::fmt::{self, Display, Formatter};

use rspirv::spirv::{Decoration, StorageClass};

use crate::fault::Fault;
use crate::kernel::{Member, NumberKind};
use crate::tables::Tables;
use crate::types::Type;

/// Most members of a block that are arguments or globals.
const MOST_MEMBERS: usize = 4096;

/// A block whose members are arguments or globals.
pub(crate) struct Block {
    /// Members, ordered by offset.
    pub(super) members: Vec<BlockMember>,
    /// End of its last member in bytes.
    pub(super) bytes: u32,
    /// Whether its last member is a runtime array.
    pub(super) runtime: bool,
}

/// A member of a block.
pub(super) struct BlockMember {
    pub(super) what: Member,
    /// The type that it points to, if it is an address of memory.
    pub(super) pointee: Option<u32>,
    /// The kind of number, if it is one number.
    pub(super) number: Option<NumberKind>,
}

impl Block {
    /// Creates the block of a structure. `name` is for messages, and for a member without a name.
    pub(super) fn new(tables: &Tables<'_>, structure: u32, name: &str) -> Result<Block, Fault> {
        let Some(&Type::Structure { members }) = tables.types.get(&structure) else {
            return Err(Fault::unsupported(format!(
                "{name} is not a block: its type is not a structure"
            )));
        };
        if members.len() > MOST_MEMBERS {
            return Err(Fault::unsupported(format!(
                "the block {name} has {} members, expected at most {MOST_MEMBERS}",
                members.len()
            )));
        }
        if let Some(inner) = wrapped(tables, structure, members) {
            return Block::from_structure(tables, inner, name);
        }
        Block::from_structure(tables, structure, name)
    }

    /// Creates a block from known members.
    pub(super) fn from_values(members: &[Member]) -> Block {
        let ends = members.iter().map(|member| member.offset.saturating_add(member.bytes));
        let bytes = ends.max().unwrap_or_default();
        let members = members.iter().map(|member| BlockMember {
            what: member.clone(),
            pointee: None,
            number: None,
        });
        Block { members: members.collect(), bytes, runtime: false }
    }

    fn from_structure(tables: &Tables<'_>, structure: u32, name: &str) -> Result<Block, Fault> {
        let Some(&Type::Structure { members: types }) = tables.types.get(&structure) else {
            return Err(Fault::unsupported(format!(
                "{name} is not a block: its type is not a structure"
            )));
        };
        let mut members = Vec::with_capacity(types.len());
        for (index, &of) in (0..).zip(types) {
            let own_name = tables.member_name(structure, index);
            let offset = tables.member_decoration(structure, index, Decoration::Offset);
            let bytes = tables.member_bytes(structure, index, of);
            let (Some(offset), Some(bytes)) = (offset, bytes) else {
                return Err(Fault::unsupported(format!(
                    "the member {index} ({own_name}) of {name} has no offset, or no known size"
                )));
            };
            let end = u32::try_from(u64::from(offset).saturating_add(bytes));
            if end.is_err() {
                return Err(Fault::malformed(format!(
                    "the member {index} ({own_name}) of {name} is {bytes} bytes at offset {offset}: \
                     its end does not fit into 32 bits"
                )));
            }
            let what = Member { name: own_name.to_owned(), offset, bytes: bytes as u32 };
            let number = match tables.types.get(&of) {
                Some(Type::Numbers { count: 1, float: true, .. }) => Some(NumberKind::Float),
                Some(Type::Numbers { count: 1, float: false, .. }) => Some(NumberKind::Integer),
                _ => None,
            };
            members.push(BlockMember { what, pointee: pointee(tables, of), number });
        }
        if let [only] = members.as_mut_slice()
            && is_wrapper(tables, structure, types)
        {
            only.what.name = name.to_owned();
        }
        members.sort_by_key(|member| member.what.offset);
        let ends = members.iter().map(|member| member.what.offset + member.what.bytes);
        let bytes = ends.max().unwrap_or_default();
        Ok(Block { bytes, runtime: tables.layout(structure).runtime, members })
    }

    /// Returns the members as globals.
    pub(crate) fn globals(&self) -> Vec<Member> {
        self.members.iter().map(|member| member.what.clone()).collect()
    }
}

impl Display for Block {
    fn fmt(&self, text: &mut Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 8;
        write!(text, "{} bytes (", self.bytes)?;
        for member in self.members.iter().take(SHOWN) {
            let Member { name, offset, bytes } = &member.what;
            write!(text, "{name}: {bytes} at {offset}; ")?;
        }
        write!(text, "{} members)", self.members.len())
    }
}

/// Returns the structure that a block wraps. A block in WGSL need not be a structure; naga wraps
/// its type into a structure without names.
fn wrapped(tables: &Tables<'_>, structure: u32, members: &[u32]) -> Option<u32> {
    let &[inner] = members else { return None };
    let is_structure = matches!(tables.types.get(&inner), Some(Type::Structure { .. }));
    (is_structure && is_wrapper(tables, structure, members)).then_some(inner)
}

fn is_wrapper(tables: &Tables<'_>, structure: u32, members: &[u32]) -> bool {
    members.len() == 1
        && tables.member_decoration(structure, 0, Decoration::Offset) == Some(0)
        && tables.name(structure).is_empty()
        && tables.member_name(structure, 0).is_empty()
}

fn pointee(tables: &Tables<'_>, of: u32) -> Option<u32> {
    match tables.types.get(&of) {
        Some(&Type::Pointer { storage: Some(StorageClass::PhysicalStorageBuffer), pointee }) => {
            Some(pointee)
        }
        _ => None,
    }
}
