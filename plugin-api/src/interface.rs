//! The plugin interface, declared once: the traits that a plugin implements and the host calls,
//! with attributes for facts beyond a trait.
//!
//! From this declaration the crate `longshore-interface` generates the tables of functions
//! (`abi/tables.rs`), the glue between traits and tables (`export/tables.rs`, `remote/calls.rs`),
//! the messages of isolated plugins, and the C header. Each module with a call of `with_interface!`
//! receives its part. The documentation of `longshore-interface` explains the attributes. A comment
//! here is also the comment of the function in C.

use crate::collective::CollectiveRequest;
use crate::error::{Result, unsupported};
use crate::image::{Acceptance, CodeTarget, ImageBytes, ImageEntry};
use crate::info::{DeviceInfo, InfoValue, PlatformInfo};
use crate::rect::RectRequest;
use crate::request::{
    Arguments, CopyRequest, GlobalAddress, HostFunction, KernelAttributes, LaunchShape, Loading,
    MemoryKind, PoolTracker, PrefetchTarget, ProfileSection, Span, SymbolKind, no_global,
};
use longshore_interface_macros::interface;
use std::sync::Arc;

/// The family of types that makes up a backend.
pub trait Backend: Sized + 'static {
    /// The platform of a connected plugin.
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
        /// Answers a query about the platform, a `platform_info`, with text without NUL.
        ///
        /// # Errors
        /// `Unimplemented` if the platform has no answer.
        #[isolated(proxy)]
        fn info(&self, query: PlatformInfo) -> Result<String>;

        /// Returns the number of devices, which is fixed while the platform is connected.
        #[remote(RemotePlatform::devices)]
        #[isolated(by_hand)]
        fn device_count(&self) -> u32;

        /// Answers a query about the device `index`, a `device_info`, in the type of the query.
        /// Does not open the device. `index` is less than `device_count`.
        ///
        /// # Errors
        /// `Unimplemented` if the device has no answer, `InvalidEnumeration` for an unknown query.
        #[require(in_range::<P>(object, index))]
        #[remote(RemotePlatform::ask_device)]
        #[isolated(proxy)]
        fn device_info(&self, index: u32, query: DeviceInfo) -> Result<InfoValue>;

        /// Opens the device `index`, which is less than `device_count`. May block while the driver
        /// creates its context.
        ///
        /// # Errors
        /// `BackendFailure` and `OutOfResources` of the driver.
        #[require(in_range::<P>(object, index))]
        #[isolated(proxy)]
        fn open(&self, index: u32) -> Result<B::Device>;

        /// Ends the platform. The host has closed all devices of the platform before. May block.
        #[end]
        #[isolated(by_hand)]
        fn destroy(self) -> Result<()>;
    }

    /// An open device. Before it closes the device, the host unloads all modules, destroys all
    /// queues and events, and frees all memory of the device.
    pub trait Device<B: Backend>: Send + Sync + 'static {
        /// Reports whether [`Device::load`] would try this image. In C, `accepted` becomes 1 if it
        /// would, else 0 with the reason in `reason`. The value is 2 if `load` would also refuse
        /// the image unless verification shows that loading, constructing and unloading it is
        /// sound, whatever its bytes are.
        ///
        /// # Errors
        /// No error because of the image: a bad image is refused.
        #[isolated(by_hand)]
        fn accepts(&self, image: &[u8]) -> Result<Acceptance>;

        /// Allocates `bytes` bytes, at least 1, of a `memory_kind`, at a multiple of `alignment`, a
        /// power of two. The address is in no other live allocation of the process. May block.
        ///
        /// # Errors
        /// `OutOfResources` if there is not enough memory, `Unsupported` for a kind or an alignment
        /// that the device lacks.
        #[check(bounds::allocation(plugin, "longshore.device, allocate", reply, bytes, alignment))]
        #[undo(self.give_back(kind, reply))]
        #[isolated(proxy)]
        fn allocate(&self, kind: MemoryKind, bytes: u64, alignment: u64) -> Result<u64>;

        /// Frees the memory of this kind that [`Device::allocate`] of this device returned. May
        /// block.
        ///
        /// # Errors
        /// `InvalidArgument` if no live allocation of this kind begins at the address.
        #[isolated(by_hand)]
        fn free(&self, kind: MemoryKind, address: u64) -> Result<()>;

        /// Loads an image without running its constructors. The host owns the bytes, and keeps them
        /// in place and unchanged until [`Module::unload`] has returned. If the mode is `LAZILY`,
        /// the backend may defer work to the first launches of the kernels. A failure of deferred
        /// work is an error of the launch, with the code that `load` would have returned. Kernels
        /// and globals have the same names as otherwise. A backend that cannot defer work loads the
        /// image at once. May block.
        ///
        /// # Errors
        /// `InvalidBinary` for an image that is malformed or not for this device, `Unsupported` for
        /// a valid image beyond the abilities of this backend. `LinkFailure` for undefined symbols,
        /// and the driver's errors.
        #[isolated(by_hand)]
        fn load(&self, image: ImageBytes, loading: Loading) -> Result<B::Module>;

        /// Creates a queue.
        ///
        /// # Errors
        /// The driver's errors.
        fn create_queue(&self) -> Result<B::Queue>;

        /// Creates an event without a record; `timing` if [`Event::elapsed_ns`] may use the event.
        ///
        /// # Errors
        /// The driver's errors.
        #[isolated(by_hand)]
        fn create_event(&self, timing: bool) -> Result<B::Event>;

        /// Returns a score for the fit of a container's image to this device: 0 if the device
        /// cannot run it, else higher for a better fit. The host loads the image with the highest
        /// score, the first among equals. If the result is `Unsupported`, the host calls
        /// [`Device::accepts`] instead. A device with a [`Device::code_target`] scores LLVM bitcode
        /// as code for the same triple and architecture. In C, `triple` and `arch` are empty if the
        /// container has none. LLVM: `isELFCompatible`.
        ///
        /// # Errors
        /// No error because of the image: a bad image has score 0.
        #[isolated(by_hand)]
        fn score(&self, _entry: &ImageEntry<'_>) -> Result<u32> {
            Err(unsupported("scoring of images"))
        }

        /// Sets the logical size of the live allocation at `address`: the `bytes` bytes that the
        /// program sees until the next call. At first the program sees the whole allocation. The
        /// host allocates blocks in size classes and reuses freed blocks; a backend that binds or
        /// measures whole allocations uses the logical size instead. The rest of the block stays
        /// allocated. Does not block.
        ///
        /// # Errors
        /// `InvalidArgument` if no allocation begins at the address, `InvalidSize` for 0 bytes or
        /// for more bytes than were allocated.
        #[isolated(by_hand)]
        fn set_logical_size(&self, _address: u64, _bytes: u64) -> Result<()> {
            Err(unsupported("logical sizes of allocations"))
        }

        /// Makes memory of this process an allocation of this kind at its own address, as if
        /// [`Device::allocate`] had returned that address: kernels reach the memory there. The host
        /// owns the memory, keeps it in place until [`Device::free`], and takes it back then. The
        /// memory begins at a multiple of the page size and has at least 1 byte. May block.
        ///
        /// # Errors
        /// `Unsupported` for a kind of memory that the device lacks, or cannot have at an address
        /// of the host's choice. `InvalidArgument` if part of the memory is an allocation already.
        #[isolated(by_hand)]
        fn import_memory(&self, _kind: MemoryKind, _memory: Span) -> Result<()> {
            Err(unsupported("import of the host's memory"))
        }

        /// Page-locks host memory until [`Device::unpin`], and returns the device's address of it.
        /// May block.
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
        /// `InvalidArgument` if no pinned range begins at the address.
        #[table("pinning")]
        #[isolated(by_hand)]
        fn unpin(&self, _address: u64) -> Result<()> {
            Err(unsupported("pinning of host memory"))
        }

        /// Reports whether kernels of this device can reach memory of `peer`.
        ///
        /// # Errors
        /// The driver's errors.
        #[table("peer", "access of devices to each other's memory")]
        #[isolated(proxy)]
        fn can_access(&self, _peer: &B::Device) -> Result<bool> {
            Err(unsupported("peer access"))
        }

        /// Lets kernels of this device reach memory of `peer`; a repeated call is not an error. May
        /// block.
        ///
        /// # Errors
        /// `Unsupported` if this device cannot reach the memory of `peer`.
        #[table("peer")]
        fn enable_access(&self, _peer: &B::Device) -> Result<()> {
            Err(unsupported("peer access"))
        }

        /// Returns the group size, in work-items, with which the kernel keeps most of the device
        /// busy.
        ///
        /// # Errors
        /// The driver's errors.
        #[table("occupancy", "the share of a device that a kernel keeps busy")]
        #[check(bounds::group_items(plugin, reply))]
        fn optimal_group_items(
            &self,
            _kernel: &B::Kernel,
            _dynamic_shared_bytes: u64,
        ) -> Result<u32> {
            Err(unsupported("occupancy queries"))
        }

        /// Returns the maximum number of groups, each of `items` work-items, in a cooperative
        /// launch of the kernel.
        ///
        /// # Errors
        /// The driver's errors.
        #[table("occupancy")]
        fn max_cooperative_groups(
            &self,
            _kernel: &B::Kernel,
            _items: [u32; 3],
            _dynamic_shared_bytes: u64,
        ) -> Result<u32> {
            Err(unsupported("occupancy queries"))
        }

        /// Returns the driver's number of the device: `CUdevice`, `hipDevice_t`.
        ///
        /// # Errors
        /// The driver's errors.
        #[table("driver_device", "handles by which programs reach a device in its driver")]
        #[isolated(proxy)]
        fn driver_device(&self) -> Result<u64> {
            Err(unsupported("the driver's number of a device"))
        }

        /// Returns the driver's handle of the device's context, `CUcontext`; 0 if the driver has
        /// no contexts. The context stays valid until [`Device::close`].
        ///
        /// # Errors
        /// The driver's errors.
        #[table("driver_device")]
        #[isolated(proxy)]
        fn driver_context(&self) -> Result<u64> {
            Err(unsupported("the driver's context of a device"))
        }

        /// Returns the target for which the host compiles LLVM bitcode for this device.
        /// [`Device::load`] takes the result: a relocatable object for a CPU, PTX, or a linked code
        /// object. The answer is the same until [`Device::close`]. In C, the plugin writes each
        /// text to its sink.
        ///
        /// # Errors
        /// `Unsupported` for a device that LLVM does not compile for.
        #[table("code_target", "the target for which the host compiles bitcode")]
        #[check(bounds::code_target(plugin, &reply))]
        fn code_target(&self) -> Result<CodeTarget> {
            Err(unsupported("LLVM bitcode"))
        }

        /// Performs an operation over the memory of several devices of the platform, of which this
        /// device is one. The host has waited for all earlier work on the memory. The operation
        /// does not end before all members have their results. Blocks.
        ///
        /// # Errors
        /// `Unsupported` for an operation that the platform cannot perform over these devices: it
        /// has no effect then, and the host performs it by copies. The driver's errors; the
        /// destinations have any content then.
        #[table("collectives", "operations over the memory of several devices")]
        #[request(Collective)]
        #[isolated(by_hand)]
        fn collective(&self, _operation: &CollectiveRequest<'_, B::Device>) -> Result<()> {
            Err(unsupported("collective operations"))
        }

        /// Closes the device, which ends even if the call returns an error. In Rust, the default
        /// drops the device. May block.
        ///
        /// # Errors
        /// The driver's errors.
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
        /// Finds a kernel by name. In C, the handle, arrays and texts in `kernel` are valid until
        /// [`Module::unload`].
        ///
        /// # Errors
        /// `NotFound` if the image has no symbol of this name, `ErrorCode::SymbolKind` if the
        /// symbol is a global.
        #[export(kernel)]
        #[remote(RemoteModule::find_kernel)]
        #[isolated(by_hand)]
        fn kernel(&self, name: &str) -> Result<(Arc<B::Kernel>, KernelAttributes)>;

        /// Finds a global variable by name. In Rust, the default suits images without globals.
        ///
        /// # Errors
        /// `NotFound` if the image has no symbol of this name, `ErrorCode::SymbolKind` if the
        /// symbol is a kernel.
        #[check(bounds::global(plugin, name, &reply))]
        fn global(&self, name: &str) -> Result<GlobalAddress> {
            Err(no_global(name, &self.symbols()?))
        }

        /// Lists all kernels and globals, in any order.
        ///
        /// # Errors
        /// The driver's errors.
        #[check(bounds::symbols(plugin, &reply))]
        fn symbols(&self) -> Result<Vec<(String, SymbolKind)>>;

        /// Runs the global constructors, by ascending priority, and blocks until they are done. The
        /// host calls this function once, before any other use of the module. In Rust, the default
        /// suits images without constructors.
        ///
        /// # Errors
        /// `BackendFailure` if a constructor fails.
        fn run_constructors(&self) -> Result<()> {
            Ok(())
        }

        /// Runs all global destructors in the reverse order, even if one fails, and blocks until
        /// they are done. The host calls this function at most once, when no queue uses the module
        /// any more. In Rust, the default suits images without destructors.
        ///
        /// # Errors
        /// `BackendFailure` with the first failure.
        #[isolated(gives_up)]
        fn run_destructors(&self) -> Result<()> {
            Ok(())
        }

        /// Reads the memory-pool tracker, if the image has one; in C, `present` becomes 1 then,
        /// else 0. The host calls this function after the destructors and before `unload`. Blocks.
        ///
        /// # Errors
        /// The driver's errors.
        #[table("instrumentation", "data of compiled-in instrumentation in a module's memory")]
        #[without(Ok(None))]
        fn pool_tracker(&self) -> Result<Option<PoolTracker>> {
            Ok(None)
        }

        /// Reads the profile sections of the image. The host calls this function after the
        /// destructors and before `unload`. Blocks.
        ///
        /// # Errors
        /// The driver's errors.
        #[table("instrumentation")]
        #[without(Ok(Vec::new()))]
        #[check(bounds::sections(plugin, &reply))]
        fn profile(&self) -> Result<Vec<ProfileSection>> {
            Ok(Vec::new())
        }

        /// Unloads the image. The module ends even if the call returns an error. In Rust, the
        /// default drops the module. May block.
        ///
        /// # Errors
        /// The driver's errors.
        #[isolated(by_hand)]
        fn unload(self) -> Result<()>
        where
            Self: Sized,
        {
            Ok(())
        }
    }

    /// An in-order queue. The end of its handle does not wait: queued work still runs. The next
    /// `synchronize` returns an error that occurs while work runs.
    pub trait Queue<B: Backend>: Send + Sync + 'static {
        /// Queues a launch of a kernel from a module of this queue's device. The call copies the
        /// values of the arguments. Blocks only if the launch requests a wait.
        ///
        /// # Errors
        /// `InvalidArgument` and `Unsupported` for launches beyond the kernel or the device.
        /// `InvalidArgument` for clusters that do not divide the groups or that the device cannot
        /// have. If the call waits, also errors of [`Queue::synchronize`].
        #[request(Launch)]
        #[isolated(by_hand)]
        fn launch(
            &self,
            kernel: &B::Kernel,
            shape: &LaunchShape,
            arguments: Arguments<'_>,
        ) -> Result<()>;

        /// Queues a copy. The caller owns host memory and keeps it in place until the copy is done.
        /// Blocks only if the copy requests a wait; then nothing touches either range after the
        /// call returns, even with an error.
        ///
        /// # Errors
        /// The driver's errors. If the call waits, also errors of [`Queue::synchronize`].
        #[request(Copy)]
        #[isolated(by_hand)]
        fn copy(&self, copy: &CopyRequest<'_, B::Device>) -> Result<()>;

        /// Queues a fill of device memory with a pattern of at least 1 byte, whose length divides
        /// the length of the range. The call copies the pattern. Blocks only if the fill requests a
        /// wait; then nothing touches the range after the call returns, even with an error.
        ///
        /// # Errors
        /// The driver's errors. If the call waits, also errors of [`Queue::synchronize`].
        #[request(Fill)]
        #[isolated(by_hand)]
        fn fill(&self, destination: Span, pattern: &[u8], wait: bool) -> Result<()>;

        /// Queues a function of the program. Work queued later waits for its return.
        ///
        /// # Errors
        /// The driver's errors; the function is not called then.
        #[isolated(by_hand)]
        fn host_function(&self, function: HostFunction) -> Result<()>;

        /// Makes work queued from now on wait for the event's last record, on any queue of the
        /// platform. An event without a record counts as complete. The work runs even if work
        /// before the record fails; that failure becomes one of this queue.
        ///
        /// # Errors
        /// The driver's errors.
        #[isolated(by_hand)]
        fn wait_event(&self, event: &B::Event) -> Result<()>;

        /// Records the event at the queue's tail. A new record replaces the earlier one.
        ///
        /// # Errors
        /// The driver's errors.
        #[isolated(posted)]
        fn record_event(&self, event: &B::Event) -> Result<()>;

        /// Reports whether all queued work is done.
        ///
        /// # Errors
        /// The driver's errors.
        fn is_idle(&self) -> Result<bool>;

        /// Blocks until all work queued before the call is done or has failed. None of that work
        /// runs after the call returns, even with an error, except in a host function of this
        /// queue.
        ///
        /// # Errors
        /// The first pending error of that work, which no call has returned yet. `Unsupported` at
        /// once in a host function of this queue, where the call would wait for itself.
        #[isolated(waits)]
        fn synchronize(&self) -> Result<()>;

        /// Queues a copy of rows of bytes: a rectangle of two or three dimensions, in place of a
        /// copy for each row. The caller owns host memory and keeps it in place until the copy is
        /// done.
        ///
        /// # Errors
        /// `Unsupported` for a copy between these places, or with these distances: the call has no
        /// effect, and the host copies row by row. The driver's errors.
        #[table("rect", "copies of rectangles")]
        #[request(Rect)]
        #[isolated(by_hand)]
        fn copy_rect(&self, _rect: &RectRequest<'_, B::Device>) -> Result<()> {
            Err(unsupported("copies of rectangles"))
        }

        /// Queues a hint that memory will be used at `target`.
        ///
        /// # Errors
        /// The driver's errors. Memory that cannot move is not an error.
        #[table("prefetch", "hints about the place of the next use of memory")]
        #[isolated(queued)]
        fn prefetch(&self, _range: Span, _target: PrefetchTarget) -> Result<()> {
            Err(unsupported("prefetching"))
        }

        /// Returns the driver's handle of the stream on which the queue's work runs: `CUstream`,
        /// `hipStream_t`. [`Queue::synchronize`] also waits for work that the program itself
        /// queues on the stream. Work of the queue and work of the program are in order if a
        /// synchronization lies between them. The stream stays valid until the queue is destroyed.
        ///
        /// # Errors
        /// The driver's errors.
        #[table("driver_stream", "the driver's stream behind a queue")]
        #[isolated(proxy)]
        fn driver_stream(&self) -> Result<u64> {
            Err(unsupported("the driver's stream of a queue"))
        }

        /// Ends the queue without waiting: queued work still runs.
        #[end]
        fn destroy(self) -> Result<()>;
    }

    /// An event, which may outlive the queue of its record.
    pub trait Event<B: Backend>: Send + Sync + 'static {
        /// Reports whether the queue has reached the event's last record; also true for an event
        /// without a record.
        ///
        /// # Errors
        /// The driver's errors.
        fn is_complete(&self) -> Result<bool>;

        /// Blocks until the event is complete. The host does not call this function in a host
        /// function queued before the event's record.
        ///
        /// # Errors
        /// The first failure of the work before the last record that was pending when the queue
        /// reached the record. Each call returns the same failure, and leaves it pending in its
        /// queue. Also the driver's errors.
        #[isolated(finishes)]
        fn synchronize(&self) -> Result<()>;

        /// Returns the time from this event to `end` in nanoseconds, negative if the device reached
        /// `end` first.
        ///
        /// # Errors
        /// `InvalidArgument` if an event has no timing, `InvalidDevice` if the events belong to two
        /// devices, `InvalidEvent` if an event has no record or is not complete.
        fn elapsed_ns(&self, end: &B::Event) -> Result<i64>;

        /// Ends the event without waiting. Queues that wait for it still see its record.
        #[end]
        fn destroy(self) -> Result<()>;
    }
}
