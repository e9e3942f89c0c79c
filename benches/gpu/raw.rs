//! The driver's operations for a floor.

use crate::images::Many;
use anyhow::Result;
use longshore::Device;
use longshore_tests::doubled::Doubled;
use std::ffi::{CStr, c_int, c_void};

/// A stream, module or function of a driver.
pub(crate) type Handle = *mut c_void;
/// An address on the device.
pub(crate) type DevicePtr = u64;

/// The choice of a device.
pub(crate) enum Which<'a> {
    /// The same device as Longshore's.
    Same(&'a Device),
    /// The device with this number of the driver's.
    Index(c_int),
}

/// Names of the driver's calls in the tables.
pub(crate) struct Names {
    /// Allocation of device memory.
    pub(crate) allocate: &'static str,
    pub(crate) free: &'static str,
    /// Copies that block.
    pub(crate) upload: &'static str,
    pub(crate) download: &'static str,
}

/// A device through its driver alone, current on the thread that opened it. Objects stay until the
/// process ends.
pub(crate) trait Raw: Sized {
    /// Longshore's backend for the device.
    const OF: Doubled;
    /// Names of the driver's calls in the tables.
    const NAMES: Names;

    /// Loads the driver, or its replacement, initialises it, and makes the device current.
    fn open(library: Option<&str>, which: Which<'_>) -> Result<Self>;

    /// Returns the number by which the driver knows the device.
    fn index(&self) -> c_int;

    /// Returns the name of the device.
    fn name(&self) -> Result<String>;

    /// Returns the name and version of the driver's interface.
    fn version(&self) -> Result<String>;

    /// Returns the free memory of the device in bytes.
    fn free_bytes(&self) -> Result<usize>;

    /// Creates a stream. Like a queue of Longshore, it does not wait for the default stream.
    fn stream(&self) -> Result<Handle>;

    /// Blocks until the stream's work is done.
    ///
    /// # Safety
    /// The stream is live.
    unsafe fn wait(&self, stream: Handle) -> Result<()>;

    /// Allocates memory of the device.
    fn allocate(&self, bytes: usize) -> Result<DevicePtr>;

    /// Frees memory of the device.
    ///
    /// # Safety
    /// The memory comes from [`Raw::allocate`], and nothing uses it.
    unsafe fn free(&self, address: DevicePtr) -> Result<()>;

    /// Queues a copy to the device.
    ///
    /// # Safety
    /// Both have `bytes` bytes, and live until a wait for the stream, which is live.
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

    /// Copies to the device by the blocking call.
    ///
    /// # Safety
    /// Both have `bytes` bytes.
    unsafe fn upload(&self, to: DevicePtr, from: *const c_void, bytes: usize) -> Result<()>;

    /// Copies from the device by the blocking call.
    ///
    /// # Safety
    /// Both have `bytes` bytes.
    unsafe fn download(&self, to: *mut c_void, from: DevicePtr, bytes: usize) -> Result<()>;

    /// Loads a module.
    ///
    /// # Safety
    /// The image is whole; a text has a NUL after its end.
    unsafe fn load(&self, image: &[u8]) -> Result<Handle>;

    /// Unloads a module.
    ///
    /// # Safety
    /// The module is live, and none of its kernels runs.
    unsafe fn unload(&self, module: Handle) -> Result<()>;

    /// Returns a kernel of a module.
    ///
    /// # Safety
    /// The module is live.
    unsafe fn kernel(&self, module: Handle, name: &CStr) -> Result<Handle>;

    /// Queues a launch of one item.
    ///
    /// # Safety
    /// The kernel takes no arguments; it and the stream are live.
    unsafe fn launch(&self, function: Handle, stream: Handle) -> Result<()>;

    /// Returns an image with a kernel `empty` without arguments; a text has no NUL at its end.
    fn empty(arch: &str) -> Result<Vec<u8>>;

    /// Returns machine code with many kernels.
    fn many(&self, arch: &str) -> Result<Many>;
}
