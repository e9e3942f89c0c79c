//! The common parts of ELF images: variables, constructors in sections, profile sections.

use super::kernels::{Kernels, RAW_VERSION, raw_version};
use super::report::{GlobalReport, ImageReport, Priorities};
use object::read::elf::ElfSymbol64;
use object::{Endianness, Object, ObjectSection, ObjectSymbol, SymbolKind, SymbolScope};

pub(super) type File<'a> = object::read::elf::ElfFile64<'a, Endianness>;
pub(super) type Symbol<'a, 'file> = ElfSymbol64<'a, 'file, Endianness>;

/// Reads a 64-bit ELF file; `own` adds the facts of this kind of image.
pub(super) fn read(
    bytes: &[u8],
    report: &mut ImageReport,
    own: fn(&File<'_>, &mut Kernels, &mut ImageReport),
) {
    let file = match File::parse(bytes) {
        Ok(file) => file,
        Err(error) => return report.problems.push(format!("not a 64-bit ELF file: {error}")),
    };
    let mut kernels = Kernels::default();
    sections(&file, report);
    variables(&file, &mut kernels, report);
    own(&file, &mut kernels, report);
    kernels.finish(report);
    report.globals.sort_by(|a, b| a.name.cmp(&b.name));
    report.globals.dedup();
}

/// Returns all symbols, or the dynamic symbols of a stripped file.
pub(super) fn symbols<'a, 'file>(file: &'file File<'a>) -> impl Iterator<Item = Symbol<'a, 'file>> {
    let is_stripped = file.symbols().next().is_none();
    if is_stripped { file.dynamic_symbols() } else { file.symbols() }
}

/// Returns the name of a symbol. `None` if it is not UTF-8, or if the names read so far are larger
/// than any valid file's. Such names overlap, which is a problem in the report.
pub(super) fn name<'a>(symbol: &Symbol<'a, '_>, report: &mut ImageReport) -> Option<&'a str> {
    if !report.may_read_names() {
        return None;
    }
    let name = symbol.name().ok()?;
    report.note_name_read(name);
    Some(name)
}

/// Returns the exported definitions: dynamic symbols, or all symbols of an object that are visible
/// outside of it.
pub(super) fn exported<'a, 'file>(
    file: &'file File<'a>,
) -> impl Iterator<Item = Symbol<'a, 'file>> {
    let is_relocatable = file.dynamic_symbols().next().is_none();
    let symbols = if is_relocatable { file.symbols() } else { file.dynamic_symbols() };
    let is_visible =
        |symbol: &Symbol<'_, '_>| symbol.is_definition() && symbol.scope() == SymbolScope::Dynamic;
    symbols.filter(is_visible)
}

/// Returns the bytes of a variable, or an empty slice if they are all zero or lie outside its
/// section.
pub(super) fn content<'a>(file: &File<'a>, symbol: &Symbol<'a, '_>) -> &'a [u8] {
    let section = symbol.section_index().and_then(|index| file.section_by_index(index).ok());
    let bytes = section.and_then(|section| {
        let start = usize::try_from(symbol.address().checked_sub(section.address())?).ok()?;
        let end = start.checked_add(usize::try_from(symbol.size()).ok()?)?;
        section.data().ok()?.get(start..end)
    });
    bytes.unwrap_or_default()
}

fn variables(file: &File<'_>, kernels: &mut Kernels, report: &mut ImageReport) {
    let is_variable =
        |symbol: &Symbol<'_, '_>| symbol.is_definition() && symbol.kind() == SymbolKind::Data;
    let has_sections = !report.profile.sections.is_empty();
    for symbol in symbols(file).filter(is_variable) {
        let Some(name) = name(&symbol, report) else { continue };
        if Kernels::takes(name) && !report.has_room(name) {
            break;
        }
        let is_taken = kernels.take(name, content(file, &symbol)) || report.add_step(name);
        if !is_taken && name == RAW_VERSION {
            report.profile.raw_version = raw_version(content(file, &symbol));
        }
        if !has_sections {
            report.profile.add_variable(name, symbol.size());
        }
    }
    for symbol in exported(file).filter(|symbol| symbol.kind() == SymbolKind::Data) {
        let Some(name) = name(&symbol, report) else { continue };
        if is_global(name) {
            if !report.has_room(name) {
                break;
            }
            report.globals.push(GlobalReport { name: name.to_owned(), bytes: symbol.size() });
        }
    }
}

/// Returns whether a variable belongs to the program, not to the image's description of itself.
pub(super) fn is_global(name: &str) -> bool {
    let own = [
        "__longshore_",
        "__profc_",
        "__profd_",
        "__llvm_prf",
        "__init_array_",
        "__fini_array_",
        "__hip_cuid_",
    ];
    let is_own = own.iter().any(|prefix| name.starts_with(prefix));
    !is_own && !name.contains("longshore_note") && !name.ends_with(".kd")
}

fn sections(file: &File<'_>, report: &mut ImageReport) {
    for section in file.sections() {
        let Ok(name) = section.name() else { continue };
        report.profile.add_section(name, section.size());
        let pointers = section.size() / 8;
        entries(&mut report.constructors, name, ".init_array", pointers);
        entries(&mut report.destructors, name, ".fini_array", pointers);
        entries(&mut report.constructors, name, ".ctors", pointers);
        entries(&mut report.destructors, name, ".dtors", pointers);
    }
}

/// Counts the functions of a section `base` or `base.PRIORITY`. In `.ctors` and `.dtors` the number
/// is 65535 minus the priority.
fn entries(list: &mut Priorities, name: &str, base: &str, functions: u64) {
    let Some(rest) = name.strip_prefix(base) else { return };
    let number = rest.strip_prefix('.').and_then(|number| number.parse::<u32>().ok());
    let is_reversed = base.ends_with("tors");
    match number {
        Some(number) if is_reversed => list.add(65535u32.checked_sub(number), functions),
        Some(number) => list.add(Some(number), functions),
        None if rest.is_empty() => list.add(None, functions),
        None => {}
    }
}
