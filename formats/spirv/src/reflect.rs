//! Reflection: reads the kernels of a module by the conventions.

mod arguments;
mod block;
mod group;
pub(crate) mod usage;

use std::collections::{BTreeMap, HashMap, HashSet};

use rspirv::spirv::ExecutionModel;

use crate::constants::{DYNAMIC_SHARED, SUBGROUP_SIZE};
use crate::fault::Fault;
use crate::kernel::{GroupSize, Kernel, Member, Procedure, Specialization, SubgroupSize};
use crate::push_constants::BlockBindings;
use crate::tables::{EntryPoint, Tables};

pub(crate) use block::Block;
pub(crate) use usage::Usage;

/// Name of the pointer to the globals, or of the buffer with them.
const GLOBALS: &str = "longshore_globals";
/// Most arguments of all kernels of a module together.
const MOST_PARAMETERS: usize = 1 << 20;

/// The kernels, constructors, destructors and globals of a module.
#[derive(Default)]
pub(crate) struct Reflection {
    pub(crate) kernels: Vec<Kernel>,
    pub(crate) constructors: Vec<Procedure>,
    pub(crate) destructors: Vec<Procedure>,
    pub(crate) globals: Vec<Member>,
    pub(crate) globals_bytes: u32,
    pub(crate) constants: Choices,
}

/// The specialisation constants whose values a launch chooses.
#[derive(Default)]
pub(crate) struct Choices {
    /// `SpecId`s of the sizes of work-groups, by the name of the kernel.
    pub(crate) groups: HashMap<String, [Option<u32>; 3]>,
    /// `SpecId`s of the size of dynamic shared memory.
    pub(crate) dynamic_shared: Vec<u32>,
    /// `SpecId`s of the size of sub-groups.
    pub(crate) subgroup_size: Vec<u32>,
}

/// Facts that a module lacks because it is a translation.
#[derive(Default)]
pub(crate) struct Hints {
    /// Names of shared variables whose size a launch chooses.
    pub(crate) dynamic_shared: HashSet<String>,
    /// Members of uniform buffers, by descriptor set and binding.
    pub(crate) values: HashMap<(u32, u32), Vec<Member>>,
    /// Facts of kernels, by name.
    pub(crate) kernels: HashMap<String, KernelHints>,
}

/// Facts that a kernel of a translated module lacks.
pub(crate) struct KernelHints {
    pub(crate) group: [GroupSize; 3],
    pub(crate) dynamic_shared: bool,
    pub(crate) subgroup_size: SubgroupSize,
}

/// Returns whether an entry point can be launched.
pub(crate) fn is_kernel(entry_point: &EntryPoint<'_>) -> bool {
    entry_point.model == ExecutionModel::GLCompute as u32
}

/// Reflects a module whose large blocks of push constants have been moved.
pub(crate) fn reflect(
    tables: &Tables<'_>,
    moved: &BlockBindings,
    hints: &Hints,
) -> Result<Reflection, Fault> {
    let mut reflection = Reflection::default();
    let mut globals: Option<(String, Block)> = None;
    let mut parameters = 0;
    for entry_point in tables.entry_points.iter().filter(|entry_point| is_kernel(entry_point)) {
        let usage = Usage::new(tables, entry_point);
        let (group, spec_ids) = group::sizes(tables, entry_point)?;
        let arguments = arguments::arguments(tables, moved, hints, &usage, &entry_point.name)?;
        parameters += arguments.parameters.len();
        if parameters > MOST_PARAMETERS {
            return Err(Fault::unsupported(format!(
                "the kernels have more than {MOST_PARAMETERS} arguments together"
            )));
        }
        if let Some(block) = arguments.globals_block {
            agree(&mut globals, &entry_point.name, block)?;
        }
        let mut kernel = Kernel {
            name: entry_point.name.clone(),
            parameters: arguments.parameters,
            blocks: arguments.blocks,
            buffers: arguments.buffers,
            globals: arguments.globals,
            group,
            static_shared_bytes: usage.static_shared_bytes(tables, &hints.dynamic_shared)?,
            dynamic_shared: usage.dependence.dynamic_shared,
            subgroup_size: usage.subgroup_size(tables)?,
        };
        if let Some(hints) = hints.kernels.get(&kernel.name) {
            kernel.group = hints.group;
            kernel.dynamic_shared = hints.dynamic_shared;
            kernel.subgroup_size = hints.subgroup_size;
        }
        if reflection.constants.groups.insert(kernel.name.clone(), spec_ids).is_some() {
            let name = kernel.name;
            return Err(Fault::malformed(format!("two compute entry points are named {name}")));
        }
        reflection.enter(kernel)?;
    }
    reflection.constants.find(tables);
    if let Some((_, block)) = globals {
        reflection.globals_bytes = block.bytes;
        reflection.globals = block.globals();
    }
    reflection.constructors.sort_by_key(|constructor| constructor.priority);
    reflection.destructors.reverse();
    reflection.destructors.sort_by_key(|destructor| std::cmp::Reverse(destructor.priority));
    require_kernels(tables)?;
    Ok(reflection)
}

