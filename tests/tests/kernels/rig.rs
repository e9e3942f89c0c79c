//! A device with the kernels, and buffers with something around what a kernel may use.

use longshore::{Buffer, Device, Environment, Host};
use longshore_tests::kernels::Kernels;
use longshore_tests::world::host_plugin;
use std::fmt::Debug;

/// Elements behind the end of each buffer.
const BEHIND: usize = 80;

/// A device with the kernels of an image.
pub(crate) struct Rig {
    pub(crate) kernels: Kernels,
    device: Device,
}

/// What can be told from what a kernel should read or write.
pub(crate) trait Poisoned: longshore::Element + PartialEq + Debug {
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

impl Rig {
    /// The CPU with so many threads.
    pub(crate) fn new(image: &[u8], threads: u32) -> Rig {
        let environment = Environment::empty().with("LONGSHORE_HOST_THREADS", threads.to_string());
        let host = Host::builder().environment(environment).only_given_plugins();
        let host = host.plugin(host_plugin()).build().unwrap();
        let device = host.default_device().unwrap();
        Rig { kernels: Kernels::new(&device, image).unwrap(), device }
    }

    /// A buffer that begins with these values, poison behind them.
    pub(crate) fn buffer<T: Poisoned>(&self, values: &[T]) -> Buffer<T> {
        let mut all = values.to_vec();
        all.resize(values.len() + BEHIND, T::POISON);
        self.device.buffer_of(self.kernels.queue(), &all).unwrap()
    }

    /// A buffer of so many elements, all poison.
    pub(crate) fn output<T: Poisoned>(&self, n: usize) -> Buffer<T> {
        self.buffer(&vec![T::POISON; n])
    }

    /// What a buffer begins with, if there is still poison behind it.
    pub(crate) fn read<T: Poisoned>(&self, buffer: &Buffer<T>) -> Vec<T> {
        let mut all = buffer.to_vec(self.kernels.queue()).unwrap();
        let behind = all.split_off(all.len() - BEHIND);
        assert!(behind.iter().all(|value| value.is_poison()), "written behind the end: {behind:?}");
        all
    }

    /// The same, which must be equal to what is expected.
    #[track_caller]
    pub(crate) fn expect<T: Poisoned>(&self, what: &str, buffer: &Buffer<T>, expected: &[T]) {
        let got = self.read(buffer);
        assert_eq!(got.len(), expected.len(), "{what}");
        let wrong = got.iter().zip(expected).position(|(got, expected)| got != expected);
        if let Some(at) = wrong {
            panic!("{what}: element {at} is {:?}, expected {:?}", got[at], expected[at]);
        }
    }
}
