//! The image that this linker makes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use longshore_jitlink::graph::{Definition, LinkGraph};
use longshore_jitlink::memory::{Lifetime, SlabMemory};
use longshore_jitlink::session::{Passes, Stage};
use longshore_jitlink::{Architecture, Session};
use parking_lot::Mutex;

/// The result of linking several objects.
#[derive(Default)]
pub(crate) struct Image {
    pub(crate) architecture: Option<Architecture>,
    pub(crate) sections: Vec<Section>,
    /// Address and content of each slot of a global offset table.
    pub(crate) slots: HashMap<u64, u64>,
    /// Undefined names, with their assigned addresses.
    pub(crate) externals: BTreeMap<String, u64>,
    /// Name and address of each symbol that other objects see.
    pub(crate) exported: BTreeMap<String, u64>,
}

/// A section of an object, linked.
#[derive(Clone)]
pub(crate) struct Section {
    pub(crate) object: String,
    pub(crate) name: String,
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) has_memory: bool,
    /// Content of the section; empty for zeroes.
    pub(crate) content: Vec<u8>,
    pub(crate) fields: Vec<Field>,
}

/// A computed field.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) offset: u64,
    pub(crate) kind: u32,
    pub(crate) symbol: String,
    /// Address of the symbol.
    pub(crate) address: u64,
}

/// Links objects, without executing them.
pub(crate) fn link(architecture: Architecture, objects: &[(String, Vec<u8>)], low: bool) -> Image {
    let start = if low { 0x1000_0000 } else { 0x7f00_0000_0000 };
    let image = Arc::new(Mutex::new(Image::default()));
    let mut passes = Passes::default();
    let seen = Arc::clone(&image);
    passes.add(Stage::PostFixup, move |graph| {
        let (sections, slots) = (sections_of(graph), slots_of(graph));
        let mut seen = seen.lock();
        seen.sections.extend(sections);
        seen.slots.extend(slots);
        Ok(())
    });
    let session = Session::builder()
        .with_architecture(architecture)
        .with_memory(Arc::new(SlabMemory::new(start, 0x200_0000, 0x1000).unwrap()))
        .with_passes(passes)
        .build_without_execution()
        .unwrap();
    let library = session.create_library("program");
    let graphs = objects.iter().map(|(name, bytes)| {
        _ = library.add_object(name, bytes.clone().into()).unwrap();
        LinkGraph::read(name, bytes.clone().into()).unwrap()
    });
    let graphs: Vec<LinkGraph> = graphs.collect();
    let (defined, undefined) = names(&graphs);
    // The addresses are near, but differ.
    let own = |name: &&String| defined.contains(name) || bounded(name).is_some();
    let externals = undefined.iter().filter(|name| !own(name)).enumerate();
    let mut externals: BTreeMap<String, u64> = externals
        .map(|(index, name)| (name.clone(), start + 0x300_0000 + 0x1230 * index as u64))
        .collect();
    for (name, address) in &externals {
        library.define_absolute(name, *address).unwrap();
    }
    library.link_all().unwrap();
    let mut image = std::mem::take(&mut *image.lock());
    image.exported =
        defined.into_iter().map(|name| (name.clone(), library.lookup(&name).unwrap())).collect();
    for name in &undefined {
        externals.extend(bounded(name).map(|bound| (name.clone(), image.bound(bound))));
    }
    for field in image.sections.iter_mut().flat_map(|section| &mut section.fields) {
        let known = externals.get(&field.symbol).or_else(|| image.exported.get(&field.symbol));
        field.address = known.copied().unwrap_or(field.address);
    }
    (image.architecture, image.externals) = (Some(architecture), externals);
    image
}

/// Returns the section of which a name is the bound, and whether it is the end.
fn bounded(name: &str) -> Option<(&str, bool)> {
    let start = name.strip_prefix("__start_").map(|section| (section, false));
    start.or_else(|| Some((name.strip_prefix("__stop_")?, true)))
}

impl Image {
    /// Returns the start or the end of the only section of a name.
    fn bound(&self, (name, end): (&str, bool)) -> u64 {
        let section = self.sections.iter().find(|section| section.name == name).unwrap();
        section.address + if end { section.size } else { 0 }
    }
}

/// Returns the global names that graphs define, and the undefined ones.
fn names(graphs: &[LinkGraph]) -> (Vec<String>, Vec<String>) {
    use longshore_jitlink::graph::Scope;

    let symbols = graphs.iter().flat_map(LinkGraph::symbols);
    let mut named: Vec<(String, bool)> = symbols
        .filter(|symbol| symbol.scope != Scope::Local && !symbol.section_symbol)
        .map(|symbol| {
            let name = String::from_utf8(symbol.name.to_vec()).unwrap();
            (name, symbol.definition != Definition::External)
        })
        .collect();
    named.sort();
    named.dedup();
    let (defined, undefined): (Vec<_>, Vec<_>) =
        named.into_iter().partition(|(_, defined)| *defined);
    let names = |of: Vec<(String, bool)>| of.into_iter().map(|(name, _)| name).collect();
    (names(defined), names(undefined))
}

fn sections_of(graph: &mut LinkGraph) -> Vec<Section> {
    let blocks: Vec<_> = graph.blocks().filter(|block| block.size > 0 && block.live).collect();
    let mut sections = Vec::new();
    for block in blocks {
        let section = graph.section(block.section);
        let name = String::from_utf8(section.name.to_vec()).unwrap();
        let has_memory = section.lifetime != Lifetime::NoAlloc;
        let unwanted = [".comment", ".note"].iter().any(|prefix| name.starts_with(prefix));
        if unwanted || name.starts_with('$') {
            continue;
        }
        let fields = graph.edges(block.id).map(|edge| {
            let symbol = graph.symbol(edge.target);
            let address = match symbol.definition {
                Definition::Block(block, offset) => graph.block(block).address + offset,
                Definition::Absolute(address) => address,
                Definition::External => 0,
            };
            let symbol = String::from_utf8(symbol.name.to_vec()).unwrap();
            Field { offset: edge.offset, kind: edge.kind.0, symbol, address }
        });
        let fields = fields.collect();
        let content = match has_memory {
            true => graph.content_mut(block.id).to_vec(),
            false => graph.fix_up_no_alloc(block.id).unwrap().to_vec(),
        };
        sections.push(Section {
            object: graph.name().to_string(),
            name,
            address: block.address,
            size: block.size,
            has_memory,
            content,
            fields,
        });
    }
    sections
}

fn slots_of(graph: &mut LinkGraph) -> HashMap<u64, u64> {
    let entries = graph.got_entries();
    let is_got = |name: &[u8]| name == b"$__GOT";
    let block =
        graph.blocks().find(|block| is_got(graph.section(block.section).name) && block.live);
    let Some(block) = block else { return HashMap::new() };
    let content = graph.content_mut(block.id);
    let slot = |address: u64| {
        let at = (address - block.address) as usize;
        (address, u64::from_le_bytes(content[at..at + 8].try_into().unwrap()))
    };
    entries.into_iter().map(|entry| slot(entry.address)).collect()
}
