//! Types whose values are plain data.

use std::mem::MaybeUninit;

/// A type whose values can lie in a [`Buffer`](crate::Buffer): plain data, valid for any bytes.
///
/// Numbers and arrays of numbers are elements. A structure with `#[repr(C)]` derives the trait if
/// its fields are elements and leave no padding. With the feature `bytemuck`, each type that
/// implements `bytemuck::NoUninit` and `bytemuck::AnyBitPattern` is an element, and cannot derive
/// or implement `Element`.
///
/// ```
/// use longshore::Element;
///
/// #[repr(C)]
/// #[derive(Clone, Copy, Element)]
/// struct Particle {
///     position: [f32; 3],
///     mass: f32,
/// }
///
/// fn particles(queue: &longshore::Queue) -> longshore::Result<longshore::Buffer<Particle>> {
///     queue.device().buffer(queue, 1024)
/// }
/// ```
///
/// The compiler refuses padding and fields that are no elements:
///
/// ```compile_fail,E0080
/// #[repr(C)]
/// #[derive(Clone, Copy, longshore::Element)]
/// struct Padded {
///     flag: u8,
///     count: u32,
/// }
/// ```
///
/// ```compile_fail,E0277
/// #[repr(C)]
/// #[derive(Clone, Copy, longshore::Element)]
/// struct Flag {
///     is_set: bool,
/// }
/// ```
///
/// # Safety
/// Each byte of a value is initialised: the type has no padding. Any bytes are a valid value. The
/// type has neither interior mutability nor references.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no element: it is not known to be plain data without padding",
    label = "expected a number, an array of numbers or a structure that derives `Element`",
    note = "`#[derive(longshore::Element)]` takes structures with `#[repr(C)]`"
)]
pub unsafe trait Element: Copy + Send + Sync + 'static {}

#[cfg(feature = "bytemuck")]
// SAFETY: `NoUninit` promises that there is no padding, `AnyBitPattern` that any bytes are valid.
unsafe impl<T> Element for T where
    T: bytemuck::NoUninit + bytemuck::AnyBitPattern + Send + Sync + 'static
{
}

#[cfg(not(feature = "bytemuck"))]
mod numbers {
    use super::Element;

    /// A number, or an array of numbers. An array of a program's own elements is no element: the
    /// feature `bytemuck`, when enabled, would take that implementation away.
    ///
    /// # Safety
    /// As for [`Element`].
    pub unsafe trait Number: Copy + Send + Sync + 'static {}

    macro_rules! numbers {
        ($($number:ty)*) => { $(
            // SAFETY: a number has no padding and is valid for any bytes.
            unsafe impl Number for $number {}
            // SAFETY: as above.
            unsafe impl Element for $number {}
        )* };
    }

    numbers!(u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize f32 f64);

    // SAFETY: the elements lie side by side, without padding.
    unsafe impl<T: Number, const N: usize> Number for [T; N] {}
    // SAFETY: as above.
    unsafe impl<T: Number, const N: usize> Element for [T; N] {}
}

/// Returns the bytes of plain data.
#[inline]
pub(crate) fn bytes<T: Element>(values: &[T]) -> &[u8] {
    // SAFETY: each byte of an element is initialised, and none changes while it is borrowed.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

/// Returns the bytes of plain data, to be overwritten.
#[inline]
pub(crate) fn bytes_mut<T: Element>(values: &mut [T]) -> &mut [u8] {
    let size = size_of_val(values);
    // SAFETY: as for `bytes`; any bytes are an element, and the slice is borrowed exclusively.
    unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), size) }
}

/// Returns the value whose bytes are all 0.
#[inline]
pub(crate) fn zero<T: Element>() -> T {
    // SAFETY: any bytes are an element.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(C)]
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Pair {
        index: u32,
        weight: f32,
    }

    // SAFETY: two numbers of 4 bytes, without padding.
    unsafe impl Element for Pair {}

    #[test]
    fn a_type_of_the_program_is_its_bytes() {
        let pairs = [Pair { index: 7, weight: 1.5 }, Pair { index: u32::MAX, weight: -2.0 }];
        let mut copy = [zero::<Pair>(); 2];
        assert_eq!(copy[0], Pair { index: 0, weight: 0.0 });
        bytes_mut(&mut copy).copy_from_slice(bytes(&pairs));
        assert_eq!(copy, pairs);
        assert_eq!(bytes(&pairs)[..4], 7u32.to_ne_bytes());
    }

    #[test]
    fn arrays_of_numbers_are_elements() {
        fn size<T: Element>() -> usize {
            size_of::<T>()
        }
        assert_eq!(size::<[[f32; 3]; 33]>(), 396);
        assert_eq!(size::<[u8; 0]>(), 0);
    }
}
