//! The linked code and data, as JSON (`--dump-memory`). `docs/command.md` describes the keys.

use super::arguments::Absolute;
use super::inputs::Input;
use crate::failure::{Exit, Failure};
use longshore_jitlink::graph::{
    Block, Definition, LinkGraph, Linkage, Scope, Section, Symbol, TableEntry,
};
use longshore_jitlink::memory::Lifetime;
use longshore_jitlink::{Architecture, Result};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::path::Path;
use std::sync::Mutex;

/// A collection of the contents of graphs after fix-up. Several threads may add graphs.
pub(super) struct Dump {
    origins: Vec<Origin>,
    linked: Mutex<Linked>,
}

/// A file that graphs come from.
struct Origin {
    name: String,
    base_name: String,
    /// The addresses of the file's bytes in this process.
    bytes: Range<usize>,
}

#[derive(Default)]
struct Linked {
    absolutes: BTreeMap<String, u64>,
    externals: BTreeMap<String, u64>,
    /// Names of non-local symbols that files define.
    defined: HashSet<String>,
    files: Vec<(Order, FileDump)>,
}

/// The sort key of a graph: the index of its file on the command line, and the offset of the object
/// in the file. For a graph made by the linker, its name.
type Order = (usize, usize, String);

#[derive(Serialize)]
struct Document<'a> {
    version: u32,
    triple: &'static str,
    absolutes: &'a BTreeMap<String, u64>,
    externals: &'a BTreeMap<String, u64>,
    files: Vec<&'a FileDump>,
}

#[derive(Serialize)]
struct FileDump {
    name: String,
    sections: Vec<SectionDump>,
    symbols: Vec<SymbolDump>,
    got: Vec<EntryDump>,
    stubs: Vec<EntryDump>,
}

#[derive(Serialize)]
struct SectionDump {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    addr: Option<u64>,
    size: u64,
    lifetime: String,
    prot: String,
    blocks: Vec<BlockDump>,
}

#[derive(Serialize)]
struct BlockDump {
    #[serde(skip_serializing_if = "Option::is_none")]
    addr: Option<u64>,
    size: u64,
    #[serde(flatten)]
    content: ContentDump,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum ContentDump {
    /// The bytes in hexadecimal.
    Bytes(String),
    ZeroFill(bool),
}

#[derive(Serialize)]
struct SymbolDump {
    name: String,
    addr: u64,
    size: u64,
    scope: &'static str,
    linkage: &'static str,
    callable: bool,
}

#[derive(Serialize)]
struct EntryDump {
    target: String,
    addr: u64,
}

impl Dump {
    /// Creates a dump for graphs of these files, in this order.
    pub(super) fn new(inputs: &[Input], archives: &[Input]) -> Dump {
        let origins = inputs.iter().chain(archives).map(Origin::new).collect();
        Dump { origins, linked: Mutex::default() }
    }

    /// Adds a graph with its final contents.
    pub(super) fn add(&self, graph: &mut LinkGraph) -> Result<()> {
        let (order, name) = self.origin(graph);
        let file = FileDump {
            name,
            sections: sections(graph)?,
            symbols: symbols(graph),
            got: entries(graph.got_entries()),
            stubs: entries(graph.stub_entries()),
        };
        let mut linked = self.linked.lock().expect("no thread panics while it holds it");
        linked.take_names(graph);
        linked.files.push((order, file));
        Ok(())
    }

    /// Writes the added graphs to a file, sorted by their origin.
    pub(super) fn write(
        &self,
        architecture: Architecture,
        absolutes: &[Absolute],
        to: &Path,
    ) -> Result<(), Failure> {
        let mut linked = self.linked.lock().expect("no thread panics while it holds it");
        let Linked { absolutes: all, externals, defined, files } = &mut *linked;
        all.extend(absolutes.iter().map(|absolute| (absolute.name.clone(), absolute.address)));
        externals.retain(|name, _| !defined.contains(name) && !all.contains_key(name));
        files.sort_by(|(one, _), (other, _)| one.cmp(other));
        let document = Document {
            version: 1,
            triple: architecture.triple(),
            absolutes: all,
            externals,
            files: files.iter().map(|(_, file)| file).collect(),
        };
        let write = || -> std::io::Result<()> {
            let mut to = BufWriter::new(std::fs::File::create(to)?);
            serde_json::to_writer(&mut to, &document)?;
            writeln!(to)?;
            to.flush()
        };
        write().map_err(|error| {
            Failure::new(Exit::Runtime, format!("cannot write '{}': {error}", to.display()))
        })
    }

