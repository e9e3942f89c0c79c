//! Open devices.

mod close;
mod events;

pub use close::{CloseReport, Leak};

use close::PoolTotals;
use events::Events;

use crate::discovery::LoadedPlugin;
use crate::event::{Event, EventCore};
use crate::gated::{Gated, Pass};
use crate::host::HostShared;
use crate::host_function;
use crate::image::Image;
use crate::memory::{
    Allocation, AllocationTable, Block, Buffer, DeviceMemory, DevicePointer, DeviceTracker,
    Element, MemoryReport, Released, Request, Use,
};
use crate::program::{Kernel, Loading, Program, ProgramCore, suitable};
use crate::queue::{Queue, QueueCore};
use crate::selection::DeviceFacts;
use longshore_plugin_api::remote::RemoteDevice;
use longshore_plugin_api::{
    Acceptance, Device as _, DeviceInfo, Error, ErrorCode, InfoValue, MemoryKind, Platform as _,
    PoolTracker, Result, Span,
};
use parking_lot::Mutex;
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// An open device. Cloning is cheap; it is closed by [`Device::close`] or when the last handle to
/// it and to anything on it is dropped. LLVM: `ol_device_handle_t`.
#[derive(Clone)]
pub struct Device {
    inner: ManuallyDrop<Arc<DeviceInner>>,
}

/// Being inside an open device: its close waits.
pub(crate) type DevicePass<'a> = Pass<'a, Arc<RemoteDevice>, 8>;

pub(crate) struct DeviceInner {
    id: u64,
    facts: DeviceFacts,
    plugin: Arc<LoadedPlugin>,
    pub(crate) host: Arc<HostShared>,
    pub(crate) remote: Gated<Arc<RemoteDevice>, 8>,
    pub(crate) totals: Mutex<PoolTotals>,
    /// In the order in which they were loaded.
    pub(crate) programs: Mutex<Vec<Arc<ProgramCore>>>,
    memory: DeviceMemory,
    queues: Mutex<Vec<Arc<QueueCore>>>,
    events: Mutex<Events>,
}

impl Device {
    /// A number that no other open device of this process has or had.
    pub fn id(&self) -> u64 {
        self.inner.id
    }

    /// "cuda:0 (NVIDIA H200)".
    pub fn name(&self) -> String {
        self.inner.facts.to_string()
    }

    /// The backend that provides it.
    pub fn backend(&self) -> &str {
        &self.inner.facts.backend
    }

    /// Its index among the backend's devices.
    pub fn index(&self) -> u32 {
        self.inner.facts.index
    }

    /// Answers a query. LLVM: `olGetDeviceInfo`.
    ///
    /// # Errors
    /// `Unimplemented` if the device has no answer.
    pub fn info(&self, query: DeviceInfo) -> Result<InfoValue> {
        self.inner.plugin.platform().device_info(self.index(), query)
    }

    /// Whether the backend takes this image as it is; if not, why. A container may still hold one that it
    /// takes: see [`Device::load`] and [`Host::device_for`](crate::Host::device_for). LLVM:
    /// `olIsValidBinary`.
    ///
    /// # Errors
    /// `Uninitialized` if the device was closed.
    pub fn accepts(&self, image: &[u8]) -> Result<Acceptance> {
        self.remote()?.accepts(image)
    }

    /// Loads an image and runs its global constructors. A borrowed image is copied, so that its
    /// memory may go away at once. Of a container ([`Image::entries`]) that the device does not take
    /// as it is, the image that suits it best is loaded. Blocks. LLVM: `olCreateProgram`.
    ///
    /// # Errors
    /// `InvalidBinary` if it is malformed or not for this device; of a container the message says so
    /// for each image. `Unsupported` if it is valid and more than the backend, or for a container
    /// this library, can do, `LinkFailure` for undefined symbols, `Uninitialized` if the
    /// device was closed; those of the driver.
    pub fn load(&self, image: impl Into<Image>) -> Result<Program> {
        Program::load(self, image.into(), Loading::Whole)
    }

