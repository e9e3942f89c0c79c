//! Relocatable objects, and static archives of them, linked in memory.
//!
//! All members of an archive are linked; [`DeviceLibrary`] resolves their undefined symbols.
//! Constructors run in the order of their priorities, then of the objects, each called with `(argc,
//! argv, envp)`. Handlers of `atexit` and of C++ statics run before the destructors, as at the end
//! of a program.
//!
//! This module adds checks that the linker lacks. Symbols of functions must be in code, and all
//! exported symbols inside their sections. Constructors and destructors must be code of the image.
//! The header of an object with resolvers of indirect functions, which run during the load, must
//! declare GNU's ABI. No check can find damage to code and data themselves.

use super::functions::{self, MainArguments};
use super::loaded::{LoadedImage, Symbol, pointer};
use super::{profile, refusal};
use crate::LinkSettings;
use crate::device_library::{self, DeviceLibrary};
use crate::elf::{self, Sections};
use crate::execute::guarded::{self, FailedCall, FailurePolicy};
use crate::lines::{Lines, Part};
use bytes::Bytes;
use longshore_jitlink::graph::{self, BlockId, Definition, LinkGraph, Scope};
use longshore_jitlink::memory::Protection;
use longshore_jitlink::session::{self, Passes, Stage};
use longshore_jitlink::{Library, Session};
use longshore_plugin_api::{Error, ErrorCode, ImageBytes, ProfileSectionKind, Result, SymbolKind};
use object::elf::ELFOSABI_GNU;
use object::read::archive::ArchiveFile;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Name of the image in messages.
pub(super) const NAME: &str = "the image";
/// Offset of the OS/ABI in an ELF header.
const OS_ABI_AT: usize = 7;
/// The linker's section of the addresses that resolvers have chosen, in the order of an object's
/// indirect functions.
const CHOICES: &[u8] = b"$__GOT.indirect";
/// Prefixes of the names of sections that list constructors and destructors.
const FUNCTION_LISTS: [&[u8]; 5] =
    [b".preinit_array", b".init_array", b".fini_array", b".ctors", b".dtors"];

/// A linked image. Dropping it frees its memory, and removes the handlers that the image
/// registered.
pub(super) struct LinkedImage {
    library: Library,
    contents: Contents,
    lines: Arc<Lines>,
}

/// Facts about the objects in memory.
#[derive(Default)]
pub(super) struct Contents {
    exports: BTreeMap<String, Export>,
    profile: Vec<profile::Part>,
    /// Major version of the clang that compiled the first object with a profile.
    compiler: Option<u32>,
    code: Vec<Range<u64>>,
    functions: Vec<ListedFunction>,
    choices: Vec<Choice>,
    parts: Vec<Part>,
}

struct Export {
    symbol: Symbol,
    /// Whether a resolver chooses the address: only the linker knows it.
    is_indirect: bool,
}

/// An exported function with a resolver, and the slot of its address.
struct Choice {
    name: String,
    slot: u64,
}

/// A constructor or destructor, and its place in a list.
struct ListedFunction {
    place: String,
    address: u64,
}

/// Returns whether the image is an archive with objects for this machine. Reads its headers and its
/// members' headers.
///
/// # Errors
/// `InvalidBinary` with the reason for an archive of other files.
pub(super) fn recognise_archive(bytes: &[u8]) -> Result<bool> {
    if !bytes.starts_with(b"!<arch>\n") && !bytes.starts_with(b"!<thin>\n") {
        return Ok(false);
    }
    let damaged = |problem| malformed(format!("the archive cannot be read: {problem}"));
    let archive = ArchiveFile::parse(bytes).map_err(damaged)?;
    if archive.is_thin() {
        return Err(malformed("the archive is thin, expected one that holds its members".into()));
    }
    let mut is_empty = true;
    for member in archive.members() {
        let member = member.map_err(damaged)?;
        let content = member.data(bytes).map_err(damaged)?;
        check_member(&String::from_utf8_lossy(member.name()), content)?;
        is_empty = false;
    }
    match is_empty {
        true => Err(malformed("the archive is empty, expected relocatable objects".into())),
        false => Ok(true),
    }
}

