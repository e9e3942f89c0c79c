//! Shared objects: checked, copied into memory without a name, and opened from there by the
//! system's loader.
//!
//! Constructors follow glibc's order: `DT_INIT`, then `DT_INIT_ARRAY`, each called with `(argc,
//! argv, envp)`. Destructors do too: `DT_FINI_ARRAY` in reverse, then `DT_FINI`. Handlers of
//! `atexit` and of C++ statics run with the destructors. An array entry outside of the image's code
//! counts as a failure of the device's code and is not called. Constructors stop at such an entry;
//! destructors continue.
//!
//! Constructors and destructors are guarded as kernels are, and so are resolvers of indirect
//! functions. The loader does not call resolvers: this module fills the words with their results
//! after the loader has returned.
//!
//! The libraries of an image are loaded by their plain names on the system's search path; the
//! loader runs their constructors.

use super::functions::{self, MainArguments};
use super::library::Library;
use super::linked::RetainedImage;
use super::loaded::{LoadedImage, Symbol};
use super::{offload_entries, profile, profilers, refusal};
use crate::LinkSettings;
use crate::elf::{self, Content, Image, Sections};
use crate::execute::guarded;
use crate::lines::{Lines, Part};
use crate::provided;
use bytes::Bytes;
use longshore_orc_rt::indirect;
use longshore_plugin_api::{Error, ErrorCode, ImageBytes, ProfileSectionKind, Result, SymbolKind};
use object::elf::{STT_COMMON, STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE, STT_OBJECT};
use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, OnceLock};

/// Names of functions that linkers add to every image.
const LINKER_MADE: [&[u8]; 2] = [b"_init", b"_fini"];

/// An open shared object.
pub(super) struct SharedLibrary {
    image: Image,
    bytes: Bytes,
    lines: Arc<Lines>,
    library: Library,
    /// Symbols of the image's table of offload entries, from the first look-up that needs them.
    listed: OnceLock<BTreeMap<String, Symbol>>,
}

impl SharedLibrary {
    /// Checks an image and opens a copy of it. Runs none of its constructors. Blocks.
    pub(super) fn load(image: ImageBytes, links: &LinkSettings) -> Result<SharedLibrary> {
        let bytes = Bytes::from_owner(RetainedImage(image));
        let image = elf::validate(&bytes)?;
        let library = Library::open(&bytes, &image)?;
        let (lines, base, span) =
            (Arc::<Lines>::default(), library.address(0), image.segments.span());
        let addresses = library.address(span.start)..library.address(span.end);
        if let Some(debug) = &links.debug {
            profilers::announce(debug, &image, &bytes, &library);
        }
        lines.add([Part::SharedObject { bytes: bytes.clone(), base, addresses }]);
        let opened = SharedLibrary { image, bytes, lines, library, listed: OnceLock::new() };
        opened.fill_slots()?;
        Ok(opened)
    }

    /// Calls all resolvers, then fills words with their results and with functions of this backend.
    fn fill_slots(&self) -> Result<()> {
        let mut chosen = BTreeMap::new();
        for slot in &self.image.slots {
            if let Content::Chosen(resolver) = slot.content
                && !chosen.contains_key(&resolver)
            {
                let name = self.name_of_resolver(resolver);
                chosen.insert(resolver, self.resolve(resolver, &name)?);
            }
        }
        for slot in &self.image.slots {
            // SAFETY: the checked image has the word in a writable segment, which is readable.
            let now = unsafe { self.library.pointer::<u64>(slot.place).read_unaligned() };
            let function = match &slot.content {
                Content::Needed(name) => provided::in_place_of(name, now),
                // The program's own definition stays.
                Content::Chosen(resolver) => {
                    let is_own = now == self.library.address(resolver.wrapping_add(slot.addend));
                    chosen.get(resolver).copied().filter(|_| is_own)
                }
            };
            let Some(function) = function else { continue };
            let filled = function.wrapping_add(slot.addend);
            self.library.fill(slot.place, filled, &self.image.read_only).map_err(|error| {
                let address = self.library.address(slot.place);
                let message = format!("filling the image's word at {address:#x}: {error}");
                Error::new(ErrorCode::OutOfResources, message)
            })?;
        }
        Ok(())
    }

