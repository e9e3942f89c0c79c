//! Bounds of a program, which system linkers define where no object does: `_end`, `__init_array_start` and their like.
//!
//! They are those of a batch. Objects that are linked later have bounds of their own.

use std::ops::Range;

use super::initializers::priority_of;
use super::link::Batch;
use super::targets::Targets;
use crate::Result;
use crate::graph::{Definition, LinkGraph, SymbolId};
use crate::memory::{Lifetime, Protection};

/// A place in a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProgramBound {
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

/// A reference to such a place.
pub(super) struct BoundUser {
    /// Its place in the batch.
    member: usize,
    symbol: SymbolId,
    bound: ProgramBound,
}

/// The bound that a name stands for, unless an object of the library defines it.
pub(super) fn program_bound(name: &[u8]) -> Option<ProgramBound> {
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

impl Batch {
    /// Finds references to bounds of the program. The sections of lists lie together then, in the order in which they run.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported) if sections of a list need different kinds of memory.
    pub(super) fn find_program_bounds(&mut self) -> Result<()> {
        let mut users = Vec::new();
        for (member, linking) in self.members.iter_mut().enumerate() {
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
                self.share_list(kind)?;
            }
        }
        if users.iter().any(|user| user.bound == ProgramBound::ZeroStart) {
            self.members.iter_mut().for_each(|linking| linking.graph.separate_zeroes());
        }
        self.program_bounds = users;
        Ok(())
    }

    /// Has the sections of a list lie together, those of low priorities first.
    fn share_list(&mut self, kind: &str) -> Result<()> {
        let graphs = self.members.iter().map(|linking| &linking.graph);
        let mut names: Vec<Vec<u8>> =
            graphs.flat_map(|graph| graph.section_names_of_kind(kind)).collect();
        names.sort_unstable_by(|one, other| {
            (priority_of(one), one).cmp(&(priority_of(other), other))
        });
        names.dedup();
        names.into_iter().try_for_each(|name| self.share_all(name))
    }

    /// Gives the bounds their addresses, once memory is allocated.
    pub(super) fn define_program_bounds(&mut self) {
        for BoundUser { member, symbol, bound } in &self.program_bounds {
            let address = match bound {
                ProgramBound::List { kind, is_start } => match self.range_of_list(kind) {
                    Some(range) if *is_start => range.start,
                    Some(range) => range.end,
                    None => self.place_of(ProgramBound::Empty),
                },
                bound => self.place_of(*bound),
            };
            self.members[*member].graph.redefine(*symbol, Definition::Absolute(address));
        }
    }

    fn range_of_list(&self, kind: &str) -> Option<Range<u64>> {
        let is_of = |name: &[u8]| crate::graph::is_kind(name, kind.as_bytes());
        let shared = self.shared.iter().filter(|shared| is_of(shared.name()));
        shared.filter_map(|shared| self.range_of(shared)).reduce(union)
    }

    fn place_of(&self, bound: ProgramBound) -> u64 {
        let all = || self.members.iter().flat_map(|linking| linking.graph.placed_segments());
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
            // Both bounds of an empty list are an address within reach.
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
}

pub(super) fn union(one: Range<u64>, other: Range<u64>) -> Range<u64> {
    one.start.min(other.start)..one.end.max(other.end)
}

fn bounds_among(graph: &LinkGraph, targets: &Targets) -> Vec<(SymbolId, ProgramBound)> {
    let bound = |symbol| Some((symbol, program_bound(graph.symbol(symbol).name)?));
    targets.undefined().filter_map(bound).collect()
}