fn check_member(name: &str, content: &[u8]) -> Result<()> {
    match elf::is_relocatable(content).map_err(|error| error.context(format!("member '{name}'")))? {
        true => Ok(()),
        false => Err(malformed(format!(
            "member '{name}' is a shared object (ET_DYN), expected relocatable objects (ET_REL)"
        ))),
    }
}

impl LinkedImage {
    /// Links an image. Runs none of its constructors. Blocks.
    pub(super) fn load(image: ImageBytes, links: &LinkSettings) -> Result<LinkedImage> {
        let contents = Arc::new(Mutex::new(Contents::default()));
        let (linked, broken) =
            guarded::watched(FailurePolicy::Skipped, || link(image, links, &contents));
        if let Some(broken) = broken {
            return Err(broken_resolver_error(broken));
        }
        let library = linked.map_err(|error| refusal::link_error(error, &links.allowed))?;
        let mut contents = std::mem::take(&mut *contents.lock());
        contents.check_functions()?;
        contents.resolve(&library)?;
        let lines = Arc::<Lines>::default();
        lines.add(contents.take_parts());
        Ok(LinkedImage { library, contents, lines })
    }
}

impl LoadedImage for LinkedImage {
    fn symbol(&self, name: &str) -> Result<Option<Symbol>> {
        Ok(self.contents.symbol(name))
    }

    fn symbols(&self) -> Result<Vec<(String, SymbolKind)>> {
        let exports = self.contents.exports.iter();
        Ok(exports.map(|(name, export)| (name.clone(), export.symbol.kind)).collect())
    }

    fn construct(&self) -> Result<()> {
        let arguments = main_arguments();
        // SAFETY: the constructors are checked code of the image, and the program that loads an
        // image wants them to run. The arguments live as long as the process.
        let initialize = || unsafe { self.library.initialize(arguments) };
        let (result, broken) = guarded::watched(FailurePolicy::Skipped, initialize);
        broken.map_or(Ok(()), |broken| Err(self.contents.name_broken(broken)))?;
        result.map_err(refusal::load_error)?;
        functions::constructor_status(self)
    }

    fn destruct(&self) -> Result<()> {
        // SAFETY: as for the constructors.
        let deinitialize = || unsafe { self.library.deinitialize() };
        let (result, broken) = guarded::watched(FailurePolicy::Made, deinitialize);
        let failed = functions::destructor_status(self);
        broken.map_or(Ok(()), |broken| Err(self.contents.name_broken(broken)))?;
        result.map_err(refusal::load_error)?;
        failed
    }

    fn lines(&self) -> &Arc<Lines> {
        &self.lines
    }

    fn profile_parts(&self) -> Vec<profile::Part> {
        self.contents.profile.clone()
    }

    fn compiler(&self) -> Option<u32> {
        self.contents.compiler
    }

    fn unload(self: Box<Self>) -> Result<()> {
        drop(self);
        Ok(())
    }
}

/// Creates the error of a link during which a resolver failed.
pub(super) fn broken_resolver_error(FailedCall { function, error }: FailedCall) -> Error {
    error.context(format_args!("resolver at {function:#x}"))
}

/// Returns the arguments of constructors.
pub(super) fn main_arguments() -> session::MainArguments {
    let arguments = MainArguments::get();
    session::MainArguments {
        argc: arguments.count,
        argv: arguments.values,
        environment: arguments.environment(),
    }
}

/// Bytes of an image, which stay in place until the module is dropped.
pub(super) struct RetainedImage(pub(super) ImageBytes);

impl AsRef<[u8]> for RetainedImage {
    fn as_ref(&self) -> &[u8] {
        self.0.get()
    }
}

