//! The addresses that an object takes of its own functions.

use hashbrown::HashMap;

use super::{
    BlockId, Definition, Edge, LinkGraph, Linkage, NewSymbol, Scope, SectionId, SymbolId, is_kind,
};
use crate::Architecture;
use crate::arch::aarch64::Aarch64;
use crate::arch::reach::{Reach, RelocationReach};
use crate::arch::x86_64::X86_64;

impl LinkGraph {
    /// Redirects references that take the address of a global function, other than calls, to the
    /// function's name. Where another object defines the name, the function has the same address in
    /// all objects. References of limited reach are redirected only if `all_is_low`, that is, if
    /// all memory is within their reach. Must precede [`Self::scan`].
    pub(crate) fn take_addresses_by_name(&mut self, all_is_low: bool) {
        match self.architecture() {
            Architecture::X86_64 => self.take_addresses_as::<X86_64>(all_is_low),
            Architecture::Aarch64 => self.take_addresses_as::<Aarch64>(all_is_low),
        }
    }

    fn take_addresses_as<A: RelocationReach>(&mut self, all_is_low: bool) {
        let mut names: HashMap<SymbolId, SymbolId> = HashMap::new();
        for block in self.ids().filter(|block| self.has_code_or_data(*block)).collect::<Vec<_>>() {
            let content = self.content(block);
            let takes = |edge: &Edge| {
                A::address_taken(edge.kind.0, content, edge.offset, edge.addend)
                    .is_some_and(|reach| all_is_low || reach == Reach::Any)
                    && self.is_function_for_others(edge.target)
            };
            if !self.edges(block).any(|edge| takes(&edge)) {
                continue;
            }
            let taken: Vec<bool> = self.edges(block).map(|edge| takes(&edge)).collect();
            let mut edges: Vec<Edge> = self.edges(block).collect();
            for (edge, _) in edges.iter_mut().zip(taken).filter(|(_, is_taken)| *is_taken) {
                let name = names.get(&edge.target).copied();
                edge.target = name.unwrap_or_else(|| {
                    let name = self.add_name_of(edge.target);
                    names.insert(edge.target, name);
                    name
                });
            }
            self.set_edges(block, edges);
        }
    }

    /// Returns whether a block of the object is linked, and neither frames nor a list of functions
    /// for the start or the end.
    fn has_code_or_data(&self, block: BlockId) -> bool {
        let view = self.object.view();
        self.base.state(block).is_some_and(|state| state.is_live())
            && self.frames.binary_search(&block).is_err()
            && !self.is_skipped(view, block)
            && !is_list(self.section(SectionId(block.0)).name)
    }

    fn is_function_for_others(&self, id: SymbolId) -> bool {
        let view = self.object.view();
        if id.0 < view.first_global || id.0 as usize >= view.symbols.len() {
            return false;
        }
        let is_here = matches!(self.definition_in(view, id), Definition::Block(block, _) if self.is_live(block));
        let symbol = self.symbol(id);
        is_here
            && symbol.callable
            && symbol.scope == Scope::Default
            && std::str::from_utf8(symbol.name).is_ok()
    }

    /// Adds a symbol without a definition, with the name of a symbol that is defined here.
    fn add_name_of(&mut self, id: SymbolId) -> SymbolId {
        let name = String::from_utf8_lossy(self.symbol(id).name).into_owned();
        self.add_symbol(NewSymbol {
            name: &name,
            definition: Definition::External,
            size: 0,
            linkage: Linkage::Strong,
            scope: Scope::Default,
            callable: true,
        })
    }
}

/// Returns whether a section lists functions that run at the start or the end, and that nothing
/// else calls.
fn is_list(section: &[u8]) -> bool {
    [&b".init_array"[..], b".fini_array", b".preinit_array", b".ctors", b".dtors"]
        .iter()
        .any(|list| is_kind(section, list))
}