    /// Loads an image, and puts off what can be: of a relocatable object or an archive on the CPU, a member is linked when one of
    /// its functions is first called, so that an archive of many kernels is loaded in the time of its index. The first launch
    /// of a kernel links the member that has it, before it is queued. To find a kernel links nothing; to find a global links
    /// what defines it.
    ///
    /// Constructors of a member run once, in the order of their priorities, before the first of its functions; those of a member
    /// that is never called do not. Destructors of those that are linked run when the program is unloaded, in reverse.
    ///
    /// This is about time only. Images of other kinds, and those of backends that cannot put anything off, are loaded whole.
    ///
    /// # Errors
    /// As for [`Device::load`], for what is read of the image now. What is found later is an error of the launch, with the same
    /// code: `LinkFailure` for undefined symbols, `InvalidBinary` for a damaged member. The program can be used further.
    pub fn load_lazily(&self, image: impl Into<Image>) -> Result<Program> {
        Program::load(self, image.into(), Loading::Lazy)
    }

    /// Whether it takes an image, or one of those that a container holds.
    ///
    /// # Errors
    /// Why it does not; `Uninitialized` if it was closed; those of the plugin.
    pub(crate) fn check_suits(&self, image: &Image) -> Result<()> {
        suitable::of(self, &**self.remote()?, image.clone()).map(drop)
    }

    /// Makes a queue. LLVM: `olCreateQueue`.
    ///
    /// # Errors
    /// `Uninitialized` if the device was closed; those of the driver.
    pub fn queue(&self) -> Result<Queue> {
        let mut queues = self.inner.queues.lock();
        if let Some(parked) = queues.iter().find(|core| core.unpark()) {
            return Ok(Queue::new(Arc::clone(parked), self.clone()));
        }
        let remote = self.remote()?;
        let queue = remote.create_queue()?;
        let core = Arc::new(QueueCore::new(queue, Arc::clone(&remote), queues.len()));
        queues.push(Arc::clone(&core));
        Ok(Queue::new(core, self.clone()))
    }

    /// Allocates memory, from the cache of freed blocks if it can. LLVM: `olMemAllocAligned`.
    ///
    /// # Errors
    /// `InvalidSize` for 0 bytes, `InvalidArgument` for an alignment that is no power of two,
    /// `OutOfResources` if there is not enough, `Unsupported` for a kind that the device lacks,
    /// `Uninitialized` if it was closed.
    #[track_caller]
    pub fn allocate(&self, kind: MemoryKind, bytes: u64, alignment: u64) -> Result<Allocation> {
        let user = Use { bytes, location: Location::caller() };
        let request = Request::new(kind, alignment, user)?;
        let block = match self.inner.memory.reuse(&request) {
            Some((block, false)) => block,
            Some((block, true)) => self.with_new_extent(block)?,
            None => self.obtain(&request)?,
        };
        self.inner.memory.track(&block);
        Ok(Allocation::new(block, self.clone()))
    }

    /// A buffer of `len` elements in device memory, of undefined content.
    ///
    /// # Errors
    /// As for [`Device::allocate`].
    #[track_caller]
    pub fn buffer<T: Element>(&self, len: usize) -> Result<Buffer<T>> {
        Buffer::new(self, MemoryKind::Device, len)
    }

    /// A buffer in device memory with the content of `values`. Blocks until it is copied.
    ///
    /// # Errors
    /// As for [`Device::allocate`], and those of [`Buffer::write`].
    #[track_caller]
    pub fn buffer_of<T: Element>(&self, queue: &Queue, values: &[T]) -> Result<Buffer<T>> {
        let buffer = Buffer::new(self, MemoryKind::Device, values.len())?;
        buffer.write(queue, values)?;
        Ok(buffer)
    }

    /// Bytes of freed memory that are kept for reuse.
    pub fn cached_bytes(&self) -> u64 {
        self.inner.memory.cached().1
    }

    /// What is and was allocated on it, and what is kept for reuse. Works on a closed device, too.
    pub fn memory_report(&self) -> MemoryReport {
        self.inner.memory.report(&self.name())
    }

    /// What the images that were unloaded from it allocated on the device, by their memory-pool
    /// trackers; `None` if none of them had one. The last answer of a closed device is in its
    /// [`CloseReport`] too.
    pub fn pool_totals(&self) -> Option<PoolTracker> {
        self.inner.totals.lock().get()
    }

    /// Gives the memory that is kept for reuse back to the driver. May block.
    ///
    /// # Errors
    /// `Uninitialized` if the device was closed.
    pub fn trim(&self) -> Result<()> {
        self.inner.memory.trim(&**self.remote()?);
        Ok(())
    }

