//! Shared libraries that represent linked code.
//!
//! Sanitizers, backtraces and the dynamic linker identify code by its shared library. They look for
//! its address among the segments listed by `dl_iterate_phdr`, and for its name in the symbol
//! tables of the file named there. Linked code is in no library, so one is made for it and opened.
//! The library holds tables only. Once it is open, the segments of the code are added to its
//! program headers in memory; the dynamic linker uses these headers only for that list.

use std::ffi::c_void;
use std::fs::File;
use std::io::{Seek, Write};
use std::os::fd::AsFd;
use std::ptr;

use object::elf;
use rustix::io::fcntl_dupfd_cloexec;

use crate::late_static_tls::{link_map, open};
use crate::{Error, OpenName, Result, memory_file};

/// The description of linked code.
#[derive(Debug, Default)]
pub(crate) struct Code<'a> {
    /// Start, size in bytes and flags of each part: `PF_W` for a writable part, `PF_X` for an
    /// executable one.
    pub(crate) segments: Vec<(u64, u64, u32)>,
    /// Functions and variables of the code.
    pub(crate) symbols: Vec<Symbol<'a>>,
    /// Symbols that libraries opened later may use.
    pub(crate) exports: Vec<Symbol<'a>>,
}

/// A symbol of linked code.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Symbol<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) is_function: bool,
    pub(crate) is_weak: bool,
}

/// A library that represents linked code, open until this is dropped.
#[derive(Debug)]
pub(crate) struct CodeLibrary {
    handle: *mut c_void,
    /// Addresses and sizes in bytes of the tables that describe the code.
    tables: Vec<(u64, usize)>,
    /// The library's file, which debuggers and sanitizers read by the library's name.
    file: File,
}

// SAFETY: a handle of the dynamic linker may be used on any thread.
unsafe impl Send for CodeLibrary {}

impl CodeLibrary {
    /// Opens a library for code, globally if it exports symbols.
    ///
    /// # Errors
    /// [`Error::Open`] if there is no memory for its file, or if the dynamic linker refuses it.
    pub(crate) fn open(code: &Code<'_>) -> Result<Self> {
        let failed = |problem: String| Error::Open { path: "linked code".to_owned(), problem };
        let io = |error: std::io::Error| failed(error.to_string());
        // The addresses are unknown yet, so there are no symbols for a debugger that reads the file
        // at once.
        let parts = Parts::new(code, None);
        let file = new_file(&parts.loaded()).map_err(io)?;
        let name = OpenName::for_file(file.as_fd()).map_err(io)?;
        let scope = if code.exports.is_empty() { libc::RTLD_LOCAL } else { libc::RTLD_GLOBAL };
        // SAFETY: the library has no constructors.
        let handle = unsafe { open(name.path(), scope) }.map_err(failed)?;
        let mut library = Self { handle, tables: Vec::new(), file };
        // SAFETY: the handle is open.
        let base = unsafe { link_map(handle) }.map(|map| map.address as u64);
        let base = base.ok_or_else(|| failed("the dynamic linker does not list it".to_owned()))?;
        let parts = Parts::new(code, Some(base));
        // SAFETY: the library was just opened, with these tables at these offsets.
        unsafe { parts.write_to(base) };
        library.tables = parts.about_code(base);
        library.complete(&parts).map_err(io)?;
        Ok(library)
    }

    /// Writes the file again, with addresses and symbols.
    fn complete(&self, parts: &Parts) -> std::io::Result<()> {
        let (mut file, content) = (&self.file, parts.file());
        memory_file::check_size(content.len() as u64)?;
        file.rewind()?;
        file.write_all(&content)
    }
}

impl Drop for CodeLibrary {
    fn drop(&mut self) {
        // The dynamic linker keeps a library in which other libraries have found symbols, so its
        // tables are cleared.
        for (address, size) in &self.tables {
            // SAFETY: the tables are in memory of the library, which is open.
            unsafe { ptr::write_bytes(*address as *mut u8, 0, *size) };
        }
        // SAFETY: the handle was opened once. The cleared library holds nothing that could be in
        // use.
        unsafe { libc::dlclose(self.handle) };
    }
}

/// Creates a file in memory, with a descriptor number that programs do not expect to get.
fn new_file(content: &[u8]) -> std::io::Result<File> {
    const UNUSUAL: i32 = 200;
    let file = memory_file::create("linked code", content)?;
    Ok(fcntl_dupfd_cloexec(&file, UNUSUAL).map_or(file, File::from))
}

