//! Overrides whose values a launch chooses.

use std::collections::HashSet;

use naga::back::PipelineConstants;
use naga::compact::{KeepUnused, compact};
use naga::{
    AddressSpace, ArraySize, EntryPoint, Expression, Handle, Literal, Module, Override,
    ShaderStage, TypeInner,
};

use crate::constants::{DYNAMIC_SHARED, SUBGROUP_SIZE};
use crate::kernel::{GroupSize, Kernel, Specialization, SubgroupSize};
use crate::reflect::{Hints, KernelHints};

/// Returns values for overrides without a default, so that the source may omit defaults.
pub(super) fn defaults(module: &Module) -> PipelineConstants {
    let mut constants = PipelineConstants::default();
    let mut set = |handle: Handle<Override>, value: f64| {
        if module.overrides[handle].init.is_none() {
            constants.insert(key(module, handle), value);
        }
    };
    for name in [DYNAMIC_SHARED, SUBGROUP_SIZE] {
        named(module, name).into_iter().for_each(|handle| set(handle, 0.0));
    }
    for entry_point in &module.entry_points {
        group(module, entry_point).into_iter().flatten().for_each(|handle| set(handle, 1.0));
    }
    constants
}

/// Returns the values that a launch of a kernel chooses.
pub(super) fn chosen(
    module: &Module,
    kernel: &Kernel,
    wanted: &Specialization,
) -> PipelineConstants {
    let mut constants = defaults(module);
    let values =
        [(DYNAMIC_SHARED, wanted.dynamic_shared_bytes), (SUBGROUP_SIZE, wanted.subgroup_size)];
    for (name, value) in values {
        if let Some(handle) = named(module, name) {
            constants.insert(key(module, handle), value.into());
        }
    }
    let is_kernel = |entry_point: &&EntryPoint| {
        entry_point.stage == ShaderStage::Compute && entry_point.name == kernel.name
    };
    if let Some(entry_point) = module.entry_points.iter().find(is_kernel) {
        for (handle, size) in group(module, entry_point).into_iter().zip(wanted.group) {
            let Some(handle) = handle else { continue };
            constants.insert(key(module, handle), size.into());
        }
    }
    constants
}

/// Returns the facts that the SPIR-V of a module with resolved overrides lacks.
pub(super) fn hints(module: &Module, resolved: &Module) -> Hints {
    let mut hints = Hints::default();
    if let Some(handle) = named(module, DYNAMIC_SHARED) {
        hints.dynamic_shared = sized_by(module, handle);
    }
    let subgroup_size = subgroup_size(resolved);
    for (index, entry_point) in module.entry_points.iter().enumerate() {
        if entry_point.stage != ShaderStage::Compute {
            continue;
        }
        let uses = |name| named(module, name).is_some() && uses(module, index, name);
        let Some(known) = resolved.entry_points.iter().find(|known| known.name == entry_point.name)
        else {
            continue;
        };
        let mut group = known.workgroup_size.map(GroupSize::Fixed);
        for (size, handle) in group.iter_mut().zip(self::group(module, entry_point)) {
            if let (GroupSize::Fixed(default), Some(_)) = (*size, handle) {
                *size = GroupSize::Free(default);
            }
        }
        let kernel = KernelHints {
            group,
            dynamic_shared: uses(DYNAMIC_SHARED),
            subgroup_size: match uses(SUBGROUP_SIZE) {
                true => SubgroupSize::from_default(subgroup_size),
                false => SubgroupSize::Any,
            },
        };
        hints.kernels.insert(entry_point.name.clone(), kernel);
    }
    hints
}

/// Returns the overrides that are the dimensions of an entry point's work-groups.
fn group(module: &Module, entry_point: &EntryPoint) -> [Option<Handle<Override>>; 3] {
    let sizes = entry_point.workgroup_size_overrides.unwrap_or_default();
    sizes.map(|size| match module.global_expressions[size?] {
        Expression::Override(handle) => Some(handle),
        _ => None,
    })
}

fn named(module: &Module, name: &str) -> Option<Handle<Override>> {
    let is_named = |what: &Override| what.name.as_deref() == Some(name);
    module.overrides.fetch_if(is_named)
}

/// Returns naga's key of an override.
fn key(module: &Module, handle: Handle<Override>) -> String {
    let known = &module.overrides[handle];
    known.id.map(|id| id.to_string()).or_else(|| known.name.clone()).unwrap_or_default()
}

/// Returns whether an entry point depends on an override.
fn uses(module: &Module, entry_point: usize, name: &str) -> bool {
    let mut alone = module.clone();
    alone.entry_points = vec![module.entry_points[entry_point].clone()];
    compact(&mut alone, KeepUnused::No);
    named(&alone, name).is_some()
}

/// Returns the names of the shared variables whose size depends on an override.
fn sized_by(module: &Module, dynamic: Handle<Override>) -> HashSet<String> {
    // Expressions refer to earlier ones; overrides refer to expressions that come before the
    // overrides' users.
    let mut dependent = HashSet::new();
    let mut overrides = HashSet::from([dynamic]);
    for (handle, expression) in module.global_expressions.iter() {
        let depends = match *expression {
            Expression::Override(of) => {
                let init = module.overrides[of].init;
                overrides.contains(&of) || init.is_some_and(|init| dependent.contains(&init))
            }
            Expression::Binary { left, right, .. } => {
                dependent.contains(&left) || dependent.contains(&right)
            }
            Expression::Unary { expr, .. } | Expression::As { expr, .. } => {
                dependent.contains(&expr)
            }
            Expression::Math { arg, arg1, arg2, .. } => {
                [Some(arg), arg1, arg2].into_iter().flatten().any(|arg| dependent.contains(&arg))
            }
            Expression::Select { condition, accept, reject } => {
                [condition, accept, reject].iter().any(|part| dependent.contains(part))
            }
            _ => false,
        };
        if depends {
            dependent.insert(handle);
        }
    }
    for (handle, known) in module.overrides.iter() {
        if known.init.is_some_and(|init| dependent.contains(&init)) {
            overrides.insert(handle);
        }
    }
    let shared = module.global_variables.iter().map(|(_, variable)| variable);
    let shared = shared.filter(|variable| variable.space == AddressSpace::WorkGroup);
    let dynamic = shared.filter(|variable| match module.types[variable.ty].inner {
        TypeInner::Array { size: ArraySize::Pending(length), .. } => overrides.contains(&length),
        _ => false,
    });
    dynamic.filter_map(|variable| variable.name.clone()).collect()
}

/// Returns the default of the override with the size of sub-groups; 0 without that override.
fn subgroup_size(resolved: &Module) -> u32 {
    let named = |constant: &naga::Constant| constant.name.as_deref() == Some(SUBGROUP_SIZE);
    let Some(constant) = resolved.constants.fetch_if(named) else { return 0 };
    match resolved.global_expressions[resolved.constants[constant].init] {
        Expression::Literal(Literal::U32(size)) => size,
        Expression::Literal(Literal::I32(size)) => u32::try_from(size).unwrap_or(0),
        _ => 0,
    }
}
