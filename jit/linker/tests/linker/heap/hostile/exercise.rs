//! The linker's operations on the bytes of an object or an archive, except execution.

use std::fmt::{self, Write};
use std::sync::Arc;

use bytes::Bytes;
use longshore_jitlink::graph::{Definition, LinkGraph, Scope};
use longshore_jitlink::memory::{Lifetime, SlabMemory};
use longshore_jitlink::session::{Lookup, Passes, Removal, Stage, StaticArchive};
use longshore_jitlink::{Architecture, Result, Session};

/// Size of the memory for links in bytes: larger objects are errors of the memory manager.
pub(crate) const SLAB_SIZE: u64 = 1 << 20;
/// Address of the memory, in the first 2 GiB, as code without `-fPIC` requires it.
const SLAB: u64 = 0x1000_0000;

/// A way to link.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mode {
    prunes: bool,
    /// Address of undefined symbols.
    externals: u64,
}

/// The modes: a whole object near its callees, and the parts that one symbol needs, far from them.
pub(crate) const MODES: [Mode; 2] = [
    Mode { prunes: false, externals: 0x1800_0000 },
    Mode { prunes: true, externals: 0x7fff_0000_0000 },
];

impl Mode {
    /// Returns whether undefined symbols are far from all code.
    #[allow(dead_code, reason = "not every user of this module asks")]
    pub(crate) fn is_far(self) -> bool {
        self.externals > u64::from(u32::MAX)
    }
}

/// Reads an object and describes all of it.
pub(crate) fn read(bytes: &Bytes) -> Result<()> {
    let graph = LinkGraph::read("hostile.o", bytes.clone())?;
    write!(Nowhere, "{graph:?}").expect("it always can be written");
    Ok(())
}

/// Links an object, or all members of an archive, and removes it again.
pub(crate) fn link(bytes: &Bytes, mode: Mode) -> Result<()> {
    let slab = Arc::new(SlabMemory::new(SLAB, SLAB_SIZE, 0x1000)?);
    let mut passes = Passes::default();
    passes.add(Stage::PostFixup, fix_up_no_alloc);
    let mut builder = Session::builder()
        .with_architecture(architecture(bytes))
        .with_memory(slab.clone())
        .with_phony_externals(mode.externals)
        .with_passes(passes);
    if mode.prunes {
        builder = builder.with_pruning();
    }
    let session = builder.build_without_execution()?;
    let library = session.create_library("hostile");
    if mode.prunes && bytes.starts_with(b"!<arch>\n") {
        let archive = StaticArchive::new("hostile.a", bytes.clone())?;
        let wanted = archive.members().iter().find_map(|(_, member)| exported(member));
        library.add_generator(archive);
        return library.lookup_all(&[(&wanted.unwrap_or_default(), Lookup::Optional)]).map(drop);
    }
    let objects = library.add("hostile.o", bytes.clone())?;
    let linked = match exported(bytes) {
        Some(name) if mode.prunes => library.lookup(&name).map(drop),
        _ => library.link_all(),
    };
    for object in objects {
        object.remove(Removal::WithUsers)?;
    }
    assert_eq!(slab.read(SLAB, 1), None, "all memory was given back");
    linked
}

/// Fixes up the blocks for tools, which otherwise happens on demand.
fn fix_up_no_alloc(graph: &mut LinkGraph) -> Result<()> {
    let blocks: Vec<_> = graph
        .blocks()
        .filter(|block| graph.section(block.section).lifetime == Lifetime::NoAlloc)
        .map(|block| block.id)
        .collect();
    blocks.into_iter().try_for_each(|block| graph.fix_up_no_alloc(block).map(drop))
}

fn architecture(bytes: &[u8]) -> Architecture {
    let header = match bytes.starts_with(b"!<arch>\n") {
        true => bytes
            .windows(4)
            .position(|magic| magic == b"\x7fELF")
            .map_or(&[][..], |at| &bytes[at..]),
        false => bytes,
    };
    match header.get(18) {
        Some(183) => Architecture::Aarch64,
        _ => Architecture::X86_64,
    }
}

/// Returns the first symbol that an object exports.
fn exported(bytes: &Bytes) -> Option<String> {
    let graph = LinkGraph::read("hostile.o", bytes.clone()).ok()?;
    let mut symbols = graph.symbols();
    let symbol = symbols.find(|symbol| {
        symbol.scope == Scope::Default && matches!(symbol.definition, Definition::Block(..))
    })?;
    String::from_utf8(symbol.name.to_vec()).ok()
}

/// A writer that discards its text.
struct Nowhere;

impl Write for Nowhere {
    fn write_str(&mut self, _: &str) -> fmt::Result {
        Ok(())
    }
}
