//! Conversion of blocks of push constants that exceed the device's limit to storage buffers.
//!
//! Apart from added declarations, only instructions with pointers into such a block change. All
//! others stay the same word by word.

use std::collections::{HashMap, HashSet};

use rspirv::spirv::{Capability, Decoration, Op, StorageClass};

use crate::fault::Fault;
use crate::reflect::{Usage, is_kernel};
use crate::tables::Tables;
use crate::words::{self, HEADER, Instruction};

/// Descriptor set and binding of the moved blocks, by variable.
pub(crate) type BlockBindings = HashMap<u32, (u32, u32)>;

/// Returns the blocks of push constants of kernels that are larger than `most` bytes, and for each
/// a binding that no variable of the module has.
pub(crate) fn too_large(tables: &Tables<'_>, most: u32) -> BlockBindings {
    let mut moved = BlockBindings::new();
    let mut taken: HashSet<u32> = bindings(tables).collect();
    for entry_point in tables.entry_points.iter().filter(|entry_point| is_kernel(entry_point)) {
        for id in Usage::new(tables, entry_point).variables {
            let variable = tables.variables[&id];
            // A block of unknown size counts as too large.
            let bytes = tables.layout(variable.pointee).bytes.unwrap_or(u64::MAX);
            let pushed = variable.storage == Some(StorageClass::PushConstant);
            if !pushed || bytes <= u64::from(most / 4 * 4) || moved.contains_key(&id) {
                continue;
            }
            let binding = (0..).find(|binding| !taken.contains(binding));
            let binding = binding.expect("fewer variables than numbers");
            taken.insert(binding);
            moved.insert(id, (0, binding));
        }
    }
    moved
}

/// Returns all blocks of push constants, moved to a place.
pub(crate) fn all(tables: &Tables<'_>, place: (u32, u32)) -> BlockBindings {
    let variables = tables.variables.iter();
    let pushed =
        variables.filter(|(_, variable)| variable.storage == Some(StorageClass::PushConstant));
    pushed.map(|(&id, _)| (id, place)).collect()
}

/// Returns the numbers of the bindings of set 0.
fn bindings(tables: &Tables<'_>) -> impl Iterator<Item = u32> {
    let ids = tables.variables.keys();
    let bound = ids.filter(|&&id| tables.decoration(id, Decoration::DescriptorSet) == Some(0));
    bound.filter_map(|&id| tables.decoration(id, Decoration::Binding))
}

/// Returns the module with the moved blocks read from storage buffers.
pub(crate) fn rewrite(
    words: &[u32],
    tables: &Tables<'_>,
    moved: &BlockBindings,
) -> Result<Vec<u32>, Fault> {
    let mut rewriter = Rewriter {
        tables,
        moved,
        derived: moved.keys().copied().collect(),
        pointers: HashMap::new(),
        bound: words.get(3).copied().unwrap_or_default(),
        out: words.get(..HEADER).unwrap_or_default().to_vec(),
        extended: false,
        decorated: false,
    };
    for instruction in words::instructions(words) {
        rewriter.take(instruction)?;
    }
    if let Some(bound) = rewriter.out.get_mut(3) {
        *bound = rewriter.bound;
    }
    Ok(rewriter.out)
}

struct Rewriter<'a> {
    tables: &'a Tables<'a>,
    moved: &'a BlockBindings,
    /// The moved variables and the pointers derived from them.
    derived: HashSet<u32>,
    /// Types of pointers to storage buffers, by the types of pointers to push constants that they
    /// replace.
    pointers: HashMap<u32, u32>,
    /// The first unused id.
    bound: u32,
    out: Vec<u32>,
    /// Whether the required extension has been added.
    extended: bool,
    /// Whether the variables have been decorated.
    decorated: bool,
}

