//! A plugin's own tables without a host, for calls that no host makes. Dropping a handle ends its
//! object; a handle borrows its parent.

use super::Stop;
use crate::services::services_for;
use libloading::Library;
use longshore::{Environment, Error, ErrorCode, Result};
use longshore_plugin_api::Loading;
use longshore_plugin_api::abi::{self, ErrorObject};
use std::ffi::c_void;
use std::marker::PhantomData;
use std::path::Path;

/// An open plugin and copies of its tables.
pub(super) struct Plugin {
    entry: abi::Entry,
    platform: abi::PlatformTable,
    device: abi::DeviceTable,
    module: abi::ModuleTable,
    queue: abi::QueueTable,
    event: abi::EventTable,
    library: Library,
}

impl Plugin {
    /// Opens the library of a plugin that the host has already checked.
    pub(super) fn open(path: &Path) -> Result<Plugin, Stop> {
        let no_plugin = |error| Stop::Failed(format!("opening '{}': {error}", path.display()));
        // SAFETY: a host has opened the same plugin and checked its entry, which is constant.
        let (library, entry) = unsafe {
            let library = Library::new(path).map_err(no_plugin)?;
            let entry = library.get::<*const abi::Entry>(abi::ENTRY_SYMBOL).map_err(no_plugin)?;
            let entry = **entry;
            (library, entry)
        };
        // SAFETY: these are the types of the tables with these names.
        unsafe {
            Ok(Plugin {
                platform: table_of(&entry, "longshore.platform")?,
                device: table_of(&entry, "longshore.device")?,
                module: table_of(&entry, "longshore.module")?,
                queue: table_of(&entry, "longshore.queue")?,
                event: table_of(&entry, "longshore.event")?,
                entry,
                library,
            })
        }
    }

    /// Returns the plugin's table with this name and version.
    pub(super) fn table(&self, name: &str, version: u32) -> abi::TableRef {
        ask(&self.entry, name, version)
    }

    /// Connects a new platform, with the settings of `environment`.
    pub(super) fn connect(
        &self,
        backend: &str,
        environment: &Environment,
    ) -> Result<Platform<'_>, Stop> {
        let services = services_for(backend, environment.clone());
        let (mut outcome, mut handle, mut why) = (u32::MAX, std::ptr::null_mut(), Vec::new());
        // SAFETY: the services are never freed; the places and the sink are valid during this call.
        unsafe {
            let reason = sink(&mut why);
            taken((self.entry.connect)(services, &mut outcome, &mut handle, reason))?;
        }
        if outcome != abi::Connection::Connected as u32 {
            let why = String::from_utf8_lossy(&why);
            return Err(Stop::Failed(format!("connecting again: outcome {outcome}: {why}")));
        }
        Ok(Platform { plugin: self, handle })
    }

    /// Closes the library.
    pub(super) fn close(self) -> Result<(), Stop> {
        self.library.close().map_err(|error| Stop::Failed(format!("closing the library: {error}")))
    }
}

/// A connected platform.
pub(super) struct Platform<'a> {
    plugin: &'a Plugin,
    handle: *mut abi::PlatformHandle,
}

// SAFETY: the interface promises that any thread may use a platform.
unsafe impl Sync for Platform<'_> {}

