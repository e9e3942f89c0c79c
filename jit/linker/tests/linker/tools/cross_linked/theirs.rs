//! The image that a system's linker makes of the same objects.

use std::collections::HashMap;
use std::fmt::Write;

use object::LittleEndian as LE;
use object::elf;
use object::read::elf::{FileHeader, SectionHeader, Sym};

use super::ours::{Image, Section};
use super::tools::World;

/// A system's linker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Linker {
    Gnu,
    Lld,
}

/// The linker's image.
pub(crate) struct Expected {
    pub(crate) linker: Linker,
    /// Address, size and content of each section of the image, by its index there.
    pub(crate) sections: HashMap<usize, (u64, u64, Vec<u8>)>,
    /// Address and content of each slot.
    pub(crate) slots: HashMap<u64, u64>,
    /// Addresses of the global symbols.
    pub(crate) symbols: HashMap<String, u64>,
}

/// Links the objects of an image with every section at the same address.
pub(crate) fn link(world: &World, image: &Image) -> Expected {
    let mut objects: Vec<&str> =
        image.sections.iter().map(|section| section.object.as_str()).collect();
    objects.dedup();
    let bytes = world.link(&script(image), &objects);
    let header = elf::FileHeader64::<LE>::parse(&*bytes).unwrap();
    let sections = header.sections(LE, &*bytes).unwrap();
    let mut expected = Expected {
        linker: world.kind,
        sections: HashMap::new(),
        slots: HashMap::new(),
        symbols: HashMap::new(),
    };
    for section in sections.iter() {
        let name = std::str::from_utf8(sections.section_name(LE, section).unwrap()).unwrap();
        let (address, content) = (section.sh_addr(LE), section.data(LE, &*bytes).unwrap());
        if name == ".got" {
            let words =
                content.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
            expected.slots = (address..).step_by(8).zip(words).collect();
        } else if let Some(index) = name.strip_prefix(".at.") {
            let section = (address, section.sh_size(LE), content.to_vec());
            expected.sections.insert(index.parse().unwrap(), section);
        }
    }
    let symbols = sections.symbols(LE, &*bytes, elf::SHT_SYMTAB).unwrap();
    // LLD makes hidden symbols local.
    let is_global = |symbol: &&elf::Sym64<LE>| {
        symbol.st_bind() != elf::STB_LOCAL || symbol.st_visibility() != elf::STV_DEFAULT
    };
    for symbol in symbols.iter().filter(is_global) {
        let name = symbol.name(LE, symbols.strings()).unwrap();
        let name = String::from_utf8(name.to_vec()).unwrap();
        expected.symbols.insert(name, symbol.st_value.get(LE));
    }
    expected
}

/// Returns a script with one output section for each section, at its address, named by its index in
/// the image.
fn script(image: &Image) -> String {
    let place = |has_memory: bool| {
        let sections = image.sections.iter().enumerate();
        let mut placed: Vec<_> =
            sections.filter(|(_, section)| section.has_memory == has_memory).collect();
        placed.sort_by_key(|(_, section)| section.address);
        let line = |(index, section): (usize, &Section)| {
            let Section { object, name, address, .. } = section;
            format!(".at.{index} {address:#x} : {{ {object}({name}) }}\n")
        };
        placed.into_iter().map(line).collect::<String>()
    };
    let end = image.sections.iter().map(|section| section.address + section.size).max().unwrap();
    let got = end.next_multiple_of(0x1000) + 0x10000;
    let mut script = String::from("SECTIONS {\n");
    script.push_str(&place(true));
    writeln!(script, ".got {got:#x} : {{ *(.got) *(.got.plt) }}").unwrap();
    script.push_str(&place(false));
    script.push_str("/DISCARD/ : { *(.comment) *(.note*) }\n}\n");
    for (name, address) in &image.externals {
        writeln!(script, "{name} = {address:#x};").unwrap();
    }
    script
}
