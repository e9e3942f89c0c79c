//! What a code object says of a kernel.

use crate::Argument;

/// A kernel. What the code object need not say is `None` where it does not.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Kernel {
    /// By which programs find it.
    pub name: String,
    /// The symbol of its descriptor, which the name of the kernel begins: "saxpy.kd".
    pub symbol: String,
    /// Whether programs launch it.
    pub kind: KernelKind,
    /// What a launch passes, in its order.
    pub arguments: Vec<Argument>,
    /// What the runtime adds to that.
    pub hidden: Vec<Argument>,
    /// The memory that arguments are read from, the hidden ones and gaps included.
    pub argument_bytes: u32,
    /// How that memory is aligned, a power of two.
    pub argument_alignment: u32,
    /// The only size of groups with which it can be launched.
    pub required_group: Option<[u32; 3]>,
    /// The most work-items of a group with which it can be launched.
    pub max_group_items: Option<u32>,
    /// Whether all groups of a launch must be whole.
    pub has_uniform_groups: Option<bool>,
    /// Work-items of a sub-group, which is a wavefront: 32 or 64.
    pub wavefront_items: u32,
    /// Shared memory (LDS) of a group that is there without a launch asking for it.
    pub static_shared_bytes: u32,
    /// Memory of a work-item for what does not fit into registers.
    pub private_bytes: u32,
    /// Whether it may need more than that, by recursion or by what its functions point to.
    pub has_dynamic_private: bool,
    /// Registers of a work-item (VGPRs), as its processor counts them.
    pub registers: Option<u32>,
    /// Registers of a wavefront (SGPRs).
    pub scalar_registers: Option<u32>,
    /// Registers of a work-item for accumulation (AGPRs).
    pub accumulation_registers: Option<u32>,
    /// Registers of a work-item that had no room.
    pub spilled_registers: Option<u32>,
    /// The same of a wavefront.
    pub spilled_scalar_registers: Option<u32>,
}

/// Who launches a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KernelKind {
    /// Programs.
    Normal,
    /// Who loads the code object: it runs constructors.
    Init,
    /// Who unloads it: it runs destructors.
    Fini,
}
