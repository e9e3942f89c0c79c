//! Open devices.

mod close;
mod events;

pub use close::{CloseReport, Leak};

use close::PoolTotals;
use events::Events;

use crate::backend::AnyDevice;
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
use crate::queue::{Point, Queue, QueueCore};
use crate::selection::DeviceFacts;
use longshore_plugin_api::{
    Acceptance, Device as _, DeviceInfo, Error, ErrorCode, InfoValue, MemoryKind, Platform as _,
    PoolTracker, Result, Span,
};
use parking_lot::Mutex;
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// An open device. Cloning is cheap; it is closed by [`Device::close`] or when the last handle to
/// it and to anything on it is dropped. LLVM: `ol_device_handle_t`.
#[derive(Clone)]
pub struct Device {
    inner: ManuallyDrop<Arc<DeviceInner>>,
}

/// Being inside an open device: its close waits.
pub(crate) type DevicePass<'a> = Pass<'a, Arc<AnyDevice>, 8>;

pub(crate) struct DeviceInner {
    id: u64,
    facts: DeviceFacts,
    plugin: Arc<LoadedPlugin>,
    pub(crate) host: Arc<HostShared>,
    pub(crate) remote: Gated<Arc<AnyDevice>, 8>,
    pub(crate) totals: Mutex<PoolTotals>,
    /// In the order in which they were loaded.
    pub(crate) programs: Mutex<Vec<Arc<ProgramCore>>>,
    memory: DeviceMemory,
    queues: Mutex<Vec<Arc<QueueCore>>>,
    events: Mutex<Events>,
    /// Answer to [`Device::most_group_items`].
    most_group_items: OnceLock<u32>,
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
    /// takes: see [`Device::suits`].
    ///
    /// # Errors
    /// `Uninitialized` if the device was closed.
    pub fn accepts(&self, image: &[u8]) -> Result<Acceptance> {
        self.remote()?.accepts(image)
    }

