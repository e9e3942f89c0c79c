//! The traits that a plugin implements and the host sees.
//!
//! One type family per backend, like wgpu-hal's `Api`: [`Backend`] names the types, the other
//! traits say what they do. Methods with a default body are optional; the default answers
//! `Unsupported`, which the host passes on.
//!
//! Everything is `Send + Sync`: any method may be called from any thread, at the same time as any
//! other. Methods do not block unless their doc says so.

use crate::description::Description;
use crate::error::{Error, ErrorCode, Result};
use crate::info::{DeviceInfo, InfoValue, PlatformInfo};
use crate::request::{
    Arguments, CopyRequest, GlobalAddress, HostFunction, KernelAttributes, LaunchShape, MemoryKind,
    PoolTracker, PrefetchTarget, ProfileSection, Span, SymbolKind,
};
use crate::services::Services;
use std::sync::Arc;

/// The family of types that makes up a backend.
pub trait Backend: Sized + 'static {
    /// What a connected plugin offers.
    type Platform: Platform<Self>;
    /// An open device.
    type Device: Device<Self>;
    /// A loaded image.
    type Module: Module<Self>;
    /// A kernel of a module.
    type Kernel: Send + Sync + 'static;
    /// An in-order queue.
    type Queue: Queue<Self>;
    /// An event.
    type Event: Event<Self>;
}

/// A backend that a library exports with [`export_plugin!`](crate::export_plugin).
pub trait Plugin: Backend {
    /// What the plugin says of itself: constant, so that it touches no driver, and also put into
    /// the library's ELF note.
    const DESCRIPTION: Description;

    /// Looks for the driver and its devices. Having none is an ordinary answer. May block.
    ///
    /// # Errors
    /// Only for what should not happen: a driver that is there but broken.
    fn connect(services: Services) -> Result<Connected<Self::Platform>>;
}

/// How [`Plugin::connect`] ended.
pub enum Connected<P> {
    /// A platform with at least one device.
    Platform(P),
    /// The vendor's driver is not installed; the reason is for people.
    NoDriver(String),
    /// The driver has no device; the reason is for people.
    NoDevice(String),
}

/// A connected platform.
pub trait Platform<B: Backend>: Send + Sync + 'static {
    /// Answers a query about the platform.
    ///
    /// # Errors
    /// `Unimplemented` if there is no answer.
    fn info(&self, query: PlatformInfo) -> Result<String>;

    /// How many devices there are; fixed while the platform lives.
    fn device_count(&self) -> u32;

    /// Answers a query about a device without opening it. `index < device_count()`.
    ///
    /// # Errors
    /// `Unimplemented` if the device has no answer.
    fn device_info(&self, index: u32, query: DeviceInfo) -> Result<InfoValue>;

    /// Opens a device. `index < device_count()`. May block.
    ///
    /// # Errors
    /// `BackendFailure` and `OutOfResources` of the driver.
    fn open(&self, index: u32) -> Result<B::Device>;
}

