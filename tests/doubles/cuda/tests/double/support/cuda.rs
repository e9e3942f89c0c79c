//! The functions of the driver that tests call, found in the double's file.

#![allow(non_snake_case, reason = "the names are the driver's")]

use std::ffi::{CStr, CString, c_char, c_void};

longshore_double_gpu::tried_functions! {
    Cuda:
    cuInit(flags: u32);
    cuGetProcAddress_v2(name: *const c_char, function: *mut usize, version: i32, flags: u64, status: *mut u32);
    cuDeviceGetCount(count: *mut i32);
    cuDeviceGetName(name: *mut u8, room: i32, device: i32);
    cuDeviceGetAttribute(value: *mut i32, which: u32, device: i32);
    cuDeviceCanAccessPeer(can: *mut i32, device: i32, peer: i32);
    cuDevicePrimaryCtxRetain(context: *mut usize, device: i32);
    cuDevicePrimaryCtxRelease_v2(device: i32);
    cuDevicePrimaryCtxReset_v2(device: i32);
    cuCtxSetCurrent(context: usize);
    cuCtxCreate_v2(context: *mut usize, flags: u32, device: i32);
    cuCtxDestroy_v2(context: usize);
    cuCtxSynchronize();
    cuCtxEnablePeerAccess(peer: usize, flags: u32);
    cuMemGetInfo_v2(free: *mut usize, total: *mut usize);
    cuMemAlloc_v2(address: *mut u64, bytes: usize);
    cuMemFree_v2(address: u64);
    cuMemHostAlloc(address: *mut u64, bytes: usize, flags: u32);
    cuMemFreeHost(address: u64);
    cuMemAllocManaged(address: *mut u64, bytes: usize, flags: u32);
    cuMemHostRegister_v2(address: usize, bytes: usize, flags: u32);
    cuMemHostUnregister(address: usize);
    cuMemHostGetDevicePointer_v2(device: *mut u64, address: usize, flags: u32);
    cuMemAllocAsync(address: *mut u64, bytes: usize, stream: usize);
    cuMemFreeAsync(address: u64, stream: usize);
    cuMemcpyHtoD_v2(to: u64, from: *const u8, bytes: usize);
    cuMemcpyDtoH_v2(to: *mut u8, from: u64, bytes: usize);
    cuMemcpyHtoDAsync_v2(to: u64, from: *const u8, bytes: usize, stream: usize);
    cuMemcpyDtoHAsync_v2(to: *mut u8, from: u64, bytes: usize, stream: usize);
    cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: usize);
    cuMemcpyPeerAsync(to: u64, to_context: usize, from: u64, from_context: usize, bytes: usize, stream: usize);
    cuMemcpy3DAsync_v2(copy: *const [u64; 25], stream: usize);
    cuMemsetD32Async(to: u64, value: u32, count: usize, stream: usize);
    cuMemsetD2D16Async(to: u64, pitch: usize, value: u16, width: usize, height: usize, stream: usize);
    cuPointerGetAttribute(value: *mut c_void, which: u32, pointer: u64);
    cuStreamCreate(stream: *mut usize, flags: u32);
    cuStreamDestroy_v2(stream: usize);
    cuStreamSynchronize(stream: usize);
    cuStreamQuery(stream: usize);
    cuStreamWaitEvent(stream: usize, event: usize, flags: u32);
    cuLaunchHostFunc(stream: usize, function: extern "C" fn(*mut c_void), argument: *mut c_void);
    cuEventCreate(event: *mut usize, flags: u32);
    cuEventDestroy_v2(event: usize);
    cuEventRecord(event: usize, stream: usize);
    cuEventQuery(event: usize);
    cuEventSynchronize(event: usize);
    cuEventElapsedTime(milliseconds: *mut f32, start: usize, end: usize);
    cuModuleLoadDataEx(module: *mut usize, image: *const u8, count: u32, numbers: *const u32, values: *mut usize);
    cuModuleUnload(module: usize);
    cuModuleGetFunction(function: *mut usize, module: usize, name: *const c_char);
    cuModuleGetGlobal_v2(address: *mut u64, bytes: *mut usize, module: usize, name: *const c_char);
    cuFuncGetAttribute(value: *mut i32, which: u32, function: usize);
    cuFuncSetAttribute(function: usize, which: u32, value: i32);
    cuLinkCreate_v2(count: u32, numbers: *const u32, values: *mut usize, state: *mut usize);
    cuLinkAddData_v2(state: usize, kind: u32, data: *const u8, bytes: usize, name: *const c_char, count: u32,
                     numbers: *const u32, values: *mut usize);
    cuLinkComplete(state: usize, cubin: *mut *const u8, bytes: *mut usize);
    cuLinkDestroy(state: usize);
    cuLaunchKernel(function: usize, groups_x: u32, groups_y: u32, groups_z: u32, items_x: u32, items_y: u32,
                   items_z: u32, shared_bytes: u32, stream: usize, arguments: *mut *mut c_void,
                   extra: *mut *mut c_void);
    cuLaunchKernelEx(config: *const LaunchConfig, function: usize, arguments: *mut *mut c_void,
                   extra: *mut *mut c_void);
    cuLaunchCooperativeKernel(function: usize, groups_x: u32, groups_y: u32, groups_z: u32, items_x: u32,
                   items_y: u32, items_z: u32, shared_bytes: u32, stream: usize, arguments: *mut *mut c_void);
}

