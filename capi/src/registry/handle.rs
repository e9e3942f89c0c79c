//! Handles: numbers that look like pointers. A handle consists of the tag of its kind, the place of its object, and a
//! generation: the number of objects that were in the place before.

use longshore::{Error, ErrorCode};

/// A type of objects that have handles.
pub(crate) trait Object {
    /// The type that a handle points to in C.
    type Pointee;
    /// The kind of the handles.
    const KIND: Kind;
}

/// A kind of handles.
pub(crate) struct Kind {
    /// The number that tells handles of this kind from others, below 16.
    pub(crate) tag: u8,
    /// The word for such an object in messages.
    pub(crate) name: &'static str,
    /// The code of the error for a handle that is none of this kind.
    pub(crate) code: ErrorCode,
}

const KIND_SHIFT: u32 = 60;
const PLACE_SHIFT: u32 = 32;
/// Limit of the places of a kind.
pub(super) const MOST_PLACES: u32 = 1 << (KIND_SHIFT - PLACE_SHIFT);

/// Returns the handle of the object at a place, in this generation.
#[inline]
pub(crate) fn handle<T: Object>(generation: u32, place: u32) -> *mut T::Pointee {
    let head = u64::from(T::KIND.tag) << KIND_SHIFT | u64::from(place) << PLACE_SHIFT;
    (head | u64::from(generation)) as *mut T::Pointee
}

/// Returns the place of a handle of this generation; `None` for a number that is no such handle.
#[inline]
pub(crate) fn place<T: Object>(generation: u32, handle: *mut T::Pointee) -> Option<usize> {
    let found = parts::<T>(handle).filter(|(_, of)| *of == generation);
    found.map(|(place, _)| place as usize)
}

/// Returns the place and the generation of a handle; `None` for a number that is no handle of the kind.
#[inline]
pub(super) fn parts<T: Object>(handle: *mut T::Pointee) -> Option<(u32, u32)> {
    let bits = handle as u64;
    let place = (bits >> PLACE_SHIFT) as u32 & (MOST_PLACES - 1);
    (bits >> KIND_SHIFT == u64::from(T::KIND.tag)).then_some((place, bits as u32))
}

/// Returns the error for a number that stands for no object of the kind.
#[cold]
pub(crate) fn refused<T: Object>(handle: *mut T::Pointee) -> Error {
    let (number, Kind { name, code, .. }) = (handle as usize, T::KIND);
    let message = format!("{number:#x} stands for no {name}, or for one that was destroyed");
    Error::new(code, message)
}