impl Platform<'_> {
    pub(super) fn device_count(&self) -> Result<u32> {
        let mut count = 0;
        // SAFETY: a live platform and a place to write to.
        unsafe { taken((self.plugin.platform.device_count)(self.handle, &mut count))? };
        Ok(count)
    }

    /// Returns the reply to any query, known or unknown.
    pub(super) fn info(&self, query: u32) -> Result<Vec<u8>> {
        let mut answer = Vec::new();
        // SAFETY: a live platform and the sink of this call.
        unsafe {
            taken((self.plugin.platform.info)(self.handle, query, sink(&mut answer)))?;
        }
        Ok(answer)
    }

    /// Returns the reply to any query, known or unknown, about any device, existing or not.
    pub(super) fn device_info(&self, index: u32, query: u32) -> Result<Vec<u8>> {
        let mut answer = Vec::new();
        let ask = self.plugin.platform.device_info;
        // SAFETY: a live platform and the sink of this call.
        unsafe { taken(ask(self.handle, index, query, sink(&mut answer)))? };
        Ok(answer)
    }

    pub(super) fn open(&self, index: u32) -> Result<Device<'_>> {
        self.try_open(index).map_err(OwnedErrorObject::take)
    }

    /// Opens a device, or returns the plugin's error object.
    pub(super) fn try_open(&self, index: u32) -> Result<Device<'_>, OwnedErrorObject> {
        let (mut handle, plugin) = (std::ptr::null_mut(), self.plugin);
        // SAFETY: a live platform and a place to write to.
        let raised = unsafe { (plugin.platform.open)(self.handle, index, &mut handle) };
        let made = || Device { plugin, held: OwnedHandle::new(handle, plugin.device.close) };
        if raised.is_null() { Ok(made()) } else { Err(OwnedErrorObject(raised)) }
    }
}

impl Drop for Platform<'_> {
    fn drop(&mut self) {
        // SAFETY: a live platform without open devices, because devices borrow it.
        let ended = unsafe { taken((self.plugin.platform.destroy)(self.handle)) };
        if let Err(error) = ended {
            log::warn!("destroying a platform: {error}");
        }
    }
}

/// An unreleased error object.
pub(super) struct OwnedErrorObject(*mut ErrorObject);

// SAFETY: the interface permits another thread to read and release an error.
unsafe impl Send for OwnedErrorObject {}

impl OwnedErrorObject {
    /// Returns the present message.
    pub(super) fn message(&self) -> String {
        // SAFETY: an error lives until its release, which consumes `self`.
        unsafe { text_of((*self.0).message) }
    }

    /// Copies the error and releases the object.
    pub(super) fn take(self) -> Error {
        // SAFETY: as above; the object is released once, here.
        unsafe {
            let object = &*self.0;
            let error = Error::new(ErrorCode::from_raw(object.code), text_of(object.message));
            if let Some(release) = object.release {
                release(self.0);
            }
            error
        }
    }
}

/// An open device.
pub(super) struct Device<'a> {
    plugin: &'a Plugin,
    held: OwnedHandle<'a, abi::DeviceHandle>,
}

