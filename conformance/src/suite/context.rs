//! The argument of behaviours, with the common steps: load, launch, block a queue.

use super::runner::DeviceName;
use super::{Check, Stop};
use crate::TrustedImages;
use crate::amount;
use crate::fixtures::Fixtures;
use longshore::{
    Buffer, Device, DeviceEntry, DeviceFacts, Environment, Error, ErrorCode, Grid, Host, Kernel,
    Program, Queue, Result,
};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use tempfile::TempDir;

/// The time after which a gate opens by itself, so that a device that waits for it fails and does
/// not hang.
const GATE_LIMIT: Duration = Duration::from_secs(10);

/// A host and an open device for one behaviour.
pub(super) struct Context {
    host: Host,
    environment: Environment,
    device: Device,
    other: OnceLock<Device>,
    fixtures: Fixtures,
    profiles: TempDir,
}

impl Context {
    pub(super) fn open(
        host: Host,
        environment: Environment,
        name: &DeviceName,
        fixtures: Fixtures,
        profiles: TempDir,
    ) -> Result<Context> {
        let (backend, index) = (&name.backend, name.index);
        let device = find(&host, |facts| facts.backend == *backend && facts.index == index)
            .ok_or_else(|| {
                Error::new(ErrorCode::NotFound, format!("{} has disappeared", name.name))
            })?
            .open()?;
        Ok(Context { host, environment, device, other: OnceLock::new(), fixtures, profiles })
    }

    pub(super) fn host(&self) -> &Host {
        &self.host
    }

    /// Returns the environment variables of the host.
    pub(super) fn environment(&self) -> &Environment {
        &self.environment
    }

    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    pub(super) fn queue(&self) -> Result<Queue> {
        self.device.queue()
    }

    /// Returns another device of the same platform.
    pub(super) fn other(&self) -> Result<&Device, Stop> {
        if let Some(other) = self.other.get() {
            return Ok(other);
        }
        let (backend, index) = (self.device.backend(), self.device.index());
        let is_other = |facts: &DeviceFacts| facts.backend == backend && facts.index != index;
        let Some(entry) = find(&self.host, is_other) else {
            return Err(Stop::Skipped(format!("the platform '{backend}' has no second device")));
        };
        let other = entry.open()?;
        Ok(self.other.get_or_init(|| other))
    }

    /// Opens the device through its entry. Returns the same device while it is open, a new one if
    /// it was closed.
    pub(super) fn reopened(&self) -> Result<Device> {
        self.entry()?.open()
    }

    /// Returns the host's entry of the device.
    pub(super) fn entry(&self) -> Result<&DeviceEntry> {
        let (backend, index) = (self.device.backend(), self.device.index());
        find(&self.host, |facts| facts.backend == backend && facts.index == index)
            .ok_or_else(|| Error::new(ErrorCode::NotFound, "the host no longer lists the device"))
    }

    pub(super) fn image(&self, name: &str) -> Result<Arc<[u8]>, Stop> {
        self.image_for(&self.device, name)
    }

    pub(super) fn image_for(&self, device: &Device, name: &str) -> Result<Arc<[u8]>, Stop> {
        if let Some(image) = self.fixtures.image(device, name)? {
            return Ok(image);
        }
        let formats = &self.entry()?.plugin().image_formats;
        let refusals = self.fixtures.refusals(device, name, formats)?;
        let refusals = refusals.iter().map(|why| why.replace('\n', " "));
        let what = format!("the device accepts none of the images '{name}'");
        Err(Stop::Skipped([what].into_iter().chain(refusals).collect::<Vec<_>>().join("; ")))
    }

    /// Skips the behaviour if the image has no such kernel. An image leaves out kernels that its
    /// language cannot express; then it does not contain the name.
    pub(super) fn needs(&self, image: &str, kernel: &str) -> Check {
        let bytes = self.image(image)?;
        if bytes.windows(kernel.len()).any(|window| window == kernel.as_bytes()) {
            return Ok(());
        }
        Err(Stop::Skipped(format!("the image '{image}' has no kernel '{kernel}'")))
    }

    pub(super) fn load(&self, image: &str) -> Result<Program, Stop> {
        self.load_on(&self.device, image)
    }

    pub(super) fn load_on(&self, device: &Device, image: &str) -> Result<Program, Stop> {
        Ok(device.load_trusted(&*self.image_for(device, image)?)?)
    }

    pub(super) fn basic(&self) -> Result<Counter, Stop> {
        Ok(Counter::new(self.load("basic")?)?)
    }

    /// Returns the file for profiles of this host.
    pub(super) fn profile_file(&self) -> PathBuf {
        self.profiles.path().join("profile.profraw")
    }

