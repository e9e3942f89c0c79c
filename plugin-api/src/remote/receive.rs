//! Calls whose answers a plugin writes; an answer beyond its bound is an error.

use crate::abi::{self, ErrorObject};
use crate::bounds;
use crate::error::{Error, ErrorCode, Result};
use crate::image::{Acceptance, CodeTarget};
use crate::raw::{Collected, collect, from_raw};
use crate::request::{GlobalAddress, PoolTracker, ProfileSection, ProfileSectionKind, SymbolKind};
use std::ffi::c_void;
use std::fmt::Display;

/// An error of a call, or null.
type Raw = *mut ErrorObject;

#[inline]
pub(crate) fn nothing(call: impl FnOnce() -> Raw) -> Result<()> {
    // SAFETY: the result of a call that was just made.
    unsafe { from_raw(call()) }
}

pub(crate) fn number<T: Default>(_: &str, _: &str, call: impl FnOnce(*mut T) -> Raw) -> Result<T> {
    let mut reply = T::default();
    nothing(|| call(&raw mut reply))?;
    Ok(reply)
}

pub(crate) fn truth(plugin: &str, place: &str, call: impl FnOnce(*mut u32) -> Raw) -> Result<bool> {
    number(plugin, place, call).map(|reply| reply != 0)
}

/// Returns the handle of a new object; a null handle is the plugin's fault.
pub(crate) fn object<H>(what: &str, call: impl FnOnce(*mut *mut H) -> Raw) -> Result<*mut H> {
    let mut handle = std::ptr::null_mut();
    nothing(|| call(&raw mut handle))?;
    handed_out(what, handle)
}

/// Returns the handle, after a check that it is not null.
pub(crate) fn handed_out<H>(what: &str, handle: *mut H) -> Result<*mut H> {
    if !handle.is_null() {
        return Ok(handle);
    }
    let message = format!("the plugin reported success but handed out no {what}");
    Err(Error::new(ErrorCode::BackendFailure, message))
}

/// Collects an answer that the call writes to a sink.
pub(crate) fn written(most: usize, call: impl FnOnce(abi::Sink) -> Raw) -> Result<Collected> {
    let mut result = Ok(());
    let reply = collect(most, |sink| result = nothing(|| call(sink)));
    result.map(|()| reply)
}

pub(crate) fn text(
    plugin: &str,
    place: impl Display,
    call: impl FnOnce(abi::Sink) -> Raw,
) -> Result<String> {
    written(bounds::REPLY_BYTES, call)?.into_plugin_text(plugin, place)
}

pub(crate) fn acceptance(
    plugin: &str,
    place: &str,
    call: impl FnOnce(*mut u32, abi::Sink) -> Raw,
) -> Result<Acceptance> {
    let mut accepted = 0;
    let reason = written(bounds::REASON_BYTES, |reason| call(&raw mut accepted, reason))?;
    Ok(match accepted {
        0 => {
            let place = format!("{place}, reason");
            Acceptance::Refused(reason.into_plugin_text(plugin, place)?)
        }
        1 => Acceptance::Accepted,
        2 => Acceptance::Verified,
        other => return Err(bounds::breach(plugin, place, other, "0, 1 or 2")),
    })
}

pub(crate) fn code_target(
    plugin: &str,
    place: &str,
    call: impl FnOnce(abi::Sink, abi::Sink, abi::Sink) -> Raw,
) -> Result<CodeTarget> {
    let mut result = Ok(());
    let (mut processor, mut features) = (None, None);
    let triple = collect(bounds::REPLY_BYTES, |triple| {
        processor = Some(collect(bounds::REPLY_BYTES, |processor| {
            features = Some(collect(bounds::REPLY_BYTES, |features| {
                result = nothing(|| call(triple, processor, features));
            }));
        }));
    });
    result?;
    let text = |written: Option<Collected>, name| {
        let written = written.expect("each sink was filled by the call");
        written.into_plugin_text(plugin, format_args!("{place}, {name}"))
    };
    Ok(CodeTarget {
        triple: text(Some(triple), "triple")?,
        processor: text(processor, "processor")?,
        features: text(features, "features")?,
    })
}

pub(crate) fn global(
    _: &str,
    _: &str,
    call: impl FnOnce(*mut abi::GlobalInfo) -> Raw,
) -> Result<GlobalAddress> {
    let mut info = abi::GlobalInfo { address: 0, bytes: 0 };
    nothing(|| call(&raw mut info))?;
    Ok(GlobalAddress { address: info.address, bytes: info.bytes })
}

pub(crate) fn tracker(
    _: &str,
    _: &str,
    call: impl FnOnce(*mut PoolTracker, *mut u32) -> Raw,
) -> Result<Option<PoolTracker>> {
    let mut tracker = PoolTracker { allocations: 0, total_bytes: 0, min_bytes: 0, max_bytes: 0 };
    let mut present = 0;
    nothing(|| call(&raw mut tracker, &raw mut present))?;
    Ok((present != 0).then_some(tracker))
}

