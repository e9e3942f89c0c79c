//! Global offset table and stubs: the symbols that need an entry, and the entries that stay once
//! addresses are known.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use object::elf;

use super::bounds::{BoundReference, Shared};
use super::edit::Content;
use super::externals::{External, ExternalKind, Externals, Reach, TlsLayout};
use super::layout::TlsTemplate;
use super::needs::{Needs, need};
use super::{Block, BlockId, Definition, EdgeKind, LinkGraph, Symbol, SymbolId};
use crate::arch::Need;
use crate::arch::aarch64::Aarch64;
use crate::arch::reach::{Reach as EdgeReach, RelocationReach};
use crate::arch::x86_64::X86_64;
use crate::memory::{Lifetime, Protection};
use crate::{Architecture, Error, Result};

/// Size of a GOT slot in bytes.
pub(super) const SLOT: u64 = 8;

/// An entry of the global offset table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct GotEntry {
    pub(crate) target: SymbolId,
    pub(crate) kind: SlotKind,
}

/// The content of an entry of the global offset table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum SlotKind {
    /// The symbol's address.
    Address,
    /// Module and offset of a thread-local variable.
    TlsPair,
    /// The graph's own module, and 0.
    TlsModule,
    /// Offset of a thread-local variable from the thread pointer.
    TlsOffset,
    /// Resolver and argument, then module and offset, to which the argument may point.
    TlsDescriptor,
}

impl SlotKind {
    pub(super) fn size(self) -> u64 {
        match self {
            Self::Address | Self::TlsOffset => SLOT,
            Self::TlsPair | Self::TlsModule => 2 * SLOT,
            Self::TlsDescriptor => 4 * SLOT,
        }
    }
}

#[derive(Default)]
pub(super) struct Tables {
    pub(super) needs: Needs,
    got_base: bool,
    /// `_GLOBAL_OFFSET_TABLE_`, if the object refers to it.
    got_symbol: Option<SymbolId>,
    /// `_TLS_MODULE_BASE_`, the start of the module's block, if the object refers to it.
    pub(super) tls_base: Option<SymbolId>,
    /// Whether working memory has its content.
    pub(super) fixed_up: bool,
    tls_module: bool,
    narrow: bool,
    pub(super) externals: Externals,
    pub(super) got: Option<BlockId>,
    pub(super) stubs: Option<BlockId>,
    /// Slots of indirect functions, written when they are resolved.
    pub(super) indirect_got: Option<BlockId>,
    /// Entries in the order in which they lie.
    pub(super) entries: Vec<GotEntry>,
    pub(super) stub_targets: Vec<SymbolId>,
    /// The functions that return the address to use, ascending.
    pub(super) indirect: Vec<SymbolId>,
    /// Offsets of the entries and stubs in use, in the GOT and in the stubs, once addresses are
    /// known.
    pub(super) entry_offsets: HashMap<GotEntry, u32>,
    pub(super) stub_offsets: HashMap<SymbolId, u32>,
    /// The references to bounds of sections of this graph.
    pub(super) bounds: Vec<BoundReference>,
    /// The sections that lie together with sections of other graphs.
    pub(super) shared: Vec<Shared>,
    /// Whether zeroes have a segment of their own.
    pub(super) separates_zeroes: bool,
    pub(super) template: Option<TlsTemplate>,
    pub(super) tls: TlsLayout,
    /// Blocks without memory whose fields have been computed.
    pub(super) fixed: HashSet<BlockId>,
}

/// An entry of the global offset table, or a stub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableEntry {
    /// The symbol of the entry.
    pub target: Arc<str>,
    /// The entry's address.
    pub address: u64,
}

impl LinkGraph {
    /// Scans the edges of all live blocks once, and records each symbol's needs.
    pub(crate) fn scan(&mut self) -> Result<()> {
        let tables = match self.architecture() {
            Architecture::X86_64 => self.scan_as::<X86_64>(),
            Architecture::Aarch64 => self.scan_as::<Aarch64>(),
        }?;
        self.tables = tables;
        self.find_own_names();
        Ok(())
    }