    /// Whether [`Device::load`] would load this image, or one that it holds as a container; if not,
    /// why. A borrowed image that the backend does not take as it is is copied. LLVM:
    /// `olIsValidBinary`.
    ///
    /// # Errors
    /// `Uninitialized` if the device was closed; those of the plugin, none of which are on account
    /// of a bad image.
    pub fn suits(&self, image: &[u8]) -> Result<Acceptance> {
        suitable::acceptance(self, &**self.remote()?, image)
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
    ///
    /// # Safety
    /// An image is code, part of which can run from now on without any launch: constructors, resolvers
    /// of indirect functions and initializers of thread-local variables while it is loaded and used,
    /// destructors when it is unloaded. On the CPU this code runs in the program, and nothing checks
    /// it. The caller vouches that running it is sound in this process, as for a library that is opened;
    /// an image from an untrusted source is not. [`Device::load_verified`] needs no such promise.
    ///
    /// ```no_run
    /// # fn load(device: &longshore::Device) -> longshore::Result<()> {
    /// // SAFETY: the build made saxpy.img of kernels of this program, without constructors.
    /// let program = unsafe { device.load(longshore::Image::read("saxpy.img")?)? };
    /// # Ok(()) }
    /// ```
    ///
    /// Safe code cannot load it:
    ///
    /// ```compile_fail,E0133
    /// # fn load(device: &longshore::Device) -> longshore::Result<()> {
    /// let program = device.load(longshore::Image::read("saxpy.img")?)?;
    /// # Ok(()) }
    /// ```
    pub unsafe fn load(&self, image: impl Into<Image>) -> Result<Program> {
        Program::load(self, image.into(), Loading::Whole)
    }

    /// Loads an image as [`Device::load`] does if the backend verifies it entirely, so that its source
    /// need not be trusted: on Vulkan WGSL and, where there is a validator, SPIR-V without constructors and destructors. Launching
    /// its kernels stays `unsafe`. Blocks.
    ///
    /// # Errors
    /// As for [`Device::load`], and `Unsupported` for an image that the backend does not verify.
    pub fn load_verified(&self, image: impl Into<Image>) -> Result<Program> {
        Program::load(self, image.into(), Loading::Verified)
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
    ///
    /// # Safety
    /// As for [`Device::load`].
    pub unsafe fn load_lazily(&self, image: impl Into<Image>) -> Result<Program> {
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
        self.allocate_for(kind, bytes, alignment, None)
    }

    /// Allocates memory. With a queue the first use comes behind all that the queue does now, and uses
    /// of other queues behind that first one.
    ///
    /// # Errors
    /// As for [`Device::allocate`].
    #[track_caller]
    pub(crate) fn allocate_for(
        &self,
        kind: MemoryKind,
        bytes: u64,
        alignment: u64,
        queue: Option<&Queue>,
    ) -> Result<Allocation> {
        let user = Use { bytes, location: Location::caller() };
        let request = Request::new(kind, alignment, user)?;
        let queue = queue.map(Queue::core);
        let block = match self.inner.memory.reuse(&request, queue) {
            Some((block, false)) => block,
            Some((block, true)) => self.with_new_extent(block)?,
            None => self.obtain(&request, queue)?,
        };
        self.inner.memory.track(&block);
        Ok(Allocation::new(block, self.clone()))
    }

    /// Makes a buffer of `len` elements in device memory, all bytes 0. The zeros are queued: they are
    /// there for what `queue` does from now on, and for all methods of the buffer. Other queues that
    /// launch kernels on it must wait for an event behind the zeros. Does not wait for the queue.
    ///
    /// # Errors
    /// As for [`Device::allocate`]; `InvalidDevice` if the queue belongs to another device; those of
    /// the driver.
    #[track_caller]
    pub fn buffer<T: Element>(&self, queue: &Queue, len: usize) -> Result<Buffer<T>> {
        Buffer::zeroed(queue, self, len)
    }

    /// Makes a buffer of `len` elements in device memory, of undefined content, which can be that of
    /// memory that was freed.
    ///
    /// # Errors
    /// As for [`Device::allocate`].
    ///
    /// # Safety
    /// An element is read, by [`Buffer::read`] and [`Buffer::to_vec`] too, only after it was written.
    ///
    /// ```compile_fail,E0133
    /// # fn read(device: &longshore::Device) -> longshore::Result<()> {
    /// let queue = device.queue()?;
    /// let old = device.buffer_uninit::<u8>(1024)?.to_vec(&queue)?;
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub unsafe fn buffer_uninit<T: Element>(&self, len: usize) -> Result<Buffer<T>> {
        Buffer::new(self, None, len)
    }

    /// A buffer in device memory with the content of `values`. Blocks until it is copied.
    ///
    /// # Errors
    /// As for [`Device::allocate`], and those of [`Buffer::write`].
    #[track_caller]
    pub fn buffer_of<T: Element>(&self, queue: &Queue, values: &[T]) -> Result<Buffer<T>> {
        // The copy comes behind all work of the queue, and is done before the buffer is handed out.
        let buffer = Buffer::new(self, Some(queue), values.len())?;
        buffer.write(queue, values)?;
        Ok(buffer)
    }

    /// Bytes of freed memory that are kept for reuse.
    pub fn cached_bytes(&self) -> u64 {
        self.inner.cached().1
    }

    /// What is and was allocated on it, and what is kept for reuse. Works on a closed device, too.
    pub fn memory_report(&self) -> MemoryReport {
        self.inner.settle();
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
    /// `Unsupported` if the plugin cannot say, `InvalidArgument` if the kernel requires a group that
    /// the device does not allow, `InvalidDevice` for a kernel of another device, `Uninitialized` if
    /// its program was unloaded.
    pub fn optimal_group_items(&self, kernel: &Kernel, dynamic_shared_bytes: u64) -> Result<u32> {
        self.check_same(kernel.program().device(), "the kernel")?;
        let _loaded = kernel.enter()?;
        let required = kernel.attributes().required_group;
        if !required.contains(&0) {
            kernel.check_group(required)?;
        }
        self.remote()?.optimal_group_items(kernel.remote(), dynamic_shared_bytes)
    }

    /// The most groups of `items` work-items with which the kernel can run cooperatively. LLVM:
    /// `olGetKernelMaxCooperativeGroupCount`.
    ///
    /// # Errors
    /// As for [`Device::optimal_group_items`]; `InvalidArgument` for a group that a launch would
    /// refuse.
    pub fn max_cooperative_groups(
        &self,
        kernel: &Kernel,
        items: [u32; 3],
        dynamic_shared_bytes: u64,
    ) -> Result<u32> {
        self.check_same(kernel.program().device(), "the kernel")?;
        let _loaded = kernel.enter()?;
        kernel.check_group(items)?;
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
            most_group_items: OnceLock::new(),
        });
        host.note_open(id, &inner);
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

    /// Most work-items of a group, 0 if the device does not say. Asks the device once.
    pub(crate) fn most_group_items(&self) -> u32 {
        *self.inner.most_group_items.get_or_init(|| {
            let answer = self.info(DeviceInfo::MaxWorkGroupSize).ok();
            let most = answer.and_then(|answer| answer.as_u64()).unwrap_or(0);
            u32::try_from(most).unwrap_or(u32::MAX)
        })
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

    /// Makes an event for the queue of this number, which has failed in this way.
    pub(crate) fn create_event(
        &self,
        timing: bool,
        queue: u64,
        failure: Option<Error>,
    ) -> Result<Event> {
        let remote = self.remote()?;
        let core: Arc<EventCore> = Arc::new(Gated::new(remote.create_event(timing)?));
        self.inner.events.lock().add(&core);
        Ok(Event::new(core, self.clone(), queue, failure))
    }

    /// Gives back all memory that is freed, also what queued work still uses: waits for that.
    ///
    /// # Errors
    /// `Uninitialized` if it was closed.
    pub(crate) fn reclaim(&self) -> Result<()> {
        self.inner.memory.reclaim(&**self.remote()?);
        Ok(())
    }

    /// Ends the use of a block; false if it was not live.
    ///
    /// # Errors
    /// Those of the driver, if the block is not kept for reuse; it is gone all the same.
    pub(crate) fn release(&self, block: Arc<Block>) -> Result<bool> {
        let memory = &self.inner.memory;
        let released = memory.release(block, |kind| self.points(kind));
        if memory.has_pending() {
            self.inner.settle();
        }
        match released {
            Released::Done => return Ok(true),
            Released::NotLive => return Ok(false),
            Released::GiveBack(block) => {
                if let Some(remote) = self.inner.remote.enter(0) {
                    memory.give_back(&block, &remote)?;
                }
            }
        }
        Ok(true)
    }

    /// Points behind the work of every queue that can use memory of this device and is not done: its
    /// own, those of its platform's other devices, and all of the host's for memory of the host.
    fn points(&self, kind: MemoryKind) -> Vec<Point> {
        let mut points = self.inner.busy_points();
        let host = &self.inner.host;
        if host.open_count.load(Ordering::Acquire) > 1 {
            let ids: Vec<u64> = host.open_devices.lock().keys().copied().collect();
            let others = ids.into_iter().filter(|id| *id != self.id());
            let others = others.filter_map(|id| host.open_device(id).ok());
            let reach = |other: &Device| kind != MemoryKind::Device || self.same_platform(other);
            points.extend(others.filter(reach).flat_map(|other| other.inner.busy_points()));
        }
        points
    }

    #[cold]
    fn obtain(&self, request: &Request, queue: Option<&Arc<QueueCore>>) -> Result<Arc<Block>> {
        let (memory, remote) = (&self.inner.memory, self.remote()?);
        if memory.has_pending()
            && memory.settle(&remote)
            && let Some((block, changed)) = memory.reuse(request, queue)
        {
            return if changed { self.with_new_extent(block) } else { Ok(block) };
        }
        memory.obtain(request, &remote)
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
    /// Points behind the work of each queue that is not done.
    fn busy_points(&self) -> Vec<Point> {
        let queues = self.queues.lock();
        let busy: Vec<_> = queues.iter().filter(|queue| !queue.is_known_idle()).cloned().collect();
        drop(queues);
        busy.iter().filter_map(QueueCore::point).collect()
    }

    /// Caches or gives back the freed blocks that queued work has done with.
    fn settle(&self) {
        if let Some(remote) = self.remote.enter(0) {
            self.memory.settle(&remote);
        }
    }

    /// How many blocks are kept for reuse, and their bytes.
    pub(crate) fn cached(&self) -> (u64, u64) {
        self.settle();
        self.memory.cached()
    }

    pub(crate) fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    /// Waits for all that is queued on queues that use a program.
    ///
    /// # Errors
    /// The first error of the queues' work; all are waited for.
    pub(crate) fn wait_for_users(&self, program: u64) -> Result<()> {
        let queues = self.queues.lock().clone();
        let results: Vec<_> = queues.iter().map(|queue| queue.wait_for_program(program)).collect();
        results.into_iter().collect()
    }

    /// Forgets which queues have used a program, which nobody launches any more.
    pub(crate) fn forget_users(&self, program: u64) {
        self.queues.lock().iter().for_each(|queue| queue.forget_program(program));
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
