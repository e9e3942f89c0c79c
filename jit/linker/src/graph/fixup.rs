//! Fix-up: the copy of content into working memory, and the computation of every edge's field.

use std::cell::OnceCell;

use hashbrown::HashMap;

use super::addresses::{Addresses, GONE};
use super::externals::{External, ExternalKind, Externals, Reach, TlsLayout};
use super::needs::need;
use super::tables::{GotEntry, SLOT, SlotKind};
use super::{BlockId, Definition, Edge, EdgeKind, LinkGraph, NO_SEGMENT, SymbolId};
use crate::arch::aarch64::Aarch64;
use crate::arch::reach::RelocationReach;
use crate::arch::x86_64::X86_64;
use crate::arch::{Arch, Fault, Need};
use crate::elf::View;
use crate::error::{RelocationError, for_message};
use crate::memory::Lifetime;
use crate::{Architecture, Error, Result};

/// The values from which edges are computed.
struct Values<'a> {
    graph: &'a LinkGraph,
    view: View<'a>,
    addresses: Addresses<'a>,
    got: u64,
    stubs: u64,
    tls: TlsLayout,
    template: u64,
    local_dynamic_module: OnceCell<u64>,
}

impl LinkGraph {
    /// Returns whether all targets that layout assumed to be within reach are, now that addresses
    /// are known. If not, the graph must be laid out again with entries for everything outside of
    /// it.
    pub(crate) fn is_within(&self, reach: Reach) -> bool {
        match self.architecture() {
            _ if reach == Reach::Graph => true,
            Architecture::X86_64 => self.reaches_all::<X86_64>(),
            Architecture::Aarch64 => self.reaches_all::<Aarch64>(),
        }
    }

    /// Copies the content of all blocks into working memory and computes every field.
    ///
    /// # Errors
    /// [`Error::Relocation`] for the first field that cannot hold its value.
    pub(crate) fn fix_up(&mut self, tls: TlsLayout) -> Result<()> {
        match self.architecture() {
            Architecture::X86_64 => self.fix_up_as::<X86_64>(tls),
            Architecture::Aarch64 => self.fix_up_as::<Aarch64>(tls),
        }
    }

    /// Computes the fields of a block with [`Lifetime::NoAlloc`], in a copy that the graph keeps. A
    /// second call returns the same copy. Requires fix-up of the other blocks.
    ///
    /// # Errors
    /// The errors of fix-up. A field that cannot hold its value stays as it is where tools tolerate
    /// that.
    pub fn fix_up_no_alloc(&mut self, block: BlockId) -> Result<&[u8]> {
        let is_no_alloc = self.section(self.block(block).section).lifetime == Lifetime::NoAlloc;
        if is_no_alloc && !self.tables.fixed.contains(&block) {
            let mut content = std::mem::take(self.own_content(block));
            let result = match self.architecture() {
                Architecture::X86_64 => self.fix_up_one::<X86_64>(block, &mut content),
                Architecture::Aarch64 => self.fix_up_one::<Aarch64>(block, &mut content),
            };
            *self.own_content(block) = content;
            result?;
            self.tables.fixed.insert(block);
        }
        Ok(self.content(block))
    }

    fn fix_up_one<A: RelocationReach>(&self, block: BlockId, content: &mut [u8]) -> Result<()> {
        let values = self.values(self.tables.tls);
        values.apply_edges::<A>(block, content, 0, true)
    }

    /// Returns, for each indirect function of this graph, the slot for the address that the
    /// function returns, and the function's own address.
    pub(crate) fn indirect_functions(&self) -> Vec<(u64, u64)> {
        let Some(slots) = self.tables.indirect_got.map(|block| self.block_address(block)) else {
            return Vec::new();
        };
        let functions =
            self.tables.indirect.iter().filter_map(|symbol| self.symbol_address(*symbol));
        functions
            .enumerate()
            .map(|(index, function)| (slots + index as u64 * SLOT, function))
            .collect()
    }

    /// Returns a symbol's address for other objects, once allocated: for an indirect function, its
    /// stub's. `None` for a symbol outside of the linked code.
    pub(crate) fn exported_address(&self, symbol: SymbolId) -> Option<u64> {
        self.exported_address_in(self.object.view(), symbol)
    }

    /// Returns the same as [`Self::exported_address`], as a function for many symbols.
    pub(crate) fn exported_addresses(&self) -> impl Fn(SymbolId) -> Option<u64> {
        let view = self.object.view();
        move |symbol| self.exported_address_in(view, symbol)
    }

