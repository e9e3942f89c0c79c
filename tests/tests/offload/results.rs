//! LLVM Offload's C API, called from Rust: failures of queued work, and replies to queries, on the
//! devices of this machine.

mod failures;
mod images;
mod queries;

use crate::support::{code, devices, event, kernel, ok, one_item, said};
use longshore::{Environment, Host};
use longshore_capi::*;
use longshore_conformance::Fixtures;
use longshore_tests::suites::Suite;
use longshore_tests::vulkan;
use longshore_tests::world::{World, copy_into, executor, host_plugin};
use std::ffi::{CStr, c_void};
use std::ptr::{null, null_mut};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

pub(crate) const SUITE: Suite = Suite::new("results", || {
    [failures::trials(), images::trials(), queries::trials()].into_iter().flatten().collect()
});

/// A lock for the library, which is shared by the whole process.
static ALONE: Mutex<()> = Mutex::new(());

/// The library between olInit and olShutDown, with the CPU, the sample plugin in C, and Vulkan if
/// its plugin was built.
struct Library {
    _alone: MutexGuard<'static, ()>,
}

fn plugins() -> &'static World {
    static PLUGINS: OnceLock<World> = OnceLock::new();
    PLUGINS.get_or_init(|| {
        let world = World::new();
        copy_into(&world, &host_plugin());
        if let Some(plugin) = vulkan::plugin() {
            copy_into(&world, &plugin);
        }
        world.add_sample("sample", &[]);
        // SAFETY: tests take the lock before they use the environment.
        unsafe {
            std::env::set_var("LONGSHORE_PLUGIN_PATH", world.path());
            std::env::set_var("LONGSHORE_BACKEND", "host,sample,vulkan");
            std::env::set_var("LONGSHORE_EXECUTOR", executor());
        }
        world
    })
}

impl Library {
    fn start() -> Library {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        plugins();
        // SAFETY: the call has no arguments.
        ok(unsafe { olInit(null()) });
        Library { _alone: alone }
    }

    fn devices(&self) -> Vec<ol_device_handle_t> {
        devices()
    }

    /// Returns the CPU, which comes first.
    fn cpu(&self) -> ol_device_handle_t {
        self.devices()[0]
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: the call is always allowed.
        unsafe { olShutDown() };
    }
}

/// Returns an image of the suite for the CPU.
fn image(name: &str) -> Vec<u8> {
    let host = Host::builder().with_environment(Environment::empty()).with_only_given_plugins();
    let host = host.with_plugin(host_plugin()).build().unwrap();
    let device = host.default_device().unwrap();
    Fixtures::built_in().image(&device, name).unwrap().unwrap().to_vec()
}

fn program(device: ol_device_handle_t, image: &[u8]) -> ol_program_handle_t {
    let mut program = null_mut();
    // SAFETY: the image has this size.
    ok(unsafe { olCreateProgram(device, image.as_ptr().cast(), image.len(), &mut program) });
    program
}

fn queue(device: ol_device_handle_t) -> ol_queue_handle_t {
    let mut queue = null_mut();
    // SAFETY: the call writes the queue to the variable.
    ok(unsafe { olCreateQueue(device, &mut queue) });
    queue
}

/// Queues a kernel without arguments.
fn launch(queue: ol_queue_handle_t, device: ol_device_handle_t, kernel: ol_symbol_handle_t) {
    let size = one_item();
    // SAFETY: the kernel takes no arguments.
    ok(unsafe { olLaunchKernel(queue, device, kernel, &size, null(), 0, null_mut(), null()) });
}