    /// Finds the undefined symbols of the object that the linker defines: the GOT, and the bounds
    /// of sections.
    fn find_own_names(&mut self) {
        let view = self.object.view();
        let own = |id: &SymbolId| {
            id.0 < view.symbols.len() as u32
                && [&b"__"[..], b"_GLOBAL_", b"_TLS_"]
                    .iter()
                    .any(|prefix| view.name_starts_with(id.0, prefix))
        };
        let named = |id| (id, self.symbol(id).name);
        let names: Vec<(SymbolId, Vec<u8>)> = self
            .undefined()
            .filter(own)
            .map(named)
            .filter(|(_, name)| {
                name.starts_with(b"__")
                    || [&b"_GLOBAL_OFFSET_TABLE_"[..], b"_TLS_MODULE_BASE_"].contains(name)
            })
            .map(|(id, name)| (id, name.to_vec()))
            .collect();
        for (symbol, name) in &names {
            let (symbol, name) = (*symbol, &**name);
            if name == b"__dso_handle" {
                // Code expects `__dso_handle` nearby, so each object has its own.
                let section =
                    self.add_section("$__dso_handle", Protection::Read, Lifetime::Standard);
                let block = self.add_block(section, Content::Zero(SLOT), SLOT);
                self.redefine(symbol, Definition::Block(block, 0));
                self.dso_handle = Some(block);
            } else if name == b"_GLOBAL_OFFSET_TABLE_" {
                self.tables.got_base = true;
                self.tables.got_symbol = Some(symbol);
                self.tables.needs.insert(symbol, need::OWN);
            } else if name == b"_TLS_MODULE_BASE_" {
                // The symbol gets its address with the variables.
                self.redefine(symbol, Definition::Absolute(0));
                self.tables.tls_base = Some(symbol);
            }
        }
        self.find_bounds(&names);
        if self.tables.got_base && self.tables.got_symbol.is_none() {
            self.tables.got_symbol = self.unneeded_got_symbol();
        }
    }

    /// Returns `_GLOBAL_OFFSET_TABLE_` where the object refers to it only by relocations that mean
    /// the table whatever their symbol is.
    fn unneeded_got_symbol(&self) -> Option<SymbolId> {
        const NAME: &[u8] = b"_GLOBAL_OFFSET_TABLE_";
        let view = self.object.view();
        let mut globals = (view.first_global.max(1)..view.symbols.len() as u32).map(SymbolId);
        globals.find(|id| {
            self.definition_in(view, *id) == Definition::External && view.symbol_name(id.0) == NAME
        })
    }

    /// Returns the address of the object's `__dso_handle`, once allocated, if it refers to one.
    pub(crate) fn dso_handle(&self) -> Option<u64> {
        self.dso_handle.map(|block| self.block_address(block))
    }

    /// Returns whether code holds addresses in 32 bits, so that it must lie in the first 2 GiB.
    /// Requires [`Self::scan`].
    pub(crate) fn is_narrow(&self) -> bool {
        self.tables.narrow
    }

    fn scan_as<A: RelocationReach>(&self) -> Result<Tables> {
        let view = self.object.view();
        let mut tables = Tables::default();
        let mut needs = vec![0; self.symbol_count() as usize];
        for id in self.ids() {
            if self.is_skipped(view, id) {
                continue;
            }
            let edges = self.edges_in(view, id);
            // Frames are made when they are written, and contain no relaxable instruction.
            let content = if self.frames_of(id).is_some() { &[] } else { self.content(id) };
            for edge in edges {
                if edge.kind == EdgeKind::KEEP_ALIVE && !self.has_edges_of_object(id) {
                    continue;
                }
                let Some(need) = A::need(edge.kind.0) else {
                    return Err(self.unsupported_edge(id, edge));
                };
                needs[edge.target.0 as usize] |= tables.note::<A>(need, edge, content);
            }
        }
        tables.needs = self.lasting_needs(view, &needs);
        Ok(tables)
    }

    /// Returns whether a block has no memory, because it is not live or is for tools.
    pub(super) fn is_skipped(&self, view: crate::elf::View<'_>, id: BlockId) -> bool {
        match self.base.state(id) {
            Some(state) => {
                let header = &view.sections[id.0 as usize];
                !state.is_live()
                    || self.lifetime(super::SectionId(id.0), header) == Lifetime::NoAlloc
            }
            None => {
                let Block { live, section, .. } = self.block(id);
                !live || self.section(section).lifetime == Lifetime::NoAlloc
            }
        }
    }

    fn unsupported_edge(&self, block: BlockId, edge: super::Edge) -> Error {
        Error::UnsupportedRelocation {
            place: self.place(block, edge.offset),
            kind: self.relocation_name(edge.kind),
        }
    }

