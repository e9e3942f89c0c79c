//! Names of the process that relocatable images may use.
//!
//! A shared object names its libraries; a relocatable object only names symbols. If each symbol
//! were looked up among all exports of the process, a misspelt helper could find a function of the
//! program. The list `device_library.txt` prevents that: C, mathematics, compiler support
//! functions, C++ and OpenMP. The user extends it with the setting `SYMBOLS`: names separated by
//! commas, in which a final `*` stands for any rest. `*` alone allows all exports of the process.
//! The added names are also looked up in the libraries of the list.
//!
//! Names that start with `__longshore_` are reserved and never looked up in the process. The list
//! prevents mistakes, not attacks: an image is native code without restrictions.

use crate::provided;
use longshore_jitlink::session::{DynamicLibrary, Generated, Generator, ProcessSymbols, Request};
use longshore_plugin_api::{Error, ErrorCode, Result};
use parking_lot::Mutex;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::ffi::CString;
use std::path::Path;
use std::sync::{Arc, LazyLock};

mod constants;

pub(crate) use constants::is_constant;

const LIST: &str = include_str!("device_library.txt");
const RESERVED: &str = "__longshore_";

/// The names of the process that relocatable images may use: the list and the user's additions.
#[derive(Debug, Default)]
pub struct AllowedNames {
    added: Vec<Pattern>,
}

/// Reason for a missing name that an image needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Absence {
    /// A name that is neither on the list nor added.
    NotAllowed,
    /// An added name that the process does not export.
    NotExported,
    /// A name of the list that is missing in its library.
    NotInLibrary,
    /// A name of the list whose library is used only if the program has loaded it.
    NotLoaded,
    /// An existing name that the referring object declares hidden, so the image itself must define
    /// it.
    Hidden,
    /// A name that is reserved for symbols of this library.
    Reserved,
}

/// A name, or a prefix of names.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Pattern {
    Name(String),
    Prefix(String),
}

/// A generator of allowed names for the linker. It keeps the libraries that it opens until it is
/// dropped, which is after the code that uses them.
pub(crate) struct DeviceLibrary {
    allowed: Arc<AllowedNames>,
    opened: Mutex<HashMap<&'static str, Option<DynamicLibrary>>>,
}

impl AllowedNames {
    /// Returns the list, and the names of the setting `SYMBOLS`.
    ///
    /// # Errors
    /// `InvalidValue` for an empty name, or one with a space, or with a `*` before its end.
    pub fn parse(setting: Option<&str>) -> Result<AllowedNames> {
        let added = setting.into_iter().flat_map(|names| names.split(','));
        Ok(AllowedNames { added: added.map(pattern).collect::<Result<_>>()? })
    }

    fn is_added(&self, name: &str) -> bool {
        self.added.iter().any(|pattern| match pattern {
            Pattern::Name(whole) => whole == name,
            Pattern::Prefix(start) => name.starts_with(start.as_str()),
        })
    }
}

impl Absence {
    /// Returns the explanation for the image's author.
    pub(crate) fn explanation(self) -> &'static str {
        match self {
            Absence::NotAllowed => {
                "an object or archive must define the name, or the list of C, \
                 mathematics, C++ and compiler functions of the backend 'host' must have it; \
                 LONGSHORE_HOST_SYMBOLS adds names of the process to the list, separated by \
                 commas, or all of them with '*'"
            }
            Absence::NotExported => {
                "allowed, but the process does not export it (link the program with -rdynamic)"
            }
            Absence::NotInLibrary => "allowed, but the library that should have it does not",
            Absence::NotLoaded => {
                "allowed if the program has loaded its OpenMP runtime, libomp.so.5 for code of \
                 Clang, or libgomp.so.1 for code of GCC"
            }
            Absence::Hidden => "it is hidden, so an object of the image must define it",
            Absence::Reserved => "names that start with __longshore_ are never the process's",
        }
    }
}

impl DeviceLibrary {
    /// Creates a generator of the allowed names.
    pub(crate) fn new(allowed: Arc<AllowedNames>) -> DeviceLibrary {
        DeviceLibrary { allowed, opened: Mutex::default() }
    }

    /// Returns whether the process has the name and images may use it.
    pub(crate) fn has(&self, name: &str) -> bool {
        matches!(self.find(Request { name, ..Request::default() }), Ok(Some(_)))
    }

    /// Returns the reason for a missing name that an image needs.
    pub(crate) fn absence(&self, name: &str) -> Absence {
        if name.starts_with(RESERVED) {
            return Absence::Reserved;
        }
        if self.has(name) {
            return Absence::Hidden;
        }
        let name = without_version(name);
        let sources = SOURCES.named(name);
        match sources.is_empty() {
            true if self.allowed.is_added(name) => Absence::NotExported,
            true => Absence::NotAllowed,
            false if sources.iter().all(|source| source.is_missing()) => Absence::NotLoaded,
            false => Absence::NotInLibrary,
        }
    }

    fn find(&self, request: Request<'_>) -> longshore_jitlink::Result<Option<Generated>> {
        if let Some(address) = provided::address_of(without_version(request.name)) {
            return Ok(Some(Generated::Address { index: 0, address }));
        }
        if request.name.starts_with(RESERVED) {
            return Ok(None);
        }
        let name = without_version(request.name);
        let mut sources = SOURCES.named(name);
        if sources.is_empty() {
            if !self.allowed.is_added(name) {
                return Ok(None);
            }
            sources.clone_from(&SOURCES.all);
        }
        if let Some(address) = provided::end_address_of(name) {
            return Ok(Some(Generated::Address { index: 0, address }));
        }
        // The process's own symbols come first, as for a loaded library: a program's replacement of
        // a C library function, such as its own `malloc`, also applies here.
        let mut found = ProcessSymbols.generate(&[request])?.pop();
        for source in sources {
            if found.is_some() {
                break;
            }
            found = self.find_in(source, request)?;
        }
        Ok(found)
    }

