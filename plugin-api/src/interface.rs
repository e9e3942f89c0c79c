//! The plugin interface, declared once: the traits that a plugin implements and the host sees, with attributes for what
//! a trait does not say.
//!
//! From this declaration the crate `longshore-interface` makes the tables of functions (`abi/tables.rs`), the glue between
//! traits and tables (`export/tables.rs`, `remote/calls.rs`), the messages of isolated plugins, and the C header: each where
//! a module calls `with_interface!`. Its page says what the attributes mean. A comment here is that of the function in C, too.

use crate::error::{Result, unsupported};
use crate::image::{Acceptance, ImageBytes, ImageEntry};
use crate::info::{DeviceInfo, InfoValue, PlatformInfo};
use crate::request::{
    Arguments, CopyRequest, GlobalAddress, HostFunction, KernelAttributes, LaunchShape, Loading,
    MemoryKind, PoolTracker, PrefetchTarget, ProfileSection, Span, SymbolKind, no_global,
};
use longshore_interface_macros::interface;
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

interface! {
    /// A connected platform.
    pub trait Platform<B: Backend>: Send + Sync + 'static {
        /// Answers a query about the platform, a `platform_info`: text without NUL.
        ///
        /// # Errors
        /// `Unimplemented` if there is no answer.
        #[isolated(proxy)]
        fn info(&self, query: PlatformInfo) -> Result<String>;

        /// Returns the number of devices; fixed while the platform is connected.
        #[remote(RemotePlatform::devices)]
        #[isolated(by_hand)]
        fn device_count(&self) -> u32;

        /// Answers a query about the device `index`, a `device_info`, in the query's own type. Works without opening the
        /// device. `index` is less than `device_count`.
        ///
        /// # Errors
        /// `Unimplemented` if the device has no answer, `InvalidEnumeration` for an unknown query.
        #[require(in_range::<P>(object, index))]
        #[remote(RemotePlatform::ask_device)]
        #[isolated(proxy)]
        fn device_info(&self, index: u32, query: DeviceInfo) -> Result<InfoValue>;

        /// Opens the device `index`, which is less than `device_count`. May block while the driver makes its context.
        ///
        /// # Errors
        /// `BackendFailure` and `OutOfResources` of the driver.
        #[require(in_range::<P>(object, index))]
        #[isolated(proxy)]
        fn open(&self, index: u32) -> Result<B::Device>;

