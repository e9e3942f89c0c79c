//! Handles: numbers in the form of pointers. A handle consists of the tag of its kind, the place of
//! its object, and a generation: the number of earlier objects in the place.

use longshore::{Error, ErrorCode};

/// A type of objects with handles.
pub(crate) trait Object {
    /// The type that a handle points to in C.
    type Pointee;
    /// The kind of the handles.
    const KIND: Kind;
}

/// A kind of handles.
pub(crate) struct Kind {
    /// Number that distinguishes handles of this kind from other handles, below 16.
    pub(crate) tag: u8,
    /// Word for such an object in messages.
    pub(crate) name: &'static str,
    /// Code of the error for a number that is not a handle of this kind.
    pub(crate) code: ErrorCode,
}

const KIND_SHIFT: u32 = 60;
const PLACE_SHIFT: u32 = 32;
/// Maximum number of places of a kind.
pub(super) const MOST_PLACES: u32 = 1 << (KIND_SHIFT - PLACE_SHIFT);

/// Returns the handle of the object at a place, in this generation.
#[inline]
pub(crate) fn handle<T: Object>(generation: u32, place: u32) -> *mut T::Pointee {
    let head = u64::from(T::KIND.tag) << KIND_SHIFT | u64::from(place) << PLACE_SHIFT;
    (head | u64::from(generation)) as *mut T::Pointee
}

/// Returns the place of a handle of this generation; `None` for any other number.
#[inline]
pub(crate) fn place<T: Object>(generation: u32, handle: *mut T::Pointee) -> Option<usize> {
    let found = parts::<T>(handle).filter(|(_, found)| *found == generation);
    found.map(|(place, _)| place as usize)
}

/// Returns the place and the generation of a handle; `None` for a number that is not a handle of
/// the kind.
#[inline]
pub(super) fn parts<T: Object>(handle: *mut T::Pointee) -> Option<(u32, u32)> {
    let bits = handle as u64;
    let place = (bits >> PLACE_SHIFT) as u32 & (MOST_PLACES - 1);
    (bits >> KIND_SHIFT == u64::from(T::KIND.tag)).then_some((place, bits as u32))
}

/// Creates the error for a number without an object of the kind.
#[cold]
pub(crate) fn refused<T: Object>(handle: *mut T::Pointee) -> Error {
    let (number, Kind { name, code, .. }) = (handle as usize, T::KIND);
    let message = format!("{number:#x} is not the handle of a live object of kind '{name}'");
    Error::new(code, message)
}