    /// Closes the devices, and returns leaks and failures as text.
    pub(super) fn close(self) -> Result<(), String> {
        let Context { host, device, other, .. } = self;
        let other = other.into_inner().map_or(Ok(()), close_without_leaks);
        let device = close_without_leaks(device);
        drop(host);
        device.and(other)
    }
}

fn find(host: &Host, wanted: impl Fn(&DeviceFacts) -> bool) -> Option<&DeviceEntry> {
    host.devices().iter().find(|entry| wanted(entry.facts()))
}

fn close_without_leaks(device: Device) -> Result<(), String> {
    let report = match device.close() {
        Ok(report) => report,
        // The behaviour has closed the device.
        Err(error) if error.code() == ErrorCode::Uninitialized => return Ok(()),
        Err(error) => return Err(format!("closing the device afterwards: {error:?}")),
    };
    match report.leaks.first() {
        None => Ok(()),
        Some(leak) => Err(format!("{} leaks, first {leak:?}", report.leaks.len())),
    }
}

/// An image with a global `counter`, and kernels `bump` and `read_counter`.
pub(super) struct Counter {
    pub(super) program: Program,
    bump: Kernel,
    read: Kernel,
}

impl Counter {
    pub(super) fn new(program: Program) -> Result<Counter> {
        let (bump, read) = (program.kernel("bump")?, program.kernel("read_counter")?);
        Ok(Counter { program, bump, read })
    }

    /// Queues an increment.
    pub(super) fn bump(&self, queue: &Queue) -> Result<()> {
        // SAFETY: `bump` takes no arguments.
        unsafe { queue.launch(&self.bump, Grid::default(), ()) }
    }

    /// Returns the value that the image's own kernel reads.
    pub(super) fn read(&self, queue: &Queue) -> Result<u64> {
        let out = self.program.device().buffer_of(queue, &[u64::MAX])?;
        // SAFETY: `read_counter` takes a pointer to 8 bytes; `out` outlives the launch.
        unsafe { queue.launch_and_wait(&self.read, Grid::default(), (&out,))? };
        Ok(out.to_vec(queue)?[0])
    }

    /// Queues a read into `out`.
    ///
    /// # Safety
    /// `out` stays allocated until the queue has run the read.
    pub(super) unsafe fn read_into(&self, queue: &Queue, out: &Buffer<u64>) -> Result<()> {
        // SAFETY: `read_counter` takes a pointer to 8 bytes; the caller keeps `out`.
        unsafe { queue.launch(&self.read, Grid::default(), (out,)) }
    }

    /// Returns the value of the global, read by a copy.
    pub(super) fn global(&self, queue: &Queue) -> Result<u64> {
        self.program.global("counter")?.read(queue)
    }
}

/// A host function that blocks a queue until the gate is opened or dropped.
pub(super) struct Gate {
    state: Arc<(Mutex<bool>, Condvar)>,
}

impl Gate {
    pub(super) fn in_front_of(queue: &Queue) -> Result<Gate> {
        let gate = Gate { state: Arc::default() };
        let state = Arc::clone(&gate.state);
        queue.host_function(move || {
            let (open, changed) = &*state;
            let open = open.lock().unwrap_or_else(PoisonError::into_inner);
            // An opened gate and an expired limit have the same effect here.
            let limit = amount::limit(GATE_LIMIT);
            drop(changed.wait_timeout_while(open, limit, |open| !*open));
        })?;
        Ok(gate)
    }

    pub(super) fn open(&self) {
        let (open, changed) = &*self.state;
        *open.lock().unwrap_or_else(PoisonError::into_inner) = true;
        changed.notify_all();
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.open();
    }
}

/// Fails the behaviour unless the call failed with this code.
pub(super) fn refused<T>(result: Result<T>, code: ErrorCode, call: &str) -> Check {
    match result {
        Err(error) if error.code() == code && !error.message().is_empty() => Ok(()),
        Err(error) => Err(Stop::Failed(format!("{call}: expected {code:?}, got {error:?}"))),
        Ok(_) => Err(Stop::Failed(format!("{call}: expected {code:?}, it succeeded"))),
    }
}

/// Returns `None` for `Unsupported`: a missing feature is not a failure.
pub(super) fn if_supported<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.code() == ErrorCode::Unsupported => Ok(None),
        Err(error) => Err(error),
    }
}

/// Skips the behaviour for `Unsupported`, with the device's reason.
pub(super) fn or_skip<T>(result: Result<T>) -> Result<T, Stop> {
    result.map_err(|error| match error.code() {
        ErrorCode::Unsupported => Stop::Skipped(error.to_string()),
        _ => error.into(),
    })
}

/// Returns `len` bytes, each different from its neighbours, and different for each `seed`.
pub(super) fn bytes(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|i| (i as u8).wrapping_mul(31) ^ (i >> 8) as u8 ^ seed).collect()
}