/// `CUlaunchConfig`.
#[repr(C)]
pub(crate) struct LaunchConfig {
    pub(crate) groups: [u32; 3],
    pub(crate) items: [u32; 3],
    pub(crate) shared_bytes: u32,
    pub(crate) stream: usize,
    pub(crate) attributes: *const LaunchAttribute,
    pub(crate) count: u32,
}

/// `CUlaunchAttribute`.
#[repr(C, align(8))]
pub(crate) struct LaunchAttribute {
    pub(crate) which: u32,
    pub(crate) padding: u32,
    pub(crate) value: [u32; 16],
}

/// Checks that a call succeeded.
#[track_caller]
pub(crate) fn ok(result: u32) {
    assert_eq!(result, 0, "expected CUDA_SUCCESS");
}

impl Cuda {
    /// Initialises the driver, and makes the primary context of a device current.
    pub(crate) fn start(&self, device: i32) -> usize {
        ok(self.cuInit(0));
        let mut context = 0;
        ok(self.cuDevicePrimaryCtxRetain(&mut context, device));
        ok(self.cuCtxSetCurrent(context));
        context
    }

    pub(crate) fn allocate(&self, bytes: usize) -> u64 {
        let mut address = 0;
        ok(self.cuMemAlloc_v2(&mut address, bytes));
        address
    }

    pub(crate) fn stream(&self) -> usize {
        let mut stream = 0;
        ok(self.cuStreamCreate(&mut stream, 1));
        stream
    }

    pub(crate) fn write<T: Copy>(&self, to: u64, values: &[T]) {
        let bytes = size_of_val(values);
        ok(self.cuMemcpyHtoD_v2(to, values.as_ptr().cast(), bytes));
    }

    pub(crate) fn read<T: Copy + Default>(&self, from: u64, count: usize) -> Vec<T> {
        let mut values = vec![T::default(); count];
        let bytes = size_of_val(&values[..]);
        ok(self.cuMemcpyDtoH_v2(values.as_mut_ptr().cast(), from, bytes));
        values
    }

    /// Loads an image. A failure has the result and the JIT compiler's error log.
    pub(crate) fn load(&self, image: &[u8]) -> Result<usize, (u32, String)> {
        let image = [image, b"\0"].concat();
        let mut log = vec![0u8; 4096];
        let mut values = [log.as_mut_ptr() as usize, log.len()];
        let mut module = 0;
        let numbers = [5, 6];
        let (count, values) = (2, values.as_mut_ptr());
        let result =
            self.cuModuleLoadDataEx(&mut module, image.as_ptr(), count, numbers.as_ptr(), values);
        let end = log.iter().position(|byte| *byte == 0).expect("a log ends");
        match result {
            0 => Ok(module),
            code => Err((code, String::from_utf8_lossy(&log[..end]).into_owned())),
        }
    }

    pub(crate) fn function(&self, module: usize, name: &str) -> usize {
        let (name, mut function) = (CString::new(name).expect("a name"), 0);
        ok(self.cuModuleGetFunction(&mut function, module, name.as_ptr()));
        function
    }

    /// Returns the address and size of a variable, or the failing result.
    pub(crate) fn global(&self, module: usize, name: &str) -> Result<(u64, usize), u32> {
        let (name, mut address, mut bytes) = (CString::new(name).expect("a name"), 0, 0);
        match self.cuModuleGetGlobal_v2(&mut address, &mut bytes, module, name.as_ptr()) {
            0 => Ok((address, bytes)),
            code => Err(code),
        }
    }

    /// Returns the function with this name in a version of CUDA; 0 for an unknown name.
    pub(crate) fn address_of(&self, name: &CStr, version: i32) -> usize {
        let (mut found, mut status) = (0, 0);
        ok(self.cuGetProcAddress_v2(name.as_ptr(), &mut found, version, 0, &mut status));
        assert_eq!(status == 0, found != 0);
        found
    }

    /// Launches groups of items with arguments of 8 bytes each.
    pub(crate) fn launch(
        &self,
        function: usize,
        sizes: [u32; 2],
        stream: usize,
        values: &[u64],
    ) -> u32 {
        let mut pointers: Vec<*mut c_void> =
            values.iter().map(|value| std::ptr::from_ref(value).cast_mut().cast()).collect();
        let (none, arguments) = (std::ptr::null_mut(), pointers.as_mut_ptr());
        let [groups, items] = sizes;
        self.cuLaunchKernel(function, groups, 1, 1, items, 1, 1, 0, stream, arguments, none)
    }
}
