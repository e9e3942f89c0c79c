//! A round: everything that a program does with a device, once.

use super::Doubled;
use longshore::{
    Allocation, Device, Environment, Extent, Grid, Host, MemoryKind, Outcome, Pitch,
    PrefetchTarget, Queue, Result,
};
use longshore_conformance::Fixtures;
use longshore_conformance::TrustedImages;
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The rounds of a backend.
#[derive(Clone, Copy)]
pub struct Round {
    /// Backend of the rounds.
    pub of: Doubled,
    /// Size of clusters that its devices support, if they support clusters.
    pub clusters: Option<[u32; 3]>,
    /// Functions without which there is no driver, or no device.
    pub connecting: &'static [&'static str],
    /// Dynamic shared memory for a launch in bytes: beyond the default limit of kernels, where the
    /// device allows that.
    pub shared_bytes: u64,
}

/// Returns an image of the suite.
///
/// # Errors
/// The errors of [`Device::accepts`].
///
/// # Panics
/// If the suite has no image for the device.
pub fn image(device: &Device, name: &str) -> Result<Arc<[u8]>> {
    let image = Fixtures::built_in().image(device, name)?;
    Ok(image.expect("the suite has images for the device"))
}

impl Round {
    /// Returns a host with the plugin alone, which writes no profiles.
    ///
    /// # Errors
    /// The plugin's errors.
    pub fn host(&self) -> Result<Host> {
        let plugin = self.of.plugin().expect("the plugin is built");
        let environment = Environment::from_process().with("LONGSHORE_PROFILE_FILE", "/dev/null");
        let host = Host::builder()
            .with_environment(environment)
            .with_cache_limit(0)
            .with_only_given_plugins();
        let host = host.with_plugin(plugin).build()?;
        match &host.candidates()[0].outcome {
            Outcome::Failed(error) => Err(error.clone()),
            _ => Ok(host),
        }
    }

    /// Opens the first device, uses all of its functions, and closes it.
    ///
    /// # Errors
    /// The first error.
    pub fn run(&self) -> Result<()> {
        let host = self.host()?;
        let device = host.device(&format!("{}:0", self.of.backend))?;
        let used = self.use_device(&host, &device);
        // An error of the round takes precedence over an error of the close.
        let closed = device.close();
        let report = used.and(closed)?;
        assert!(report.leaks.is_empty(), "{:?}", report.leaks);
        Ok(())
    }

    fn use_device(&self, host: &Host, device: &Device) -> Result<()> {
        let queue = device.queue()?;
        memory(host, device, &queue)?;
        events(device, &queue)?;
        self.program(host, device, &queue)
    }

    fn program(&self, host: &Host, device: &Device, queue: &Queue) -> Result<()> {
        let basic = device.load_trusted(&*image(device, "basic")?)?;
        let (bump, read) = (basic.kernel("bump")?, basic.kernel("read_counter")?);
        // Never freed automatically: if a wait fails, a kernel may still write there.
        let out = ManuallyDrop::new(device.allocate(MemoryKind::Device, 8, 8)?);
        let mut count = 0u64;
        // SAFETY: `bump` takes no argument, `read_counter` a pointer to a u64.
        unsafe {
            queue.launch(&bump, Grid::default(), ())?;
            queue.launch(&bump, Grid::default().with_cooperative(true), ())?;
            match self.clusters {
                Some(sizes) => queue.launch(&bump, Grid::linear(2, 1).with_clusters(sizes), ())?,
                None => queue.launch(&bump, Grid::linear(2, 1), ())?,
            }
            queue.launch(&bump, Grid::default().with_shared_bytes(self.shared_bytes), ())?;
            queue.launch_and_wait(&read, Grid::default(), (out.pointer(),))?;
            queue.copy_to_host((&raw mut count).cast(), out.pointer(), 8)?;
        }
        queue.synchronize()?;
        assert_eq!(count, 10);
        free(host, ManuallyDrop::into_inner(out))?;
        assert_eq!(basic.global("counter")?.read::<u64>(queue)?, 10);
        assert!(device.optimal_group_items(&bump, 0)? > 0);
        assert!(device.max_cooperative_groups(&bump, [32, 1, 1], 0)? > 0);
        drop((bump, read));
        let life = device.load_trusted(&*image(device, "life")?)?;
        let order = life.global("order")?.read::<u64>(queue)?;
        assert_eq!(order, 12);
        let unloaded = life.unload();
        basic.unload().and(unloaded).map(drop)
    }
}