impl Rewriter<'_> {
    fn take(&mut self, found: Instruction<'_>) -> Result<(), Fault> {
        let op = found.op();
        if op != Some(Op::Capability) {
            self.extend();
        }
        match op {
            Some(Op::Capability) => self.take_capability(found)?,
            Some(Op::TypePointer) => self.take_pointer(found)?,
            Some(Op::Variable) if self.moved.contains_key(&found.operand(1)?) => {
                let mut operands = self.take_derived(found)?;
                operands[2] = StorageClass::StorageBuffer as u32;
                self.put(found.opcode, &operands);
            }
            Some(Op::AccessChain | Op::InBoundsAccessChain | Op::CopyObject)
                if self.derived.contains(&found.operand(2)?) =>
            {
                let operands = self.take_derived(found)?;
                self.derived.insert(operands[1]);
                self.put(found.opcode, &operands);
            }
            Some(op) => {
                let annotates =
                    (Op::Decorate as u32..=Op::GroupMemberDecorate as u32).contains(&(op as u32));
                if annotates || op.is_type() {
                    self.decorate();
                }
                self.put(found.opcode, found.operands);
            }
            None => self.put(found.opcode, found.operands),
        }
        Ok(())
    }

    /// Replaces the capabilities for 8-bit and 16-bit numbers in push constants by the capabilities
    /// for storage buffers. Keeps the former too if a block is not moved.
    fn take_capability(&mut self, found: Instruction<'_>) -> Result<(), Fault> {
        const PUSH_16: u32 = Capability::StoragePushConstant16 as u32;
        const PUSH_8: u32 = Capability::StoragePushConstant8 as u32;
        let instead = match found.operand(0)? {
            PUSH_16 => Capability::StorageBuffer16BitAccess,
            PUSH_8 => Capability::StorageBuffer8BitAccess,
            _ => {
                self.put(found.opcode, found.operands);
                return Ok(());
            }
        };
        self.put(found.opcode, &[instead as u32]);
        let others = self.tables.variables.iter().any(|(id, variable)| {
            variable.storage == Some(StorageClass::PushConstant) && !self.moved.contains_key(id)
        });
        if others {
            self.put(found.opcode, found.operands);
        }
        Ok(())
    }

    /// Adds the extension that older versions need for storage buffers, after the capabilities.
    fn extend(&mut self) {
        const EXTENSION: &str = "SPV_KHR_storage_buffer_storage_class";
        let known = self.tables.version >= (1, 3)
            || self.tables.extensions.iter().any(|extension| extension == EXTENSION);
        if !self.extended && !known {
            // The string's last word is all zeros.
            let mut bytes = EXTENSION.as_bytes().to_vec();
            bytes.resize(EXTENSION.len() / 4 * 4 + 4, 0);
            let (words, _) = bytes.as_chunks();
            let operands: Vec<u32> = words.iter().map(|&word| u32::from_le_bytes(word)).collect();
            self.put(Op::Extension as u16, &operands);
        }
        self.extended = true;
    }

    /// Adds the decorations of the moved variables, before the other decorations, or else before
    /// the types.
    fn decorate(&mut self) {
        if std::mem::replace(&mut self.decorated, true) {
            return;
        }
        let mut moved: Vec<_> = self.moved.iter().map(|(&id, &place)| (id, place)).collect();
        moved.sort_unstable();
        for (id, (set, binding)) in moved {
            self.put(Op::Decorate as u16, &[id, Decoration::DescriptorSet as u32, set]);
            self.put(Op::Decorate as u16, &[id, Decoration::Binding as u32, binding]);
        }
    }

    /// Adds a type of pointers to storage buffers next to each type of pointers to push constants.
    fn take_pointer(&mut self, found: Instruction<'_>) -> Result<(), Fault> {
        self.put(found.opcode, found.operands);
        if found.operand(1)? == StorageClass::PushConstant as u32 {
            let new = self.bound;
            self.bound = new.checked_add(1).ok_or_else(|| Fault::malformed("no id is left"))?;
            self.pointers.insert(found.operand(0)?, new);
            let pointee = found.operand(2)?;
            self.put(found.opcode, &[new, StorageClass::StorageBuffer as u32, pointee]);
        }
        Ok(())
    }

    /// Returns the operands of a pointer to push constants, at least three, with the other type.
    fn take_derived(&self, found: Instruction<'_>) -> Result<Vec<u32>, Fault> {
        found.operand(2)?;
        let mut operands = found.operands.to_vec();
        let new = self.pointers.get(&operands[0]).ok_or_else(|| {
            Fault::malformed(format!("%{} is not a pointer to push constants", operands[1]))
        })?;
        operands[0] = *new;
        Ok(operands)
    }

    fn put(&mut self, opcode: u16, operands: &[u32]) {
        words::append(&mut self.out, opcode, operands);
    }
}
