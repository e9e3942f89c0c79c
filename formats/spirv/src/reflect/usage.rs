//! Variables and constants that an entry point uses: Vulkan's static use. So a pipeline's layout
//! is made from the reported variables alone.

use std::collections::{BTreeSet, HashSet};

use rspirv::spirv::{Decoration, StorageClass};

use crate::constants::{Dependence, SUBGROUP_SIZE};
use crate::fault::Fault;
use crate::kernel::SubgroupSize;
use crate::tables::{EntryPoint, Tables};

/// The variables and the choices of a launch that an entry point uses.
pub(crate) struct Usage {
    /// Ids of the variables.
    pub(crate) variables: BTreeSet<u32>,
    /// The choices of a launch.
    pub(crate) dependence: Dependence,
}

impl Usage {
    /// Determines the usage by the rules of the specification. Since SPIR-V 1.4 the entry point's
    /// interface lists its variables. Before, an entry point uses the variables to which the
    /// functions that it calls refer.
    pub(crate) fn new(tables: &Tables<'_>, entry_point: &EntryPoint<'_>) -> Usage {
        let reached = reached(tables, entry_point.function);
        let is_variable = |id: &u32| tables.variables.contains_key(id);
        let variables: BTreeSet<u32> = if tables.version >= (1, 4) {
            entry_point.interface.iter().copied().filter(is_variable).collect()
        } else {
            reached.iter().copied().filter(is_variable).collect()
        };
        let types = variables.iter().map(|id| tables.variables[id].pointee);
        let dependence = reached
            .iter()
            .copied()
            .chain(types)
            .fold(Dependence::default(), |all, id| all | tables.dependence(id));
        Usage { variables, dependence }
    }

    /// Returns the requirement on the size of sub-groups.
    pub(super) fn subgroup_size(&self, tables: &Tables<'_>) -> Result<SubgroupSize, Fault> {
        if !self.dependence.subgroup_size {
            return Ok(SubgroupSize::Any);
        }
        let constants = tables.constants.iter().filter(|&(&id, constant)| {
            constant.spec_id.is_some() && tables.name(id) == SUBGROUP_SIZE
        });
        let sizes = constants.filter_map(|(_, constant)| u32::try_from(constant.value?).ok());
        let sizes: BTreeSet<u32> = sizes.filter(|&size| size != 0).collect();
        if sizes.len() > 1 {
            return Err(Fault::unsupported(format!(
                "several constants {SUBGROUP_SIZE}, with defaults {sizes:?}: expected one default"
            )));
        }
        Ok(SubgroupSize::from_default(sizes.first().copied().unwrap_or(0)))
    }

    /// Returns the size in bytes of the shared variables, as Vulkan counts it, without the
    /// variables whose size a launch chooses.
    pub(super) fn static_shared_bytes(
        &self,
        tables: &Tables<'_>,
        dynamic_shared: &HashSet<String>,
    ) -> Result<u32, Fault> {
        let bytes = self.shared_bytes(tables, |id| {
            let layout = tables.layout(tables.variables[&id].pointee);
            !layout.dependence.dynamic_shared && !dynamic_shared.contains(tables.name(id))
        });
        u32::try_from(bytes).map_err(|_| {
            Fault::unsupported(format!("{bytes} bytes of shared memory do not fit into 32 bits"))
        })
    }

    /// Returns the size in bytes of the shared variables for which `counts` holds, as Vulkan counts
    /// it.
    pub(crate) fn shared_bytes(&self, tables: &Tables<'_>, counts: impl Fn(u32) -> bool) -> u64 {
        let (mut end, mut aliased) = (0u64, 0u64);
        for (id, variable) in self.variables.iter().map(|id| (id, &tables.variables[id])) {
            let layout = tables.layout(variable.pointee);
            if variable.storage != Some(StorageClass::Workgroup) || !counts(*id) {
                continue;
            }
            let block = tables.decoration(variable.pointee, Decoration::Block).is_some();
            match layout.bytes {
                Some(bytes) if block => aliased = aliased.max(bytes),
                _ => end = layout.natural_end(end),
            }
        }
        end.saturating_add(aliased)
    }
}

/// Returns the ids to which a function and all functions called by it refer.
pub(crate) fn reached(tables: &Tables<'_>, function: u32) -> HashSet<u32> {
    let mut reached = HashSet::from([function]);
    let mut pending = vec![function];
    while let Some(function) = pending.pop() {
        let Some(function) = tables.functions.get(&function) else { continue };
        for &id in &function.uses {
            if reached.insert(id) {
                pending.push(id);
            }
        }
    }
    reached
}