impl Device<'_> {
    /// Allocates memory of any kind, known or unknown.
    pub(super) fn allocate(&self, kind: u32, bytes: u64) -> Result<u64> {
        let mut address = 0;
        let allocate = self.plugin.device.allocate;
        // SAFETY: an open device and a place to write to.
        unsafe { taken(allocate(self.held.handle, kind, bytes, 16, &mut address))? };
        Ok(address)
    }

    /// Frees any address.
    ///
    /// # Safety
    /// Nothing uses the memory, if the address is an allocation.
    pub(super) unsafe fn free(&self, kind: u32, address: u64) -> Result<()> {
        // SAFETY: an open device; the rest is promised by the caller.
        unsafe { taken((self.plugin.device.free)(self.held.handle, kind, address)) }
    }

    /// Returns the score of a container's image, or `None` if the plugin does not score images.
    pub(super) fn score(&self, image: &[u8], triple: &str, arch: &str) -> Result<Option<u32>> {
        let bytes = abi::Bytes { data: image.as_ptr(), bytes: image.len() };
        let mut score = u32::MAX;
        let ask = self.plugin.device.score;
        // SAFETY: an open device and values of this call.
        let raised =
            unsafe { taken(ask(self.held.handle, bytes, text(triple), text(arch), &mut score)) };
        match raised {
            Err(error) if error.code() == ErrorCode::Unsupported => Ok(None),
            raised => raised.map(|()| Some(score)),
        }
    }

    /// Reports the logical size of an allocation to the plugin. Returns `None` if the plugin does
    /// not use it.
    pub(super) fn set_logical_size(&self, address: u64, bytes: u64) -> Option<Result<()>> {
        let set_logical_size = self.plugin.device.set_logical_size;
        // SAFETY: an open device.
        let set = unsafe { taken(set_logical_size(self.held.handle, address, bytes)) };
        match set {
            Err(error) if error.code() == ErrorCode::Unsupported => None,
            set => Some(set),
        }
    }

    /// Imports memory into the plugin. Returns `None` if the plugin does not support it.
    ///
    /// # Safety
    /// The memory stays in place until it is freed or the device is closed.
    pub(super) unsafe fn import_memory(
        &self,
        kind: u32,
        address: u64,
        bytes: u64,
    ) -> Option<Result<()>> {
        let import_memory = self.plugin.device.import_memory;
        // SAFETY: an open device; the rest is promised by the caller.
        let imported = unsafe { taken(import_memory(self.held.handle, kind, address, bytes)) };
        match imported {
            Err(error) if error.code() == ErrorCode::Unsupported => None,
            imported => Some(imported),
        }
    }

    pub(super) fn queue(&self) -> Result<Queue<'_>> {
        let (mut handle, plugin) = (std::ptr::null_mut(), self.plugin);
        // SAFETY: an open device and a place to write to.
        unsafe { taken((plugin.device.create_queue)(self.held.handle, &mut handle))? };
        Ok(Queue { plugin, held: OwnedHandle::new(handle, plugin.queue.destroy) })
    }

    /// Creates an event with timing.
    pub(super) fn event(&self) -> Result<Event<'_>> {
        let (mut handle, plugin) = (std::ptr::null_mut(), self.plugin);
        // SAFETY: an open device and a place to write to.
        unsafe { taken((plugin.device.create_event)(self.held.handle, 1, &mut handle))? };
        Ok(Event { plugin, held: OwnedHandle::new(handle, plugin.event.destroy) })
    }

    /// Loads an image and runs its constructors.
    pub(super) fn load<'a>(&'a self, image: &'a [u8], loading: Loading) -> Result<Module<'a>> {
        let (mut handle, plugin) = (std::ptr::null_mut(), self.plugin);
        let bytes = abi::Bytes { data: image.as_ptr(), bytes: image.len() };
        // SAFETY: an open device, an image that the module borrows, and a place to write to.
        unsafe {
            let load = plugin.device.load;
            taken(load(self.held.handle, bytes, loading as u32, &mut handle))?;
        }
        self.constructed(handle)
    }

    /// Runs the constructors of a new module and returns it.
    fn constructed(&self, handle: *mut abi::ModuleHandle) -> Result<Module<'_>> {
        let plugin = self.plugin;
        let module = Module { plugin, held: OwnedHandle::new(handle, plugin.module.unload) };
        // SAFETY: the module was just loaded.
        unsafe { taken((plugin.module.run_constructors)(handle))? };
        Ok(module)
    }
}

/// A loaded image.
pub(super) struct Module<'a> {
    plugin: &'a Plugin,
    held: OwnedHandle<'a, abi::ModuleHandle>,
}

impl Module<'_> {
    /// Returns a kernel, which is valid until the module is unloaded.
    pub(super) fn kernel(&self, name: &str) -> Result<*mut abi::KernelHandle> {
        // SAFETY: zero is a valid value of all its fields.
        let mut kernel: abi::KernelInfo = unsafe { std::mem::zeroed() };
        // SAFETY: a loaded module, a string of this call and a place to write to.
        unsafe { taken((self.plugin.module.kernel)(self.held.handle, text(name), &mut kernel))? };
        Ok(kernel.handle)
    }
}

impl Drop for Module<'_> {
    fn drop(&mut self) {
        // SAFETY: a loaded module, which no queue uses any more.
        drop(unsafe { taken((self.plugin.module.run_destructors)(self.held.handle)) });
    }
}

