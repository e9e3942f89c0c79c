//! The amount of work in tests: less where an instruction takes long, as on an emulated device.

use std::time::Duration;

/// A number or time that is smaller in short tests.
#[derive(Clone, Copy, Debug)]
pub struct TestScale<T> {
    /// The amount in a full test.
    pub usual: T,
    /// The amount in a short test.
    pub small: T,
}

impl<T: Copy> TestScale<T> {
    /// Returns the amount for this process.
    pub fn get(self) -> T {
        if is_small() { self.small } else { self.usual }
    }
}

/// Returns the time limit in this process for work that usually ends within `usual`.
pub fn limit(usual: Duration) -> Duration {
    TestScale { usual, small: 10 * usual }.get()
}

/// Returns whether `LONGSHORE_SMALL` is 1.
fn is_small() -> bool {
    std::env::var_os("LONGSHORE_SMALL").is_some_and(|value| value == "1")
}