    /// Sets the undefined symbols' definitions, and makes room for the needed entries. Requires
    /// [`Self::scan`].
    pub(crate) fn reserve_tables(&mut self, externals: Externals, reach: Reach) {
        let mut tables = std::mem::take(&mut self.tables);
        tables.externals = externals;
        tables.entries.clear();
        tables.stub_targets.clear();
        tables.indirect.clear();
        self.reserve_for_externals(&mut tables, reach);
        self.reserve_for_definitions(&mut tables);
        if tables.tls_module {
            tables.entries.push(GotEntry { target: SymbolId(0), kind: SlotKind::TlsModule });
        }
        let Tables { entries, stub_targets, needs, .. } = &mut tables;
        entries.shrink_to_fit();
        stub_targets.shrink_to_fit();
        entries.sort_by_key(|entry| needs.get(entry.target) & need::SLOT_NEAR == 0);
        self.make_blocks(&mut tables);
        if let (Some(symbol), Some(got)) = (tables.got_symbol, tables.got) {
            self.redefine(symbol, Definition::Block(got, 0));
        }
        self.tables = tables;
    }

    fn reserve_for_externals(&self, tables: &mut Tables, reach: Reach) {
        for index in 0..tables.externals.symbols.len() {
            let External { symbol, kind, .. } = tables.externals.symbols[index];
            let needs = tables.needs.get(symbol);
            let near = kind == ExternalKind::Linked && reach == Reach::Session;
            let stand_in = kind == ExternalKind::Process { callable: true }
                && needs & (need::NARROW | need::RELATIVE) != 0;
            let stub = !near && needs & need::CALL != 0 || stand_in;
            if stub {
                tables.stub_targets.push(symbol);
            }
            if stub || needs & need::SLOT != 0 || !near && needs & need::SLOT_RELAXABLE != 0 {
                tables.entries.push(GotEntry { target: symbol, kind: SlotKind::Address });
            }
            tables.reserve_thread_local(symbol, needs);
        }
    }

    fn reserve_for_definitions(&self, tables: &mut Tables) {
        const INTERESTING: u16 = need::SLOT
            | need::SLOT_RELAXABLE
            | need::TLS_PAIR
            | need::TLS_OFFSET_SLOT
            | need::TLS_DESCRIPTOR
            | need::CALL;
        let view = self.object.view();
        let all = std::mem::take(&mut tables.needs);
        for (symbol, needs) in all.iter() {
            if needs & INTERESTING == 0 {
                continue;
            }
            let absolute = match self.definition_in(view, symbol) {
                Definition::Block(block, _) if !self.is_discarded(block) => false,
                Definition::Absolute(_) => true,
                // Layout defines the symbol.
                _ if needs & need::OWN != 0 => false,
                _ => continue,
            };
            if absolute && needs & need::CALL != 0 {
                tables.stub_targets.push(symbol);
            }
            if needs & need::SLOT != 0
                || absolute && needs & (need::SLOT_RELAXABLE | need::CALL) != 0
            {
                tables.entries.push(GotEntry { target: symbol, kind: SlotKind::Address });
            }
            tables.reserve_thread_local(symbol, needs);
        }
        tables.needs = all;
        let live = |id: &SymbolId| matches!(self.definition_in(view, *id), Definition::Block(block, _) if self.block(block).live);
        let indirect = view
            .symbols
            .iter()
            .enumerate()
            .filter(|(_, symbol)| symbol.st_type() == elf::STT_GNU_IFUNC);
        tables.indirect = indirect.map(|(index, _)| SymbolId(index as u32)).filter(live).collect();
    }

    /// Makes one block for all entries of a kind; replaces it when the tables are made again.
    fn make_blocks(&mut self, tables: &mut Tables) {
        let stub = match self.architecture() {
            Architecture::X86_64 => stub_shape::<X86_64>(),
            Architecture::Aarch64 => stub_shape::<Aarch64>(),
        };
        let got: u64 = tables.entries.iter().map(|entry| entry.kind.size()).sum();
        let stubs = (tables.stub_targets.len() + tables.indirect.len()) as u64 * stub.0;
        let indirect = tables.indirect.len() as u64 * SLOT;
        for block in [tables.got, tables.stubs, tables.indirect_got].into_iter().flatten() {
            self.set_live(block, false);
        }
        tables.got = (got > 0 || tables.got_base)
            .then(|| self.table_block("$__GOT", Protection::Read, got, SLOT));
        tables.stubs = (stubs > 0)
            .then(|| self.table_block("$__STUBS", Protection::ReadExecute, stubs, stub.1));
        tables.indirect_got = (indirect > 0)
            .then(|| self.table_block("$__GOT.indirect", Protection::ReadWrite, indirect, SLOT));
    }