impl Reflection {
    fn enter(&mut self, kernel: Kernel) -> Result<(), Fault> {
        let procedures = [
            ("longshore_constructor_", &mut self.constructors),
            ("longshore_destructor_", &mut self.destructors),
        ];
        for (prefix, list) in procedures {
            let Some(rest) = kernel.name.strip_prefix(prefix) else { continue };
            let priority = rest.split('_').next().and_then(|digits| digits.parse().ok());
            let Some(priority) = priority else {
                return Err(Fault::unsupported(format!(
                    "{}: expected a priority, a 32-bit number, after {prefix}",
                    kernel.name
                )));
            };
            if let Some(parameter) = kernel.parameters.first() {
                return Err(Fault::unsupported(format!(
                    "{} takes {} arguments ({} ...): constructors and destructors take none",
                    kernel.name,
                    kernel.parameters.len(),
                    parameter.name
                )));
            }
            list.push(Procedure { priority, kernel });
            return Ok(());
        }
        self.kernels.push(kernel);
        Ok(())
    }
}

impl Choices {
    /// Returns the values of the constants for a launch of a kernel, by `SpecId`.
    pub(crate) fn values(
        &self,
        kernel: &Kernel,
        wanted: &Specialization,
    ) -> Result<Vec<(u32, u32)>, Fault> {
        let mut values = BTreeMap::new();
        let groups = self.groups.get(&kernel.name).copied().unwrap_or_default();
        for (id, size) in groups.into_iter().zip(wanted.group) {
            let Some(id) = id else { continue };
            let before = values.insert(id, size);
            if before.is_some_and(|before| before != size) {
                return Err(Fault::unsupported(format!(
                    "{}: one constant, of SpecId {id}, is the size of groups in several dimensions, \
                     but {:?} items are requested",
                    kernel.name, wanted.group
                )));
            }
        }
        let dynamic = self.dynamic_shared.iter().map(|&id| (id, wanted.dynamic_shared_bytes));
        values.extend(dynamic);
        values.extend(self.subgroup_size.iter().map(|&id| (id, wanted.subgroup_size)));
        Ok(values.into_iter().collect())
    }

    fn find(&mut self, tables: &Tables<'_>) {
        for (&id, constant) in &tables.constants {
            let Some(spec_id) = constant.spec_id else { continue };
            match tables.name(id) {
                DYNAMIC_SHARED => self.dynamic_shared.push(spec_id),
                SUBGROUP_SIZE => self.subgroup_size.push(spec_id),
                _ => {}
            }
        }
    }
}

/// Checks that all entry points have the same globals.
fn agree(seen: &mut Option<(String, Block)>, kernel: &str, block: Block) -> Result<(), Fault> {
    let Some((first, before)) = seen else {
        *seen = Some((kernel.to_owned(), block));
        return Ok(());
    };
    if before.bytes != block.bytes || before.globals() != block.globals() {
        return Err(Fault::unsupported(format!(
            "entry points differ on {GLOBALS}: for {first} it is {before}, for {kernel} it is {block}",
        )));
    }
    Ok(())
}

fn require_kernels(tables: &Tables<'_>) -> Result<(), Fault> {
    if tables.entry_points.iter().any(is_kernel) {
        return Ok(());
    }
    const SHOWN: usize = 8;
    let others = tables.entry_points.iter().take(SHOWN).map(|entry_point| {
        let model = ExecutionModel::from_u32(entry_point.model);
        let model =
            model.map_or_else(|| entry_point.model.to_string(), |model| format!("{model:?}"));
        format!("{model} {}", entry_point.name)
    });
    let others: Vec<String> = others.collect();
    if others.is_empty() {
        return Err(Fault::malformed("the module has no entry point, expected one for GLCompute"));
    }
    let others = others.join(", ");
    Err(Fault::unsupported(format!("no compute entry point (GLCompute); the module has {others}")))
}

/// Returns an error if the launch requests a size that the module cannot have.
pub(crate) fn check_group(kernel: &Kernel, wanted: [u32; 3]) -> Result<(), Fault> {
    for ((size, wanted), axis) in kernel.group.into_iter().zip(wanted).zip(["x", "y", "z"]) {
        if let GroupSize::Fixed(fixed) = size
            && fixed != wanted
        {
            return Err(Fault::unsupported(format!(
                "{}: groups are {fixed} items in {axis}, but {wanted} are requested",
                kernel.name
            )));
        }
    }
    Ok(())
}
