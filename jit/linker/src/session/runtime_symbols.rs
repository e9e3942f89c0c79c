//! Symbols that the linker itself defines for executed code, because they depend on the library
//! that uses them.

use longshore_orc_rt::exit::LONGSHORE_ATEXIT;
use longshore_orc_rt::names;
use object::elf;
use object::endian::LittleEndian;

use super::Shared;
use super::entry::{Entry, EntryId, Flags, LibraryId};
use super::object_state::{GraphSource, Source};
use super::state::State;
use crate::graph::{Content, Definition, LinkGraph, Linkage, NewSymbol, Scope};
use crate::memory::{Lifetime, Protection};
use crate::{Architecture, Result};

impl Shared {
    /// Defines `name` if it is one of the linker's own symbols; `None` for any other name.
    pub(super) fn define_runtime_symbol(
        &self,
        state: &mut State,
        library: LibraryId,
        name: &[u8],
    ) -> Result<Option<EntryId>> {
        if name == HEADER.as_bytes() {
            return Ok(self.define_header(state, library));
        }
        let Some(runtime) = &self.runtime else { return Ok(None) };
        if name == b"atexit" {
            let Some(function) = runtime.address_of(LONGSHORE_ATEXIT) else { return Ok(None) };
            let handle = state.exit_scope(runtime, library)?;
            return Ok(self.define_atexit(state, library, function, handle));
        }
        let address = std::str::from_utf8(name).ok().and_then(names::stand_in);
        let Some(address) = address.and_then(|name| runtime.address_of(name)) else {
            return Ok(None);
        };
        let Some(id) = state.intern(library, name) else { return Ok(None) };
        let flags = Flags::GENERATED.with(Flags::HIDDEN, true).with(Flags::CALLABLE, true);
        state.set_entry((library, id), Entry::absolute(address, flags));
        Ok(Some(id))
    }

    /// Defines the library's own `atexit`: the C function does not receive the library whose
    /// handler it registers.
    fn define_atexit(
        &self,
        state: &mut State,
        library: LibraryId,
        function: u64,
        handle: u64,
    ) -> Option<EntryId> {
        let architecture = self.architecture;
        let flags = Flags::CALLABLE.with(Flags::HIDDEN, true).with(Flags::WEAK, true);
        let make = move || atexit_graph(architecture, function, handle);
        define_made(state, library, "atexit", flags, make)
    }

    /// Defines an ELF header for code that looks for its program headers there. The header has
    /// none.
    fn define_header(&self, state: &mut State, library: LibraryId) -> Option<EntryId> {
        let architecture = self.architecture;
        let flags = Flags::HIDDEN.with(Flags::WEAK, true);
        define_made(state, library, HEADER, flags, move || header_graph(architecture))
    }
}

const HEADER: &str = "__ehdr_start";
/// The version of ELF in the header (`EV_CURRENT`).
const VERSION: u8 = 1;

/// Adds an object made by hand that defines a name. `None` if the session has no room for it.
fn define_made(
    state: &mut State,
    library: LibraryId,
    name: &str,
    flags: Flags,
    make: impl Fn() -> LinkGraph + Send + Sync + 'static,
) -> Option<EntryId> {
    if state.is_full() {
        return None;
    }
    let id = state.intern(library, name.as_bytes())?;
    let graph = make();
    let symbol = graph.symbol_named(name.as_bytes()).expect("it is defined there").id;
    let source = Source::Made(GraphSource::new(&graph, make));
    let object = state.new_object(name.into(), library, source);
    state.set_entry((library, id), Entry::for_object(object, symbol.index(), flags));
    state.object_mut(object).entries.push(id);
    state.generated.push(object);
    Some(id)
}

fn header_graph(architecture: Architecture) -> LinkGraph {
    let mut graph = LinkGraph::new(HEADER, architecture);
    let section = graph.add_section("$__ehdr_start", Protection::Read, Lifetime::Standard);
    let machine = match architecture {
        Architecture::X86_64 => elf::EM_X86_64,
        Architecture::Aarch64 => elf::EM_AARCH64,
    };
    let mut header = vec![0; size_of::<elf::FileHeader64<LittleEndian>>()];
    header[..4].copy_from_slice(&elf::ELFMAG);
    header[4..7].copy_from_slice(&[elf::ELFCLASS64.0, elf::ELFDATA2LSB.0, VERSION]);
    for (offset, value) in [(16, elf::ET_DYN.0), (18, machine.0), (52, 64), (54, 56), (58, 64)] {
        header[offset..offset + 2].copy_from_slice(&value.to_le_bytes());
    }
    header[20] = VERSION;
    let block = graph.add_block(section, Content::Bytes(header), 8);
    graph.add_symbol(NewSymbol {
        name: HEADER,
        definition: Definition::Block(block, 0),
        size: size_of::<elf::FileHeader64<LittleEndian>>() as u64,
        linkage: Linkage::Weak,
        scope: Scope::Hidden,
        callable: false,
    });
    graph
}

/// Returns the graph of `int atexit(void (*f)(void)) { return function(f, handle); }`.
fn atexit_graph(architecture: Architecture, function: u64, handle: u64) -> LinkGraph {
    let mut graph = LinkGraph::new("atexit", architecture);
    let section = graph.add_section(".text", Protection::ReadExecute, Lifetime::Standard);
    let [handle, function] = [handle, function].map(u64::to_le_bytes);
    let code = match architecture {
        // `mov handle, %rsi; mov function, %rax; jmp *%rax`
        Architecture::X86_64 => {
            [&[0x48, 0xbe][..], &handle, &[0x48, 0xb8], &function, &[0xff, 0xe0]].concat()
        }
        // `ldr x1, handle; ldr x16, function; br x16; nop`
        Architecture::Aarch64 => {
            let code =
                [0x5800_0081_u32, 0x5800_00b0, 0xd61f_0200, 0xd503_201f].map(u32::to_le_bytes);
            [code.as_flattened(), &handle, &function].concat()
        }
    };
    let size = code.len() as u64;
    let block = graph.add_block(section, Content::Bytes(code), 16);
    graph.add_symbol(NewSymbol {
        name: "atexit",
        definition: Definition::Block(block, 0),
        size,
        linkage: Linkage::Weak,
        scope: Scope::Hidden,
        callable: true,
    });
    graph
}