/// A queue.
pub(super) struct Queue<'a> {
    plugin: &'a Plugin,
    held: OwnedHandle<'a, abi::QueueHandle>,
}

impl Queue<'_> {
    /// Launches a kernel without arguments, in one group of one item, with any flags.
    ///
    /// # Safety
    /// `kernel` belongs to a module that stays loaded until the queue is synchronised.
    pub(super) unsafe fn launch(&self, kernel: *mut abi::KernelHandle, flags: u32) -> Result<()> {
        let launch = abi::Launch {
            kernel,
            groups: [1; 3],
            items: [1; 3],
            cluster: [0; 3],
            reserved: 0,
            dynamic_shared_bytes: 0,
            flags,
            argument_count: 0,
            arguments: std::ptr::null(),
            argument_sizes: std::ptr::null(),
        };
        // SAFETY: a live queue; the rest is promised by the caller.
        unsafe { taken((self.plugin.queue.launch)(self.held.handle, &launch)) }
    }

    /// Copies a number in host memory, with any flags.
    ///
    /// # Safety
    /// Both numbers stay in place, and nothing else uses them, until the queue is synchronised.
    pub(super) unsafe fn copy(&self, to: *mut u64, from: *const u64, flags: u32) -> Result<()> {
        let copy = abi::CopyRequest {
            destination: to as u64,
            destination_device: std::ptr::null_mut(),
            source: from as u64,
            source_device: std::ptr::null_mut(),
            bytes: 8,
            flags,
        };
        // SAFETY: a live queue; the rest is promised by the caller.
        unsafe { taken((self.plugin.queue.copy)(self.held.handle, &copy)) }
    }

    /// Copies a number in host memory as a rectangle of one row, with any flags.
    ///
    /// # Errors
    /// The plugin's errors; a reason to skip the behaviour without the table.
    ///
    /// # Safety
    /// As for [`Queue::copy`].
    pub(super) unsafe fn copy_rect(
        &self,
        to: *mut u64,
        from: *const u64,
        flags: u32,
    ) -> Result<Result<()>, Stop> {
        const NAME: &str = "longshore.rect";
        if self.plugin.table(NAME, 1).table.is_null() {
            return Err(Stop::Skipped(format!("the plugin has no table \"{NAME}\"")));
        }
        // SAFETY: this is the type of the table with this name.
        let table: abi::RectTable = unsafe { table_of(&self.plugin.entry, NAME)? };
        let end = |address| abi::RectEnd {
            address,
            device: std::ptr::null_mut(),
            row_pitch: 8,
            slice_pitch: 8,
        };
        let (destination, source) = (end(to as u64), end(from as u64));
        let rect = abi::Rect { destination, source, row_bytes: 8, rows: 1, slices: 1, flags };
        // SAFETY: a live queue; the rest is promised by the caller.
        Ok(unsafe { taken((table.copy_rect)(self.held.handle, &rect)) })
    }

    /// Fills 8 bytes of device memory with zeros, with any flags.
    ///
    /// # Safety
    /// The bytes stay allocated, and nothing else uses them, until the queue is synchronised.
    pub(super) unsafe fn fill(&self, destination: u64, flags: u32) -> Result<()> {
        let pattern = abi::Bytes { data: [0u8; 8].as_ptr(), bytes: 8 };
        let fill = abi::Fill { destination, bytes: 8, pattern, flags };
        // SAFETY: a live queue; the rest is promised by the caller.
        unsafe { taken((self.plugin.queue.fill)(self.held.handle, &fill)) }
    }

    pub(super) fn wait(&self, event: &Event) -> Result<()> {
        // SAFETY: a live queue and a live event.
        unsafe { taken((self.plugin.queue.wait_event)(self.held.handle, event.held.handle)) }
    }

    pub(super) fn record(&self, event: &Event) -> Result<()> {
        // SAFETY: a live queue and a live event.
        unsafe { taken((self.plugin.queue.record_event)(self.held.handle, event.held.handle)) }
    }

    pub(super) fn synchronize(&self) -> Result<()> {
        // SAFETY: a live queue.
        unsafe { taken((self.plugin.queue.synchronize)(self.held.handle)) }
    }
}