fn link(
    image: ImageBytes,
    links: &LinkSettings,
    contents: &Arc<Mutex<Contents>>,
) -> longshore_jitlink::Result<Library> {
    let mut passes = Passes::default();
    let into = Arc::clone(contents);
    passes.add(Stage::PostFixup, move |graph| into.lock().take_from(graph));
    let session = new_session(passes, links)?;
    let library = session.create_library(NAME);
    library.add_generator(DeviceLibrary::new(Arc::clone(&links.allowed)));
    // The objects are never removed individually.
    let _objects = library.add(NAME, Bytes::from_owner(RetainedImage(image)))?;
    library.link_all()?;
    Ok(library)
}

/// Creates the session of an image.
pub(super) fn new_session(
    passes: Passes,
    links: &LinkSettings,
) -> longshore_jitlink::Result<Session> {
    let mut session = Session::builder()
        .with_passes(passes)
        .with_copied_process_data(device_library::is_constant);
    if let Some(debug) = &links.debug {
        session = session.with_debug(Arc::clone(debug));
    }
    // SAFETY: an image is native code, and the caller of the load vouches for running it in this
    // process.
    unsafe { session.build() }
}

impl Contents {
    /// Records the facts about a graph with final contents.
    pub(super) fn take_from(&mut self, graph: &mut LinkGraph) -> longshore_jitlink::Result<()> {
        // Graphs that the linker itself adds are not visible to users.
        if graph.object_bytes().is_empty() {
            return Ok(());
        }
        let (bytes, sections) = (graph.object_bytes().clone(), graph.section_addresses());
        self.parts.push(Part::Object { bytes, sections });
        self.take_exports(graph)?;
        self.take_choices(graph);
        let mut lists = Vec::new();
        for block in graph.blocks().filter(|block| block.live && block.address != 0) {
            let section = graph.section(block.section);
            let range = block.address..block.address.saturating_add(block.size);
            if section.protection == Protection::ReadExecute {
                self.code.push(range);
            } else if FUNCTION_LISTS.iter().any(|start| section.name.starts_with(start)) {
                lists.push(block.id);
            } else if let Some(kind) = profile_kind(section.name) {
                self.compiler = self.compiler.or_else(|| compiler_of(graph));
                self.profile.push(profile::Part {
                    kind,
                    address: block.address,
                    bytes: block.size,
                });
            }
        }
        for list in lists {
            self.take_functions(graph, list);
        }
        Ok(())
    }

    fn take_exports(&mut self, graph: &LinkGraph) -> longshore_jitlink::Result<()> {
        for symbol in graph.symbols() {
            if symbol.name == profile::RAW_VERSION.as_bytes() {
                self.take_raw_version(graph, &symbol);
            }
            let kind = kind_of(&symbol);
            let Definition::Block(block, offset) = symbol.definition else { continue };
            let block = graph.block(block);
            if !block.live || block.address == 0 || (kind.is_none() && !symbol.indirect) {
                continue;
            }
            let name = String::from_utf8_lossy(symbol.name).into_owned();
            check_symbol(graph, &symbol, &block, offset)
                .map_err(|problem| malformed_object(graph, format!("symbol '{name}' {problem}")))?;
            let Some(kind) = kind else { continue };
            let bytes = if symbol.indirect { 0 } else { symbol.size };
            let symbol_found = Symbol { kind, address: block.address + offset, bytes };
            self.exports
                .insert(name, Export { symbol: symbol_found, is_indirect: symbol.indirect });
        }
        Ok(())
    }

