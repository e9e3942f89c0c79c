//! Times of constructs and memory routines, written at the end of the process as a Chrome trace.
//! LLVM: `Profiler`, which writes the same names and details.
//!
//! `LIBOMPTARGET_PROFILE` names the file. Without it, a section costs one load.

mod trace;

use crate::abi::Ident;
use crate::settings;
use std::cell::RefCell;
use std::ffi::CStr;
use std::time::Instant;

/// The name of the wait for a region; LLVM 19 misspells it.
pub(crate) const SYNCHRONIZE: [&str; 2] = ["Runtime: syncronize", "Runtime: synchronize"];
/// The location in details if a program has none.
const UNKNOWN: &str = ";unknown;unknown;0;0;;";

thread_local! {
    static OPEN: RefCell<Open> = const { RefCell::new(Open { location: String::new(), names: Vec::new() }) };
}

/// The open sections of a thread.
struct Open {
    /// Source location of the innermost construct.
    location: String,
    names: Vec<&'static str>,
}

/// A section, which ends with the value.
pub(crate) struct Scope(Option<Box<Section>>);

struct Section {
    name: &'static str,
    detail: Option<String>,
    begin: Instant,
    /// Whether no section of this name was open.
    is_outermost: bool,
}

/// Begins the section of a construct. Sections inside have its source location too.
///
/// # Safety
/// The location is the program's; it may be null.
#[inline]
pub(crate) unsafe fn construct(
    name: &'static str,
    location: *const Ident,
    detail: impl FnOnce() -> String,
) -> Scope {
    if !settings::profiles() {
        return Scope(None);
    }
    // SAFETY: promised by the caller.
    enter(unsafe { source(location) });
    step(name, detail)
}

/// Begins a section inside a construct.
#[inline]
pub(crate) fn step(name: &'static str, detail: impl FnOnce() -> String) -> Scope {
    if !settings::profiles() {
        return Scope(None);
    }
    let location = OPEN.try_with(|open| open.borrow().location.clone()).unwrap_or_default();
    begin(name, Some(location + &detail()))
}

/// Begins the section of a routine outside of constructs.
#[inline]
pub(crate) fn routine(name: &'static str, detail: impl FnOnce() -> Option<String>) -> Scope {
    match settings::profiles() {
        true => begin(name, detail()),
        false => Scope(None),
    }
}

/// Returns the text of a source location.
unsafe fn source(location: *const Ident) -> String {
    // SAFETY: the caller's promise.
    let text = unsafe { location.as_ref() }.map_or(std::ptr::null(), |ident| ident.source);
    if text.is_null() {
        return UNKNOWN.to_owned();
    }
    // SAFETY: as above; the text ends with a zero byte.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

#[cold]
fn enter(location: String) {
    // An ending thread has no sections.
    let _ = OPEN.try_with(|open| open.borrow_mut().location = location);
}

#[cold]
fn begin(name: &'static str, detail: Option<String>) -> Scope {
    trace::start();
    let is_outermost = OPEN.try_with(|open| {
        let names = &mut open.borrow_mut().names;
        let is_outermost = !names.contains(&name);
        names.push(name);
        is_outermost
    });
    let is_outermost = is_outermost.unwrap_or(false);
    Scope(Some(Box::new(Section { name, detail, begin: Instant::now(), is_outermost })))
}

impl Drop for Scope {
    #[inline]
    fn drop(&mut self) {
        if let Some(section) = self.0.take() {
            end(*section);
        }
    }
}

#[cold]
fn end(section: Section) {
    let end = Instant::now();
    let _ = OPEN.try_with(|open| open.borrow_mut().names.pop());
    trace::add(section.name, section.detail, (section.begin, end), section.is_outermost);
}