    /// Page-locks host memory and answers the device's address for it. May block. LLVM:
    /// `olMemRegister`.
    ///
    /// # Errors
    /// `InvalidArgument` if part of it is pinned already, `Unsupported` if the plugin cannot.
    ///
    /// # Safety
    /// The memory stays mapped until [`Device::unpin`].
    pub unsafe fn pin(&self, address: *mut c_void, bytes: u64) -> Result<DevicePointer> {
        if bytes == 0 {
            return Err(Error::new(ErrorCode::InvalidSize, "0 bytes to pin; at least 1 is needed"));
        }
        // SAFETY: promised by the caller.
        let range = unsafe { Span::new(address as u64, bytes) };
        self.remote()?.pin(range).map(DevicePointer)
    }

    /// Undoes [`Device::pin`]. May block. LLVM: `olMemUnregister`.
    ///
    /// # Errors
    /// `InvalidArgument` if nothing was pinned at this address.
    ///
    /// # Safety
    /// Nothing that is queued uses the memory through the device's address any more.
    pub unsafe fn unpin(&self, address: *mut c_void) -> Result<()> {
        self.remote()?.unpin(address as u64)
    }

    /// Whether kernels of this device can reach memory of `peer`.
    ///
    /// # Errors
    /// `Unsupported` if the plugin cannot say.
    pub fn can_access(&self, peer: &Device) -> Result<bool> {
        if !self.same_platform(peer) {
            return Ok(false);
        }
        self.remote()?.can_access(&**peer.remote()?)
    }

    /// Lets kernels of this device reach memory of `peer`. May block.
    ///
    /// # Errors
    /// `Unsupported` if they cannot.
    pub fn enable_access(&self, peer: &Device) -> Result<()> {
        if !self.same_platform(peer) {
            let message = format!("{} cannot reach memory of {}", self.name(), peer.name());
            return Err(Error::new(ErrorCode::Unsupported, message));
        }
        self.remote()?.enable_access(&**peer.remote()?)
    }

    /// The group size, in work-items, with which the kernel keeps most of the device busy. LLVM:
    /// `olCalculateOptimalOccupancy`.
    ///
    /// # Errors
    /// `Unsupported` if the plugin cannot say, `InvalidDevice` for a kernel of another device,
    /// `Uninitialized` if its program was unloaded.
    pub fn optimal_group_items(&self, kernel: &Kernel, dynamic_shared_bytes: u64) -> Result<u32> {
        self.check_same(kernel.program().device(), "the kernel")?;
        let _loaded = kernel.enter()?;
        self.remote()?.optimal_group_items(kernel.remote(), dynamic_shared_bytes)
    }

    /// The most groups of `items` work-items with which the kernel can run cooperatively. LLVM:
    /// `olGetKernelMaxCooperativeGroupCount`.
    ///
    /// # Errors
    /// As for [`Device::optimal_group_items`].
    pub fn max_cooperative_groups(
        &self,
        kernel: &Kernel,
        items: [u32; 3],
        dynamic_shared_bytes: u64,
    ) -> Result<u32> {
        self.check_same(kernel.program().device(), "the kernel")?;
        let _loaded = kernel.enter()?;
        self.remote()?.max_cooperative_groups(kernel.remote(), items, dynamic_shared_bytes)
    }

    /// Closes it: unloads the programs that are left, newest first, waits for the queues, frees
    /// what is allocated and reports that as leaked. Handles to anything on it then answer
    /// `Uninitialized`. All steps are taken whatever fails. Blocks.
    ///
    /// # Errors
    /// The first error of any step; the others are logged. `Uninitialized` if it was closed.
    /// `InvalidQueue` in a host function of one of its queues, where it stays open.
    pub fn close(self) -> Result<CloseReport> {
        host_function::refuse_inside(self.id(), "closing a device")?;
        self.inner.close()
    }
}