const HEADER: usize = 64;
const PROGRAM_HEADER: usize = 56;
const SECTION_HEADER: usize = 64;
const SYMBOL: usize = 24;
/// Number of the library's own headers: its table's segment, its dynamic section, and a stack that
/// is not executable.
const OWN_HEADERS: usize = 3;
/// Greatest number of listed parts of code: the number of program headers has 16 bits.
const MOST_SEGMENTS: usize = 4096;
/// Index of the section that symbols name as theirs.
const TEXT: u16 = 1;

/// The parts of the library's file. Addresses in the file count from its first byte.
struct Parts {
    program_headers: Vec<u8>,
    dynamic: Vec<u8>,
    exports: Vec<u8>,
    hash: Vec<u8>,
    export_names: Vec<u8>,
    /// Parts that are in the file only; present once the library's address is known.
    of_file: Option<FileParts>,
}

struct FileParts {
    symbols: Vec<u8>,
    names: Vec<u8>,
    /// Start and size of the address range of all executable segments.
    text: (u64, u64),
}

impl Parts {
    /// Returns the parts for code; with the `base` address of an open library, the code's addresses
    /// are relative to it.
    fn new(code: &Code<'_>, base: Option<u64>) -> Parts {
        let segments = &code.segments[..code.segments.len().min(MOST_SEGMENTS)];
        let (exports, export_names) = symbol_table(&code.exports, base);
        let hash = hash_table(&code.exports);
        let dynamic_at = HEADER + (OWN_HEADERS + segments.len()) * PROGRAM_HEADER;
        let exports_at = dynamic_at + DYNAMIC_ENTRIES * 16;
        let hash_at = exports_at + exports.len();
        let names_at = hash_at + hash.len();
        let end = names_at + export_names.len();
        let dynamic = [
            (elf::DT_HASH.0, hash_at),
            (elf::DT_STRTAB.0, names_at),
            (elf::DT_SYMTAB.0, exports_at),
            (elf::DT_STRSZ.0, export_names.len()),
            (elf::DT_SYMENT.0, SYMBOL),
            (elf::DT_NULL.0, 0),
        ];
        let dynamic = dynamic.iter().flat_map(|(tag, value)| words(&[*tag as u64, *value as u64]));
        let read_write = elf::PF_R.0 | elf::PF_W.0;
        let own = [
            program_header(elf::PT_LOAD.0, read_write, 0, end as u64, end as u64),
            program_header(
                elf::PT_DYNAMIC.0,
                read_write,
                dynamic_at as u64,
                (DYNAMIC_ENTRIES * 16) as u64,
                (DYNAMIC_ENTRIES * 16) as u64,
            ),
            program_header(elf::PT_GNU_STACK.0, read_write, 0, 0, 0),
        ];
        let of_code = segments.iter().map(|&(start, size, flags)| match base {
            Some(base) => {
                let start = start.wrapping_sub(base);
                program_header(elf::PT_LOAD.0, elf::PF_R.0 | flags, start, 0, size)
            }
            None => program_header(elf::PT_NULL.0, 0, 0, 0, 0),
        });
        Parts {
            program_headers: own.into_iter().chain(of_code).flatten().collect(),
            dynamic: dynamic.collect(),
            exports,
            hash,
            export_names,
            of_file: base.map(|base| FileParts::new(code, base)),
        }
    }

    /// Returns the loaded bytes, without the symbols that only the file has.
    fn loaded(&self) -> Vec<u8> {
        let header = self.header(0, 0);
        let Parts { program_headers, dynamic, exports, hash, export_names, .. } = self;
        [&header, program_headers, dynamic, exports, hash, export_names]
            .map(|part| &**part)
            .concat()
    }