    fn find_in(
        &self,
        source: Source,
        request: Request<'_>,
    ) -> longshore_jitlink::Result<Option<Generated>> {
        let mut opened = self.opened.lock();
        match opened.entry(source.library).or_insert_with(|| source.open()) {
            Some(library) => Ok(library.generate(&[request])?.pop()),
            None => Ok(None),
        }
    }
}

impl Generator for DeviceLibrary {
    fn generate(&self, requests: &[Request<'_>]) -> longshore_jitlink::Result<Vec<Generated>> {
        let mut all = Vec::with_capacity(requests.len());
        for (place, request) in requests.iter().enumerate() {
            all.extend(self.find(*request)?.map(|mut found| {
                if let Generated::Address { index, .. } | Generated::ThreadLocal { index, .. } =
                    &mut found
                {
                    *index = place;
                }
                found
            }));
        }
        Ok(all)
    }
}

/// A library with names of a section of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Source {
    library: &'static str,
    /// Whether the library is used only if it is already open.
    if_loaded: bool,
}

impl Source {
    /// Returns whether the library is only used if it is open, and is not open.
    fn is_missing(self) -> bool {
        self.if_loaded && !is_loaded(self.library)
    }

    /// Opens the library. `None` if the library is missing, or may only be used open and is not
    /// open.
    fn open(self) -> Option<DynamicLibrary> {
        if self.is_missing() {
            return None;
        }
        // SAFETY: this is a system library by its plain name; libraries of the list may be opened
        // and closed at any time.
        unsafe { DynamicLibrary::open(Path::new(self.library)) }
            .map_err(|error| log::debug!("a library that an image may use did not open: {error}"))
            .ok()
    }
}

fn is_loaded(library: &str) -> bool {
    let Ok(name) = CString::new(library) else { return false };
    // SAFETY: the string ends with a NUL. Nothing is loaded, and `dlclose` undoes the count of
    // `dlopen`.
    unsafe {
        let handle = libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        !handle.is_null() && libc::dlclose(handle) == 0
    }
}

/// Removes the version that an object may append to a name.
fn without_version(name: &str) -> &str {
    name.split('@').next().unwrap_or_default()
}

/// The parsed list.
struct Sources {
    names: HashMap<&'static str, Vec<Source>>,
    /// Prefixes with their sources, the longest prefix first.
    prefixes: Vec<(&'static str, Source)>,
    /// Every source once, in the order of the list.
    all: Vec<Source>,
}

static SOURCES: LazyLock<Sources> = LazyLock::new(|| {
    let mut read = Sources { names: HashMap::new(), prefixes: Vec::new(), all: Vec::new() };
    for Section { sources, names } in sections(LIST, std::env::consts::ARCH) {
        for source in sources {
            if !read.all.contains(&source) {
                read.all.push(source);
            }
            for &name in &names {
                match name.strip_suffix('*') {
                    Some(start) => read.prefixes.push((start, source)),
                    None => read.names.entry(name).or_default().push(source),
                }
            }
        }
    }
    read.prefixes.sort_by_key(|(start, _)| Reverse(start.len()));
    read
});

impl Sources {
    /// Returns the possible sources of a name, the likeliest first. Prefixes overlap, such as the
    /// prefixes of vector functions and of guards of C++ statics.
    fn named(&self, name: &str) -> Vec<Source> {
        let whole = self.names.get(name).into_iter().flatten();
        let by_prefix = self.prefixes.iter().filter(|(start, _)| name.starts_with(start));
        whole.chain(by_prefix.map(|(_, source)| source)).copied().collect()
    }
}

/// A section of the list: names, and the libraries that may define them.
struct Section {
    sources: Vec<Source>,
    names: Vec<&'static str>,
}

/// Parses the sections of a list for one architecture.
fn sections(list: &'static str, architecture: &str) -> Vec<Section> {
    let mut sections = Vec::new();
    let mut skipped = true;
    for line in list.lines().filter(|line| !line.starts_with('#')) {
        if let Some(head) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            let (head, on) = head.split_once(" on ").unwrap_or((head, architecture));
            let plain = head.strip_suffix(" if loaded");
            let libraries = plain.unwrap_or(head).split(" or ");
            let source = |library| Source { library, if_loaded: plain.is_some() };
            skipped = on != architecture;
            if !skipped {
                let sources = libraries.map(source).collect();
                sections.push(Section { sources, names: Vec::new() });
            }
        } else if let Some(section) = sections.last_mut().filter(|_| !skipped) {
            section.names.extend(line.split_whitespace());
        }
    }
    sections
}

fn pattern(name: &str) -> Result<Pattern> {
    let name = name.trim();
    let (start, is_prefix) = match name.strip_suffix('*') {
        Some(start) => (start, true),
        None => (name, false),
    };
    if name.is_empty() || start.contains(|c: char| c == '*' || c.is_whitespace()) {
        return Err(Error::new(
            ErrorCode::InvalidValue,
            format!(
                "LONGSHORE_HOST_SYMBOLS has '{name}', expected names separated by commas, each of which \
                 may end with '*'"
            ),
        ));
    }
    Ok(if is_prefix { Pattern::Prefix(start.to_owned()) } else { Pattern::Name(start.to_owned()) })
}

#[cfg(test)]
mod tests;
