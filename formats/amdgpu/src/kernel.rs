//! What a code object says of a kernel.

use crate::Argument;
use crate::metadata::maps;
use serde::{Deserialize, Deserializer};

/// A kernel. What the code object need not say is `None` where it does not.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Kernel {
    /// By which programs find it.
    #[serde(rename = ".name")]
    pub name: String,
    /// The symbol of its descriptor, which the name of the kernel begins: "saxpy.kd".
    #[serde(rename = ".symbol")]
    pub symbol: String,
    /// Whether programs launch it.
    #[serde(rename = ".kind", default)]
    pub kind: KernelKind,
    /// What a launch passes, in its order.
    #[serde(rename = ".args", default, deserialize_with = "maps")]
    pub arguments: Vec<Argument>,
    /// What the runtime adds to that.
    #[serde(skip)]
    pub hidden: Vec<Argument>,
    /// The memory that arguments are read from, the hidden ones and gaps included.
    #[serde(rename = ".kernarg_segment_size")]
    pub argument_bytes: u32,
    /// How that memory is aligned, a power of two.
    #[serde(rename = ".kernarg_segment_align")]
    pub argument_alignment: u32,
    /// The only size of groups with which it can be launched.
    #[serde(rename = ".reqd_workgroup_size")]
    pub required_group: Option<[u32; 3]>,
    /// The most work-items of a group with which it can be launched.
    #[serde(rename = ".max_flat_workgroup_size")]
    pub max_group_items: Option<u32>,
    /// Whether all groups of a launch must be whole.
    #[serde(rename = ".uniform_work_group_size", default, deserialize_with = "truth")]
    pub has_uniform_groups: Option<bool>,
    /// Work-items of a sub-group, which is a wavefront: 32 or 64.
    #[serde(rename = ".wavefront_size")]
    pub wavefront_items: u32,
    /// Shared memory (LDS) of a group that is there without a launch asking for it.
    #[serde(rename = ".group_segment_fixed_size")]
    pub static_shared_bytes: u32,
    /// Memory of a work-item for what does not fit into registers.
    #[serde(rename = ".private_segment_fixed_size")]
    pub private_bytes: u32,
    /// Whether it may need more than that, by recursion or by what its functions point to.
    #[serde(rename = ".uses_dynamic_stack", default)]
    pub has_dynamic_private: bool,
    /// Registers of a work-item (VGPRs), as its processor counts them.
    #[serde(rename = ".vgpr_count")]
    pub registers: Option<u32>,
    /// Registers of a wavefront (SGPRs).
    #[serde(rename = ".sgpr_count")]
    pub scalar_registers: Option<u32>,
    /// Registers of a work-item for accumulation (AGPRs).
    #[serde(rename = ".agpr_count")]
    pub accumulation_registers: Option<u32>,
    /// Registers of a work-item that had no room.
    #[serde(rename = ".vgpr_spill_count")]
    pub spilled_registers: Option<u32>,
    /// The same of a wavefront.
    #[serde(rename = ".sgpr_spill_count")]
    pub spilled_scalar_registers: Option<u32>,
}

/// Who launches a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KernelKind {
    /// Programs.
    #[default]
    Normal,
    /// Who loads the code object: it runs constructors.
    Init,
    /// Who unloads it: it runs destructors.
    Fini,
}

/// Reads a number that stands for a truth.
fn truth<'de, D: Deserializer<'de>>(number: D) -> Result<Option<bool>, D::Error> {
    Ok(Option::<u32>::deserialize(number)?.map(|number| number != 0))
}