    /// Returns the file with all symbols.
    fn file(&self) -> Vec<u8> {
        let Some(FileParts { symbols, names, text }) = &self.of_file else { return self.loaded() };
        const SECTION_NAMES: &[u8] = b"\0.text\0.symtab\0.strtab\0.shstrtab\0";
        let loaded = self.loaded();
        let symbols_at = loaded.len().next_multiple_of(8);
        let names_at = symbols_at + symbols.len();
        let section_names_at = names_at + names.len();
        let sections_at = (section_names_at + SECTION_NAMES.len()).next_multiple_of(8);
        let code = elf::SHF_ALLOC.0 | elf::SHF_EXECINSTR.0;
        let sections = [
            [0; 10],
            // Fields: name and kind; flags, address, offset, size; link and symbol index;
            // alignment, size of an entry.
            [1, elf::SHT_NOBITS.0 as u64, code, text.0, 0, text.1, 0, 0, 16, 0],
            [
                7,
                elf::SHT_SYMTAB.0 as u64,
                0,
                0,
                symbols_at as u64,
                symbols.len() as u64,
                3,
                1,
                8,
                SYMBOL as u64,
            ],
            [15, elf::SHT_STRTAB.0 as u64, 0, 0, names_at as u64, names.len() as u64, 0, 0, 1, 0],
            [
                23,
                elf::SHT_STRTAB.0 as u64,
                0,
                0,
                section_names_at as u64,
                SECTION_NAMES.len() as u64,
                0,
                0,
                1,
                0,
            ],
        ];
        let mut file = loaded;
        file.splice(..HEADER, self.header(sections_at as u64, sections.len() as u64));
        file.resize(symbols_at, 0);
        file.extend([&**symbols, names, SECTION_NAMES].concat());
        file.resize(sections_at, 0);
        for [name, kind, flags, address, offset, size, link, info, alignment, entry] in sections {
            let [kind, info] = [kind, info].map(|word| word << 32);
            let link_and_info = link | info;
            file.extend(words(&[name | kind, flags, address, offset, size, link_and_info]));
            file.extend(words(&[alignment, entry]));
        }
        debug_assert_eq!(file.len(), sections_at + sections.len() * SECTION_HEADER);
        file
    }

    /// Returns the header of a file with a number of sections, described at an offset.
    fn header(&self, sections_at: u64, sections: u64) -> Vec<u8> {
        const MACHINE: u64 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
        const IDENTITY: u64 = 0x0001_0102_464c_457f;
        let headers = (self.program_headers.len() / PROGRAM_HEADER) as u64;
        let section_names = sections.saturating_sub(1);
        let sizes = (HEADER as u64) << 32 | (PROGRAM_HEADER as u64) << 48;
        let section_size = (SECTION_HEADER as u64) << 16;
        words(&[
            IDENTITY,
            0,
            u64::from(elf::ET_DYN.0) | MACHINE << 16 | 1 << 32,
            0,
            HEADER as u64,
            sections_at,
            sizes,
            headers | section_size | sections << 32 | section_names << 48,
        ])
    }

    /// Writes the addresses into the library's memory.
    ///
    /// # Safety
    /// A library made of parts of these sizes must be open at that address.
    unsafe fn write_to(&self, base: u64) {
        let [headers, exports] = self.addresses(base);
        for (address, bytes) in [(headers, &self.program_headers), (exports, &self.exports)] {
            // SAFETY: guaranteed by the caller; the memory is writable.
            unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) };
        }
    }

    /// Returns the addresses of the program headers and the exports of a library at `base`.
    fn addresses(&self, base: u64) -> [u64; 2] {
        let headers = base + HEADER as u64;
        [headers, headers + (self.program_headers.len() + self.dynamic.len()) as u64]
    }

    /// Returns the same addresses without the library's own segments, with sizes in bytes.
    fn about_code(&self, base: u64) -> Vec<(u64, usize)> {
        let [headers, exports] = self.addresses(base);
        let own = OWN_HEADERS * PROGRAM_HEADER;
        vec![
            (headers + own as u64, self.program_headers.len() - own),
            (exports, self.exports.len()),
        ]
    }
}

impl FileParts {
    fn new(code: &Code<'_>, base: u64) -> FileParts {
        let (symbols, names) = symbol_table(&code.symbols, Some(base));
        let executable = code.segments.iter().filter(|(_, _, flags)| flags & elf::PF_X.0 != 0);
        let bounds = executable.map(|(start, size, _)| (*start, start + size));
        let bounds = bounds.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)));
        let text = bounds.map_or((0, 0), |(start, end)| (start.wrapping_sub(base), end - start));
        FileParts { symbols, names, text }
    }
}

const DYNAMIC_ENTRIES: usize = 6;

