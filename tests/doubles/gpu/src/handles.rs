//! Handles that are checked: numbers that no other object ever gets.

use parking_lot::RwLock;
use std::collections::BTreeMap;

/// First handle, an address without memory.
const FIRST: usize = 0x0dea_0000_0000;
const DISTANCE: usize = 0x100;

/// The objects of a program that have handles.
#[derive(Debug)]
pub(crate) struct Handles<O> {
    table: RwLock<Table<O>>,
}

#[derive(Debug)]
struct Table<O> {
    live: BTreeMap<usize, O>,
    /// Kinds of all handles ever given, as indices into `names`: one byte each, as no entry is
    /// removed.
    given: Vec<u8>,
    names: Vec<&'static str>,
}

/// An object with a handle.
pub(crate) trait HasKind: Clone {
    /// Returns the kind of the object: "stream".
    fn kind(&self) -> &'static str;
}

impl<O> Handles<O> {
    /// Creates an empty table.
    pub(crate) const fn new() -> Handles<O> {
        let table = Table { live: BTreeMap::new(), given: Vec::new(), names: Vec::new() };
        Handles { table: RwLock::new(table) }
    }
}

impl<O: HasKind> Handles<O> {
    /// Creates an object and its handle, which the object may hold.
    pub(crate) fn add(&self, make: impl FnOnce(usize) -> O) -> (usize, O) {
        let mut table = self.table.write();
        let handle = FIRST + table.given.len() * DISTANCE;
        let object = make(handle);
        table.note(object.kind());
        table.live.insert(handle, object.clone());
        (handle, object)
    }

    /// Returns the object of a handle.
    pub(crate) fn get(&self, handle: usize) -> Option<O> {
        self.table.read().live.get(&handle).cloned()
    }

    /// Removes a handle. Its number is never used again.
    pub(crate) fn remove(&self, handle: usize) -> Option<O> {
        self.table.write().live.remove(&handle)
    }

    /// Describes a number that is not a handle of the expected kind.
    pub(crate) fn describe(&self, handle: usize) -> String {
        let table = self.table.read();
        match (table.live.get(&handle), table.kind_of(handle)) {
            (Some(object), _) => format!("{handle:#x} ({})", object.kind()),
            (None, Some(kind)) => format!("{handle:#x} ({kind}, destroyed)"),
            (None, None) => format!("{handle:#x} (never a handle)"),
        }
    }

    /// Returns all live objects, oldest first.
    pub(crate) fn live(&self) -> Vec<(usize, O)> {
        let table = self.table.read();
        table.live.iter().map(|(handle, object)| (*handle, object.clone())).collect()
    }
}

impl<O> Table<O> {
    fn note(&mut self, kind: &'static str) {
        let known = self.names.iter().position(|name| *name == kind);
        let place = known.unwrap_or_else(|| {
            self.names.push(kind);
            self.names.len() - 1
        });
        self.given.push(place as u8);
    }

    /// Returns the kind for which a handle was given.
    fn kind_of(&self, handle: usize) -> Option<&'static str> {
        let offset = handle.checked_sub(FIRST).filter(|offset| offset.is_multiple_of(DISTANCE))?;
        let place = self.given.get(offset / DISTANCE)?;
        self.names.get(usize::from(*place)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl HasKind for &'static str {
        fn kind(&self) -> &'static str {
            self
        }
    }

    #[test]
    fn a_handle_is_never_used_twice() {
        let handles = Handles::<&'static str>::new();
        let (first, _) = handles.add(|_| "stream");
        assert_eq!(handles.get(first), Some("stream"));
        assert_eq!(handles.remove(first), Some("stream"));
        assert_eq!(handles.remove(first), None);
        let (second, _) = handles.add(|_| "event");
        assert_ne!(first, second);
        assert!(handles.describe(first).contains("stream, destroyed"));
        assert!(handles.describe(second).contains("event"));
        assert!(handles.describe(3).contains("never"));
    }
}