    #[inline]
    fn exported_address_in(&self, view: View<'_>, symbol: SymbolId) -> Option<u64> {
        if let Ok(index) = self.tables.indirect.binary_search(&symbol) {
            let size = match self.architecture() {
                Architecture::X86_64 => X86_64::STUB_SIZE,
                Architecture::Aarch64 => Aarch64::STUB_SIZE,
            };
            return Some(self.block_address(self.tables.stubs?) + (index * size) as u64);
        }
        match self.definition_in(view, symbol) {
            Definition::Block(block, offset) => {
                Some(self.live_address(block)?.wrapping_add(offset))
            }
            Definition::Absolute(value) => Some(value),
            Definition::External => None,
        }
    }

    /// Sets the symbols outside of the graph, with their final addresses: the same symbols as
    /// before, in the same order. An empty value drops them while they are not needed.
    pub(crate) fn set_externals(&mut self, externals: Externals) {
        self.tables.externals = externals;
    }

    /// Returns the content of a segment, with its fields computed.
    pub(crate) fn working_memory(&mut self, segment: u8) -> &mut [u8] {
        match &mut self.memory {
            Some(memory) => memory.segment(usize::from(segment)),
            None => &mut [],
        }
    }

    fn reaches_all<A: RelocationReach>(&self) -> bool {
        let range = self.address_range();
        let linked = |kind| kind == ExternalKind::Linked;
        self.tables.externals.symbols.iter().filter(|external| linked(external.kind)).all(
            |external| {
                let needs = self.tables.needs.get(external.symbol);
                needs & (need::CALL | need::SLOT_RELAXABLE) == 0
                    || within(&range, external.address, A::CALL_REACH)
            },
        )
    }

    fn fix_up_as<A: RelocationReach>(&mut self, tls: TlsLayout) -> Result<()> {
        self.tables.tls = tls;
        self.choose_entries::<A>();
        let mut memory = self
            .memory
            .take()
            .ok_or_else(|| self.malformed("it has no memory to be linked into"))?;
        let result = self.write_all::<A>(&mut memory.segments(), tls);
        self.memory = Some(memory);
        self.tables.fixed_up = true;
        result
    }

    /// Gives the needed entries their places, and leaves out the entries with targets within reach.
    fn choose_entries<A: RelocationReach>(&mut self) {
        let mut tables = std::mem::take(&mut self.tables);
        let range = self.address_range();
        let (mut stub_offsets, mut entry_offsets) = (HashMap::new(), HashMap::new());
        let address = |symbol: SymbolId| match tables.externals.get(symbol) {
            Some(external) => external.address,
            None => self.symbol_address(symbol).unwrap_or(0),
        };
        let stub_used = |symbol: &SymbolId| {
            let needs = tables.needs.get(*symbol);
            let address = address(*symbol);
            let far = !within(&range, address, A::CALL_REACH);
            far && needs & (need::CALL | need::RELATIVE) != 0
                || needs & need::NARROW != 0 && address > u64::from(u32::MAX >> 1)
        };
        let mut at = 0;
        for symbol in tables
            .indirect
            .iter()
            .copied()
            .chain(tables.stub_targets.iter().copied().filter(stub_used))
        {
            stub_offsets.insert(symbol, at);
            at += A::STUB_SIZE as u32;
        }
        let mut at = 0;
        for entry in &tables.entries {
            let needs = tables.needs.get(entry.target);
            let relaxed = entry.kind == SlotKind::Address
                && needs & need::SLOT == 0
                && !stub_offsets.contains_key(&entry.target)
                && within(&range, address(entry.target), A::RELAXED_REACH);
            if !relaxed {
                entry_offsets.insert(*entry, at);
                at += entry.kind.size() as u32;
            }
        }
        (tables.stub_offsets, tables.entry_offsets) = (stub_offsets, entry_offsets);
        self.tables = tables;
    }

    fn write_all<A: RelocationReach>(
        &self,
        memory: &mut [&mut [u8]],
        tls: TlsLayout,
    ) -> Result<()> {
        let values = self.values(tls);
        for id in self.ids() {
            let (segment, placement) = self.position(id);
            if segment != NO_SEGMENT && self.is_live(id) {
                self.write_block::<A>(&values, id, (segment, placement), memory)?;
            }
        }
        values.write_got(memory);
        values.write_stubs::<A>(memory)
    }

