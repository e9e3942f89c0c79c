//! Reduction of a module to one entry point, for the driver: declarations used only by other entry
//! points are removed.
//!
//! Drivers and layers compile a smaller module faster. Some also reject a valid module with several
//! blocks of push constants.

use std::borrow::Cow;
use std::collections::HashSet;

use rspirv::spirv::{BuiltIn, Decoration, ExecutionModel, Op};

use crate::fault::Fault;
use crate::reflect::usage;
use crate::tables::{EntryPoint, Tables};
use crate::words::{self, Instruction};

/// Returns the module with one compute entry point, and with its own constant for the size of
/// work-groups if there are several. Nothing else is removed if the references to it are unknown:
/// from decoration groups, or from debug information of other kinds.
pub(crate) fn prune<'a>(words: &'a [u32], name: &str) -> Result<Cow<'a, [u32]>, Fault> {
    let tables = Tables::read(words)?;
    let compute = ExecutionModel::GLCompute as u32;
    let is_wanted = |entry: &&EntryPoint<'_>| entry.model == compute && entry.name == name;
    let entry = tables.entry_points.iter().find(is_wanted);
    let Some(entry) = entry.filter(|_| tables.entry_points.len() > 1) else {
        return Ok(words.into());
    };
    let (function, size) = (entry.function, tables.workgroup_size(entry)?);
    let mut kept = usage::reached(&tables, function);
    kept.extend(entry.interface);
    keep_initializers(words, &mut kept);
    let Some(dropped) = dropped(words, &tables, &kept) else {
        return Ok(without_other_sizes(words, size));
    };
    let mut pruned = words[..words::HEADER].to_vec();
    let mut inside_dropped = false;
    for instruction in words::instructions(words) {
        inside_dropped |= is_dropped_function(instruction, &kept);
        let goes = is_other_size(instruction, size) || is_dropped(instruction, function, &dropped);
        if !inside_dropped && !goes {
            instruction.write(&mut pruned);
        }
        inside_dropped &= instruction.op() != Some(Op::FunctionEnd);
    }
    Ok(pruned.into())
}

/// Keeps variables in initial values: a variable's initial value may be the address of an earlier
/// one.
fn keep_initializers(words: &[u32], kept: &mut HashSet<u32>) {
    let is_variable = |found: &Instruction<'_>| found.op() == Some(Op::Variable);
    let variables: Vec<_> = words::instructions(words).filter(is_variable).collect();
    for variable in variables.into_iter().rev() {
        if variable.result().is_some_and(|id| kept.contains(&id)) {
            kept.extend(variable.operands.get(3));
        }
    }
}

fn without_other_sizes(words: &[u32], size: Option<u32>) -> Cow<'_, [u32]> {
    if !words::instructions(words).any(|instruction| is_other_size(instruction, size)) {
        return words.into();
    }
    let mut kept = words[..words::HEADER].to_vec();
    let instructions = words::instructions(words);
    instructions
        .filter(|found| !is_other_size(*found, size))
        .for_each(|found| found.write(&mut kept));
    kept.into()
}

/// Returns whether an instruction decorates another entry point's size. Drivers use any constant
/// with the decoration for all entry points.
fn is_other_size(instruction: Instruction<'_>, size: Option<u32>) -> bool {
    let decorates = [Decoration::BuiltIn as u32, BuiltIn::WorkgroupSize as u32];
    instruction.op() == Some(Op::Decorate)
        && instruction.operands_from(1) == decorates
        && instruction.operands.first().copied() != size
}

/// Returns the ids to remove: uncalled functions with all ids in them, and unused variables. `None`
/// if references to them may be unknown.
fn dropped(words: &[u32], tables: &Tables<'_>, kept: &HashSet<u32>) -> Option<HashSet<u32>> {
    let variables = tables.variables.keys().copied();
    let mut dropped: HashSet<u32> = variables.filter(|id| !kept.contains(id)).collect();
    let (mut inside, mut inside_dropped) = (false, false);
    for instruction in words::instructions(words) {
        let op = instruction.op()?;
        inside |= op == Op::Function;
        inside_dropped |= is_dropped_function(instruction, kept);
        match op {
            Op::GroupDecorate | Op::GroupMemberDecorate => return None,
            Op::ExtInst | Op::ExtInstWithForwardRefsKHR if !inside => return None,
            _ if inside_dropped => dropped.extend(instruction.result()),
            _ => {}
        }
        let ends = op == Op::FunctionEnd;
        inside &= !ends;
        inside_dropped &= !ends;
    }
    Some(dropped)
}

fn is_dropped_function(instruction: Instruction<'_>, kept: &HashSet<u32>) -> bool {
    instruction.op() == Some(Op::Function)
        && instruction.result().is_none_or(|function| !kept.contains(&function))
}

fn is_dropped(instruction: Instruction<'_>, function: u32, dropped: &HashSet<u32>) -> bool {
    let operand = |index: usize| instruction.operands.get(index).copied().unwrap_or_default();
    match instruction.op() {
        Some(Op::EntryPoint) => operand(1) != function,
        Some(Op::ExecutionMode | Op::ExecutionModeId) => operand(0) != function,
        Some(Op::Name | Op::Decorate | Op::DecorateId | Op::DecorateString) => {
            dropped.contains(&operand(0))
        }
        Some(Op::Variable) => instruction.result().is_some_and(|id| dropped.contains(&id)),
        _ => false,
    }
}
