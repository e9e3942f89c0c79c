//! A device with kernels, and buffers with poison after the part that a kernel may use.

use longshore::{Buffer, Device, Element, Queue, Result};
use std::fmt::Debug;

/// Number of elements after the end of each buffer.
const BEHIND: usize = 80;

/// A device, its kernels, and the queue that they are launched on.
pub struct Rig<K> {
    /// The kernels, which know the queue.
    pub kernels: K,
    device: Device,
}

/// A type with a value that kernels should neither read nor write.
pub trait Poisoned: Element + PartialEq + Debug {
    /// Value that no kernel reads or writes.
    const POISON: Self;

    /// Returns whether this is the poison value, even if that is not equal to itself.
    fn is_poison(self) -> bool;
}

impl Poisoned for f32 {
    const POISON: f32 = f32::NAN;

    fn is_poison(self) -> bool {
        self.is_nan()
    }
}

impl Poisoned for u32 {
    const POISON: u32 = 0xDEAD_BEEF;

    fn is_poison(self) -> bool {
        self == Self::POISON
    }
}

impl Poisoned for u8 {
    const POISON: u8 = 0xEE;

    fn is_poison(self) -> bool {
        self == Self::POISON
    }
}

impl<K: AsRef<Queue>> Rig<K> {
    /// Creates a rig from a device and its kernels.
    pub fn new(device: Device, kernels: K) -> Rig<K> {
        Rig { kernels, device }
    }

    /// Returns a buffer of these values, followed by poison. Blocks.
    ///
    /// # Panics
    /// If the device fails, as in all functions below.
    pub fn buffer<T: Poisoned>(&self, values: &[T]) -> Buffer<T> {
        let mut all = values.to_vec();
        all.resize(values.len() + BEHIND, T::POISON);
        self.device.buffer_of(self.kernels.as_ref(), &all).expect("the device works")
    }

    /// Returns a buffer of `n` poison elements. Blocks.
    pub fn output<T: Poisoned>(&self, n: usize) -> Buffer<T> {
        self.buffer(&vec![T::POISON; n])
    }

    /// Returns the contents of a buffer, after a check of the poison behind them. Blocks until the
    /// queue is done.
    pub fn read<T: Poisoned>(&self, buffer: &Buffer<T>) -> Vec<T> {
        let mut all = buffer.to_vec(self.kernels.as_ref()).expect("the device works");
        let behind = all.split_off(all.len() - BEHIND);
        assert!(behind.iter().all(|value| value.is_poison()), "written behind the end: {behind:?}");
        all
    }

    /// Asserts that the contents of a buffer are equal to the expected ones.
    #[track_caller]
    pub fn expect<T: Poisoned>(&self, what: &str, buffer: &Buffer<T>, expected: &[T]) {
        let got = self.read(buffer);
        assert_eq!(got.len(), expected.len(), "{what}");
        let wrong = got.iter().zip(expected).position(|(got, expected)| got != expected);
        if let Some(at) = wrong {
            panic!("{what}: element {at} is {:?}, expected {:?}", got[at], expected[at]);
        }
    }

    /// Closes the device. Blocks.
    ///
    /// # Errors
    /// The errors of [`Device::close`].
    pub fn close(self) -> Result<()> {
        drop(self.kernels);
        self.device.close().map(drop)
    }
}