/// An open device. The host has unloaded, destroyed and freed what is on it before it closes it.
pub trait Device<B: Backend>: Send + Sync + 'static {
    /// Says whether [`Device::load`] would try this image, and whether it verifies all of it.
    ///
    /// # Errors
    /// None on account of a bad image: that is a refusal.
    fn accepts(&self, image: &[u8]) -> Result<Acceptance>;

    /// Allocates memory. `bytes` is at least 1 and `alignment` a power of two. May block.
    ///
    /// # Errors
    /// `OutOfResources` if there is not enough, `Unsupported` for a kind or an alignment that the
    /// device lacks.
    fn allocate(&self, kind: MemoryKind, bytes: u64, alignment: u64) -> Result<u64>;

    /// Frees what [`Device::allocate`] returned. May block.
    ///
    /// # Errors
    /// `InvalidArgument` if it is not the address of a live allocation of this kind.
    fn free(&self, kind: MemoryKind, address: u64) -> Result<()>;

    /// Loads an image, without running its constructors. The bytes are the host's and stay in
    /// place, unchanged, until the module was dropped. May block.
    ///
    /// # Errors
    /// `InvalidBinary` for an image that is malformed or not for this device, `Unsupported` for one
    /// that is valid and more than this backend can do, `LinkFailure` for undefined symbols, and
    /// those of the driver.
    fn load(&self, image: ImageBytes) -> Result<B::Module>;

    /// Loads an image as [`Device::load`] does, and puts off what can be done when its kernels are first launched: an error of
    /// that is one of the launch, with the code that a load would have. A backend that leaves this out loads the image at
    /// once. May block.
    ///
    /// # Errors
    /// As for [`Device::load`].
    fn load_lazily(&self, image: ImageBytes) -> Result<B::Module> {
        self.load(image)
    }

    /// Makes a queue.
    ///
    /// # Errors
    /// Those of the driver.
    fn create_queue(&self) -> Result<B::Queue>;

    /// Makes an event, recorded nowhere; `timing` if its time will be asked for.
    ///
    /// # Errors
    /// Those of the driver.
    fn create_event(&self, timing: bool) -> Result<B::Event>;

    /// Closes the device; by default, drops it. May block.
    ///
    /// # Errors
    /// Those of the driver; the device is gone all the same.
    fn close(self) -> Result<()>
    where
        Self: Sized,
    {
        Ok(())
    }

    /// Page-locks host memory and answers the device's address for it. May block.
    ///
    /// # Errors
    /// `InvalidArgument` if part of the range is pinned already.
    fn pin(&self, _range: Span) -> Result<u64> {
        Err(unsupported("pinning of host memory"))
    }

    /// Undoes [`Device::pin`] of the same address. May block.
    ///
    /// # Errors
    /// `InvalidArgument` if nothing was pinned at this address.
    fn unpin(&self, _address: u64) -> Result<()> {
        Err(unsupported("pinning of host memory"))
    }

    /// Whether kernels of this device can reach memory of `peer`.
    ///
    /// # Errors
    /// Those of the driver.
    fn can_access(&self, _peer: &B::Device) -> Result<bool> {
        Err(unsupported("peer access"))
    }

    /// Lets kernels of this device reach memory of `peer`; doing it again is no error. May block.
    ///
    /// # Errors
    /// `Unsupported` if the devices cannot.
    fn enable_access(&self, _peer: &B::Device) -> Result<()> {
        Err(unsupported("peer access"))
    }

    /// The group size, in work-items, that keeps most of the device busy.
    ///
    /// # Errors
    /// Those of the driver.
    fn optimal_group_items(&self, _kernel: &B::Kernel, _dynamic_shared_bytes: u64) -> Result<u32> {
        Err(unsupported("occupancy questions"))
    }

    /// The most groups with which the kernel can run cooperatively.
    ///
    /// # Errors
    /// Those of the driver.
    fn max_cooperative_groups(
        &self,
        _kernel: &B::Kernel,
        _items: [u32; 3],
        _dynamic_shared_bytes: u64,
    ) -> Result<u32> {
        Err(unsupported("occupancy questions"))
    }

    /// How well an image of a container suits this device: 0 if it cannot run it, else the more the
    /// better; the host loads the image with the highest rank. A backend that leaves this out is
    /// asked [`Device::accepts`]. LLVM: `isELFCompatible`.
    ///
    /// # Errors
    /// None on account of a bad image: that is rank 0.
    fn rank(&self, _entry: &ImageEntry<'_>) -> Result<u32> {
        Err(unsupported("ranking of images"))
    }

    /// Says how much of a live allocation the program sees, from now on until this is called again;
    /// at first it is all. The host asks for blocks in size classes, and hands out again what was
    /// freed; a backend that binds or measures whole allocations takes this for their size. Does not
    /// block.
    ///
    /// # Errors
    /// `InvalidArgument` if no allocation begins at the address, `InvalidSize` for no bytes or more
    /// than were allocated.
    fn set_extent(&self, _address: u64, _bytes: u64) -> Result<()> {
        Err(unsupported("extents of allocations"))
    }

    /// Makes memory of this process an allocation of this kind, as if [`Device::allocate`] had answered its address: kernels
    /// reach it there. It is the host's, which keeps it in place until it was freed by [`Device::free`], and takes it back
    /// then. `memory` begins at a multiple of the page size and has at least one byte. May block.
    ///
    /// # Errors
    /// `Unsupported` for a kind of memory that the device lacks or cannot have at an address that it did not choose;
    /// `InvalidArgument` if some of it is an allocation already.
    fn adopt(&self, _kind: MemoryKind, _memory: Span) -> Result<()> {
        Err(unsupported("adoption of the host's memory"))
    }
}