impl Device {
    pub(crate) fn open(
        host: &Arc<HostShared>,
        plugin: &Arc<LoadedPlugin>,
        facts: &DeviceFacts,
    ) -> Result<Device> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let remote = plugin.platform().open(facts.index)?;
        let tracker = host.tracker.as_ref().map(|tracker| DeviceTracker::new(Arc::clone(tracker)));
        let memory = DeviceMemory::new(id, Arc::clone(&host.table), host.cache_limit, tracker);
        let inner = Arc::new(DeviceInner {
            id,
            facts: facts.clone(),
            plugin: Arc::clone(plugin),
            host: Arc::clone(host),
            remote: Gated::new(Arc::new(remote)),
            totals: Mutex::default(),
            programs: Mutex::default(),
            memory,
            queues: Mutex::default(),
            events: Mutex::default(),
        });
        host.open_devices.lock().insert(id, Arc::downgrade(&inner));
        Ok(Device::from_inner(inner))
    }

    pub(crate) fn from_inner(inner: Arc<DeviceInner>) -> Device {
        Device { inner: ManuallyDrop::new(inner) }
    }

    pub(crate) fn inner(&self) -> &DeviceInner {
        &self.inner
    }

    pub(crate) fn downgrade(&self) -> Weak<DeviceInner> {
        Arc::downgrade(&self.inner)
    }

    pub(crate) fn table(&self) -> &AllocationTable {
        &self.inner.host.table
    }

    /// The plugin's device, which closing leaves alone until the answer is dropped.
    ///
    /// # Errors
    /// `Uninitialized` if it was closed.
    pub(crate) fn remote(&self) -> Result<DevicePass<'_>> {
        self.inner.remote.enter(0).ok_or_else(|| self.closed())
    }

    /// The open device with this id.
    ///
    /// # Errors
    /// `InvalidDevice` if it was closed meanwhile.
    pub(crate) fn other(&self, id: u64) -> Result<Device> {
        self.inner.host.open_device(id)
    }

    /// The error for a device that is not open any more.
    #[cold]
    pub(crate) fn closed(&self) -> Error {
        Error::new(ErrorCode::Uninitialized, format!("device {} was closed", self.name()))
    }

    /// # Errors
    /// `InvalidDevice` if they are not the same.
    #[inline]
    pub(crate) fn check_same(&self, other: &Device, what: &str) -> Result<()> {
        if self.id() == other.id() {
            return Ok(());
        }
        let message = format!("{what} belongs to {}, the call is to {}", other.name(), self.name());
        Err(Error::new(ErrorCode::InvalidDevice, message))
    }

    pub(crate) fn same_platform(&self, other: &Device) -> bool {
        Arc::ptr_eq(&self.inner.plugin, &other.inner.plugin)
    }

    pub(crate) fn create_event(&self, timing: bool) -> Result<Event> {
        let remote = self.remote()?;
        let core: Arc<EventCore> = Arc::new(Gated::new(remote.create_event(timing)?));
        self.inner.events.lock().add(&core);
        Ok(Event::new(core, self.clone()))
    }

    /// Ends the use of a block; false if it was not live.
    ///
    /// # Errors
    /// Those of the driver, if the block is not kept for reuse; it is gone all the same.
    pub(crate) fn release(&self, block: Arc<Block>) -> Result<bool> {
        let block = match self.inner.memory.release(block) {
            Released::Done => return Ok(true),
            Released::NotLive => return Ok(false),
            Released::GiveBack(block) => block,
        };
        if let Some(remote) = self.inner.remote.enter(0) {
            self.inner.memory.give_back(&block, &remote)?;
        }
        Ok(true)
    }

    #[cold]
    fn obtain(&self, request: &Request) -> Result<Arc<Block>> {
        self.inner.memory.obtain(request, &**self.remote()?)
    }

    /// Tells the plugin the size of a block that comes from the cache.
    #[cold]
    fn with_new_extent(&self, block: Arc<Block>) -> Result<Arc<Block>> {
        let memory = &self.inner.memory;
        let remote = self.remote()?;
        let told = memory.tell_extent(&block, &remote);
        told.inspect_err(|_| {
            block.retire();
            memory.give_back(&block, &remote).unwrap_or_else(|error| log::error!("{error}"));
        })?;
        Ok(block)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: taken here once; nobody looks at a dropped handle.
        let inner = unsafe { ManuallyDrop::take(&mut self.inner) };
        let Some(last) = Arc::into_inner(inner) else {
            return;
        };
        if !last.remote.is_closed() && host_function::is_inside(last.id) {
            host_function::do_elsewhere("dropping a device", move || drop(last));
        }
    }
}

impl DeviceInner {
    /// How many blocks are kept for reuse, and their bytes.
    pub(crate) fn cached(&self) -> (u64, u64) {
        self.memory.cached()
    }

    pub(crate) fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    /// Waits until no queue uses a program any more, which nobody launches any more.
    ///
    /// # Errors
    /// The first error of the queues' work; all are waited for.
    pub(crate) fn wait_for_users(&self, program: u64) -> Result<()> {
        let queues = self.queues.lock().clone();
        let results: Vec<_> = queues.iter().map(|queue| queue.wait_for_program(program)).collect();
        results.into_iter().collect()
    }
}

impl Drop for DeviceInner {
    fn drop(&mut self) {
        if self.remote.is_closed() {
            return;
        }
        // `close` has logged what failed, and has no one else to tell.
        let _ = self.close();
    }
}
