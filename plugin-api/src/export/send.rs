//! Functions that write answers to the places that the host passes.
//!
//! Each function is `unsafe`: the caller passes the places of the call under way.
#![allow(clippy::missing_safety_doc)]

use crate::abi;
use crate::error::bounded;
use crate::image::{Acceptance, CodeTarget};
use crate::info::InfoValue;
use crate::raw::{bytes, text as raw_text, write_sink};
use crate::request::{GlobalAddress, PoolTracker, ProfileSection, SymbolKind};

pub(crate) unsafe fn number<T>(reply: T, to: *mut T) {
    // SAFETY: a place of the call under way.
    unsafe { to.write(reply) }
}

pub(crate) unsafe fn truth(reply: bool, to: *mut u32) {
    // SAFETY: a place of the call under way.
    unsafe { to.write(u32::from(reply)) }
}

pub(crate) unsafe fn text(reply: String, to: abi::Sink) {
    // SAFETY: the sink of the call under way.
    unsafe { write_sink(to, reply.as_bytes()) }
}

pub(crate) unsafe fn value(reply: InfoValue, to: abi::Sink) {
    // SAFETY: the sink of the call under way.
    reply.with_bytes(|bytes| unsafe { write_sink(to, bytes) });
}

pub(crate) unsafe fn acceptance(reply: Acceptance, accepted: *mut u32, reason: abi::Sink) {
    // SAFETY: a place and the sink of the call under way.
    unsafe {
        accepted.write(match reply {
            Acceptance::Refused(why) => {
                write_sink(reason, bounded(why).as_bytes());
                0
            }
            Acceptance::Accepted => 1,
            Acceptance::Verified => 2,
        });
    }
}

pub(crate) unsafe fn code_target(
    reply: CodeTarget,
    triple: abi::Sink,
    processor: abi::Sink,
    features: abi::Sink,
) {
    // SAFETY: the sinks of the call under way.
    unsafe {
        write_sink(triple, reply.triple.as_bytes());
        write_sink(processor, reply.processor.as_bytes());
        write_sink(features, reply.features.as_bytes());
    }
}

pub(crate) unsafe fn global(reply: GlobalAddress, to: *mut abi::GlobalInfo) {
    // SAFETY: a place of the call under way.
    unsafe { to.write(abi::GlobalInfo { address: reply.address, bytes: reply.bytes }) }
}

pub(crate) unsafe fn tracker(
    reply: Option<PoolTracker>,
    to: *mut abi::PoolTracker,
    present: *mut u32,
) {
    // SAFETY: places of the call under way.
    unsafe {
        present.write(u32::from(reply.is_some()));
        if let Some(reply) = reply {
            to.write(reply);
        }
    }
}

pub(crate) unsafe fn symbols(reply: Vec<(String, SymbolKind)>, to: abi::SymbolVisitor) {
    for (name, kind) in reply {
        // SAFETY: the visitor of the call under way.
        unsafe { (to.visit)(to.context, raw_text(&name), kind as u32) }
    }
}

pub(crate) unsafe fn sections(reply: Vec<ProfileSection>, to: abi::ProfileVisitor) {
    for section in reply {
        let contents = bytes(&section.contents);
        // SAFETY: the visitor of the call under way.
        unsafe { (to.visit)(to.context, section.kind as u32, section.address, contents) }
    }
}