pub(crate) fn symbols(
    plugin: &str,
    _: &str,
    call: impl FnOnce(abi::SymbolVisitor) -> Raw,
) -> Result<Vec<(String, SymbolKind)>> {
    unsafe extern "C" fn visit(context: *mut c_void, name: abi::Text, kind: u32) {
        // SAFETY: `context` is the value below; the plugin passes a readable name.
        unsafe { (*context.cast::<Visit<'_, (String, SymbolKind)>>()).symbol(name, kind) }
    }
    let mut found = Visit::new(plugin);
    nothing(|| call(abi::SymbolVisitor { context: (&raw mut found).cast(), visit }))?;
    found.finish()
}

pub(crate) fn sections(
    plugin: &str,
    _: &str,
    call: impl FnOnce(abi::ProfileVisitor) -> Raw,
) -> Result<Vec<ProfileSection>> {
    unsafe extern "C" fn visit(
        context: *mut c_void,
        kind: u32,
        address: u64,
        contents: abi::Bytes,
    ) {
        // SAFETY: `context` is the value below; the plugin passes readable contents.
        unsafe {
            (*context.cast::<Visit<'_, ProfileSection>>()).section(kind, address, contents);
        }
    }
    let mut found = Visit::new(plugin);
    nothing(|| call(abi::ProfileVisitor { context: (&raw mut found).cast(), visit }))?;
    found.finish()
}

/// Items passed to a visitor. After the first breach the visitor keeps nothing.
struct Visit<'a, T> {
    plugin: &'a str,
    found: Vec<T>,
    /// Number of calls of the visitor.
    calls: u64,
    /// Size of all found items in bytes.
    bytes: u64,
    breach: Option<Error>,
}

impl<T> Visit<'_, T> {
    fn new(plugin: &str) -> Visit<'_, T> {
        Visit { plugin, found: Vec::new(), calls: 0, bytes: 0, breach: None }
    }

    /// Returns the found items.
    ///
    /// # Errors
    /// The first breach.
    fn finish(self) -> Result<Vec<T>> {
        self.breach.map_or(Ok(self.found), Err)
    }

    /// Keeps the item that `take` makes of a call's arguments, unless there was a breach.
    fn call(&mut self, take: impl FnOnce(&mut Self) -> Result<Option<T>>) {
        if self.breach.is_some() {
            return;
        }
        self.calls += 1;
        match take(self) {
            Ok(found) => self.found.extend(found),
            Err(error) => {
                self.found = Vec::new();
                self.breach = Some(error);
            }
        }
    }
}

impl Visit<'_, (String, SymbolKind)> {
    /// # Safety
    /// The name is readable, unless it is null or longer than its bound.
    unsafe fn symbol(&mut self, name: abi::Text, kind: u32) {
        self.call(|visit| {
            let (plugin, place) = (visit.plugin, "longshore.module, symbols");
            bounds::at_most(plugin, place, visit.calls, "symbols", bounds::SYMBOLS as u64)?;
            // SAFETY: promised by the caller.
            let name = unsafe {
                let place = "longshore.module, symbols, name";
                bounds::copy_text(plugin, place, name, bounds::SYMBOL_BYTES)?
            };
            visit.bytes += name.len() as u64;
            let place = "longshore.module, symbols, all names";
            bounds::at_most(plugin, place, visit.bytes, "bytes", bounds::SYMBOLS_BYTES as u64)?;
            Ok(SymbolKind::from_raw(kind).map(|kind| (name, kind)))
        });
    }
}

impl Visit<'_, ProfileSection> {
    /// # Safety
    /// The contents are readable, unless they are null or longer than their bound.
    unsafe fn section(&mut self, kind: u32, address: u64, contents: abi::Bytes) {
        self.call(|visit| {
            let (plugin, place) = (visit.plugin, "longshore.instrumentation, profile");
            let most = bounds::PROFILE_SECTIONS as u64;
            bounds::at_most(plugin, place, visit.calls, "sections", most)?;
            visit.bytes = visit.bytes.saturating_add(contents.bytes as u64);
            let all = "longshore.instrumentation, profile, all contents";
            bounds::at_most(plugin, all, visit.bytes, "bytes", bounds::PROFILE_BYTES as u64)?;
            // SAFETY: promised by the caller.
            let contents = unsafe {
                let place = "longshore.instrumentation, profile, contents";
                bounds::borrow(plugin, place, contents, bounds::PROFILE_BYTES)?
            };
            bounds::section(plugin, address, contents.len() as u64)?;
            let kind = ProfileSectionKind::from_raw(kind);
            Ok(kind.map(|kind| ProfileSection { kind, address, contents: contents.to_vec() }))
        });
    }
}