    fn write_block<A: RelocationReach>(
        &self,
        values: &Values<'_>,
        id: BlockId,
        (segment, placement): (u8, u32),
        memory: &mut [&mut [u8]],
    ) -> Result<()> {
        if let Some(frames) = self.frames_of(id) {
            let working = &mut memory[usize::from(segment)][placement as usize..];
            let working = &mut working[..frames.size as usize];
            self.write_frames(frames, working);
            return values.apply_edges::<A>(id, working, self.block_address(id), false);
        }
        let content = self.content_in(values.view, id);
        if content.is_empty() {
            return match values.edges(id).next() {
                None => Ok(()),
                Some(edge) => Err(self.edge_error(id, edge, Fault::Truncated)),
            };
        }
        let segment = usize::from(segment);
        let working = &mut memory[segment][placement as usize..][..content.len()];
        working.copy_from_slice(content);
        let address = self.segments[segment].address + u64::from(placement);
        values.apply_edges::<A>(id, working, address, false)
    }

    fn values(&self, tls: TlsLayout) -> Values<'_> {
        let view = self.object.view();
        let block = |block: Option<BlockId>| block.map_or(0, |block| self.block_address(block));
        let template = self.tls_template().map_or(0, |(_, address)| address);
        let stubs = block(self.tables.stubs);
        let module_start = template.wrapping_sub(tls.module_offset);
        Values {
            graph: self,
            view,
            addresses: self.addresses(view, stubs, module_start),
            got: block(self.tables.got),
            stubs,
            tls,
            template,
            local_dynamic_module: OnceCell::new(),
        }
    }

    /// Returns the addresses of all symbols, with the special ones listed: symbols outside of the
    /// graph, the start of its module, and functions that every object knows by their stubs.
    fn addresses<'a>(&'a self, view: View<'a>, stubs: u64, module_start: u64) -> Addresses<'a> {
        let tables = &self.tables;
        let externals = tables.externals.symbols.iter().map(|e| (e.symbol, e.address));
        let module = tables.tls_base.map(|symbol| (symbol, module_start));
        let known_by_stub = |(symbol, _): &(&SymbolId, &u32)| {
            tables.needs.get(**symbol) & (need::NARROW | need::RELATIVE) != 0
                || tables.indirect.binary_search(symbol).is_ok()
        };
        let by_stub = tables.stub_offsets.iter().filter(known_by_stub);
        let by_stub = by_stub.map(|(symbol, offset)| (*symbol, stubs + u64::from(*offset)));
        let others = externals.chain(module).chain(by_stub);
        let mut addresses = Addresses::new(self, view, others.clone().map(|(symbol, _)| symbol));
        for (symbol, address) in others {
            addresses.set(symbol, address);
        }
        addresses
    }

    pub(super) fn edge_error(&self, block: BlockId, edge: Edge, fault: Fault) -> Error {
        Error::Relocation(Box::new(RelocationError {
            place: self.place(block, edge.offset),
            kind: self.relocation_name(edge.kind),
            symbol: for_message(self.symbol(edge.target).name),
            fault,
        }))
    }
}

