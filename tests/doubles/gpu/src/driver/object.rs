//! Objects that a program has handles of.

use super::{Code, DriverResult, broken};
use crate::{Handles, HasKind};
use std::any::Any;
use std::sync::Arc;

static OBJECTS: Handles<Entry> = Handles::new();

/// A type of object that has handles.
pub trait Object: Any + Send + Sync {
    /// Name of the type in messages: "stream".
    const KIND: &'static str;

    /// Result for a handle of another type, or an unknown handle.
    const WRONG: Code = Code::INVALID_HANDLE;

    /// Returns the handle of the context that the object ends with; 0 for none.
    fn context_handle(&self) -> usize;

    /// Returns whether the program has to give the object back.
    fn is_of_program(&self) -> bool {
        true
    }
}

/// A live object, and facts about it that do not change.
#[derive(Clone)]
pub(crate) struct Entry {
    object: Arc<dyn Any + Send + Sync>,
    kind: &'static str,
    /// Handle of the context that the object ends with; 0 for none.
    pub(crate) context: usize,
    /// Whether the program has to give the object back.
    pub(crate) is_of_program: bool,
}

impl HasKind for Entry {
    fn kind(&self) -> &'static str {
        self.kind
    }
}

/// Creates an object, which may hold its own handle.
pub fn add<T: Object>(make: impl FnOnce(usize) -> T) -> Arc<T> {
    let mut made = None;
    OBJECTS.add(|handle| {
        let object = Arc::new(make(handle));
        made = Some(Arc::clone(&object));
        Entry {
            kind: T::KIND,
            context: object.context_handle(),
            is_of_program: object.is_of_program(),
            object,
        }
    });
    made.expect("the table makes the object")
}

/// Returns the object of a handle. A handle of anything else is a violation.
///
/// # Errors
/// The type's [`WRONG`](Object::WRONG).
pub fn get<T: Object>(handle: usize) -> DriverResult<Arc<T>> {
    find(handle).ok_or_else(|| wrong::<T>(handle))
}

/// Removes and returns the object of a handle. A handle of anything else is a violation.
///
/// # Errors
/// The type's [`WRONG`](Object::WRONG).
pub fn remove<T: Object>(handle: usize) -> DriverResult<Arc<T>> {
    let object = get(handle)?;
    match OBJECTS.remove(handle) {
        Some(_) => Ok(object),
        None => Err(wrong::<T>(handle)),
    }
}

/// Returns the object of a handle, if there is one of this type.
pub(crate) fn find<T: Object>(handle: usize) -> Option<Arc<T>> {
    Arc::downcast(OBJECTS.get(handle)?.object).ok()
}

/// Removes a handle of any type, if it is live.
pub(crate) fn end(handle: usize) {
    OBJECTS.remove(handle);
}

/// Returns all live objects and their handles, oldest first.
pub(crate) fn live() -> Vec<(usize, Entry)> {
    OBJECTS.live()
}

/// Returns all live objects of a type, oldest first.
pub(crate) fn all<T: Object>() -> Vec<Arc<T>> {
    live().into_iter().filter_map(|(_, entry)| Arc::downcast(entry.object).ok()).collect()
}

fn wrong<T: Object>(handle: usize) -> Code {
    broken(T::WRONG, format!("{}, expected {}", OBJECTS.describe(handle), T::KIND))
}
