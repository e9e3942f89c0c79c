//! Listing a program in the process, by a library that represents its code.

use longshore_orc_rt::service::code_libraries::{CodeSegment, CodeSymbol, NewCodeLibrary};
use serde_bytes::ByteBuf;

use super::Shared;
use super::batch::Batch;
use crate::graph::{Definition, LinkGraph, Linkage, Scope, Symbol};
use crate::memory::{Lifetime, Protection};
use crate::{Error, Result};

/// Description of a program for the process that executes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listing {
    /// The names of its functions and variables: for sanitizers, and for backtraces that search
    /// libraries.
    Names,
    /// The names, and the symbols except hidden and thread-local ones, for libraries that are
    /// opened later (a system linker's `--export-dynamic`).
    Exports,
}

/// The limit in bytes for the names sent to another process, in one message.
const MOST_OF_MESSAGE: usize = 8 << 20;
/// The distance in bytes up to which parts of one kind are merged: nothing else lies between them.
const GAP: u64 = 4096;

impl Shared {
    /// Makes the process list the members of a batch, once they have addresses, if they are a
    /// program and listing was chosen. A program without exports runs even if the listing fails.
    ///
    /// # Errors
    /// Errors of the dynamic linker, for a program with exports.
    pub(super) fn list_program(&self, batch: &mut Batch) -> Result<()> {
        let (Some(listing), Some(runtime)) = (self.options.listing, &self.runtime) else {
            return Ok(());
        };
        if !batch.is_program {
            return Ok(());
        }
        let is_elsewhere = !runtime.process().facts().is_this_process;
        match runtime.open_code_library(&batch.listed(listing, is_elsewhere)) {
            Ok(number) => {
                batch.acquired.code_library(runtime, number);
                let members = batch.members.iter_mut();
                members.for_each(|linking| linking.code_library = Some(number));
                Ok(())
            }
            Err(error) if listing == Listing::Exports => Err(error),
            Err(error @ Error::ProcessGone { .. }) => Err(error),
            Err(error) => {
                log::info!("sanitizers and backtraces do not know the program's names: {error}");
                Ok(())
            }
        }
    }
}

impl Batch {
    fn listed(&self, listing: Listing, is_message: bool) -> NewCodeLibrary {
        let mut new = NewCodeLibrary { segments: self.segments(), ..NewCodeLibrary::default() };
        let mut names = Vec::new();
        // Exports come first: none of them may be left out.
        for exported in [true, false] {
            for linking in &self.members {
                let graph = &*linking.graph;
                for (symbol, address) in graph.symbols().filter_map(|symbol| placed(graph, symbol))
                {
                    let is_exported = listing == Listing::Exports && is_visible(&symbol);
                    let is_full = is_message && names.len() > MOST_OF_MESSAGE && !exported;
                    let is_reported = exported || symbol.callable || symbol.size > 0;
                    if is_exported != exported || is_full || !is_reported {
                        continue;
                    }
                    names.extend_from_slice(symbol.name);
                    names.push(0);
                    new.symbols.push(CodeSymbol {
                        address,
                        size: symbol.size,
                        is_function: symbol.callable,
                        is_weak: symbol.linkage == Linkage::Weak,
                        is_exported,
                    });
                }
            }
        }
        new.names = ByteBuf::from(names);
        new
    }

    /// Returns the memory ranges of code and variables.
    fn segments(&self) -> Vec<CodeSegment> {
        let placed = self.members.iter().flat_map(|linking| linking.graph.placed_segments());
        let stay = placed.filter(|segment| {
            segment.lifetime == Lifetime::Standard && segment.protection != Protection::Read
        });
        let mut parts: Vec<CodeSegment> = stay
            .map(|segment| CodeSegment {
                start: segment.address,
                size: segment.range().end - segment.address,
                is_writable: segment.protection == Protection::ReadWrite,
                is_executable: segment.protection == Protection::ReadExecute,
            })
            .collect();
        parts.sort_unstable_by_key(|part| (part.is_writable, part.start));
        parts.dedup_by(|next, part| {
            let end = part.start + part.size;
            let is_one = next.is_writable == part.is_writable && next.start <= end + GAP;
            if is_one {
                part.size = (next.start + next.size).max(end) - part.start;
            }
            is_one
        });
        parts
    }
}

/// Returns a symbol and its address, if it has a name and a place in memory that stays.
fn placed<'a>(graph: &LinkGraph, symbol: Symbol<'a>) -> Option<(Symbol<'a>, u64)> {
    let Definition::Block(block, offset) = symbol.definition else { return None };
    let is_named = !symbol.name.is_empty() && !symbol.section_symbol && !symbol.thread_local;
    let block = graph.block(block);
    let stays = graph.section(block.section).lifetime == Lifetime::Standard;
    (is_named && block.live && stays && !symbol.name.contains(&0))
        .then(|| (symbol, block.address + offset))
}

/// Returns whether libraries see a symbol. An indirect function is left out: its listed address
/// would be the resolver's.
fn is_visible(symbol: &Symbol<'_>) -> bool {
    symbol.scope == Scope::Default && !symbol.indirect
}
