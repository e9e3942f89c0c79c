//! What is known of a kernel.

use std::borrow::Cow;

/// A compute entry point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Its name.
    pub name: String,
    /// What a launch passes, in order.
    pub parameters: Vec<Parameter>,
    /// What is passed by value, together; [`Home::PushConstants`] at most once.
    pub blocks: Vec<Block>,
    /// What is passed by pointer and bound.
    pub buffers: Vec<Buffer>,
    /// Where the address of the module's globals goes, or what they are bound to.
    pub globals: Vec<Place>,
    /// Work-items of a group in x, y and z.
    pub group: [GroupSize; 3],
    /// Shared memory that it declares, in bytes; what depends on [`Kernel::dynamic_shared`] is not
    /// counted.
    pub static_shared_bytes: u32,
    /// Whether a launch may ask for dynamic shared memory.
    pub dynamic_shared: bool,
    /// What it wants of the sub-groups' size.
    pub subgroup_size: SubgroupSize,
}

/// The size of a group in one dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupSize {
    /// The module's own.
    Fixed(u32),
    /// Up to the launch; this if nobody says.
    Free(u32),
}

/// What a kernel wants of the size of its sub-groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SubgroupSize {
    /// It does not ask.
    #[default]
    Any,
    /// It is told the device's usual size, and relies on having it.
    Usual,
    /// It has this one.
    Required(u32),
}

impl SubgroupSize {
    /// By the default of the constant that it is told by.
    pub(crate) fn of_default(default: u32) -> SubgroupSize {
        match default {
            0 => SubgroupSize::Usual,
            size => SubgroupSize::Required(size),
        }
    }
}

/// An argument of a launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name, empty if the module has none.
    pub name: String,
    /// Size of its value; 8 for a pointer.
    pub bytes: u32,
    /// Whether it is the address of memory. 64-bit numbers that a kernel makes pointers of are not.
    pub pointer: bool,
    /// Its kind, if it is one number.
    pub number: Option<NumberKind>,
    /// Where it goes.
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

/// Where an argument goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Into a block, at this offset in bytes.
    Block {
        /// Which of [`Kernel::blocks`].
        index: usize,
        /// Where in it.
        offset: u32,
    },
    /// It is the memory that a buffer is bound to.
    Buffer {
        /// Which of [`Kernel::buffers`].
        index: usize,
    },
}

/// Arguments that are passed by value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// What the kernel reads it from.
    pub home: Home,
    /// Size in bytes, a multiple of 4.
    pub bytes: u32,
}

/// What a block is read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// The push constants, from offset 0.
    PushConstants,
    /// A uniform buffer.
    Uniform {
        /// Descriptor set.
        set: u32,
        /// Binding in it.
        binding: u32,
    },
    /// A storage buffer: push constants that are more than the device has.
    Storage {
        /// Descriptor set.
        set: u32,
        /// Binding in it.
        binding: u32,
    },
}

/// Memory that is bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// Descriptor set.
    pub set: u32,
    /// Binding in it.
    pub binding: u32,
    /// A uniform buffer, else a storage buffer.
    pub uniform: bool,
    /// Least size in bytes of what is bound.
    pub least_bytes: u32,
}

/// A constructor or a destructor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Procedure {
    /// Its priority: constructors run by ascending, destructors by descending priority.
    pub priority: u32,
    /// The entry point, which has no parameters.
    pub kernel: Kernel,
}

/// A member of the block of globals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Where in the block.
    pub offset: u32,
    /// Size in bytes.
    pub bytes: u32,
}

/// What a module is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    pub(crate) push_constant_bytes: u32,
    pub(crate) zeroes_shared_memory: bool,
}

impl Target {
    /// A device with so many bytes of push constants.
    pub const fn new(push_constant_bytes: u32) -> Target {
        Target { push_constant_bytes, zeroes_shared_memory: false }
    }

    /// Whether the device itself can zero shared memory (`shaderZeroInitializeWorkgroupMemory`), as
    /// WGSL wants it; else each group does.
    #[must_use]
    pub const fn with_zeroed_shared_memory(self, zeroes: bool) -> Target {
        Target { zeroes_shared_memory: zeroes, ..self }
    }
}

/// What a launch chooses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Specialization {
    /// Work-items of a group.
    pub group: [u32; 3],
    /// Dynamic shared memory in bytes.
    pub dynamic_shared_bytes: u32,
    /// The sub-group size that the pipeline will have.
    pub subgroup_size: u32,
}

/// Shared memory as a launch has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedMemory {
    /// All of it, in bytes.
    pub bytes: u64,
    /// Whether there is an array without elements, which is not valid.
    pub has_empty_array: bool,
}

/// What the driver compiles.
#[derive(Clone, Debug)]
pub struct Code<'a> {
    /// SPIR-V.
    pub words: Cow<'a, [u32]>,
    /// Values of specialisation constants: `SpecId` and value.
    pub constants: Vec<(u32, u32)>,
    /// The shared memory that it has with them.
    pub shared: SharedMemory,
}
