//! How much is tried: all, or little where a device takes long for an instruction, as an emulated one does.

use std::time::Duration;

/// Something that is less where little is tried.
#[derive(Clone, Copy, Debug)]
pub struct Amount<T> {
    /// Of a test that tries all.
    pub usual: T,
    /// Of one that tries little.
    pub small: T,
}

impl<T: Copy> Amount<T> {
    /// That of this process.
    pub fn get(self) -> T {
        if is_small() { self.small } else { self.usual }
    }
}

/// How long something may take in this process that usually takes no longer than `usual`.
pub fn limit(usual: Duration) -> Duration {
    Amount { usual, small: 10 * usual }.get()
}

/// Whether `LONGSHORE_SMALL` is 1.
fn is_small() -> bool {
    std::env::var_os("LONGSHORE_SMALL").is_some_and(|value| value == "1")
}
