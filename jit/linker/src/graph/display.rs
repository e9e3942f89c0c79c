//! The text form of a graph, for human readers.

use std::fmt;

use hashbrown::HashMap;

use super::{
    Block, BlockId, Definition, Edge, LinkGraph, Linkage, Scope, Section, SectionId, Symbol,
    SymbolId,
};

impl fmt::Debug for LinkGraph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "link graph {} ({})", self.name(), self.architecture().triple())?;
        let mut blocks: HashMap<SectionId, Vec<Block>> = HashMap::new();
        for block in self.blocks() {
            blocks.entry(block.section).or_default().push(block);
        }
        let mut symbols: HashMap<BlockId, Vec<SymbolId>> = HashMap::new();
        for symbol in self.symbols().filter(|symbol| !symbol.section_symbol) {
            if let Definition::Block(block, _) = symbol.definition {
                symbols.entry(block).or_default().push(symbol.id);
            }
        }
        for section in self.sections() {
            write_section(f, &section)?;
            for block in blocks.get(&section.id).into_iter().flatten() {
                self.describe_block(f, block, symbols.get(&block.id).map_or(&[], Vec::as_slice))?;
            }
        }
        writeln!(f, "symbols outside of blocks:")?;
        for symbol in
            self.symbols().filter(|symbol| !matches!(symbol.definition, Definition::Block(..)))
        {
            if !symbol.section_symbol {
                writeln!(f, "  {symbol}")?;
            }
        }
        Ok(())
    }
}

impl LinkGraph {
    fn describe_block(
        &self,
        f: &mut fmt::Formatter<'_>,
        block: &Block,
        symbols: &[SymbolId],
    ) -> fmt::Result {
        let Block { id, size, alignment, address, .. } = *block;
        let zero = if block.zero_fill { " zeroes" } else { "" };
        let dead = if block.live { "" } else { " (not in the link)" };
        writeln!(
            f,
            "  block {} at {address:#x}: {size:#x} bytes{zero}, alignment {alignment}{dead}",
            id.0
        )?;
        for symbol in symbols {
            writeln!(f, "    {}", self.symbol(*symbol))?;
        }
        for edge in self.edges(id) {
            self.write_edge(f, &edge)?;
        }
        Ok(())
    }

    fn write_edge(&self, f: &mut fmt::Formatter<'_>, edge: &Edge) -> fmt::Result {
        let kind = self.relocation_name(edge.kind);
        let target = String::from_utf8_lossy(self.symbol(edge.target).name);
        writeln!(f, "    +{:#x}: {kind} {target} {:+#x}", edge.offset, Signed(edge.addend))
    }
}

fn write_section(f: &mut fmt::Formatter<'_>, section: &Section<'_>) -> fmt::Result {
    let name = String::from_utf8_lossy(section.name);
    let thread_local = if section.thread_local { ", thread-local" } else { "" };
    writeln!(f, "section {name} ({}, {}{thread_local})", section.protection, section.lifetime)
}

impl fmt::Display for Symbol<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.definition {
            Definition::Block(_, offset) => write!(f, "+{offset:#x}: ")?,
            Definition::Absolute(value) => write!(f, "={value:#x}: ")?,
            Definition::External => write!(f, "external: ")?,
        }
        let linkage = if self.linkage == Linkage::Weak { " weak" } else { "" };
        let scope = match self.scope {
            Scope::Default => "",
            Scope::Hidden => " hidden",
            Scope::Local => " local",
        };
        write!(f, "{}{scope}{linkage}", String::from_utf8_lossy(self.name))
    }
}

/// A number with its sign before the prefix.
struct Signed(i64);

impl fmt::LowerHex for Signed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad_integral(self.0 >= 0, "0x", &format!("{:x}", self.0.unsigned_abs()))
    }
}
