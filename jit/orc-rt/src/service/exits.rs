//! Exit handlers and destructors of linked code.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::{services, thread_locals};
use crate::exit::Handler;
use crate::{ExitScope, call_at_bottom};

services! {
    /// The service that creates the exit scope of a library, and returns its address: the
    /// `__dso_handle` of the library's code.
    CREATE_EXIT_SCOPE = "__longshore_create_exit_scope", fn(()) -> u64, create;
    /// The service that adds handles to scopes: pairs of a scope and the address that linked code
    /// uses as its `__dso_handle`.
    ADD_DSO_HANDLES = "__longshore_add_dso_handles", fn(Vec<(u64, u64)>) -> (), add_handles;
    /// The service that runs the handlers and destructors of a library's end. Exit handlers of
    /// other threads are forgotten: see [`ExitScope::run`].
    END_LIBRARY = "__longshore_end_library", fn(LibraryEnd) -> (), end_library;
    /// The service that runs the handlers and destructors of objects that are removed together. The
    /// objects may still call each other.
    END_OBJECTS = "__longshore_end_objects", fn(Vec<ObjectEnd>) -> (), end_objects;
}

/// The handlers and destructors of a library's end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LibraryEnd {
    /// The library's exit scope, if one was made. Its handlers run before and after the
    /// destructors.
    pub scope: Option<u64>,
    /// The destructors in the order in which they run.
    pub destructors: Vec<u64>,
}

/// The handlers and destructors of an object's end: the exit handlers run first, then the
/// destructors.
///
/// A handler belongs to the object if its function or its argument is in the object's memory, or
/// the argument in its thread-local storage: a destructor may be another library's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectEnd {
    /// The exit scope of the object's library.
    pub scope: Option<u64>,
    /// The destructors in the order in which they run.
    pub destructors: Vec<u64>,
    /// Start and size in bytes of each part of the object's memory.
    pub ranges: Vec<(u64, u64)>,
    /// The number of the object's thread-local storage.
    pub thread_locals: Option<u64>,
}

/// The scopes created by services and not yet released, by address.
static SCOPES: Mutex<BTreeMap<u64, Arc<ExitScope>>> = Mutex::new(BTreeMap::new());

fn scope(address: u64) -> Option<Arc<ExitScope>> {
    SCOPES.lock().get(&address).cloned()
}

fn create((): ()) -> u64 {
    let scope = Arc::new(ExitScope::new());
    let address = scope.dso_handle();
    SCOPES.lock().insert(address, scope);
    address
}

fn add_handles(handles: Vec<(u64, u64)>) {
    for (of, handle) in handles {
        if let Some(scope) = scope(of) {
            scope.add_handle(handle);
        }
    }
}

/// # Safety
/// The destructors must be functions that may be called.
pub(super) unsafe fn end_library(end: LibraryEnd) {
    let scope = end.scope.and_then(scope);
    let run_handlers = || scope.iter().for_each(|scope| scope.run());
    run_handlers();
    // SAFETY: guaranteed by the caller.
    unsafe { run(&end.destructors) };
    run_handlers();
}

/// # Safety
/// The destructors must be functions that may be called.
unsafe fn end_objects(ends: Vec<ObjectEnd>) {
    for end in &ends {
        end.run_handlers();
        // SAFETY: guaranteed by the caller.
        unsafe { run(&end.destructors) };
    }
    // Handlers and destructors may have registered further handlers.
    while ends.iter().any(ObjectEnd::run_handlers) {}
}

/// # Safety
/// The destructors must be functions that may be called.
unsafe fn run(destructors: &[u64]) {
    for function in destructors {
        // SAFETY: guaranteed by the caller.
        unsafe { call_at_bottom(*function, [0; 3]) };
    }
}

impl ObjectEnd {
    /// Runs the object's handlers. Returns whether there were any.
    fn run_handlers(&self) -> bool {
        self.scope.and_then(scope).is_some_and(|scope| scope.run_some(|handler| self.has(handler)))
    }

    fn has(&self, handler: &Handler) -> bool {
        let inside = |address: u64| {
            self.ranges.iter().any(|(start, size)| address.wrapping_sub(*start) < *size)
        };
        let argument = handler.argument as u64;
        let of_thread = |number| thread_locals::contains(number, argument, handler.thread_pointer);
        inside(handler.function as usize as u64)
            || inside(argument)
            || self.thread_locals.is_some_and(of_thread)
    }
}

/// Forgets the handlers of scopes, including handlers of other threads. Blocks until running
/// handlers have returned.
pub(super) fn forget(scopes: &[u64]) {
    scopes.iter().filter_map(|address| scope(*address)).for_each(|scope| scope.forget());
}

/// Removes handles.
pub(super) fn remove_handles(handles: &[u64]) {
    handles.iter().for_each(|handle| ExitScope::remove_handle(*handle));
}

/// Removes scopes.
pub(super) fn release(scopes: &[u64]) {
    let released: Vec<_> = {
        let mut live = SCOPES.lock();
        scopes.iter().filter_map(|address| live.remove(address)).collect()
    };
    drop(released);
}