    /// Records the slots of exported functions with resolvers.
    fn take_choices(&mut self, graph: &LinkGraph) {
        let is_live = |block: &graph::Block| block.live && block.address != 0;
        let is_slots = |block: &graph::Block| graph.section(block.section).name == CHOICES;
        let slots = graph.blocks().filter(|block| is_live(block) && is_slots(block));
        let Some(slots) = slots.last() else { return };
        let is_here = |symbol: &graph::Symbol<'_>| match symbol.definition {
            Definition::Block(block, _) => is_live(&graph.block(block)),
            _ => false,
        };
        let indirect = graph.symbols().filter(|symbol| symbol.indirect && is_here(symbol));
        let slots = (slots.address..slots.address + slots.size).step_by(size_of::<u64>());
        for (slot, symbol) in slots.zip(indirect).filter(|(_, symbol)| kind_of(symbol).is_some()) {
            let name = String::from_utf8_lossy(symbol.name).into_owned();
            self.choices.push(Choice { name, slot });
        }
    }

    /// Records the raw profile version. Its variable is hidden, so it is not an export.
    fn take_raw_version(&mut self, graph: &LinkGraph, symbol: &graph::Symbol<'_>) {
        let Definition::Block(block, offset) = symbol.definition else { return };
        let (block, bytes) = (graph.block(block), profile::RAW_VERSION_BYTES);
        let is_inside = offset.checked_add(bytes).is_some_and(|end| end <= block.size);
        if block.live && block.address != 0 && is_inside {
            let (kind, address) = (ProfileSectionKind::RawVersion, block.address + offset);
            self.profile.push(profile::Part { kind, address, bytes });
        }
    }

    fn take_functions(&mut self, graph: &mut LinkGraph, list: BlockId) {
        let section = graph.section(graph.block(list).section);
        let name = format!("{}({})", graph.name(), String::from_utf8_lossy(section.name));
        let words =
            graph.content_mut(list).as_chunks().0.iter().map(|word| u64::from_le_bytes(*word));
        for (index, address) in words.enumerate() {
            // The values 0 and -1 stand for no function.
            if address != 0 && address != u64::MAX {
                let place = format!("{name}[{index}]");
                self.functions.push(ListedFunction { place, address });
            }
        }
    }

    /// Checks that all constructors and destructors are code of the image.
    fn check_functions(&mut self) -> Result<()> {
        self.wrong_function(|_| false).map_or(Ok(()), |problem| Err(malformed(problem)))
    }

    /// Describes the first constructor or destructor that is neither code of these objects nor,
    /// by `is_of_others`, code of other objects.
    pub(super) fn wrong_function(&mut self, is_of_others: impl Fn(u64) -> bool) -> Option<String> {
        self.code.sort_unstable_by_key(|range| range.start);
        let is_code = |address: u64| {
            let behind = self.code.partition_point(|range| range.start <= address);
            self.code[..behind].last().is_some_and(|range| range.contains(&address))
        };
        let is_wrong = |address| !is_code(address) && !is_of_others(address);
        let wrong = self.functions.iter().find(|function| is_wrong(function.address))?;
        let ListedFunction { place, address } = wrong;
        Some(format!("{place} lists a function at {address:#x}, expected code of the image"))
    }

    /// Returns whether an address is in the code of these objects.
    pub(super) fn has_code(&self, address: u64) -> bool {
        self.code.iter().any(|range| range.contains(&address))
    }

    /// Adds the place in its list to the error of a function that the linker called. Exit handlers
    /// and resolvers have no list.
    pub(super) fn name_broken(&self, FailedCall { function, error }: FailedCall) -> Error {
        let listed = self.functions.iter().find(|listed| listed.address == function);
        let Some(ListedFunction { place, .. }) = listed else {
            return error.context(format_args!("handler or resolver at {function:#x}"));
        };
        let is_last = [".fini_array", ".dtors"].iter().any(|section| place.contains(section));
        let kind = if is_last { "destructor" } else { "constructor" };
        error.context(format_args!("{kind} {place}"))
    }

    /// Returns the exported symbol of this name.
    pub(super) fn symbol(&self, name: &str) -> Option<Symbol> {
        self.exports.get(name).map(|export| export.symbol)
    }

    /// Returns the parts of the profile, and the major version of the clang that compiled it.
    pub(super) fn profile(&self) -> (&[profile::Part], Option<u32>) {
        (&self.profile, self.compiler)
    }

    /// Takes the parts with debug information.
    pub(super) fn take_parts(&mut self) -> Vec<Part> {
        std::mem::take(&mut self.parts)
    }

    /// Returns whether this exported function's resolver returned null.
    pub(super) fn is_unresolved(&self, name: &str) -> bool {
        self.choices.iter().any(|choice| choice.name == name && choice.is_null())
    }

    /// Adds the contents of later links.
    pub(super) fn add(&mut self, later: Contents) {
        let Contents { exports, profile, compiler, code, functions, choices, parts } = later;
        self.exports.extend(exports);
        self.profile.extend(profile);
        self.compiler = self.compiler.or(compiler);
        self.code.extend(code);
        self.functions.extend(functions);
        self.choices.extend(choices);
        self.parts.extend(parts);
    }

    /// Asks the linker for the addresses of the functions with resolvers. An error if a resolver
    /// returned null.
    fn resolve(&mut self, library: &Library) -> Result<()> {
        for (name, export) in self.exports.iter_mut().filter(|(_, export)| export.is_indirect) {
            export.symbol.address = library.lookup(name).map_err(refusal::load_error)?;
        }
        let unresolved = self.choices.iter().find(|choice| choice.is_null());
        unresolved.map_or(Ok(()), |choice| Err(refusal::resolver_error(&choice.name)))
    }
}