/// An image of a container, and what the container says of it.
#[derive(Clone, Copy, Debug)]
pub struct ImageEntry<'a> {
    /// The image.
    pub bytes: &'a [u8],
    /// Its target triple, empty if the container has none.
    pub triple: &'a str,
    /// Its architecture, empty if the container has none: "gfx90a:xnack+", "sm_90", "x86-64-v3".
    pub arch: &'a str,
}

/// Answer of [`Device::accepts`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acceptance {
    /// `load` would try it.
    Accepted,
    /// `load` would try it, and refuses it unless verification shows that loading, constructing and
    /// unloading it is sound whatever its bytes are. Nothing unverified runs then.
    Verified,
    /// `load` would refuse it, for this reason.
    Refused(String),
}

impl Acceptance {
    /// Whether `load` would try the image.
    pub fn is_accepted(&self) -> bool {
        !matches!(self, Acceptance::Refused(_))
    }
}

/// A loaded image.
pub trait Module<B: Backend>: Send + Sync + 'static {
    /// Finds a kernel.
    ///
    /// # Errors
    /// `NotFound` if there is none of this name, `SymbolKind` if it is a global.
    fn kernel(&self, name: &str) -> Result<(Arc<B::Kernel>, KernelAttributes)>;

    /// Finds a global variable.
    ///
    /// # Errors
    /// `NotFound` if there is none of this name, `SymbolKind` if it is a kernel.
    fn global(&self, name: &str) -> Result<GlobalAddress>;

    /// Names every kernel and global, in any order.
    ///
    /// # Errors
    /// Those of the driver.
    fn symbols(&self) -> Result<Vec<(String, SymbolKind)>>;

    /// Runs the global constructors in priority order. Called once. Blocks.
    ///
    /// # Errors
    /// `BackendFailure` if one fails.
    fn run_constructors(&self) -> Result<()>;

    /// Runs the global destructors in reverse order, all of them, also when one fails. Called at
    /// most once, when no queue uses the module any more. Blocks.
    ///
    /// # Errors
    /// `BackendFailure` with the first failure.
    fn run_destructors(&self) -> Result<()>;

    /// Unloads the image; by default, drops the module. May block.
    ///
    /// # Errors
    /// Those of the driver; the module is gone all the same.
    fn unload(self) -> Result<()>
    where
        Self: Sized,
    {
        Ok(())
    }

    /// Reads the memory-pool tracker, if the image has one. Blocks.
    ///
    /// # Errors
    /// Those of the driver.
    fn pool_tracker(&self) -> Result<Option<PoolTracker>> {
        Ok(None)
    }

    /// Reads the profile sections that the image has. Blocks.
    ///
    /// # Errors
    /// Those of the driver.
    fn profile(&self) -> Result<Vec<ProfileSection>> {
        Ok(Vec::new())
    }
}

