//! What a floor is made of.

use crate::images::Many;
use anyhow::Result;
use longshore::Device;
use longshore_tests::doubled::Doubled;
use std::ffi::{CStr, c_int, c_void};

/// A stream, module or function of a driver.
pub(crate) type Handle = *mut c_void;
/// An address on the device.
pub(crate) type DevicePtr = u64;

/// Which device.
pub(crate) enum Which<'a> {
    /// The one that this is.
    Same(&'a Device),
    /// That with this number among the driver's.
    Index(c_int),
}

/// What the driver's calls are called in the tables.
pub(crate) struct Names {
    /// Of memory of the device.
    pub(crate) allocate: &'static str,
    pub(crate) free: &'static str,
    /// The copies that wait.
    pub(crate) upload: &'static str,
    pub(crate) download: &'static str,
}

/// A device by its driver alone, current on the thread that opened it. What is made stays until the
/// process ends.
pub(crate) trait Raw: Sized {
    /// Longshore's backend for it.
    const OF: Doubled;
    /// For the tables.
    const NAMES: Names;

    /// Loads the driver, or the library in its place, starts it, and makes the device current.
    fn open(library: Option<&str>, which: Which<'_>) -> Result<Self>;

    /// The device's number among the driver's.
    fn index(&self) -> c_int;

    /// The device's.
    fn name(&self) -> Result<String>;

    /// Of the driver's interface, with its name.
    fn version(&self) -> Result<String>;

    /// Of the device's memory.
    fn free_bytes(&self) -> Result<usize>;

    /// A new one. As a queue of Longshore, it does not wait for the default stream.
    fn stream(&self) -> Result<Handle>;

    /// Blocks until the stream's work is done.
    ///
    /// # Safety
    /// The stream is live.
    unsafe fn wait(&self, stream: Handle) -> Result<()>;

    /// Memory of the device.
    fn allocate(&self, bytes: usize) -> Result<DevicePtr>;

    /// Gives memory of the device back.
    ///
    /// # Safety
    /// It was allocated so, and nothing uses it.
    unsafe fn free(&self, address: DevicePtr) -> Result<()>;

    /// Queues a copy to the device.
    ///
    /// # Safety
    /// Both have so many bytes, and live until the live stream was waited for.
    unsafe fn queue_upload(
        &self,
        to: DevicePtr,
        from: *const c_void,
        bytes: usize,
        stream: Handle,
    ) -> Result<()>;

    /// Queues a copy from the device.
    ///
    /// # Safety
    /// As for [`Raw::queue_upload`].
    unsafe fn queue_download(
        &self,
        to: *mut c_void,
        from: DevicePtr,
        bytes: usize,
        stream: Handle,
    ) -> Result<()>;

    /// Copies to the device by the call that waits. Blocks.
    ///
    /// # Safety
    /// Both have so many bytes.
    unsafe fn upload(&self, to: DevicePtr, from: *const c_void, bytes: usize) -> Result<()>;

    /// Copies from the device by the call that waits. Blocks.
    ///
    /// # Safety
    /// Both have so many bytes.
    unsafe fn download(&self, to: *mut c_void, from: DevicePtr, bytes: usize) -> Result<()>;

    /// Loads a module.
    ///
    /// # Safety
    /// It is a whole image; if it is text, with a NUL at its end.
    unsafe fn load(&self, image: &[u8]) -> Result<Handle>;

    /// Unloads a module.
    ///
    /// # Safety
    /// The module is live, and no kernel of it runs.
    unsafe fn unload(&self, module: Handle) -> Result<()>;

    /// A kernel of a module.
    ///
    /// # Safety
    /// The module is live.
    unsafe fn kernel(&self, module: Handle, name: &CStr) -> Result<Handle>;

    /// Queues one item of a kernel.
    ///
    /// # Safety
    /// The kernel takes no arguments; it and the stream are live.
    unsafe fn launch(&self, function: Handle, stream: Handle) -> Result<()>;

    /// An image of a kernel `empty` without arguments; if it is text, without a NUL at its end.
    fn empty(arch: &str) -> Result<Vec<u8>>;

    /// Machine code of many kernels.
    fn many(&self, arch: &str) -> Result<Many>;
}