impl Choice {
    /// Returns whether the resolver, which has run, returned null.
    fn is_null(&self) -> bool {
        // SAFETY: this is a word of the linked image, which stays in memory as long as the library.
        unsafe { pointer::<u64>(self.slot).read() == 0 }
    }
}

/// Returns the kind of an object's exported symbol. A symbol without a size is an assembly label,
/// not a variable.
fn kind_of(symbol: &graph::Symbol<'_>) -> Option<SymbolKind> {
    if symbol.scope != Scope::Default || symbol.thread_local || symbol.section_symbol {
        return None;
    }
    match symbol.callable {
        true => Some(SymbolKind::Kernel),
        false => (symbol.size > 0).then_some(SymbolKind::Global),
    }
}

fn check_symbol(
    graph: &LinkGraph,
    symbol: &graph::Symbol<'_>,
    block: &graph::Block,
    offset: u64,
) -> Result<(), String> {
    let section = graph.section(block.section);
    let (name, size) = (String::from_utf8_lossy(section.name), symbol.size);
    if offset.checked_add(size).is_none_or(|end| end > block.size) {
        let bytes = block.size;
        return Err(format!(
            "is {size} bytes at {offset:#x} of section {name}, which has {bytes:#x}"
        ));
    }
    if symbol.callable && section.protection != Protection::ReadExecute {
        return Err(format!("is a function in section {name}, expected a section of code"));
    }
    // The type's number means an indirect function only in objects that declare GNU's ABI.
    let abi = graph.object_bytes().get(OS_ABI_AT).copied().unwrap_or(0);
    if symbol.indirect && abi != ELFOSABI_GNU.0 {
        return Err(format!("has a resolver, which an object for OS/ABI {abi:#x} cannot have"));
    }
    Ok(())
}

fn compiler_of(graph: &LinkGraph) -> Option<u32> {
    profile::compiler(Sections::parse(graph.object_bytes())?.content(".comment")?)
}

fn profile_kind(section: &[u8]) -> Option<ProfileSectionKind> {
    let known = profile::SECTIONS.iter().find(|(_, name)| name.as_bytes() == section);
    known.map(|(kind, _)| *kind)
}

fn malformed_object(graph: &LinkGraph, problem: String) -> longshore_jitlink::Error {
    longshore_jitlink::Error::Malformed { file: graph.name().to_string(), problem }
}

fn malformed(message: String) -> Error {
    Error::new(ErrorCode::InvalidBinary, message)
}
