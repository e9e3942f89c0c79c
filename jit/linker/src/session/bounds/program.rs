//! Bounds of a program, which system linkers define where no object does: `_end`,
//! `__init_array_start` and their like.
//!
//! The bounds enclose a batch. Objects that are linked later have bounds of their own.

use std::ops::Range;

use super::sections::{SharedSections, union};
use crate::Result;
use crate::graph::{Definition, LinkGraph, SymbolId};
use crate::memory::{Lifetime, Protection};
use crate::session::batch::Batch;
use crate::session::initializers::priority_of;
use crate::session::targets::Targets;

/// A place in a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::session) enum ProgramBound {
    Start,
    TextEnd,
    DataStart,
    DataEnd,
    /// The start of the zeroes at the end of the data.
    ZeroStart,
    End,
    /// The start of the sections of a kind, or their end.
    List {
        kind: &'static str,
        is_start: bool,
    },
    /// A bound of a list that is always empty.
    Empty,
}

/// References to bounds of a program, of all members of a batch.
pub(super) struct ProgramBounds(Vec<BoundUser>);

/// A reference to a bound of the program.
struct BoundUser {
    /// Index of the referring member in the batch.
    member: usize,
    symbol: SymbolId,
    bound: ProgramBound,
}

/// Returns the bound with this name, which counts unless an object of the library defines the name.
pub(in crate::session) fn program_bound(name: &[u8]) -> Option<ProgramBound> {
    let list = |kind, is_start| ProgramBound::List { kind, is_start };
    Some(match name {
        b"__executable_start" => ProgramBound::Start,
        b"etext" | b"_etext" | b"__etext" => ProgramBound::TextEnd,
        b"data_start" | b"__data_start" => ProgramBound::DataStart,
        b"edata" | b"_edata" => ProgramBound::DataEnd,
        b"__bss_start" => ProgramBound::ZeroStart,
        b"end" | b"_end" => ProgramBound::End,
        b"__preinit_array_start" => list(".preinit_array", true),
        b"__preinit_array_end" => list(".preinit_array", false),
        b"__init_array_start" => list(".init_array", true),
        b"__init_array_end" => list(".init_array", false),
        b"__fini_array_start" => list(".fini_array", true),
        b"__fini_array_end" => list(".fini_array", false),
        b"__rela_iplt_start" | b"__rela_iplt_end" => ProgramBound::Empty,
        _ => return None,
    })
}

impl ProgramBounds {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Finds references to bounds of the program, and makes the sections of lists lie together in
    /// the order in which they run.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported) if sections of a list need different kinds
    /// of memory.
    pub(super) fn find(batch: &mut Batch, shared: &mut SharedSections) -> Result<Self> {
        let mut users = Vec::new();
        for (member, linking) in batch.members.iter_mut().enumerate() {
            let found = bounds_among(&linking.graph, &linking.targets);
            for (symbol, bound) in &found {
                linking.graph.define_in_batch(*symbol);
                users.push(BoundUser { member, symbol: *symbol, bound: *bound });
            }
            if !found.is_empty() {
                linking.targets.remove(|symbol| found.iter().any(|(known, _)| *known == symbol));
            }
        }
        for kind in [".preinit_array", ".init_array", ".fini_array"] {
            let is_of = |user: &BoundUser| matches!(user.bound, ProgramBound::List { kind: of, .. } if of == kind);
            if users.iter().any(is_of) {
                share_list(batch, shared, kind)?;
            }
        }
        if users.iter().any(|user| user.bound == ProgramBound::ZeroStart) {
            batch.members.iter_mut().for_each(|linking| linking.graph.separate_zeroes());
        }
        Ok(Self(users))
    }

    /// Gives the bounds their addresses, once memory is allocated.
    pub(super) fn define(&self, batch: &mut Batch, shared: &SharedSections) {
        for BoundUser { member, symbol, bound } in &self.0 {
            let address = match bound {
                ProgramBound::List { kind, is_start } => match shared.range_of_kind(batch, kind) {
                    Some(range) if *is_start => range.start,
                    Some(range) => range.end,
                    None => place_of(batch, ProgramBound::Empty),
                },
                bound => place_of(batch, *bound),
            };
            batch.members[*member].graph.redefine(*symbol, Definition::Absolute(address));
        }
    }
}

/// Makes the sections of a list lie together, low priorities first.
fn share_list(batch: &mut Batch, shared: &mut SharedSections, kind: &str) -> Result<()> {
    let graphs = batch.members.iter().map(|linking| &linking.graph);
    let mut names: Vec<Vec<u8>> =
        graphs.flat_map(|graph| graph.section_names_of_kind(kind)).collect();
    names.sort_unstable_by(|one, other| (priority_of(one), one).cmp(&(priority_of(other), other)));
    names.dedup();
    names.into_iter().try_for_each(|name| shared.share_all(batch, name))
}

fn place_of(batch: &Batch, bound: ProgramBound) -> u64 {
    let all = || batch.members.iter().flat_map(|linking| linking.graph.placed_segments());
    let of = |protection| {
        all().filter(move |segment| {
            (segment.protection, segment.lifetime) == (protection, Lifetime::Standard)
        })
    };
    let range = |segments: &mut dyn Iterator<Item = Range<u64>>| segments.reduce(union);
    let whole = range(&mut all().map(|segment| segment.range())).unwrap_or_default();
    let data = range(&mut of(Protection::ReadWrite).map(|segment| segment.range()));
    let data = data.unwrap_or(whole.end..whole.end);
    let content = of(Protection::ReadWrite).map(|segment| segment.content());
    let content = range(&mut content.filter(|content| !content.is_empty()));
    match bound {
        // The bounds of an empty list are an arbitrary address within reach.
        ProgramBound::Start | ProgramBound::Empty => whole.start,
        ProgramBound::TextEnd => {
            let text = range(&mut of(Protection::ReadExecute).map(|segment| segment.range()));
            text.map_or(whole.start, |text| text.end)
        }
        ProgramBound::DataStart => data.start,
        ProgramBound::DataEnd => content.map_or(data.start, |content| content.end),
        ProgramBound::ZeroStart => {
            let mut zeroes = of(Protection::ReadWrite)
                .filter(|segment| segment.content().is_empty())
                .map(|segment| segment.range());
            range(&mut zeroes).map_or(data.end, |zeroes| zeroes.start)
        }
        _ => data.end,
    }
}

fn bounds_among(graph: &LinkGraph, targets: &Targets) -> Vec<(SymbolId, ProgramBound)> {
    let bound = |symbol| Some((symbol, program_bound(graph.symbol(symbol).name)?));
    targets.undefined().filter_map(bound).collect()
}