    fn table_block(
        &mut self,
        name: &str,
        protection: Protection,
        size: u64,
        alignment: u64,
    ) -> BlockId {
        let section = self.add_section(name, protection, Lifetime::Standard);
        self.add_block(section, Content::Bytes(vec![0; size as usize]), alignment)
    }

    /// Returns the symbols that are defined elsewhere, with their addresses once every block has
    /// one: 0 for a weak reference without a definition. Thread-local variables, which have no
    /// address, are left out.
    pub fn externals(&self) -> impl Iterator<Item = (Symbol<'_>, u64)> {
        let has_address = |external: &&External| external.kind != ExternalKind::ThreadLocal;
        let externals = self.tables.externals.symbols.iter().filter(has_address);
        externals.map(|external| (self.symbol(external.symbol), external.address))
    }

    /// Returns the entries of the global offset table in use, after fix-up.
    pub fn got_entries(&self) -> Vec<TableEntry> {
        let base = self.tables.got.map_or(0, |block| self.block_address(block));
        let entries = self
            .tables
            .entries
            .iter()
            .filter_map(|entry| Some((entry, self.tables.entry_offsets.get(entry)?)));
        entries
            .map(|(entry, offset)| self.table_entry(entry.target, base + u64::from(*offset)))
            .collect()
    }

    /// Returns the stubs in use, after fix-up.
    pub fn stub_entries(&self) -> Vec<TableEntry> {
        let base = self.tables.stubs.map_or(0, |block| self.block_address(block));
        let targets = self.tables.stub_targets.iter().chain(&self.tables.indirect);
        let stubs =
            targets.filter_map(|target| Some((target, self.tables.stub_offsets.get(target)?)));
        stubs.map(|(target, offset)| self.table_entry(*target, base + u64::from(*offset))).collect()
    }

    fn table_entry(&self, target: SymbolId, address: u64) -> TableEntry {
        TableEntry { target: String::from_utf8_lossy(self.symbol(target).name).into(), address }
    }
}

impl Tables {
    /// Returns the bits of [`need`] that an edge gives its target. Records in the tables whether
    /// the graph needs low memory, the address of its GOT, and the entry of its TLS module.
    #[inline]
    fn note<A: RelocationReach>(&mut self, need: Need, edge: super::Edge, content: &[u8]) -> u16 {
        let bits = match need {
            Need::Nothing => 0,
            Need::Symbol => match A::reach(edge.kind.0) {
                EdgeReach::Any => 0,
                EdgeReach::Relative => need::RELATIVE,
                EdgeReach::Narrow => {
                    self.narrow = true;
                    need::NARROW
                }
            },
            Need::Call => need::CALL,
            Need::Slot if A::can_relax(edge.kind.0, content, edge.offset as usize, edge.addend) => {
                need::SLOT_RELAXABLE
            }
            Need::Slot => need::SLOT,
            Need::SlotFromGot | Need::SlotFromGotPage => {
                self.got_base = true;
                need::SLOT | need::SLOT_NEAR
            }
            Need::SymbolFromGot => {
                self.got_base = true;
                0
            }
            Need::CallFromGot => {
                self.got_base = true;
                need::CALL
            }
            Need::Got => {
                self.got_base = true;
                // The edge's symbol is `_GLOBAL_OFFSET_TABLE_`, which this graph defines.
                return 0;
            }
            Need::Size => 0,
            Need::TlsModuleOffset => need::TLS_MODULE_OFFSET,
            Need::TlsPair => need::TLS_PAIR,
            Need::TlsModule => {
                self.tls_module = true;
                0
            }
            Need::TlsOffsetSlot => need::TLS_OFFSET_SLOT,
            Need::TlsOffset => need::TLS_OFFSET,
            Need::TlsDescriptor => need::TLS_DESCRIPTOR,
        };
        bits | need::REFERENCED
    }

    fn reserve_thread_local(&mut self, target: SymbolId, needs: u16) {
        let kinds = [
            (need::TLS_PAIR, SlotKind::TlsPair),
            (need::TLS_OFFSET_SLOT, SlotKind::TlsOffset),
            (need::TLS_DESCRIPTOR, SlotKind::TlsDescriptor),
        ];
        for (bit, kind) in kinds {
            if needs & bit != 0 {
                self.entries.push(GotEntry { target, kind });
            }
        }
    }
}

fn stub_shape<A: RelocationReach>() -> (u64, u64) {
    (A::STUB_SIZE as u64, A::STUB_ALIGNMENT)
}
