//! The arguments of launches: their places in memory, and the descriptors of those places.

use super::Batch;
use crate::arena::Piece;
use crate::kernel::KernelCore;
use crate::pipeline::{MOST_BLOCKS, Slot};
use ash::vk;
use longshore_format_spirv::{BlockStorage, Place};
use longshore_plugin_api::{Arguments, Error, ErrorCode, Result};
use std::{array, slice};

/// Number of descriptors that are written at once.
const TOGETHER: usize = 8;

const UNBOUND: Binding =
    Binding { region: u64::MAX, buffer: vk::Buffer::null(), offset: 0, range: vk::WHOLE_SIZE };

/// The descriptor sets of the last launch, and the bindings of the next one.
#[derive(Default)]
pub(super) struct BoundArguments {
    pub(super) layout: vk::PipelineLayout,
    pub(super) sets: Vec<vk::DescriptorSet>,
    now: Vec<Binding>,
    wanted: Vec<Binding>,
    /// Offsets of the blocks of the next launch.
    pub(super) dynamic: Vec<u32>,
    /// Offsets of the blocks of the last launch, if its sets are still bound.
    pub(super) bound_at: Option<Vec<u32>>,
}

/// The buffer range of a descriptor.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Binding {
    region: u64,
    buffer: vk::Buffer,
    offset: u64,
    range: u64,
}

impl Batch {
    /// Writes the arguments to the places that the kernel reads, and collects the bindings. Returns
    /// the number of bytes of `constants` that are push constants.
    pub(super) fn lay_out(
        &mut self,
        kernel: &KernelCore,
        arguments: Arguments<'_>,
        constants: &mut [u8],
    ) -> Result<usize> {
        let shape = &kernel.shape;
        let mut pushed = 0;
        self.bound.wanted.clear();
        self.bound.dynamic.clear();
        // Blocks come first, in the order of the slots, because values are written to them.
        let mut pieces = [const { None::<Piece> }; MOST_BLOCKS];
        for slot in &kernel.layout.slots {
            let Slot::Block { index, .. } = *slot else {
                self.bound.wanted.push(UNBOUND);
                continue;
            };
            let bytes = u64::from(shape.blocks[index].bytes);
            let alignment = kernel.layout.block_alignment;
            let piece = self.arena.reserve(&self.device.memory, bytes, alignment)?;
            let (buffer, region) = (piece.buffer, piece.region);
            self.bound.wanted.push(Binding { region, buffer, offset: 0, range: bytes });
            self.bound.dynamic.push(piece.offset as u32);
            pieces[index] = Some(piece);
        }
        for block in
            shape.blocks.iter().filter(|block| block.storage == BlockStorage::PushConstants)
        {
            pushed = block.bytes as usize;
        }
        let mut put = |batch: &mut Batch, place: Place, value: &[u8]| match place {
            Place::Block { index, offset } => {
                match &pieces[index] {
                    Some(piece) => piece.write(offset.into(), value),
                    None => constants[offset as usize..][..value.len()].copy_from_slice(value),
                }
                Ok(())
            }
            Place::Buffer { index } => batch.want(kernel, index, address(value)),
        };
        for (parameter, value) in shape.parameters.iter().zip(arguments.values()) {
            if parameter.pointer && matches!(parameter.place, Place::Block { .. }) {
                let translated = self.device.memory.translate(address(value));
                put(self, parameter.place, &translated.to_ne_bytes())?;
            } else {
                put(self, parameter.place, value)?;
            }
        }
        for place in &shape.globals {
            put(self, *place, &kernel.globals_address.to_ne_bytes())?;
        }
        Ok(pushed)
    }

    /// Records that a buffer must be bound to the memory that starts at an address.
    fn want(&mut self, kernel: &KernelCore, index: usize, address: u64) -> Result<()> {
        let limits = &self.device.physical.limits;
        let slots = kernel.layout.slots.iter();
        let position = slots.into_iter().position(|slot| slot.is_buffer(index));
        let position = position.expect("every buffer has a slot");
        let buffer = &kernel.shape.buffers[index];
        let (alignment, most) = match buffer.uniform {
            true => (limits.uniform_alignment, limits.uniform_range),
            false => (limits.storage_alignment, limits.storage_range),
        };
        let refuse = |what: String| {
            let (set, binding) = (buffer.set, buffer.binding);
            let message = format!(
                "kernel '{}': the pointer {address:#x} for set {set}, binding {binding}: {what}",
                kernel.shape.name
            );
            Error::new(ErrorCode::InvalidArgument, message)
        };
        let Some(found) = self.device.memory.find(address) else {
            return Err(refuse("it is not in any allocation of the device".to_owned()));
        };
        let offset = found.buffer_offset();
        if !offset.is_multiple_of(alignment) {
            return Err(refuse(format!(
                "it is {offset} bytes from its buffer's start, expected a multiple of {alignment}"
            )));
        }
        let rest = found.rest();
        let least = buffer.least_bytes.max(1);
        if rest < u64::from(least) {
            return Err(refuse(format!(
                "its allocation has {rest} bytes from there on, expected at least {least}"
            )));
        }
        self.bound.wanted[position] = Binding {
            region: found.region.id,
            buffer: found.region.buffer,
            offset,
            range: rest.min(most),
        };
        Ok(())
    }

    /// Creates descriptor sets for the wanted bindings, unless the last launch had the same.
    pub(super) fn prepare_sets(&mut self, kernel: &KernelCore) -> Result<()> {
        let bound = &mut self.bound;
        if bound.layout == kernel.layout.raw && bound.now == bound.wanted {
            return Ok(());
        }
        bound.layout = vk::PipelineLayout::null();
        bound.bound_at = None;
        let layout = &kernel.layout;
        let descriptors = layout.slots.len() as u32;
        self.descriptors.allocate(&self.device, &layout.sets, descriptors, &mut bound.sets)?;
        let together = layout.slots.chunks(TOGETHER).zip(bound.wanted.chunks(TOGETHER));
        for (slots, wanted) in together {
            let infos: [_; TOGETHER] = array::from_fn(|index| {
                let binding = wanted.get(index).unwrap_or(&UNBOUND);
                vk::DescriptorBufferInfo {
                    buffer: binding.buffer,
                    offset: binding.offset,
                    range: binding.range,
                }
            });
            let mut writes = [vk::WriteDescriptorSet::default(); TOGETHER];
            for ((write, slot), info) in writes.iter_mut().zip(slots).zip(&infos) {
                let (set, number) = slot.place();
                *write = write
                    .dst_set(bound.sets[set as usize])
                    .dst_binding(number)
                    .descriptor_type(slot.kind())
                    .buffer_info(slice::from_ref(info));
            }
            // SAFETY: the sets were just created with this layout and are not in use; the buffers
            // are live.
            unsafe { self.device.raw.update_descriptor_sets(&writes[..slots.len()], &[]) };
        }
        std::mem::swap(&mut bound.now, &mut bound.wanted);
        bound.layout = layout.raw;
        Ok(())
    }
}

/// Returns the value of a pointer argument of checked size.
fn address(value: &[u8]) -> u64 {
    value.try_into().map_or(0, u64::from_ne_bytes)
}
