//! The functions of the runtime that tests call, found in the double's file.

#![allow(non_snake_case, reason = "the names are the runtime's")]

use std::ffi::{CString, c_char, c_void};

longshore_double_gpu::tried_functions! {
    Hip:
    hipInit(flags: u32);
    hipRuntimeGetVersion(version: *mut i32);
    hipGetErrorName(result: u32) -> *const c_char;
    hipGetErrorString(result: u32) -> *const c_char;
    hipGetDeviceCount(count: *mut i32);
    hipDeviceGetName(name: *mut u8, room: i32, device: i32);
    hipDeviceGetUuid(uuid: *mut [u8; 16], device: i32);
    hipDeviceGetAttribute(value: *mut i32, which: u32, device: i32);
    hipGetDeviceProperties(properties: *mut u8, device: i32);
    hipDeviceCanAccessPeer(can: *mut i32, device: i32, peer: i32);
    hipDeviceEnablePeerAccess(peer: i32, flags: u32);
    hipGetDevice(device: *mut i32);
    hipSetDevice(device: i32);
    hipMemGetInfo(free: *mut usize, total: *mut usize);
    hipMalloc(address: *mut u64, bytes: usize);
    hipFree(address: u64);
    hipHostMalloc(address: *mut u64, bytes: usize, flags: u32);
    hipHostFree(address: u64);
    hipMallocManaged(address: *mut u64, bytes: usize, flags: u32);
    hipHostRegister(address: usize, bytes: usize, flags: u32);
    hipHostUnregister(address: usize);
    hipHostGetDevicePointer(device: *mut u64, address: usize, flags: u32);
    hipPointerGetAttribute(value: *mut c_void, which: u32, pointer: u64);
    hipMemPoolCreate(pool: *mut usize, properties: *const [u32; 22]);
    hipMemPoolDestroy(pool: usize);
    hipMemPoolSetAttribute(pool: usize, which: u32, value: *mut c_void);
    hipMallocFromPoolAsync(address: *mut u64, bytes: usize, pool: usize, stream: usize);
    hipFreeAsync(address: u64, stream: usize);
    hipMemcpyAsync(to: u64, from: u64, bytes: usize, kind: u32, stream: usize);
    hipMemcpyHtoDAsync(to: u64, from: *const u8, bytes: usize, stream: usize);
    hipMemcpyDtoHAsync(to: *mut u8, from: u64, bytes: usize, stream: usize);
    hipMemcpyPeerAsync(to: u64, to_device: i32, from: u64, from_device: i32, bytes: usize, stream: usize);
    hipMemcpy3DAsync(copy: *const [u64; 20], stream: usize);
    hipMemsetD8Async(to: u64, value: u8, count: usize, stream: usize);
    hipMemsetD16Async(to: u64, value: u16, count: usize, stream: usize);
    hipMemsetD32Async(to: u64, value: i32, count: usize, stream: usize);
    hipMemPrefetchAsync(address: u64, bytes: usize, device: i32, stream: usize);
    hipStreamCreateWithFlags(stream: *mut usize, flags: u32);
    hipStreamDestroy(stream: usize);
    hipStreamSynchronize(stream: usize);
    hipStreamQuery(stream: usize);
    hipStreamWaitEvent(stream: usize, event: usize, flags: u32);
    hipEventCreateWithFlags(event: *mut usize, flags: u32);
    hipEventDestroy(event: usize);
    hipEventRecord(event: usize, stream: usize);
    hipEventQuery(event: usize);
    hipEventSynchronize(event: usize);
    hipEventElapsedTime(milliseconds: *mut f32, start: usize, end: usize);
    hipModuleLoadData(module: *mut usize, image: *const u8);
    hipModuleUnload(module: usize);
    hipModuleGetFunction(function: *mut usize, module: usize, name: *const c_char);
    hipModuleGetGlobal(address: *mut u64, bytes: *mut usize, module: usize, name: *const c_char);
    hipFuncGetAttribute(value: *mut i32, which: u32, function: usize);
    hipModuleLaunchKernel(function: usize, groups_x: u32, groups_y: u32, groups_z: u32, items_x: u32, items_y: u32,
                          items_z: u32, shared_bytes: u32, stream: usize, arguments: *mut *mut c_void,
                          extra: *mut *mut c_void);
    hipModuleOccupancyMaxPotentialBlockSize
        (grid: *mut i32, best: *mut i32, function: usize, shared_bytes: usize, limit: i32);
    hipModuleOccupancyMaxActiveBlocksPerMultiprocessor
        (count: *mut i32, function: usize, items: i32, shared_bytes: usize);
}