/// Frees memory and returns a failure, unlike a drop.
fn free(host: &Host, allocation: Allocation) -> Result<()> {
    // SAFETY: no code uses the allocation any more.
    unsafe { host.free(allocation.into_raw()) }
}

fn memory(host: &Host, device: &Device, queue: &Queue) -> Result<()> {
    const BYTES: usize = 100_000;
    let mut there = vec![1u8; BYTES];
    let plain = device.allocate(MemoryKind::Device, BYTES as u64, 1)?;
    let pinned = device.allocate(MemoryKind::Host, BYTES as u64, 64)?;
    let managed = device.allocate(MemoryKind::Managed, BYTES as u64, 8192)?;
    // SAFETY: all ranges have `BYTES` bytes and outlive the queue's work.
    unsafe {
        queue.copy_from_host(plain.pointer(), there.as_ptr().cast(), BYTES as u64)?;
        queue.fill(plain.pointer(), &[2], BYTES as u64)?;
        queue.fill(plain.pointer(), &[1, 2, 3, 4, 5], BYTES as u64)?;
        queue.copy(pinned.pointer(), plain.pointer(), BYTES as u64)?;
        queue.copy(managed.pointer(), pinned.pointer(), BYTES as u64)?;
        queue.copy_to_host(there.as_mut_ptr().cast::<c_void>(), managed.pointer(), BYTES as u64)?;
        queue.copy_from_host(plain.pointer(), there.as_ptr().cast(), 64)?;
    }
    // Enough copies that the queue reuses its staging memory, which is always free again after each
    // wait.
    for _ in 0..12 {
        // SAFETY: as above.
        unsafe { queue.copy_from_host(plain.pointer(), there.as_ptr().cast(), 60_000)? };
        queue.synchronize()?;
    }
    let (pitch, extent) = (Pitch::new(100, 10), Extent::new(50, 10));
    // SAFETY: as above; the rows of both ends are apart.
    unsafe {
        let (to, from) = (plain.pointer(), there.as_ptr().cast());
        queue.copy_rect_from_host(to, pitch, from, pitch, extent)?;
        queue.copy_rect(to.offset(50_000), pitch, to, pitch, extent)?;
    }
    queue.synchronize()?;
    queue.prefetch(managed.pointer(), BYTES as u64, PrefetchTarget::Device)?;
    queue.synchronize()?;
    assert!(there.chunks(5).all(|part| part == [1, 2, 3, 4, 5]), "a copy or a fill is wrong");
    let whole = vec![3u8; 1 << 16];
    let start = whole.as_ptr().cast_mut().cast::<c_void>();
    // SAFETY: the vector is not freed, moved or written to while it is pinned.
    unsafe {
        device.pin(start, whole.len() as u64)?;
        device.unpin(start)?;
    }
    free(host, plain)?;
    free(host, pinned)?;
    free(host, managed)
}

fn events(device: &Device, queue: &Queue) -> Result<()> {
    let other = device.queue()?;
    let called = Arc::new(AtomicU32::new(0));
    let start = queue.record_timed()?;
    let counted = Arc::clone(&called);
    queue.host_function(move || {
        counted.fetch_add(1, Ordering::Relaxed);
    })?;
    let end = queue.record_timed()?;
    other.wait_for(&end)?;
    other.synchronize()?;
    assert!(start.elapsed_ns(&end)? >= 0);
    assert!(end.is_complete()?);
    queue.synchronize()?;
    assert!(queue.is_idle()?);
    assert_eq!(called.load(Ordering::Relaxed), 1);
    Ok(())
}