impl<'a> Values<'a> {
    fn edges(&self, block: BlockId) -> super::Edges<'a> {
        self.graph.edges_in(self.view, block)
    }

    /// Computes the fields of one block. With `lenient`, for tools, a field that cannot hold its
    /// value stays as it is.
    fn apply_edges<A: RelocationReach>(
        &self,
        id: BlockId,
        content: &mut [u8],
        address: u64,
        lenient: bool,
    ) -> Result<()> {
        for edge in self.edges(id) {
            if edge.kind == EdgeKind::KEEP_ALIVE {
                continue;
            }
            match self.apply::<A>(edge, content, address) {
                Err(_) if lenient => {}
                Err(_) if self.is_tombstone(id, edge) => {}
                Err(fault) => return Err(self.graph.edge_error(id, edge, fault)),
                Ok(()) => {}
            }
        }
        Ok(())
    }

    #[inline]
    fn apply<A: RelocationReach>(
        &self,
        edge: Edge,
        content: &mut [u8],
        address: u64,
    ) -> Result<(), Fault> {
        let offset = usize::try_from(edge.offset).map_err(|_| Fault::Truncated)?;
        let place = address.wrapping_add(edge.offset);
        let (kind, addend) = (edge.kind.0, edge.addend);
        let symbol = self.addresses.get(edge.target);
        let value = match A::need(kind).ok_or(Fault::Truncated)? {
            Need::Nothing => return Ok(()),
            Need::Symbol => symbol,
            Need::Call => self.call_target(edge.target, symbol),
            Need::Slot => match self.slot(edge.target, SlotKind::Address) {
                Some(slot) => slot,
                None => {
                    return A::relax(
                        kind,
                        content,
                        offset,
                        place,
                        self.present(symbol, edge.target)?,
                        addend,
                    );
                }
            },
            other => self.rare_value(other, edge.target, symbol)?,
        };
        if value == GONE {
            self.present(value, edge.target)?;
        }
        A::apply(kind, content, offset, place, value, addend)
    }

    #[inline]
    fn call_target(&self, target: SymbolId, address: u64) -> u64 {
        if self.graph.tables.stub_offsets.is_empty() {
            return address;
        }
        self.graph
            .tables
            .stub_offsets
            .get(&target)
            .map_or(address, |offset| self.stubs + u64::from(*offset))
    }

    fn rare_value(&self, need: Need, target: SymbolId, symbol: u64) -> Result<u64, Fault> {
        let missing = Fault::NoEntry;
        let slot = |kind| self.slot(target, kind).ok_or(missing.clone());
        Ok(match need {
            Need::SlotFromGot => slot(SlotKind::Address)?.wrapping_sub(self.got),
            Need::SlotFromGotPage => slot(SlotKind::Address)?.wrapping_sub(self.got & !0xfff),
            Need::SymbolFromGot => self.present(symbol, target)?.wrapping_sub(self.got),
            Need::CallFromGot => {
                self.present(self.call_target(target, symbol), target)?.wrapping_sub(self.got)
            }
            Need::Got => self.got,
            Need::Size if self.graph.tables.externals.get(target).is_some() => {
                return Err(Fault::UnknownSize);
            }
            Need::Size => self.graph.symbol(target).size,
            Need::TlsPair => slot(SlotKind::TlsPair)?,
            Need::TlsModule => {
                let entry = GotEntry { target: SymbolId(0), kind: SlotKind::TlsModule };
                self.entry(entry).ok_or(missing)?
            }
            Need::TlsModuleOffset => self.module_offset(target, symbol)?,
            Need::TlsOffsetSlot => {
                self.thread_pointer_offset(target, symbol).ok_or(Fault::NoStaticTls)?;
                slot(SlotKind::TlsOffset)?
            }
            Need::TlsOffset => {
                let symbol = self.present(symbol, target)?;
                self.thread_pointer_offset(target, symbol).ok_or(Fault::NoStaticTls)? as u64
            }
            Need::TlsDescriptor => slot(SlotKind::TlsDescriptor)?,
            Need::Nothing | Need::Symbol | Need::Call | Need::Slot => symbol,
        })
    }

    /// Returns the address of a symbol, or [`Fault::Discarded`] if its block was taken out.
    fn present(&self, address: u64, symbol: SymbolId) -> Result<u64, Fault> {
        let gone = || match self.graph.definition_in(self.view, symbol) {
            Definition::Block(block, _) => self.graph.live_address(block).is_none(),
            _ => false,
        };
        if address == GONE && gone() { Err(Fault::Discarded) } else { Ok(address) }
    }

    fn slot(&self, target: SymbolId, kind: SlotKind) -> Option<u64> {
        self.entry(GotEntry { target, kind })
    }

    /// Returns the slot from which the stub of an indirect function of this graph jumps.
    fn indirect_slot(&self, target: SymbolId) -> Option<u64> {
        let tables = &self.graph.tables;
        let index = tables.indirect.binary_search(&target).ok()?;
        Some(self.graph.block_address(tables.indirect_got?) + index as u64 * SLOT)
    }

    fn entry(&self, entry: GotEntry) -> Option<u64> {
        self.graph.tables.entry_offsets.get(&entry).map(|offset| self.got + u64::from(*offset))
    }

    /// Returns a thread-local variable's module and its offset there.
    fn thread_local(&self, target: SymbolId, symbol: u64) -> (u64, u64) {
        match self.graph.tables.externals.thread_local(target) {
            Some(variable) => (variable.module, symbol),
            None => {
                let offset =
                    symbol.wrapping_sub(self.template).wrapping_add(self.tls.module_offset);
                (self.tls.module, offset)
            }
        }
    }

    /// Returns the module of this graph's variables, or of variables elsewhere that the code takes
    /// to be in the same module.
    fn local_dynamic_module(&self) -> u64 {
        *self.local_dynamic_module.get_or_init(|| {
            let tables = &self.graph.tables;
            if tables.template.is_some() {
                return self.tls.module;
            }
            let used = |external: &&External| {
                tables.needs.get(external.symbol) & need::TLS_MODULE_OFFSET != 0
            };
            let symbol = tables.externals.symbols.iter().find(used).map(|external| external.symbol);
            symbol
                .and_then(|symbol| tables.externals.thread_local(symbol))
                .map_or(0, |place| place.module)
        })
    }

    fn module_offset(&self, target: SymbolId, symbol: u64) -> Result<u64, Fault> {
        let (module, offset) = self.thread_local(target, self.present(symbol, target)?);
        if module == self.local_dynamic_module() { Ok(offset) } else { Err(Fault::NoStaticTls) }
    }

    fn thread_pointer_offset(&self, target: SymbolId, symbol: u64) -> Option<i64> {
        match self.graph.tables.externals.thread_local(target) {
            Some(variable) => variable.from_thread_pointer,
            None => Some(
                self.tls
                    .from_thread_pointer?
                    .wrapping_add(symbol.wrapping_sub(self.template) as i64),
            ),
        }
    }

    fn write_got(&self, memory: &mut [&mut [u8]]) {
        let Some((segment, placement)) =
            self.graph.tables.got.map(|block| self.graph.position(block))
        else {
            return;
        };
        let got = &mut memory[usize::from(segment)][placement as usize..];
        for (entry, offset) in &self.graph.tables.entry_offsets {
            let symbol = self.addresses.get(entry.target);
            let at = self.got + u64::from(*offset);
            let (module, tls_offset) = self.thread_local(entry.target, symbol);
            let fixed = self.thread_pointer_offset(entry.target, symbol);
            let words = match entry.kind {
                SlotKind::Address => [self.real_address(entry.target, symbol), 0, 0, 0],
                SlotKind::TlsPair => [module, tls_offset, 0, 0],
                SlotKind::TlsModule => [self.local_dynamic_module(), 0, 0, 0],
                SlotKind::TlsOffset => [fixed.unwrap_or(0) as u64, 0, 0, 0],
                SlotKind::TlsDescriptor => match fixed {
                    Some(fixed) => [self.tls.static_resolver, fixed as u64, module, tls_offset],
                    None => [self.tls.dynamic_resolver, at + 2 * SLOT, module, tls_offset],
                },
            };
            let count = (entry.kind.size() / SLOT) as usize;
            for (slot, word) in
                got[*offset as usize..].chunks_exact_mut(SLOT as usize).zip(&words[..count])
            {
                slot.copy_from_slice(&word.to_le_bytes());
            }
        }
    }

    /// Returns the target of a stub. For a function known by its stub, it differs from the symbol's
    /// address.
    fn real_address(&self, target: SymbolId, symbol: u64) -> u64 {
        match self.graph.tables.externals.get(target) {
            Some(external) => external.address,
            None => symbol,
        }
    }

    fn write_stubs<A: RelocationReach>(&self, memory: &mut [&mut [u8]]) -> Result<()> {
        let Some((segment, placement)) =
            self.graph.tables.stubs.map(|block| self.graph.position(block))
        else {
            return Ok(());
        };
        let stubs = &mut memory[usize::from(segment)][placement as usize..];
        for (target, offset) in &self.graph.tables.stub_offsets {
            let stub = &mut stubs[*offset as usize..][..A::STUB_SIZE];
            let slot =
                self.indirect_slot(*target).or_else(|| self.slot(*target, SlotKind::Address));
            let slot = slot.unwrap_or(0);
            A::write_stub(stub, self.stubs + u64::from(*offset), slot).map_err(|fault| {
                let name = String::from_utf8_lossy(self.graph.symbol(*target).name).into_owned();
                self.graph
                    .unsupported(format!("the stub for {name} cannot reach its slot: {fault}"))
            })?;
        }
        Ok(())
    }

    /// Returns whether a field of frames or handler tables refers to a function that was left out.
    /// The field keeps its zero, which the unwinder recognizes.
    fn is_tombstone(&self, block: BlockId, edge: Edge) -> bool {
        let section = self.graph.section(self.graph.block(block).section).name;
        let tolerant = section == b".eh_frame" || section.starts_with(b".gcc_except_table");
        tolerant && self.addresses.get(edge.target) == GONE
    }
}

/// Returns whether a target is within `reach` of every place in a range.
fn within(range: &std::ops::Range<u64>, target: u64, reach: u64) -> bool {
    target.abs_diff(range.start) <= reach && target.abs_diff(range.end) <= reach
}