    /// Calls a resolver and returns its result.
    fn resolve(&self, resolver: u64, name: &str) -> Result<u64> {
        let address = self.library.address(resolver);
        let call = |arguments| {
            // SAFETY: the checked image's symbols or relocations name this code as a resolver. The
            // arguments are the loader's.
            unsafe { guarded::call(address, arguments) }
        };
        indirect::with_abilities(call)
            .map_err(|error| error.context(format_args!("resolver {name}")))
    }

    fn name_of_resolver(&self, resolver: u64) -> String {
        let mut exported = self.image.symbols.exported(&self.bytes);
        let named = exported.find(|(_, s)| s.kind() == STT_GNU_IFUNC && s.value == resolver);
        match named {
            Some((name, _)) => format!("of '{}'", String::from_utf8_lossy(name)),
            None => format!("at {:#x}", self.library.address(resolver)),
        }
    }

    /// Returns the exported symbol of this name, of any kind.
    fn exported(&self, name: &str) -> Option<elf::Symbol> {
        let mut found = self.image.symbols.exported(&self.bytes);
        found.find(|(symbol, _)| *symbol == name.as_bytes()).map(|(_, symbol)| symbol)
    }

    /// Returns the symbols of the table of offload entries.
    fn listed(&self) -> &BTreeMap<String, Symbol> {
        let read = || offload_entries::symbols(&self.bytes, &self.image.segments, &self.library);
        self.listed.get_or_init(read)
    }

    /// Returns an array's entry, relative to the load base; `None` for 0 and -1, which stand for no
    /// function.
    fn entry_of(&self, place: u64) -> Option<u64> {
        // SAFETY: the checked image has the array in a segment, which is mapped and readable.
        let address = unsafe { self.library.pointer::<u64>(place).read_unaligned() };
        let relative = address.wrapping_sub(self.library.address(0));
        (address != 0 && address != u64::MAX).then_some(relative)
    }

    /// Returns the address of a function, or an error if it is not code of the image.
    fn code_at(&self, relative: u64, kind: &str, name: &str) -> Result<u64> {
        let address = self.library.address(relative);
        if !self.image.segments.holds_code(relative, 1) {
            return Err(Error::new(
                ErrorCode::BackendFailure,
                format!("the {kind} {name} is at {address:#x}, expected code of the image"),
            ));
        }
        Ok(address)
    }

    /// Returns a part of the image's memory; `None` for a range outside of the image.
    fn part(&self, kind: ProfileSectionKind, address: u64, bytes: u64) -> Option<profile::Part> {
        let part = profile::Part { kind, address: self.library.address(address), bytes };
        self.image.segments.holds(address, bytes).then_some(part)
    }

    /// Returns the kind of a symbol. Data of unknown type is a variable if its size is known.
    fn kind_of(&self, name: &[u8], symbol: &elf::Symbol) -> Option<SymbolKind> {
        let is_there = || symbol.size > 0 && self.image.segments.holds(symbol.value, symbol.size);
        match symbol.kind() {
            STT_FUNC | STT_GNU_IFUNC if !LINKER_MADE.contains(&name) => Some(SymbolKind::Kernel),
            STT_OBJECT | STT_COMMON => Some(SymbolKind::Global),
            STT_NOTYPE if is_there() => Some(SymbolKind::Global),
            _ => None,
        }
    }

    fn between_symbols(&self, name: &str) -> Option<(u64, u64)> {
        let start = self.exported(&format!("__start_{name}"))?.value;
        let stop = self.exported(&format!("__stop_{name}"))?.value;
        Some((start, stop.checked_sub(start)?))
    }
}

impl LoadedImage for SharedLibrary {
    fn symbol(&self, name: &str) -> Result<Option<Symbol>> {
        let found = self.exported(name).and_then(|symbol| {
            let kind = self.kind_of(name.as_bytes(), &symbol)?;
            Some((symbol, kind))
        });
        let Some((symbol, kind)) = found else { return Ok(self.listed().get(name).copied()) };
        let (address, bytes) = match symbol.kind() {
            STT_GNU_IFUNC => match self.resolve(symbol.value, &format!("of '{name}'"))? {
                0 => return Err(refusal::resolver_error(name)),
                function => (function, 0),
            },
            _ => (self.library.address(symbol.value), symbol.size),
        };
        Ok(Some(Symbol { kind, address, bytes }))
    }

