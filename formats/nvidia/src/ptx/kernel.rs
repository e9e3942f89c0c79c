//! Entries: parameters and limits.

use super::value::number;
use super::variable::declared;
use crate::Kernel;

/// Reads the tokens after `.entry`: `name ( parameters ) limits`.
pub(super) fn read<'a>(tokens: &[&'a str]) -> Option<(&'a str, Kernel)> {
    let (name, rest) = tokens.split_first()?;
    let end = if rest.first() == Some(&"(") { end_of_parameters(rest) } else { 0 };
    let (parameters, limits) = rest.split_at(end);
    let kernel = Kernel {
        name: (*name).to_owned(),
        argument_sizes: parameters.split(|token| *token == ".param").skip(1).map(size).collect(),
        required_group: three_behind(".reqntid", limits),
        max_group_items: three_behind(".maxntid", limits)
            .map(|sizes| sizes.iter().fold(1, |all: u64, one| all.saturating_mul((*one).into()))),
        cluster: three_behind(".reqnctapercluster", limits),
        ..Kernel::default()
    };
    Some((name, kernel))
}

fn end_of_parameters(tokens: &[&str]) -> usize {
    tokens.iter().position(|token| *token == ")").unwrap_or(tokens.len())
}

fn size(parameter: &[&str]) -> u32 {
    let bytes = declared(parameter).first().map_or(0, |known| known.bytes);
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// Returns the three sizes after a directive; omitted sizes are 1.
fn three_behind(directive: &str, limits: &[&str]) -> Option<[u32; 3]> {
    let at = limits.iter().position(|token| *token == directive)?;
    let given = limits[at + 1..].iter().filter(|token| **token != ",");
    let mut given = given.map_while(|token| number(token));
    let mut next = || given.next().map_or(1, |size| u32::try_from(size).unwrap_or(u32::MAX));
    Some([next(), next(), next()])
}
