//! Code in `.init` and `.fini`: fragments of functions. A system linker strings them together
//! between the start files' beginning and end; this linker makes each a function of its own.

use object::elf;

use super::{BlockId, Content, Edge, LinkGraph};
use crate::elf::{DefinitionPlace, LE, Section, View};
use crate::memory::{Lifetime, Protection};
use crate::{Architecture, Result};

/// The names of sections with fragments.
pub(super) const FRAGMENTS: [&[u8]; 2] = [b".init", b".fini"];

/// The code that makes a fragment a function: that of glibc's crti.o and crtn.o.
const X86_64: [&[u8]; 2] = [
    &[0x48, 0x83, 0xec, 0x08],       // `sub rsp, 8`
    &[0x48, 0x83, 0xc4, 0x08, 0xc3], // `add rsp, 8; ret`
];
const AARCH64: [&[u8]; 2] = [
    &[0xfd, 0x7b, 0xbf, 0xa9, 0xfd, 0x03, 0x00, 0x91], // `stp x29, x30, [sp, #-16]!; mov x29, sp`
    &[0xfd, 0x7b, 0xc1, 0xa8, 0xc0, 0x03, 0x5f, 0xd6], // `ldp x29, x30, [sp], #16; ret`
];

impl LinkGraph {
    /// Replaces fragments by functions.
    pub(super) fn complete_fragments(&mut self, view: View<'_>) -> Result<()> {
        for (index, section) in (0..).zip(view.sections) {
            if is_fragment(view, section) {
                self.check_fragment(view, index, section)?;
                self.complete_fragment(view, BlockId(index));
            }
        }
        Ok(())
    }

    fn complete_fragment(&mut self, view: View<'_>, fragment: BlockId) {
        let [start, end] = match self.architecture() {
            Architecture::X86_64 => X86_64,
            Architecture::Aarch64 => AARCH64,
        };
        let header = &view.sections[fragment.0 as usize];
        let name = String::from_utf8_lossy(view.section_name(header));
        let code = Content::Bytes([start, view.content(header), end].concat());
        let shifted = self
            .edges(fragment)
            .map(|edge| Edge { offset: edge.offset + start.len() as u64, ..edge });
        let edges: Vec<Edge> = shifted.collect();
        let section = self.add_section(&name, Protection::ReadExecute, Lifetime::Standard);
        let function = self.add_block(section, code, 16);
        self.set_edges(function, edges);
        self.set_live(fragment, false);
    }

    /// Refuses a fragment with symbols in it that other objects may refer to.
    fn check_fragment(&self, view: View<'_>, index: u32, section: &Section) -> Result<()> {
        let globals = view.first_global..view.symbols.len() as u32;
        if !globals
            .into_iter()
            .any(|symbol| view.definition_place(symbol) == DefinitionPlace::Section(index))
        {
            return Ok(());
        }
        let name = String::from_utf8_lossy(view.section_name(section));
        Err(self.unsupported(format!(
            "section {name} defines symbols, as in the start files (crti.o) of a system linker: leave these out"
        )))
    }
}

fn is_fragment(view: View<'_>, section: &Section) -> bool {
    let flags = section.sh_flags.get(LE);
    flags.contains(elf::SHF_ALLOC | elf::SHF_EXECINSTR)
        && section.sh_type.get(LE) == elf::SHT_PROGBITS
        && section.sh_size.get(LE) > 0
        && FRAGMENTS.contains(&view.section_name(section))
}
