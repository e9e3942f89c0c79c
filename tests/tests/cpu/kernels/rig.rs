//! The CPU with the kernels of an image.

use longshore::{Environment, Host};
use longshore_tests::kernels::Kernels;
use longshore_tests::world::host_plugin;

pub(crate) type Rig = longshore_tests::kernels::Rig<Kernels>;

/// Returns the CPU with `threads` threads, and the kernels of an image.
pub(crate) fn rig(image: &[u8], threads: u32) -> Rig {
    let environment = Environment::empty().with("LONGSHORE_HOST_THREADS", threads.to_string());
    let host = Host::builder().with_environment(environment).with_only_given_plugins();
    let host = host.with_plugin(host_plugin()).build().unwrap();
    let device = host.default_device().unwrap();
    let kernels = Kernels::new(&device, image).unwrap();
    Rig::new(device, kernels)
}