/// Returns a symbol table and its names. Without the library's address the symbols' addresses are
/// 0.
fn symbol_table(symbols: &[Symbol<'_>], base: Option<u64>) -> (Vec<u8>, Vec<u8>) {
    let mut table = vec![0; SYMBOL];
    let mut names = vec![0];
    for symbol in symbols {
        let binding = if symbol.is_weak { elf::STB_WEAK.0 } else { elf::STB_GLOBAL.0 };
        let kind = if symbol.is_function { elf::STT_FUNC.0 } else { elf::STT_OBJECT.0 };
        let kind = u64::from(binding << 4 | kind);
        let address = base.map_or(0, |base| symbol.address.wrapping_sub(base));
        let first = names.len() as u64 | kind << 32 | u64::from(TEXT) << 48;
        table.extend(words(&[first, address, symbol.size]));
        names.extend_from_slice(symbol.name);
        names.push(0);
    }
    (table, names)
}

/// Returns the table by which the dynamic linker finds symbols, which follow the null symbol.
fn hash_table(symbols: &[Symbol<'_>]) -> Vec<u8> {
    let buckets = symbols.len().max(1);
    let mut first = vec![0_u32; buckets];
    let mut next = vec![0_u32; symbols.len() + 1];
    for (index, symbol) in symbols.iter().enumerate() {
        let bucket = object::elf::hash(symbol.name) as usize % buckets;
        next[index + 1] = std::mem::replace(&mut first[bucket], index as u32 + 1);
    }
    let counts = [buckets as u32, next.len() as u32];
    counts.into_iter().chain(first).chain(next).flat_map(u32::to_le_bytes).collect()
}

fn program_header(kind: u32, flags: u32, start: u64, in_file: u64, size: u64) -> Vec<u8> {
    // A segment without contents has no place in the file.
    let offset = if in_file == 0 { 0 } else { start };
    let alignment = if kind == elf::PT_LOAD.0 { 0x1_0000 } else { 8 };
    let kind = u64::from(kind) | u64::from(flags) << 32;
    words(&[kind, offset, start, start, in_file, size, alignment])
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::read::elf::ElfFile64;
    use object::{LittleEndian, Object, ObjectSymbol};
    use std::ffi::CStr;

    fn symbol(name: &str, address: u64) -> Symbol<'_> {
        let name = name.as_bytes();
        Symbol { name, address, size: 16, is_function: true, is_weak: false }
    }

    #[test]
    fn the_file_names_functions_and_the_dynamic_linker_finds_exports() {
        let exports: Vec<String> =
            (0..100).map(|index| format!("export_of_a_test_{index}")).collect();
        let exported = |(index, name): (usize, &'static str)| symbol(name, 0x5000 + index as u64);
        let names = exports.iter().map(|name| &*name.clone().leak()).enumerate();
        let code = Code {
            segments: vec![(0x5000, 0x2000, elf::PF_X.0), (0x9000, 0x100, elf::PF_W.0)],
            symbols: vec![symbol("inner", 0x5010), symbol("outer", 0x5020)],
            exports: names.map(exported).collect(),
        };
        let library = CodeLibrary::open(&code).unwrap();
        for (index, name) in exports.iter().enumerate() {
            let name = std::ffi::CString::new(&**name).unwrap();
            // SAFETY: the name is a null-terminated string.
            let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
            assert_eq!(found as u64, 0x5000 + index as u64, "{name:?}");
        }
        let listed = listed(0x5010).expect("the address is in a library");
        assert!(self::listed(0x9050).is_some());
        let bytes = std::fs::read(&listed.0).unwrap();
        let file = ElfFile64::<LittleEndian>::parse(&*bytes).unwrap();
        let found: Vec<(&str, u64)> = file
            .symbols()
            .map(|symbol| (symbol.name().unwrap(), symbol.address().wrapping_add(listed.1)))
            .collect();
        assert_eq!(found, [("inner", 0x5010), ("outer", 0x5020)]);
        drop(library);
        assert!(self::listed(0x5010).is_none());
    }

    /// Returns the name and the address of the library that lists a segment with this address.
    fn listed(address: u64) -> Option<(String, u64)> {
        type Search = (u64, Option<(String, u64)>);
        unsafe extern "C" fn visit(
            info: *mut libc::dl_phdr_info,
            _size: usize,
            data: *mut c_void,
        ) -> i32 {
            // SAFETY: the function is called with the data passed in below, and with a library that
            // stays open meanwhile.
            unsafe {
                let (search, info) = (&mut *data.cast::<Search>(), &*info);
                let count = usize::from(info.dlpi_phnum);
                let headers = std::slice::from_raw_parts(info.dlpi_phdr, count);
                let has = |header: &libc::Elf64_Phdr| {
                    let offset = search.0.wrapping_sub(info.dlpi_addr);
                    header.p_type == elf::PT_LOAD.0
                        && offset.wrapping_sub(header.p_vaddr) < header.p_memsz
                };
                if headers.iter().any(has) {
                    let name = CStr::from_ptr(info.dlpi_name).to_string_lossy().into_owned();
                    search.1 = Some((name, info.dlpi_addr));
                }
            }
            0
        }
        let mut search: Search = (address, None);
        // SAFETY: the function takes this data.
        unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
        search.1
    }
}
