//! Numbers of Python as bits.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyInt;

/// Returns the bits of an integer of this size; an error beyond its range, `None` for another
/// object.
#[inline]
pub(crate) fn integer(
    value: &Bound<'_, PyAny>,
    bytes: usize,
    is_signed: bool,
) -> Option<Result<u64, ()>> {
    let index;
    let value = if value.is_exact_instance_of::<PyInt>() {
        value
    } else {
        // SAFETY: the interpreter's lock is held; the function accepts any object.
        let made = unsafe { ffi::PyNumber_Index(value.as_ptr()) };
        // SAFETY: a new reference, or null with an exception, which is taken.
        index = unsafe { Bound::from_owned_ptr_or_err(value.py(), made) }.ok()?;
        &index
    };
    let bits = 8 * bytes.min(8) as u32;
    // SAFETY: the interpreter's lock is held, and the object is an integer.
    let number = unsafe {
        match is_signed || bits < 64 {
            true => ffi::PyLong_AsLongLong(value.as_ptr()) as u64,
            false => ffi::PyLong_AsUnsignedLongLong(value.as_ptr()),
        }
    };
    if number == u64::MAX && PyErr::take(value.py()).is_some() {
        return Some(Err(()));
    }
    let fits = match is_signed {
        _ if bits == 64 => true,
        true => (number as i64) >> (bits - 1) == 0 || (number as i64) >> (bits - 1) == -1,
        false => number >> bits == 0,
    };
    Some(if fits { Ok(number) } else { Err(()) })
}

/// Returns the bits of a number of this size, rounded to nearest; `None` for a finite number beyond
/// the range.
#[inline]
pub(crate) fn bits(number: f64, bytes: usize) -> Option<u64> {
    let (word, is_finite) = match bytes {
        8 => (number.to_bits(), number.is_finite()),
        4 => (u64::from((number as f32).to_bits()), (number as f32).is_finite()),
        _ => {
            let half = half(number);
            (u64::from(half), half & 0x7c00 != 0x7c00)
        }
    };
    (is_finite || !number.is_finite()).then_some(word)
}

/// Returns the bits of a number in half precision, rounded to nearest, ties to even.
fn half(number: f64) -> u16 {
    let sign = if number.is_sign_negative() { 0x8000 } else { 0 };
    let size = number.abs();
    if number.is_nan() {
        return sign | 0x7e00;
    }
    // The distance of halves at this size: 2^-24 for subnormal ones.
    let exponent = (((size.to_bits() >> 52) as i32) - 1023).clamp(-14, 16);
    let unit = f64::from_bits(((exponent - 10 + 1023) as u64) << 52);
    let units = (size / unit).round_ties_even();
    if units * unit > 65504.0 {
        return sign | 0x7c00;
    }
    // A carry of the rounding moves into the exponent.
    sign | ((((exponent + 14) as u16) << 10) + units as u16)
}

/// Returns the bits of a number as a `bfloat16`, rounded to nearest, ties to even.
pub(crate) fn bfloat(number: f64) -> u16 {
    let bits = (number as f32).to_bits();
    if number.is_nan() {
        return 0x7fc0;
    }
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
}
