//! What an entry point uses.

use std::collections::{BTreeSet, HashSet};

use rspirv::spirv::{Decoration, StorageClass};

use crate::constants::{Dependence, SUBGROUP_SIZE};
use crate::fault::Fault;
use crate::kernel::SubgroupSize;
use crate::tables::{EntryPoint, Tables};

/// What an entry point uses.
pub(crate) struct Usage {
    /// Variables.
    pub(crate) variables: BTreeSet<u32>,
    /// The choices of a launch.
    pub(crate) dependence: Dependence,
}

impl Usage {
    /// What it is by the specification: since SPIR-V 1.4 the variables in its interface, before that
    /// those that the functions it calls refer to.
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

    /// Returns the size of sub-groups that it wants.
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
                "several constants {SUBGROUP_SIZE}, with defaults {sizes:?}: they must be the same"
            )));
        }
        Ok(SubgroupSize::with_default(sizes.first().copied().unwrap_or(0)))
    }

    /// Bytes of its shared variables, but for those whose size a launch chooses, as Vulkan counts
    /// them.
    pub(super) fn static_shared_bytes(
        &self,
        tables: &Tables<'_>,
        dynamic_shared: &HashSet<String>,
    ) -> Result<u32, Fault> {
        let bytes = self.shared_bytes(tables, |id| {
            let layout = tables.layout(tables.variables[&id].pointee);
            !layout.dependence.dynamic_shared && !dynamic_shared.contains(tables.name(id))
        });
        u32::try_from(bytes)
            .map_err(|_| Fault::unsupported(format!("{bytes} bytes of shared memory are too many")))
    }

    /// Bytes of those of its shared variables that count, as Vulkan counts them.
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

/// What the functions refer to that a function calls, itself included.
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
