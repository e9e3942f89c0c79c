//! What relocatable images may use of the process.
//!
//! A shared object says which libraries it needs; a relocatable object says only names. Were each of
//! them looked up in whatever the process exports, a misspelt helper could find a function of the
//! program. So there is a list, `device_library.txt`: C, mathematics, what compilers call, C++ and
//! OpenMP. The user adds to it with the setting `SYMBOLS`: names separated by commas, in which a `*`
//! at the end stands for any rest. `*` alone allows all that the process exports.
//!
//! Names that start with `__longshore_` are reserved and never looked up in the process. The list
//! keeps mistakes out, not attackers: an image is code, and does what it likes.

use crate::module::profile_runtime;
use longshore_jitlink::session::{DynamicLibrary, Generated, Generator, ProcessSymbols, Request};
use longshore_plugin_api::{Error, ErrorCode, Result};
use std::collections::HashMap;
use std::ffi::CString;
use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

const LIST: &str = include_str!("device_library.txt");
const RESERVED: &str = "__longshore_";

/// The names that relocatable images may use of the process: the list and what the user adds.
#[derive(Debug, Default)]
pub struct AllowedNames {
    added: Vec<Pattern>,
}

/// A name, or what names start with.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Pattern {
    Name(String),
    Prefix(String),
}

/// Finds allowed names for the linker. The libraries that it opens for that stay open as long as it
/// lives, which is as long as the code that uses them.
pub(crate) struct DeviceLibrary {
    allowed: Arc<AllowedNames>,
    opened: Mutex<HashMap<&'static str, Option<DynamicLibrary>>>,
}

impl AllowedNames {
    /// The list, and the names of the setting `SYMBOLS`.
    ///
    /// # Errors
    /// `InvalidValue` for an empty name, or one with a space, or with a `*` before its end.
    pub fn parse(setting: Option<&str>) -> Result<AllowedNames> {
        let added = setting.into_iter().flat_map(|names| names.split(','));
        Ok(AllowedNames { added: added.map(pattern).collect::<Result<_>>()? })
    }

    /// What to tell who uses a name that is not allowed.
    pub(crate) fn explanation() -> &'static str {
        "an object or archive defines what it uses, or takes it from the list of C, mathematics, C++ \
         and compiler functions that the backend 'host' allows; LONGSHORE_HOST_SYMBOLS adds names of \
         the process to the list, separated by commas, or all of them with '*'"
    }

    fn is_added(&self, name: &str) -> bool {
        self.added.iter().any(|pattern| match pattern {
            Pattern::Name(whole) => whole == name,
            Pattern::Prefix(start) => name.starts_with(start.as_str()),
        })
    }
}

impl DeviceLibrary {
    /// Finds what is allowed.
    pub(crate) fn new(allowed: Arc<AllowedNames>) -> DeviceLibrary {
        DeviceLibrary { allowed, opened: Mutex::default() }
    }

    fn find(&self, request: Request<'_>) -> longshore_jitlink::Result<Option<Generated>> {
        if let Some(address) = own_address_of(request.name) {
            return Ok(Some(Generated::Address { index: 0, address }));
        }
        if request.name.starts_with(RESERVED) {
            return Ok(None);
        }
        // An object may name a version behind the name.
        let name = request.name.split('@').next().unwrap_or_default();
        let source = SOURCES.of(name);
        if source.is_none() && !self.allowed.is_added(name) {
            return Ok(None);
        }
        // First where a library that is loaded would find it: what the program has put in place of
        // the C library's, as its own `malloc`, is put in its place here too.
        let found = ProcessSymbols.generate(&[request])?.pop();
        match (found, source) {
            (None, Some(source)) => self.find_in(source, request),
            (found, _) => Ok(found),
        }
    }

    fn find_in(
        &self,
        source: Source,
        request: Request<'_>,
    ) -> longshore_jitlink::Result<Option<Generated>> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
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

/// Where the names of a section of the list are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Source {
    library: &'static str,
    /// It is not opened, but used if it is open.
    if_loaded: bool,
}

impl Source {
    /// `None` if it is not there, or not open and not to be opened.
    fn open(self) -> Option<DynamicLibrary> {
        if self.if_loaded && !is_loaded(self.library) {
            return None;
        }
        // SAFETY: a library of the system, by its plain name; those of the list may be opened and
        // closed at any time.
        unsafe { DynamicLibrary::open(Path::new(self.library)) }
            .map_err(|error| log::debug!("a library that an image would use: {error}"))
            .ok()
    }
}

/// The address of a name that is given by this library itself.
fn own_address_of(name: &str) -> Option<u64> {
    let address = profile_runtime::address_of(name);
    #[cfg(target_arch = "aarch64")]
    let address = address.or_else(|| crate::outline_atomics::address_of(name));
    address
}

fn is_loaded(library: &str) -> bool {
    let Ok(name) = CString::new(library) else { return false };
    // SAFETY: a string that ends; nothing is loaded, and what is counted up is counted down again.
    unsafe {
        let handle = libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        !handle.is_null() && libc::dlclose(handle) == 0
    }
}

/// The list, read.
struct Sources {
    names: HashMap<&'static str, Source>,
    prefixes: Vec<(&'static str, Source)>,
}

static SOURCES: LazyLock<Sources> = LazyLock::new(|| {
    let mut sources = Sources { names: HashMap::new(), prefixes: Vec::new() };
    for (source, names) in sections(LIST, std::env::consts::ARCH) {
        for name in names {
            match name.strip_suffix('*') {
                Some(start) => sources.prefixes.push((start, source)),
                None => _ = sources.names.insert(name, source),
            }
        }
    }
    sources
});

impl Sources {
    fn of(&self, name: &str) -> Option<Source> {
        let by_prefix = || self.prefixes.iter().find(|(start, _)| name.starts_with(start));
        self.names.get(name).copied().or_else(|| by_prefix().map(|(_, source)| *source))
    }
}

/// The sections of a list that are for an architecture, with their names.
fn sections(list: &'static str, architecture: &str) -> Vec<(Source, Vec<&'static str>)> {
    let mut sections = Vec::new();
    let mut skipped = true;
    for line in list.lines().filter(|line| !line.starts_with('#')) {
        if let Some(head) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            let (head, on) = head.split_once(" on ").unwrap_or((head, architecture));
            let plain = head.strip_suffix(" if loaded");
            let source = Source { library: plain.unwrap_or(head), if_loaded: plain.is_some() };
            skipped = on != architecture;
            if !skipped {
                sections.push((source, Vec::new()));
            }
        } else if let Some((_, names)) = sections.last_mut().filter(|_| !skipped) {
            names.extend(line.split_whitespace());
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
                "setting SYMBOLS of backend 'host' has '{name}', expected names separated by commas, \
                 each of which may end with '*'"
            ),
        ));
    }
    Ok(if is_prefix { Pattern::Prefix(start.to_owned()) } else { Pattern::Name(start.to_owned()) })
}

#[cfg(test)]
mod tests;