    /// Returns the sort key of a graph, and its name with only the last part of its file's path.
    fn origin(&self, graph: &LinkGraph) -> (Order, String) {
        let name = graph.name().to_string();
        let bytes = graph.object_bytes().as_ptr() as usize;
        match self.origins.iter().position(|origin| origin.bytes.contains(&bytes)) {
            Some(index) => {
                let origin = &self.origins[index];
                let member = name.strip_prefix(&origin.name).unwrap_or_default();
                let order = (index, bytes - origin.bytes.start, String::new());
                (order, format!("{}{member}", origin.base_name))
            }
            None => ((usize::MAX, 0, name.clone()), name),
        }
    }
}

impl Origin {
    fn new(input: &Input) -> Origin {
        let base_name = Path::new(&input.name).file_name();
        let base_name = base_name.map_or(input.name.clone(), |name| name.display().to_string());
        let bytes = input.bytes.as_ptr_range();
        Origin {
            name: input.name.clone(),
            base_name,
            bytes: bytes.start as usize..bytes.end as usize,
        }
    }
}

impl Linked {
    /// Adds a graph's definitions and external symbols.
    fn take_names(&mut self, graph: &LinkGraph) {
        for symbol in graph.symbols() {
            if symbol.section_symbol || symbol.scope == Scope::Local || symbol.name.is_empty() {
                continue;
            }
            match symbol.definition {
                Definition::Block(block, _) if graph.block(block).live => {
                    self.defined.insert(text(symbol.name));
                }
                Definition::Absolute(value) => {
                    self.absolutes.insert(text(symbol.name), value);
                }
                _ => {}
            }
        }
        let externals = graph.externals().map(|(symbol, address)| (text(symbol.name), address));
        self.externals.extend(externals);
    }
}

/// The terminator that the linker adds after the frames of an object.
const TERMINATOR: [u8; 4] = [0; 4];

/// Returns the sections with live blocks.
fn sections(graph: &mut LinkGraph) -> Result<Vec<SectionDump>> {
    let mut blocks: HashMap<_, Vec<Block>> = HashMap::new();
    for block in graph.blocks().filter(|block| block.live) {
        blocks.entry(block.section).or_default().push(block);
    }
    let mut ids: Vec<_> = graph.sections().map(|section| section.id).collect();
    ids.retain(|id| blocks.contains_key(id));
    ids.into_iter().map(|id| section(graph, id, &blocks[&id])).collect()
}

fn section(
    graph: &mut LinkGraph,
    id: longshore_jitlink::graph::SectionId,
    blocks: &[Block],
) -> Result<SectionDump> {
    let Section { name, protection, lifetime, thread_local, zero_fill, .. } = graph.section(id);
    let name = text(name);
    let has_memory = lifetime != Lifetime::NoAlloc;
    let start = blocks.iter().map(|block| block.address).min().unwrap_or(0);
    let listed_end = blocks.iter().map(|block| block.address + block.size).max().unwrap_or(start);
    let is_template_end = thread_local && zero_fill;
    let mut dumped = Vec::new();
    // Zeroes after the initial values of thread-local variables have addresses but no memory.
    for block in blocks.iter().filter(|_| !is_template_end) {
        let content = match block.zero_fill {
            true => ContentDump::ZeroFill(true),
            false if has_memory => ContentDump::Bytes(hex(graph.content_mut(block.id))),
            false => ContentDump::Bytes(hex(graph.fix_up_no_alloc(block.id)?)),
        };
        let addr = has_memory.then_some(block.address);
        dumped.push(BlockDump { addr, size: block.size, content });
        if graph.has_terminator(block.id) {
            let content = ContentDump::Bytes(hex(&TERMINATOR));
            let addr = Some(block.address + block.size);
            dumped.push(BlockDump { addr, size: TERMINATOR.len() as u64, content });
        }
    }
    let end = dumped.iter().filter_map(|block| Some(block.addr? + block.size)).max();
    Ok(SectionDump {
        name,
        addr: has_memory.then_some(start),
        size: end.unwrap_or(start).max(listed_end) - start,
        lifetime: lifetime.to_string(),
        prot: protection.to_string(),
        blocks: dumped,
    })
}

/// Returns the symbols in the graph's memory, without an object's own section symbols, unless these
/// are global.
fn symbols(graph: &LinkGraph) -> Vec<SymbolDump> {
    let is_named = |symbol: &Symbol<'_>| {
        !symbol.name.is_empty() && (!symbol.section_symbol || symbol.scope != Scope::Local)
    };
    let named = graph.symbols().filter(is_named);
    let in_memory = named.filter_map(|symbol| {
        let Definition::Block(block, offset) = symbol.definition else { return None };
        let block = graph.block(block);
        let has_memory = graph.section(block.section).lifetime != Lifetime::NoAlloc;
        (block.live && has_memory).then_some(SymbolDump {
            name: text(symbol.name),
            addr: block.address + offset,
            size: symbol.size,
            scope: match symbol.scope {
                Scope::Default => "default",
                Scope::Hidden => "hidden",
                Scope::Local => "local",
            },
            linkage: match symbol.linkage {
                Linkage::Strong => "strong",
                Linkage::Weak => "weak",
            },
            callable: symbol.callable,
        })
    });
    in_memory.collect()
}

fn entries(entries: Vec<TableEntry>) -> Vec<EntryDump> {
    let entry =
        |entry: TableEntry| EntryDump { target: entry.target.to_string(), addr: entry.address };
    entries.into_iter().map(entry).collect()
}

fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_two_digits_each() {
        assert_eq!(hex(&[0, 0x0f, 0xa5, 0xff]), "000fa5ff");
    }
}
