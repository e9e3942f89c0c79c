//! Kernels of code objects.

use crate::Argument;
use crate::metadata::maps;
use serde::{Deserialize, Deserializer};

/// A kernel. Optional facts that the code object lacks are `None`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Kernel {
    /// The name by which programs find the kernel.
    #[serde(rename = ".name")]
    pub name: String,
    /// The symbol of its kernel descriptor, which begins with the kernel's name: "saxpy.kd".
    #[serde(rename = ".symbol")]
    pub symbol: String,
    /// The caller that launches the kernel.
    #[serde(rename = ".kind", default)]
    pub kind: KernelKind,
    /// The arguments that a launch passes, in its order.
    #[serde(rename = ".args", default, deserialize_with = "maps")]
    pub arguments: Vec<Argument>,
    /// The arguments that the runtime adds.
    #[serde(skip)]
    pub hidden: Vec<Argument>,
    /// Size in bytes of the memory that arguments are read from, including hidden arguments and
    /// gaps.
    #[serde(rename = ".kernarg_segment_size")]
    pub argument_bytes: u32,
    /// Alignment in bytes of that memory, a power of two.
    #[serde(rename = ".kernarg_segment_align")]
    pub argument_alignment: u32,
    /// The only size of work-groups for launches.
    #[serde(rename = ".reqd_workgroup_size")]
    pub required_group: Option<[u32; 3]>,
    /// Most work-items of a work-group for launches.
    #[serde(rename = ".max_flat_workgroup_size")]
    pub max_group_items: Option<u32>,
    /// Whether all work-groups of a launch must be full.
    #[serde(rename = ".uniform_work_group_size", default, deserialize_with = "truth")]
    pub has_uniform_groups: Option<bool>,
    /// Work-items of a sub-group, which is a wavefront: 32 or 64.
    #[serde(rename = ".wavefront_size")]
    pub wavefront_items: u32,
    /// Bytes of a work-group's static shared memory (LDS), which a launch does not request.
    #[serde(rename = ".group_segment_fixed_size")]
    pub static_shared_bytes: u32,
    /// Bytes of memory of a work-item for values that do not fit into registers.
    #[serde(rename = ".private_segment_fixed_size")]
    pub private_bytes: u32,
    /// Whether a work-item may need more of that memory, through recursion or function pointers.
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
    /// Spilled registers of a work-item.
    #[serde(rename = ".vgpr_spill_count")]
    pub spilled_registers: Option<u32>,
    /// Spilled registers of a wavefront.
    #[serde(rename = ".sgpr_spill_count")]
    pub spilled_scalar_registers: Option<u32>,
}

/// The caller that launches a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KernelKind {
    /// The program.
    #[default]
    Normal,
    /// The loader of the code object: the kernel runs constructors.
    Init,
    /// The unloader of the code object: the kernel runs destructors.
    Fini,
}

/// Reads a number that stands for a `bool`.
fn truth<'de, D: Deserializer<'de>>(number: D) -> Result<Option<bool>, D::Error> {
    Ok(Option::<u32>::deserialize(number)?.map(|number| number != 0))
}
