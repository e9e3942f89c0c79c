//! Reductions of elements in memory of the program.

use crate::memory::Element;
use longshore_plugin_api::{CollectiveElement, CollectiveOperation, Error, ErrorCode, Result};

/// A number that [`Group::reduce`](crate::Group::reduce) combines.
pub trait Reducible: Element {
    /// The type of the element.
    const ELEMENT: CollectiveElement;
}

macro_rules! reducible {
    ($($number:ty: $element:ident),*) => { $(
        impl Reducible for $number {
            const ELEMENT: CollectiveElement = CollectiveElement::$element;
        }
    )* };
}

reducible!(
    i8: I8, u8: U8, i16: I16, u16: U16, i32: I32, u32: U32, i64: I64, u64: U64, f32: F32, f64: F64
);

/// Returns the type of elements and the operation.
///
/// # Errors
/// `InvalidArgument` for a bitwise operation on floating-point numbers.
pub(super) fn checked<T: Reducible>(
    operation: CollectiveOperation,
) -> Result<(CollectiveElement, CollectiveOperation)> {
    use CollectiveOperation::{And, Or, Xor};
    let is_float = matches!(T::ELEMENT, CollectiveElement::F32 | CollectiveElement::F64);
    if is_float && matches!(operation, And | Or | Xor) {
        let message = format!("the operation {operation:?} on floating-point numbers");
        return Err(Error::new(ErrorCode::InvalidArgument, message));
    }
    Ok((T::ELEMENT, operation))
}

/// Combines each element of `into` with that of `other`, which has the same size. Nothing happens
/// for a bitwise operation on floating-point numbers.
#[doc(hidden)]
pub fn combine_elements(
    element: CollectiveElement,
    operation: CollectiveOperation,
    into: &mut [u8],
    other: &[u8],
) {
    macro_rules! integers {
        ($($element:ident: $number:ty),*) => {
            match element {
                $(CollectiveElement::$element => each::<$number, { size_of::<$number>() }>(
                    into,
                    other,
                    |a, b| match operation {
                        CollectiveOperation::Product => a.wrapping_mul(b),
                        CollectiveOperation::Min => a.min(b),
                        CollectiveOperation::Max => a.max(b),
                        CollectiveOperation::And => a & b,
                        CollectiveOperation::Or => a | b,
                        CollectiveOperation::Xor => a ^ b,
                        _ => a.wrapping_add(b),
                    },
                ),)*
                CollectiveElement::F32 => {
                    each::<f32, 4>(into, other, |a, b| match operation {
                        CollectiveOperation::Product => a * b,
                        CollectiveOperation::Min => a.min(b),
                        CollectiveOperation::Max => a.max(b),
                        _ => a + b,
                    });
                }
                CollectiveElement::F64 => {
                    each::<f64, 8>(into, other, |a, b| match operation {
                        CollectiveOperation::Product => a * b,
                        CollectiveOperation::Min => a.min(b),
                        CollectiveOperation::Max => a.max(b),
                        _ => a + b,
                    });
                }
                _ => {}
            }
        };
    }
    integers!(I8: i8, U8: u8, I16: i16, U16: u16, I32: i32, U32: u32, I64: i64, U64: u64);
}

/// A number as bytes.
trait Number<const BYTES: usize>: Copy {
    fn from_bytes(bytes: [u8; BYTES]) -> Self;
    fn to_bytes(self) -> [u8; BYTES];
}

macro_rules! numbers {
    ($($number:ty),*) => { $(
        impl Number<{ size_of::<$number>() }> for $number {
            fn from_bytes(bytes: [u8; size_of::<$number>()]) -> Self {
                <$number>::from_ne_bytes(bytes)
            }

            fn to_bytes(self) -> [u8; size_of::<$number>()] {
                self.to_ne_bytes()
            }
        }
    )* };
}

numbers!(i8, u8, i16, u16, i32, u32, i64, u64, f32, f64);

fn each<T: Number<BYTES>, const BYTES: usize>(
    into: &mut [u8],
    other: &[u8],
    combine: impl Fn(T, T) -> T,
) {
    let (into, _) = into.as_chunks_mut::<BYTES>();
    let (other, _) = other.as_chunks::<BYTES>();
    for (a, b) in into.iter_mut().zip(other) {
        *a = combine(T::from_bytes(*a), T::from_bytes(*b)).to_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use CollectiveOperation::{And, Max, Min, Or, Product, Sum, Xor};

    #[test]
    fn elements_are_combined_one_by_one() {
        let combine = |operation, a: [i16; 3], b: [i16; 3]| {
            let bytes = |of: [i16; 3]| of.iter().flat_map(|n| n.to_ne_bytes()).collect::<Vec<_>>();
            let mut into = bytes(a);
            combine_elements(CollectiveElement::I16, operation, &mut into, &bytes(b));
            into.chunks(2).map(|n| i16::from_ne_bytes([n[0], n[1]])).collect::<Vec<_>>()
        };
        let (a, b) = ([1, i16::MAX, -6], [2, 1, 3]);
        assert_eq!(combine(Sum, a, b), [3, i16::MIN, -3]);
        assert_eq!(combine(Product, a, b), [2, i16::MAX, -18]);
        assert_eq!(combine(Min, a, b), [1, 1, -6]);
        assert_eq!(combine(Max, a, b), [2, i16::MAX, 3]);
        assert_eq!(combine(And, a, b), [0, 1, 2]);
        assert_eq!(combine(Or, a, b), [3, i16::MAX, -5]);
        assert_eq!(combine(Xor, a, b), [3, i16::MAX - 1, -7]);
        let mut into = 1.5f64.to_ne_bytes();
        combine_elements(CollectiveElement::F64, Product, &mut into, &4f64.to_ne_bytes());
        assert_eq!(f64::from_ne_bytes(into), 6.0);
        assert!(checked::<f32>(Xor).is_err() && checked::<u8>(Xor).is_ok());
    }
}
