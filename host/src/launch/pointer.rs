//! Arguments for pointers to elements of a known type.

use super::Argument;
use crate::memory::{Buffer, BufferSlice, DevicePointer, Element};

/// An argument for a kernel's pointer to elements of type `E`. It is a buffer of numbers of that
/// size and kind, or of arrays of them, a part of such a buffer, or a [`DevicePointer`], whose
/// elements are unknown. As at a
/// launch, signed and unsigned integers of one size are interchangeable.
///
/// The functions that [`include_kernels!`](crate::include_kernels) includes take such arguments, so
/// that a buffer of other elements is an error of the compiler. A pointer whose elements the image
/// does not describe has `()` as `E`, and takes every buffer. [`Buffer::pointer`] passes a
/// program's own structures for numbers.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no argument for a kernel's pointer to `{E}`",
    label = "expected `&Buffer<{E}>` or `DevicePointer`",
    note = "`Buffer::pointer` returns a `DevicePointer`, whose elements are not checked"
)]
pub trait PointerTo<E>: Argument<Stored = u64> {}

impl<E> PointerTo<E> for DevicePointer {}

impl<T: Element> PointerTo<()> for &Buffer<T> {}

impl<T: Element> PointerTo<()> for BufferSlice<'_, T> {}

macro_rules! pointers {
    ($($element:ty: $($given:ty)*;)*) => { $( $(
        impl PointerTo<$element> for &Buffer<$given> {}
        impl<const N: usize> PointerTo<$element> for &Buffer<[$given; N]> {}
        impl PointerTo<$element> for BufferSlice<'_, $given> {}
        impl<const N: usize> PointerTo<$element> for BufferSlice<'_, [$given; N]> {}
    )* )* };
}

pointers! {
    u8: u8 i8;
    i8: i8 u8;
    u16: u16 i16;
    i16: i16 u16;
    u32: u32 i32;
    i32: i32 u32;
    u64: u64 i64 usize isize;
    i64: i64 u64 isize usize;
    f32: f32;
    f64: f64;
}
