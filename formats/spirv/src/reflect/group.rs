//! Sizes of work-groups.

use std::collections::HashSet;

use rspirv::spirv::ExecutionMode;

use crate::constants::{Constant, Dependence};
use crate::fault::Fault;
use crate::kernel::GroupSize;
use crate::tables::{EntryPoint, Tables};

/// Returns the sizes in x, y and z, and the `SpecId`s of the free ones.
pub(super) fn sizes(
    tables: &Tables<'_>,
    entry_point: &EntryPoint<'_>,
) -> Result<([GroupSize; 3], [Option<u32>; 3]), Fault> {
    let mode = |mode| tables.group_sizes.get(&(entry_point.function, mode)).copied();
    if let Some(id) = tables.workgroup_size(entry_point)? {
        let parts = tables.constants.get(&id).map_or(&[][..], |constant| constant.parts);
        return from_constants(tables, &entry_point.name, parts);
    }
    if let Some(ids) = mode(ExecutionMode::LocalSizeId) {
        return from_constants(tables, &entry_point.name, ids);
    }
    match mode(ExecutionMode::LocalSize) {
        Some(&[x, y, z]) => Ok(([x, y, z].map(GroupSize::Fixed), [None; 3])),
        _ => Err(Fault::malformed(format!(
            "{} has no size of work-groups (LocalSize)",
            entry_point.name
        ))),
    }
}

fn from_constants(
    tables: &Tables<'_>,
    kernel: &str,
    ids: &[u32],
) -> Result<([GroupSize; 3], [Option<u32>; 3]), Fault> {
    let constant = |&id| tables.constants.get(&id);
    let constants: Vec<&Constant<'_>> = ids.iter().filter_map(constant).collect();
    let Ok(constants) = <[&Constant<'_>; 3]>::try_from(constants) else {
        return Err(Fault::malformed(format!(
            "{kernel}: the size of its groups does not consist of three constants"
        )));
    };
    let spec_ids = constants.map(|constant| constant.spec_id);
    let mut sizes = [GroupSize::Fixed(1); 3];
    for ((size, constant), axis) in sizes.iter_mut().zip(constants).zip(["x", "y", "z"]) {
        let value = constant.value.and_then(|value| u32::try_from(value).ok());
        let Some(value) = value.filter(|_| !(constant.dependence != Dependence::default())) else {
            return Err(Fault::unsupported(format!(
                "{kernel}: the size of its groups in {axis} must be a number, a specialisation \
                 constant, or computed from constants that a launch does not choose"
            )));
        };
        *size = match constant.spec_id {
            Some(_) => GroupSize::Free(value),
            None if depends(tables, constant, &spec_ids) => {
                return Err(Fault::unsupported(format!(
                    "{kernel}: the size of its groups in {axis} is computed from that in another \
                     dimension; make it a separate specialisation constant"
                )));
            }
            None => GroupSize::Fixed(value),
        };
    }
    Ok((sizes, spec_ids))
}

/// Returns whether a constant is computed from one with one of these `SpecId`s.
fn depends(tables: &Tables<'_>, constant: &Constant<'_>, spec_ids: &[Option<u32>; 3]) -> bool {
    let mut seen = HashSet::new();
    let mut pending: Vec<u32> = constant.parts.to_vec();
    while let Some(id) = pending.pop() {
        let Some(part) = tables.constants.get(&id) else { continue };
        if part.spec_id.is_some() && spec_ids.contains(&part.spec_id) {
            return true;
        }
        if seen.insert(id) {
            pending.extend(part.parts);
        }
    }
    false
}