/// An event.
pub(super) struct Event<'a> {
    plugin: &'a Plugin,
    held: OwnedHandle<'a, abi::EventHandle>,
}

impl Event<'_> {
    pub(super) fn is_complete(&self) -> Result<bool> {
        let mut complete = 0;
        // SAFETY: a live event and a place to write to.
        unsafe { taken((self.plugin.event.is_complete)(self.held.handle, &mut complete))? };
        Ok(complete != 0)
    }

    pub(super) fn synchronize(&self) -> Result<()> {
        // SAFETY: a live event.
        unsafe { taken((self.plugin.event.synchronize)(self.held.handle)) }
    }

    pub(super) fn elapsed(&self, end: &Event) -> Result<i64> {
        let mut nanoseconds = 0;
        let ask = self.plugin.event.elapsed_ns;
        // SAFETY: two live events and a place to write to.
        unsafe { taken(ask(self.held.handle, end.held.handle, &mut nanoseconds))? };
        Ok(nanoseconds)
    }
}

type End<H> = unsafe extern "C" fn(*mut H) -> *mut ErrorObject;

/// A handle, and the function that ends its object.
struct OwnedHandle<'a, H> {
    handle: *mut H,
    end: End<H>,
    owner: PhantomData<&'a ()>,
}

impl<H> OwnedHandle<'_, H> {
    fn new(handle: *mut H, end: End<H>) -> Self {
        OwnedHandle { handle, end, owner: PhantomData }
    }
}

impl<H> Drop for OwnedHandle<'_, H> {
    fn drop(&mut self) {
        // SAFETY: a live handle; its children borrow it and so have ended before.
        let ended = unsafe { taken((self.end)(self.handle)) };
        // The object has ended in both cases, and the outcome of the behaviour matters more.
        drop(ended);
    }
}

/// # Safety
/// `T` is the type of the table with this name.
unsafe fn table_of<T: Copy>(entry: &abi::Entry, name: &str) -> Result<T, Stop> {
    let table = ask(entry, name, 1).table.cast::<T>();
    if table.is_null() {
        return Err(Stop::Failed(format!("the plugin has lost its table \"{name}\"")));
    }
    // SAFETY: promised by the caller; the plugin's library is open.
    Ok(unsafe { *table })
}

fn ask(entry: &abi::Entry, name: &str, version: u32) -> abi::TableRef {
    // SAFETY: a string of this call.
    unsafe { (entry.table)(text(name), version) }
}

/// # Safety
/// `error` is null, or the result of the latest call of the interface.
unsafe fn taken(error: *mut ErrorObject) -> Result<()> {
    if error.is_null() { Ok(()) } else { Err(OwnedErrorObject(error).take()) }
}

fn text(value: &str) -> abi::Text {
    abi::Text { data: value.as_ptr(), bytes: value.len() }
}

/// # Safety
/// `text` is readable.
unsafe fn text_of(text: abi::Text) -> String {
    if text.data.is_null() {
        return String::new();
    }
    // SAFETY: promised by the caller.
    let bytes = unsafe { std::slice::from_raw_parts(text.data, text.bytes) };
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns a sink that appends to `answer`; valid only during the borrow.
fn sink(answer: &mut Vec<u8>) -> abi::Sink {
    unsafe extern "C" fn write(context: *mut c_void, data: *const u8, bytes: usize) {
        if data.is_null() {
            return;
        }
        // SAFETY: the context is the vector of this sink, and the plugin guarantees that the bytes
        // are readable.
        unsafe {
            (*context.cast::<Vec<u8>>()).extend_from_slice(std::slice::from_raw_parts(data, bytes));
        }
    }
    abi::Sink { context: std::ptr::from_mut(answer).cast(), write }
}
