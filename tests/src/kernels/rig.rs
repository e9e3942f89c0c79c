//! A device with kernels, and buffers with something around what a kernel may use.

use longshore::{Buffer, Device, Element, Queue, Result};
use std::fmt::Debug;

/// Elements behind the end of each buffer.
const BEHIND: usize = 80;

/// A device, its kernels, and the queue that they are launched on.
pub struct Rig<K> {
    /// The kernels, which know the queue.
    pub kernels: K,
    device: Device,
}

/// What can be told from what a kernel should read or write.
pub trait Poisoned: Element + PartialEq + Debug {
    /// A value that no kernel reads or writes.
    const POISON: Self;

    /// Also for what is not equal to itself.
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
    /// A device and kernels of it.
    pub fn new(device: Device, kernels: K) -> Rig<K> {
        Rig { kernels, device }
    }

    /// A buffer that begins with these values, poison behind them. Blocks.
    ///
    /// # Panics
    /// If the device fails, as for all below.
    pub fn buffer<T: Poisoned>(&self, values: &[T]) -> Buffer<T> {
        let mut all = values.to_vec();
        all.resize(values.len() + BEHIND, T::POISON);
        self.device.buffer_of(self.kernels.as_ref(), &all).expect("the device works")
    }

    /// A buffer of so many elements, all poison. Blocks.
    pub fn output<T: Poisoned>(&self, n: usize) -> Buffer<T> {
        self.buffer(&vec![T::POISON; n])
    }

    /// What a buffer begins with, if there is still poison behind it. Blocks until the queue is
    /// done.
    pub fn read<T: Poisoned>(&self, buffer: &Buffer<T>) -> Vec<T> {
        let mut all = buffer.to_vec(self.kernels.as_ref()).expect("the device works");
        let behind = all.split_off(all.len() - BEHIND);
        assert!(behind.iter().all(|value| value.is_poison()), "written behind the end: {behind:?}");
        all
    }

    /// The same, which must be equal to what is expected.
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
    /// Those of [`Device::close`].
    pub fn close(self) -> Result<()> {
        drop(self.kernels);
        self.device.close().map(drop)
    }
}
