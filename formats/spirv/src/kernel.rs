//! Kernels and their parameters.

use std::borrow::Cow;

/// A compute entry point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// The entry point's name.
    pub name: String,
    /// The arguments of a launch, in order.
    pub parameters: Vec<Parameter>,
    /// The blocks of arguments passed by value; at most one is [`BlockStorage::PushConstants`].
    pub blocks: Vec<Block>,
    /// The buffers of arguments passed by pointer and bound.
    pub buffers: Vec<Buffer>,
    /// The places of the address of the module's globals, or of the buffers that they are bound to.
    pub globals: Vec<Place>,
    /// Work-items of a work-group in x, y and z.
    pub group: [GroupSize; 3],
    /// Declared shared memory in bytes, without the part that depends on
    /// [`Kernel::dynamic_shared`].
    pub static_shared_bytes: u32,
    /// Whether a launch may have dynamic shared memory.
    pub dynamic_shared: bool,
    /// The requirement on the size of sub-groups.
    pub subgroup_size: SubgroupSize,
}

/// The size of a work-group in one dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupSize {
    /// The module's fixed size.
    Fixed(u32),
    /// A size that the launch chooses, with this default.
    Free(u32),
}

/// A kernel's requirement on the size of its sub-groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SubgroupSize {
    /// No requirement.
    #[default]
    Any,
    /// The device's usual size, which a constant passes to the kernel, and which the kernel relies
    /// on.
    Usual,
    /// The size that the kernel requires.
    Required(u32),
}

impl SubgroupSize {
    /// Converts the default of the constant with the size to the requirement.
    pub(crate) fn from_default(default: u32) -> SubgroupSize {
        match default {
            0 => SubgroupSize::Usual,
            size => SubgroupSize::Required(size),
        }
    }
}

/// An argument of a launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// The parameter's name, empty if the module has none.
    pub name: String,
    /// Size of its value in bytes; 8 bytes for a pointer.
    pub bytes: u32,
    /// Whether the value is an address of memory. 64-bit numbers that a kernel converts to pointers
    /// do not count.
    pub pointer: bool,
    /// The kind of number, if the value is one number.
    pub number: Option<NumberKind>,
    /// The place of the value.
    pub place: Place,
}

/// The kind of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberKind {
    /// An integer, signed or unsigned.
    Integer,
    /// A floating-point number.
    Float,
}

/// The place of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A range of a block.
    Block {
        /// Index in [`Kernel::blocks`].
        index: usize,
        /// Offset in bytes in the block.
        offset: u32,
    },
    /// The memory that a buffer is bound to.
    Buffer {
        /// Index in [`Kernel::buffers`].
        index: usize,
    },
}

/// A block of arguments passed by value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// The memory from which the kernel reads the block.
    pub storage: BlockStorage,
    /// Size in bytes, a multiple of 4.
    pub bytes: u32,
}

/// The memory from which a kernel reads a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockStorage {
    /// The push constants, from offset 0.
    PushConstants,
    /// A uniform buffer.
    Uniform {
        /// Descriptor set.
        set: u32,
        /// Binding in the set.
        binding: u32,
    },
    /// A storage buffer, for push constants that exceed the device's limit.
    Storage {
        /// Descriptor set.
        set: u32,
        /// Binding in the set.
        binding: u32,
    },
}

/// Bound memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// Descriptor set.
    pub set: u32,
    /// Binding in the set.
    pub binding: u32,
    /// Whether it is a uniform buffer rather than a storage buffer.
    pub uniform: bool,
    /// Least size in bytes of the bound memory.
    pub least_bytes: u32,
}

/// A constructor or a destructor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Procedure {
    /// The priority: constructors run by ascending, destructors by descending priority.
    pub priority: u32,
    /// The entry point, which has no parameters.
    pub kernel: Kernel,
}

/// A member of the block of globals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The member's name.
    pub name: String,
    /// Offset in bytes in the block.
    pub offset: u32,
    /// Size in bytes.
    pub bytes: u32,
}

/// The properties of a device that a module is translated for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    pub(crate) push_constant_bytes: u32,
    pub(crate) zeroes_shared_memory: bool,
}

impl Target {
    /// Creates the target for a device with this number of bytes of push constants.
    pub const fn new(push_constant_bytes: u32) -> Target {
        Target { push_constant_bytes, zeroes_shared_memory: false }
    }

    /// Sets whether the device itself can zero shared memory
    /// (`shaderZeroInitializeWorkgroupMemory`), as WGSL requires. Without this, each work-group
    /// does so.
    #[must_use]
    pub const fn with_zeroed_shared_memory(self, zeroes: bool) -> Target {
        Target { zeroes_shared_memory: zeroes, ..self }
    }
}

/// The choices of a launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Specialization {
    /// Work-items of a work-group.
    pub group: [u32; 3],
    /// Dynamic shared memory in bytes.
    pub dynamic_shared_bytes: u32,
    /// The pipeline's sub-group size.
    pub subgroup_size: u32,
}

/// The shared memory of a launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedMemory {
    /// Total size in bytes.
    pub bytes: u64,
    /// Whether it has an array without elements, which is not valid.
    pub has_empty_array: bool,
}

/// Code for the driver.
#[derive(Clone, Debug)]
pub struct Code<'a> {
    /// The SPIR-V words.
    pub words: Cow<'a, [u32]>,
    /// Values of specialisation constants: `SpecId` and value.
    pub constants: Vec<(u32, u32)>,
    /// The shared memory with these constants.
    pub shared: SharedMemory,
}