/// Checks that a call succeeded.
#[track_caller]
pub(crate) fn ok(result: u32) {
    assert_eq!(result, 0, "expected hipSuccess");
}

/// Returns an output of a call that has to succeed.
#[track_caller]
pub(crate) fn out<T: Default>(call: impl FnOnce(&mut T) -> u32) -> T {
    let mut value = T::default();
    ok(call(&mut value));
    value
}

impl Hip {
    pub(crate) fn allocate(&self, bytes: usize) -> u64 {
        out(|address| self.hipMalloc(address, bytes))
    }

    pub(crate) fn stream(&self) -> usize {
        out(|stream| self.hipStreamCreateWithFlags(stream, 1))
    }

    pub(crate) fn event(&self) -> usize {
        out(|event| self.hipEventCreateWithFlags(event, 0))
    }

    /// Returns an attribute of a pointer, or the failing result.
    pub(crate) fn pointer(&self, which: u32, pointer: u64) -> Result<u64, u32> {
        let mut value = 0u64;
        match self.hipPointerGetAttribute((&raw mut value).cast(), which, pointer) {
            0 => Ok(value),
            code => Err(code),
        }
    }

    /// Copies values to a device in the current device's own stream.
    pub(crate) fn write<T: Copy>(&self, to: u64, values: &[T]) {
        ok(self.hipMemcpyHtoDAsync(to, values.as_ptr().cast(), size_of_val(values), 0));
    }

    pub(crate) fn read<T: Copy + Default>(&self, from: u64, count: usize) -> Vec<T> {
        let mut values = vec![T::default(); count];
        let bytes = size_of_val(&values[..]);
        ok(self.hipMemcpyDtoHAsync(values.as_mut_ptr().cast(), from, bytes, 0));
        values
    }

    /// Loads an image, or returns the failing result.
    pub(crate) fn load(&self, image: &[u8]) -> Result<usize, u32> {
        let mut module = 0;
        match self.hipModuleLoadData(&mut module, image.as_ptr()) {
            0 => Ok(module),
            code => Err(code),
        }
    }

    pub(crate) fn function(&self, module: usize, name: &str) -> usize {
        let name = CString::new(name).expect("a name");
        out(|function| self.hipModuleGetFunction(function, module, name.as_ptr()))
    }

    /// Returns the address and size of a variable, or the failing result.
    pub(crate) fn global(&self, module: usize, name: &str) -> Result<(u64, usize), u32> {
        let (name, mut address, mut bytes) = (CString::new(name).expect("a name"), 0, 0);
        match self.hipModuleGetGlobal(&mut address, &mut bytes, module, name.as_ptr()) {
            0 => Ok((address, bytes)),
            code => Err(code),
        }
    }

    /// Launches groups of items with arguments of 8 bytes each.
    pub(crate) fn launch(
        &self,
        function: usize,
        [groups, items]: [u32; 2],
        stream: usize,
        values: &[u64],
    ) -> u32 {
        let pointers = values.iter().map(|value| std::ptr::from_ref(value).cast_mut().cast());
        let mut pointers: Vec<*mut c_void> = pointers.collect();
        let (start, none) = (pointers.as_mut_ptr(), std::ptr::null_mut());
        self.hipModuleLaunchKernel(function, groups, 1, 1, items, 1, 1, 0, stream, start, none)
    }
}