    fn symbols(&self) -> Result<Vec<(String, SymbolKind)>> {
        let exported = self.image.symbols.exported(&self.bytes);
        let symbols = exported.filter_map(|(name, symbol)| {
            let kind = self.kind_of(name, &symbol)?;
            Some((String::from_utf8_lossy(name).into_owned(), kind))
        });
        let mut symbols: Vec<_> = symbols.collect();
        if !self.listed().is_empty() {
            let known: HashSet<_> = symbols.iter().map(|(name, _)| name.clone()).collect();
            let listed = self.listed().iter().filter(|(name, _)| !known.contains(*name));
            symbols.extend(listed.map(|(name, symbol)| (name.clone(), symbol.kind)));
        }
        Ok(symbols)
    }

    /// Runs `DT_INIT`, then `DT_INIT_ARRAY`; stops at an entry outside of the image's code.
    fn construct(&self) -> Result<()> {
        let functions = &self.image.functions;
        let first = functions.init.map(|init| (init, "DT_INIT".to_owned()));
        let array = functions.init_array.iter().enumerate().filter_map(|(index, &place)| {
            Some((self.entry_of(place)?, format!("DT_INIT_ARRAY[{index}]")))
        });
        let arguments = MainArguments::get();
        for (relative, name) in first.into_iter().chain(array) {
            let address = self.code_at(relative, "constructor", &name)?;
            self.library.set_registered(true);
            let arguments =
                [arguments.count as u64, arguments.values as u64, arguments.environment() as u64];
            // SAFETY: the checked image's initialisation array names this code, and the arguments
            // are the loader's.
            let called = unsafe { guarded::call(address, arguments) };
            called.map_err(|error| error.context(format_args!("constructor {name}")))?;
        }
        functions::constructor_status(self)
    }

    /// Runs `DT_FINI_ARRAY` in reverse, then `DT_FINI`; skips entries outside of the image's code.
    fn destruct(&self) -> Result<()> {
        let functions = &self.image.functions;
        let array = functions.fini_array.iter().enumerate().rev().filter_map(|(index, &place)| {
            Some((self.entry_of(place)?, format!("DT_FINI_ARRAY[{index}]")))
        });
        let last = functions.fini.map(|fini| (fini, "DT_FINI".to_owned()));
        let mut first_error = None;
        for (relative, name) in array.chain(last) {
            let called = self.code_at(relative, "destructor", &name).and_then(|address| {
                // SAFETY: the checked image's termination functions include this code. They take
                // no arguments, so the zeros are harmless.
                let called = unsafe { guarded::call(address, [0; 3]) };
                called.map_err(|error| error.context(format_args!("destructor {name}")))
            });
            if let Err(error) = called {
                log::error!("{error}");
                first_error.get_or_insert(error);
            }
        }
        self.library.set_registered(false);
        let failed = functions::destructor_status(self);
        first_error.map_or(failed, Err)
    }

    fn lines(&self) -> &Arc<Lines> {
        &self.lines
    }

    /// Finds the sections by the section headers. In a stripped image it uses the symbols
    /// `__start_<section>` and `__stop_<section>`, if the image exports them.
    fn profile_parts(&self) -> Vec<profile::Part> {
        let headers = Sections::parse(&self.bytes);
        let sections = profile::SECTIONS.iter().filter_map(|&(kind, name)| {
            let section = headers.as_ref().and_then(|headers| headers.in_memory(name));
            let place = section.map(|section| (section.address, section.size));
            let (address, bytes) = place.or_else(|| self.between_symbols(name))?;
            self.part(kind, address, bytes)
        });
        let version = self
            .exported(profile::RAW_VERSION)
            .or_else(|| headers.as_ref()?.symbol(profile::RAW_VERSION))
            .and_then(|symbol| {
                let bytes = profile::RAW_VERSION_BYTES;
                self.part(ProfileSectionKind::RawVersion, symbol.value, bytes)
            });
        sections.chain(version).collect()
    }

    fn compiler(&self) -> Option<u32> {
        profile::compiler(Sections::parse(&self.bytes)?.content(".comment")?)
    }

    fn unload(self: Box<Self>) -> Result<()> {
        self.library.close()
    }
}
