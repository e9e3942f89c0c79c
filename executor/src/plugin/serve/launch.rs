//! The values of a launch's arguments, stored where a plugin can read them.

use std::ffi::c_void;

use longshore_plugin_api::{Arguments, Error, ErrorCode, Result};

use crate::plugin::protocol::take_argument;

/// Greatest alignment of a value in bytes.
const ALIGNMENT: usize = 64;

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Unit([u8; ALIGNMENT]);

/// Memory for values, reused by each launch of a thread.
#[derive(Default)]
pub(super) struct Values {
    storage: Vec<Unit>,
    pointers: Vec<*const c_void>,
    sizes: Vec<usize>,
}

impl Values {
    /// Copies the values of a message to places aligned for any type, and calls `launch` with them.
    ///
    /// # Errors
    /// `InvalidArgument` for a message with an incomplete value, and every error of `launch`.
    pub(super) fn with<T>(
        &mut self,
        message: &[u8],
        launch: impl FnOnce(Arguments<'_>) -> Result<T>,
    ) -> Result<T> {
        self.sizes.clear();
        let mut rest = message;
        while let Some(value) = take_argument(&mut rest) {
            self.sizes.push(value.len());
        }
        if !rest.is_empty() {
            let message = format!(
                "the last {} bytes of a launch's arguments are not a whole value",
                rest.len()
            );
            return Err(Error::new(ErrorCode::InvalidArgument, message));
        }
        let units = self.sizes.iter().map(|size| size.div_ceil(ALIGNMENT).max(1)).sum();
        self.storage.clear();
        self.storage.resize(units, Unit([0; ALIGNMENT]));
        self.pointers.clear();
        let (mut rest, mut place) = (message, self.storage.as_mut_ptr());
        while let Some(value) = take_argument(&mut rest) {
            // SAFETY: `storage` has a place of at least this size for each value, one after the
            // other.
            unsafe {
                std::ptr::copy_nonoverlapping(value.as_ptr(), place.cast(), value.len());
                self.pointers.push(place.cast_const().cast());
                place = place.add(value.len().div_ceil(ALIGNMENT).max(1));
            }
        }
        // SAFETY: both lists have an entry for each value, and the values stay in place during the
        // call. The program guarantees that the kernel can run with them.
        launch(unsafe {
            Arguments::from_raw(self.pointers.as_ptr(), self.sizes.as_ptr(), self.sizes.len())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugin::protocol::put_argument;

    #[test]
    fn values_are_aligned_and_whole() {
        let values = [&b""[..], b"abc", &[9; 200], &1.5f64.to_le_bytes()];
        let mut message = Vec::new();
        values.iter().for_each(|value| put_argument(value, &mut message));
        let mut kept = Values::default();
        for _ in 0..2 {
            let found = kept.with(&message, |arguments| {
                // SAFETY: the list has 4 pointers.
                let places = unsafe { std::slice::from_raw_parts(arguments.pointers(), 4) };
                assert!(places.iter().all(|place| (*place as usize).is_multiple_of(ALIGNMENT)));
                Ok(arguments.values().map(<[u8]>::to_vec).collect::<Vec<_>>())
            });
            assert_eq!(found.unwrap(), values);
        }
        message.pop();
        assert!(kept.with(&message, |_| Ok(())).is_err());
    }
}