/// An in-order queue. Dropping it does not wait: what was queued still runs.
pub trait Queue<B: Backend>: Send + Sync + 'static {
    /// Queues a kernel of a module of this queue's device. The arguments' values are captured
    /// during the call. Blocks only if `shape.wait`.
    ///
    /// # Errors
    /// `InvalidArgument` and `Unsupported` for what the kernel or the device cannot do. With
    /// `shape.wait` also those of [`Queue::synchronize`].
    fn launch(
        &self,
        kernel: &B::Kernel,
        shape: &LaunchShape,
        arguments: Arguments<'_>,
    ) -> Result<()>;

    /// Queues a copy. Blocks only if `copy.wait`; then neither range is touched any more when it
    /// returns, not even with an error.
    ///
    /// # Errors
    /// Those of the driver. With `copy.wait` also those of [`Queue::synchronize`].
    fn copy(&self, copy: &CopyRequest<'_, B::Device>) -> Result<()>;

    /// Queues a fill of device memory; `destination.bytes()` is a multiple of the pattern's
    /// length, which is at least 1. The pattern is captured during the call. Blocks only if `wait`;
    /// then the range is not touched any more when it returns, not even with an error.
    ///
    /// # Errors
    /// Those of the driver. With `wait` also those of [`Queue::synchronize`].
    fn fill(&self, destination: Span, pattern: &[u8], wait: bool) -> Result<()>;

    /// Queues a function of the program.
    ///
    /// # Errors
    /// Those of the driver; the function is not called then.
    fn host_function(&self, function: HostFunction) -> Result<()>;

    /// Makes what is queued from now on wait for the event's last record. It runs also if that is
    /// behind a failure, which becomes one of this queue.
    ///
    /// # Errors
    /// Those of the driver.
    fn wait_event(&self, event: &B::Event) -> Result<()>;

    /// Records the event at the queue's tail.
    ///
    /// # Errors
    /// Those of the driver.
    fn record_event(&self, event: &B::Event) -> Result<()>;

    /// Whether all that was queued is done.
    ///
    /// # Errors
    /// Those of the driver.
    fn is_idle(&self) -> Result<bool>;

    /// Blocks until all that was queued before the call is done or failed: none of it runs any
    /// more when the call returns, also with an error, unless that is `InvalidQueue`.
    ///
    /// # Errors
    /// The first error among that work that nobody was told of. `InvalidQueue` in a host function
    /// of this queue, which would wait for itself.
    fn synchronize(&self) -> Result<()>;

    /// The same with groups in clusters of this many in x, y and z, each at least 1: those of a cluster
    /// run at once and reach each other's shared memory.
    ///
    /// # Errors
    /// As for [`Queue::launch`]; `InvalidArgument` for clusters that do not divide the groups or that
    /// the device cannot have.
    fn launch_in_clusters(
        &self,
        _kernel: &B::Kernel,
        _shape: &LaunchShape,
        _cluster: [u32; 3],
        _arguments: Arguments<'_>,
    ) -> Result<()> {
        Err(unsupported("clusters of groups"))
    }

    /// Queues a hint that memory will be used at `target`.
    ///
    /// # Errors
    /// Those of the driver. Memory that cannot move is no error.
    fn prefetch(&self, _range: Span, _target: PrefetchTarget) -> Result<()> {
        Err(unsupported("prefetching"))
    }
}

/// An event. Dropping it does not wait.
pub trait Event<B: Backend>: Send + Sync + 'static {
    /// Whether its last record was reached; also true if there was none.
    ///
    /// # Errors
    /// Those of the driver.
    fn is_complete(&self) -> Result<bool>;

    /// Blocks until it is complete. The host calls it in no host function that the event is behind.
    ///
    /// # Errors
    /// The first failure of the work in front of the last record that no [`Queue::synchronize`] had
    /// told when that was reached: the same each time, and still the queue's to tell; those of the
    /// driver.
    fn synchronize(&self) -> Result<()>;

    /// Nanoseconds from this event to `end`.
    ///
    /// # Errors
    /// `InvalidArgument` if one has no timing, `InvalidDevice` if they are of two devices,
    /// `InvalidEvent` if one was not recorded or is not complete.
    fn elapsed_ns(&self, end: &B::Event) -> Result<i64>;
}

/// The bytes of an image in the host's managed storage. They stay in place, unchanged, until
/// after the module that was made from them was dropped. Whoever implements [`Device::load`] keeps
/// this value in the module, or drops it.
pub struct ImageBytes(&'static [u8]);

impl ImageBytes {
    /// Vouches for an image.
    ///
    /// # Safety
    /// The bytes must not move, change or go away until the module that is loaded from them was
    /// dropped, or its loading failed.
    pub unsafe fn new(bytes: &[u8]) -> ImageBytes {
        // SAFETY: the caller promises a life as long as the module's, which is as long as `self`
        // lives and as `get` borrows.
        ImageBytes(unsafe { std::mem::transmute::<&[u8], &'static [u8]>(bytes) })
    }

    /// The bytes.
    pub fn get(&self) -> &[u8] {
        self.0
    }
}

fn unsupported(what: &str) -> Error {
    Error::new(ErrorCode::Unsupported, format!("this backend has no {what}"))
}