        /// Ends the platform. The host has closed all its devices before. May block.
        #[end]
        #[isolated(by_hand)]
        fn destroy(self) -> Result<()>;
    }

    /// An open device. The host has unloaded, destroyed and freed all that is on it before it closes it.
    pub trait Device<B: Backend>: Send + Sync + 'static {
        /// Says whether [`Device::load`] would try this image. In C, `accepted` becomes 1 if it would, 2 if it moreover
        /// refuses the image unless verification shows that loading, constructing and unloading it is sound whatever its
        /// bytes are, else 0 with the reason in `reason`.
        ///
        /// # Errors
        /// None on account of a bad image: that is a refusal.
        #[isolated(by_hand)]
        fn accepts(&self, image: &[u8]) -> Result<Acceptance>;

        /// Allocates `bytes` (at least 1) bytes of a `memory_kind`, at a multiple of `alignment`, a power of two. No address
        /// is handed out twice among the live allocations of a process. May block.
        ///
        /// # Errors
        /// `OutOfResources` if there is not enough, `Unsupported` for a kind or an alignment that the device lacks.
        #[check(bounds::allocation(plugin, "longshore.device, allocate", reply, bytes, alignment))]
        #[undo(self.give_back(kind, reply))]
        #[isolated(proxy)]
        fn allocate(&self, kind: MemoryKind, bytes: u64, alignment: u64) -> Result<u64>;

        /// Frees what [`Device::allocate`] of this device and kind returned. May block.
        ///
        /// # Errors
        /// `InvalidArgument` if it is not the address of a live allocation of this kind.
        #[isolated(by_hand)]
        fn free(&self, kind: MemoryKind, address: u64) -> Result<()>;

        /// Loads an image, without running its constructors. The bytes are the host's and stay in place, unchanged, until
        /// [`Module::unload`] returned. With `loading` of `LAZILY`, what can be put off is done when the kernels are first
        /// launched: an error of that is one of the launch, with the code that `load` would have had; kernels and globals
        /// have the names that they would have; a backend that can put off nothing loads the image at once. May block.
        ///
        /// # Errors
        /// `InvalidBinary` for an image that is malformed or not for this device, `Unsupported` for one that is valid and
        /// more than this backend can do, `LinkFailure` for undefined symbols, and those of the driver.
        #[isolated(by_hand)]
        fn load(&self, image: ImageBytes, loading: Loading) -> Result<B::Module>;

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

        /// Returns how well an image of a container suits this device: 0 if the device cannot run it, else the more the
        /// better. The host loads the image with the highest score, among equals the first; it asks [`Device::accepts`]
        /// where this is `Unsupported`. In C, `triple` and `arch` are empty where the container says nothing. LLVM:
        /// `isELFCompatible`.
        ///
        /// # Errors
        /// None on account of a bad image: that is score 0.
        #[isolated(by_hand)]
        fn score(&self, _entry: &ImageEntry<'_>) -> Result<u32> {
            Err(unsupported("scoring of images"))
        }

        /// Says how much of the live allocation at `address` the program sees, from now on until this is called again; at
        /// first it is all. The host asks for blocks in size classes, and hands out again what was freed; a backend that
        /// binds or measures whole allocations takes this for their size. The rest stays allocated. Does not block.
        ///
        /// # Errors
        /// `InvalidArgument` if no allocation begins at the address, `InvalidSize` for no bytes or more than were
        /// allocated.
        #[isolated(by_hand)]
        fn set_logical_size(&self, _address: u64, _bytes: u64) -> Result<()> {
            Err(unsupported("logical sizes of allocations"))
        }

        /// Makes memory of this process an allocation of this kind, as if [`Device::allocate`] had answered its address:
        /// kernels reach it there. The memory is the host's, which keeps it in place until it was freed by
        /// [`Device::free`], and takes it back then. It begins at a multiple of the page size and has at least one byte.
        /// May block.
        ///
        /// # Errors
        /// `Unsupported` for a kind of memory that the device lacks or cannot have at an address that it did not choose;
        /// `InvalidArgument` if some of it is an allocation already.
        #[isolated(by_hand)]
        fn import_memory(&self, _kind: MemoryKind, _memory: Span) -> Result<()> {
            Err(unsupported("import of the host's memory"))
        }

        /// Page-locks host memory and returns the device's address for it. May block.
        ///
        /// # Errors
        /// `InvalidArgument` if part of the range is pinned already.
        #[table("pinning", "page-locking of memory that the program allocated itself")]
        #[check(bounds::allocation(plugin, "longshore.pinning, pin", reply, range.bytes(), 0))]
        #[isolated(by_hand)]
        fn pin(&self, _range: Span) -> Result<u64> {
            Err(unsupported("pinning of host memory"))
        }

        /// Undoes [`Device::pin`] of the same address. May block.
        ///
        /// # Errors
        /// `InvalidArgument` if nothing was pinned at this address.
        #[table("pinning")]
        #[isolated(by_hand)]
        fn unpin(&self, _address: u64) -> Result<()> {
            Err(unsupported("pinning of host memory"))
        }

        /// Says whether kernels of this device can reach memory of `peer`.
        ///
        /// # Errors
        /// Those of the driver.
        #[table("peer", "devices that reach each other's memory")]
        #[isolated(proxy)]
        fn can_access(&self, _peer: &B::Device) -> Result<bool> {
            Err(unsupported("peer access"))
        }

        /// Lets kernels of this device reach memory of `peer`; doing it again is no error. May block.
        ///
        /// # Errors
        /// `Unsupported` if the devices cannot.
        #[table("peer")]
        fn enable_access(&self, _peer: &B::Device) -> Result<()> {
            Err(unsupported("peer access"))
        }

        /// Returns the group size, in work-items, with which the kernel keeps most of the device busy.
        ///
        /// # Errors
        /// Those of the driver.
        #[table("occupancy", "how much of a device a kernel keeps busy")]
        #[check(bounds::group_items(plugin, reply))]
        fn optimal_group_items(
            &self,
            _kernel: &B::Kernel,
            _dynamic_shared_bytes: u64,
        ) -> Result<u32> {
            Err(unsupported("occupancy questions"))
        }

        /// Returns the most groups of `items` work-items with which the kernel can run cooperatively.
        ///
        /// # Errors
        /// Those of the driver.
        #[table("occupancy")]
        fn max_cooperative_groups(
            &self,
            _kernel: &B::Kernel,
            _items: [u32; 3],
            _dynamic_shared_bytes: u64,
        ) -> Result<u32> {
            Err(unsupported("occupancy questions"))
        }

        /// Closes the device, which is gone even when an error is returned. In Rust, the default drops it. May block.
        ///
        /// # Errors
        /// Those of the driver.
        #[isolated(by_hand)]
        fn close(self) -> Result<()>
        where
            Self: Sized,
        {
            Ok(())
        }
    }

    /// A loaded image.
    pub trait Module<B: Backend>: Send + Sync + 'static {
        /// Finds a kernel.
        ///
        /// # Errors
        /// `NotFound` if there is none of this name, `ErrorCode::SymbolKind` if it is a global.
        #[export(kernel)]
        #[remote(RemoteModule::find_kernel)]
        #[isolated(by_hand)]
        fn kernel(&self, name: &str) -> Result<(Arc<B::Kernel>, KernelAttributes)>;

        /// Finds a global variable. In Rust, the default is for images that have none.
        ///
        /// # Errors
        /// `NotFound` if there is none of this name, `ErrorCode::SymbolKind` if it is a kernel.
        #[check(bounds::global(plugin, name, &reply))]
        fn global(&self, name: &str) -> Result<GlobalAddress> {
            Err(no_global(name, &self.symbols()?))
        }

        /// Names every kernel and global, in any order.
        ///
        /// # Errors
        /// Those of the driver.
        #[check(bounds::symbols(plugin, &reply))]
        fn symbols(&self) -> Result<Vec<(String, SymbolKind)>>;

        /// Runs the global constructors, in priority order. Called once, before anything else of the module is used.
        /// Blocks until they are done. In Rust, the default is for images that have none.
        ///
        /// # Errors
        /// `BackendFailure` if one fails.
        fn run_constructors(&self) -> Result<()> {
            Ok(())
        }

        /// Runs the global destructors in reverse order, all of them, also when one fails. Called at most once, when no
        /// queue uses the module any more. Blocks until they are done. In Rust, the default is for images that have none.
        ///
        /// # Errors
        /// `BackendFailure` with the first failure.
        #[isolated(gives_up)]
        fn run_destructors(&self) -> Result<()> {
            Ok(())
        }

        /// Reads the memory-pool tracker, if the image has one; in C, `present` says whether it has. Called after the
        /// destructors and before `unload`. Blocks.
        ///
        /// # Errors
        /// Those of the driver.
        #[table("instrumentation", "what compiled-in instrumentation left in a module's memory")]
        #[without(Ok(None))]
        fn pool_tracker(&self) -> Result<Option<PoolTracker>> {
            Ok(None)
        }

        /// Reads the profile sections that the image has. Called after the destructors and before `unload`. Blocks.
        ///
        /// # Errors
        /// Those of the driver.
        #[table("instrumentation")]
        #[without(Ok(Vec::new()))]
        #[check(bounds::sections(plugin, &reply))]
        fn profile(&self) -> Result<Vec<ProfileSection>> {
            Ok(Vec::new())
        }

        /// Unloads the image. The module is gone even when an error is returned. In Rust, the default drops it. May block.
        ///
        /// # Errors
        /// Those of the driver.
        #[isolated(by_hand)]
        fn unload(self) -> Result<()>
        where
            Self: Sized,
        {
            Ok(())
        }
    }

    /// An in-order queue. Giving it up does not wait: work that was queued still runs. An error that shows only when the
    /// work runs is returned by the next `synchronize`.
    pub trait Queue<B: Backend>: Send + Sync + 'static {
        /// Queues a kernel of a module of this queue's device. The arguments' values are captured during the call. Blocks
        /// only if the launch is to be waited for.
        ///
        /// # Errors
        /// `InvalidArgument` and `Unsupported` for what the kernel or the device cannot do: `InvalidArgument` for clusters
        /// that do not divide the groups or that the device cannot have. If it is waited for, also those of
        /// [`Queue::synchronize`].
        #[request(Launch)]
        #[isolated(by_hand)]
        fn launch(
            &self,
            kernel: &B::Kernel,
            shape: &LaunchShape,
            arguments: Arguments<'_>,
        ) -> Result<()>;

        /// Queues a copy. Host memory stays the caller's and in place until the copy is done. Blocks only if the copy is to
        /// be waited for; then neither range is touched any more when the call returns, not even with an error.
        ///
        /// # Errors
        /// Those of the driver. If it is waited for, also those of [`Queue::synchronize`].
        #[request(Copy)]
        #[isolated(by_hand)]
        fn copy(&self, copy: &CopyRequest<'_, B::Device>) -> Result<()>;

        /// Queues a fill of device memory with a pattern, of at least 1 byte, whose length divides the range's. The pattern
        /// is captured during the call. Blocks only if the fill is to be waited for; then the range is not touched any more
        /// when the call returns, not even with an error.
        ///
        /// # Errors
        /// Those of the driver. If it is waited for, also those of [`Queue::synchronize`].
        #[request(Fill)]
        #[isolated(by_hand)]
        fn fill(&self, destination: Span, pattern: &[u8], wait: bool) -> Result<()>;

        /// Queues a function of the program. Work that is queued after it waits for its return.
        ///
        /// # Errors
        /// Those of the driver; the function is not called then.
        #[isolated(by_hand)]
        fn host_function(&self, function: HostFunction) -> Result<()>;

        /// Makes work that is queued from now on wait for the event's last record, on whichever queue of the platform that
        /// was. An event that was never recorded counts as complete. The work runs also if the record is behind a failure,
        /// which becomes one of this queue.
        ///
        /// # Errors
        /// Those of the driver.
        #[isolated(posted)]
        fn wait_event(&self, event: &B::Event) -> Result<()>;

        /// Records the event at the queue's tail. Recording again forgets the earlier record.
        ///
        /// # Errors
        /// Those of the driver.
        #[isolated(posted)]
        fn record_event(&self, event: &B::Event) -> Result<()>;

        /// Says whether all work that was queued is done.
        ///
        /// # Errors
        /// Those of the driver.
        fn is_idle(&self) -> Result<bool>;

        /// Blocks until all work that was queued before the call is done or failed: none of it runs any more when the call
        /// returns, also with an error, except in a host function of this queue.
        ///
        /// # Errors
        /// The first error among that work that no call was told. `Unsupported` at once in a host function of this queue,
        /// which would wait for itself.
        #[isolated(waits)]
        fn synchronize(&self) -> Result<()>;

        /// Queues a hint that memory will be used at `target`.
        ///
        /// # Errors
        /// Those of the driver. Memory that cannot move is no error.
        #[table("prefetch", "hints where memory will be used")]
        #[isolated(queued)]
        fn prefetch(&self, _range: Span, _target: PrefetchTarget) -> Result<()> {
            Err(unsupported("prefetching"))
        }

        /// Gives the queue up without waiting: work that was queued still runs.
        #[end]
        fn destroy(self) -> Result<()>;
    }

    /// An event. It may outlive the queue that it was recorded on.
    pub trait Event<B: Backend>: Send + Sync + 'static {
        /// Says whether its last record was reached; also true if there was none.
        ///
        /// # Errors
        /// Those of the driver.
        fn is_complete(&self) -> Result<bool>;

        /// Blocks until the event is complete. The host calls it in no host function that the event is behind.
        ///
        /// # Errors
        /// The first failure of the work in front of the last record that no [`Queue::synchronize`] had told when that was
        /// reached: the same each time, and still the queue's to tell; those of the driver.
        #[isolated(finishes)]
        fn synchronize(&self) -> Result<()>;

        /// Returns the nanoseconds from this event to `end`; negative if `end` was reached first.
        ///
        /// # Errors
        /// `InvalidArgument` if one has no timing, `InvalidDevice` if they are of two devices, `InvalidEvent` if one was
        /// not recorded or is not complete.
        fn elapsed_ns(&self, end: &B::Event) -> Result<i64>;

        /// Gives the event up without waiting. Queues that wait for it still see its record.
        #[end]
        fn destroy(self) -> Result<()>;
    }
}
