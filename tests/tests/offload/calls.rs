//! LLVM Offload's C API, called from Rust, on the CPU.

use longshore::{Environment, Host};
use longshore_capi::*;
use longshore_conformance::Fixtures;
use longshore_tests::suites::Suite;
use longshore_tests::trials;
use longshore_tests::world::host_plugin;
use std::ffi::{CStr, c_void};
use std::ptr::{null, null_mut};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

pub(crate) const SUITE: Suite = Suite::new("calls", || {
    trials![
        the_library_is_started_and_ended_as_often_as_one_likes,
        arguments_of_init_are_looked_at,
        devices_say_what_they_are,
        memory_is_allocated_filled_copied_and_freed,
        kernels_run_with_the_values_that_their_arguments_had,
        events_and_functions_of_the_host_are_in_order,
    ]
});

/// A lock for the library, which is shared by the whole process.
static ALONE: Mutex<()> = Mutex::new(());

/// The library between olInit and olShutDown, with the CPU's device.
struct Library {
    device: ol_device_handle_t,
    _alone: MutexGuard<'static, ()>,
}

fn ok(result: ol_result_t) {
    // SAFETY: results live until the end of the process.
    if let Some(error) = unsafe { result.as_ref() } {
        // SAFETY: `Details` is a text with a NUL at its end.
        panic!("{:?}: {}", error.Code, unsafe { CStr::from_ptr(error.Details) }.to_string_lossy());
    }
}

fn code(result: ol_result_t) -> ol_errc_t {
    // SAFETY: as above.
    unsafe { result.as_ref() }.map_or(OL_ERRC_SUCCESS, |error| error.Code)
}

fn alone() -> MutexGuard<'static, ()> {
    static PLUGIN: Once = Once::new();
    PLUGIN.call_once(|| {
        // SAFETY: tests take the lock before they use the environment.
        unsafe {
            std::env::set_var("LONGSHORE_PLUGIN_PATH", host_plugin());
            std::env::set_var("LONGSHORE_BACKEND", "host");
        }
    });
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Library {
    fn start() -> Library {
        let alone = alone();
        // SAFETY: the call has no arguments.
        ok(unsafe { olInit(null()) });
        Library { device: first_device(), _alone: alone }
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: the call is always allowed.
        ok(unsafe { olShutDown() });
    }
}

fn first_device() -> ol_device_handle_t {
    unsafe extern "C" fn take(device: ol_device_handle_t, found: *mut c_void) -> bool {
        // SAFETY: `found` points to the handle below.
        unsafe { *found.cast() = device };
        false
    }
    let mut device: ol_device_handle_t = null_mut();
    // SAFETY: the callback writes to the handle.
    ok(unsafe { olIterateDevices(Some(take), (&raw mut device).cast()) });
    assert!(!device.is_null());
    device
}

fn image(name: &str) -> Vec<u8> {
    let host = Host::builder().with_environment(Environment::empty()).with_only_given_plugins();
    let host = host.with_plugin(host_plugin()).build().unwrap();
    let device = host.default_device().unwrap();
    Fixtures::built_in().image(&device, name).unwrap().unwrap().to_vec()
}

fn the_library_is_started_and_ended_as_often_as_one_likes() {
    let _alone = alone();
    for _ in 0..10 {
        // SAFETY: the library checks handles before it uses them.
        unsafe {
            assert_eq!(code(olShutDown()), OL_ERRC_UNINITIALIZED);
            assert_eq!(code(olSyncQueue(null_mut())), OL_ERRC_UNINITIALIZED);
            ok(olInit(null()));
            ok(olInit(null()));
            ok(olShutDown());
            let (device, mut queue) = (first_device(), null_mut());
            ok(olCreateQueue(device, &mut queue));
            ok(olShutDown());
            ok(olInit(null()));
            assert_eq!(code(olSyncQueue(queue)), OL_ERRC_INVALID_QUEUE, "of an earlier time");
            assert_eq!(code(olCreateQueue(device, &mut queue)), OL_ERRC_INVALID_DEVICE);
            ok(olShutDown());
        }
    }
}

fn arguments_of_init_are_looked_at() {
    let _alone = alone();
    let arguments = |size, count, platforms| ol_init_args_t {
        Size: size,
        NumPlatforms: count,
        Platforms: platforms,
    };
    let (size, unknown) = (size_of::<ol_init_args_t>(), ol_platform_backend_t(99));
    // SAFETY: the structures have the declared sizes and contents, except in refused calls.
    unsafe {
        assert_eq!(code(olInit(&arguments(size - 1, 0, null()))), OL_ERRC_INVALID_SIZE);
        assert_eq!(code(olInit(&arguments(size, 1, null()))), OL_ERRC_INVALID_NULL_POINTER);
        assert_eq!(code(olInit(&arguments(size, 1, &unknown))), OL_ERRC_INVALID_ENUMERATION);
        assert_eq!(code(olShutDown()), OL_ERRC_UNINITIALIZED, "what failed does not count");
        ok(olInit(&arguments(size, 1, &OL_PLATFORM_BACKEND_CUDA)));
        first_device();
        ok(olShutDown());
    }
}

fn devices_say_what_they_are() {
    let library = Library::start();
    let mut kind = ol_device_type_t(99);
    let (mut platform, mut backend): (ol_platform_handle_t, _) =
        (null_mut(), ol_platform_backend_t(99));
    let (mut size, mut name) = (0, [0u8; 256]);
    // SAFETY: the buffers have these sizes.
    unsafe {
        ok(olGetDeviceInfo(library.device, OL_DEVICE_INFO_TYPE, 4, (&raw mut kind).cast()));
        let out = (&raw mut platform).cast();
        ok(olGetDeviceInfo(library.device, OL_DEVICE_INFO_PLATFORM, 8, out));
        let out = (&raw mut backend).cast();
        ok(olGetPlatformInfo(platform, OL_PLATFORM_INFO_BACKEND, 4, out));
        ok(olGetDeviceInfoSize(library.device, OL_DEVICE_INFO_NAME, &mut size));
        let room = name.as_mut_ptr().cast();
        let asked =
            |room_bytes| olGetDeviceInfo(library.device, OL_DEVICE_INFO_NAME, room_bytes, room);
        assert_eq!(code(asked(size - 1)), OL_ERRC_INVALID_SIZE);
        ok(asked(size));
        let unknown = ol_device_info_t(1000);
        let answer = olGetDeviceInfo(library.device, unknown, 256, room);
        assert_eq!(code(answer), OL_ERRC_INVALID_ENUMERATION);
    }
    assert_eq!((kind, backend), (OL_DEVICE_TYPE_HOST, OL_PLATFORM_BACKEND_HOST));
    assert_eq!(name.iter().position(|byte| *byte == 0), Some(size - 1));
}

fn memory_is_allocated_filled_copied_and_freed() {
    let Library { device, .. } = &Library::start();
    let (mut there, mut queue) = (null_mut(), null_mut());
    let (mut here, mut base, mut bytes) = ([0u8; 96], null_mut::<c_void>(), 0usize);
    // SAFETY: all ranges have this number of bytes.
    unsafe {
        ok(olMemAllocAligned(*device, OL_ALLOC_TYPE_DEVICE, 96, 256, &mut there));
        assert_eq!(there as usize % 256, 0);
        ok(olCreateQueue(*device, &mut queue));
        for queue in [queue, null_mut()] {
            ok(olMemFill(queue, there, 3, b"abc".as_ptr().cast(), 96));
            ok(olMemcpy(queue, here.as_mut_ptr().cast(), *device, there, *device, 96));
            if !queue.is_null() {
                ok(olSyncQueue(queue));
            }
            assert_eq!(&here, b"abc".repeat(32).as_slice());
            here.fill(0);
        }
        let inside = there.byte_add(50);
        ok(olGetMemInfo(inside, OL_MEM_INFO_BASE, 8, (&raw mut base).cast()));
        ok(olGetMemInfo(inside, OL_MEM_INFO_SIZE, 8, (&raw mut bytes).cast()));
        assert_eq!((base, bytes), (there, 96));
        assert_eq!(code(olMemFill(queue, there, 0, b"".as_ptr().cast(), 96)), OL_ERRC_INVALID_SIZE);
        assert_eq!(code(olMemFree(inside)), OL_ERRC_INVALID_ARGUMENT);
        ok(olMemFree(there));
        assert_eq!(code(olMemFree(there)), OL_ERRC_INVALID_ARGUMENT);
        let answer = olGetMemInfo(inside, OL_MEM_INFO_BASE, 8, (&raw mut base).cast());
        assert_eq!(code(answer), OL_ERRC_NOT_FOUND);
        ok(olDestroyQueue(queue));
        assert_eq!(code(olDestroyQueue(queue)), OL_ERRC_INVALID_QUEUE);
    }
}

fn kernels_run_with_the_values_that_their_arguments_had() {
    let Library { device, .. } = &Library::start();
    let (image, mut program, mut queue) = (image("basic"), null_mut(), null_mut());
    let (mut iota, mut again, mut counter) = (null_mut(), null_mut(), null_mut());
    let (mut there, mut here) = (null_mut(), [0u32; 8]);
    let sizes = ol_kernel_launch_size_args_t {
        Dimensions: 1,
        NumGroups: ol_dimensions_t { x: 1, y: 1, z: 1 },
        GroupSize: ol_dimensions_t { x: 1, y: 1, z: 1 },
        DynSharedMemory: 0,
    };
    // SAFETY: the kernel takes a pointer to numbers and their count.
    unsafe {
        ok(olCreateProgram(*device, image.as_ptr().cast(), image.len(), &mut program));
        let kernel = OL_SYMBOL_KIND_KERNEL;
        ok(olGetSymbol(program, c"iota".as_ptr(), kernel, &mut iota));
        ok(olGetSymbol(program, c"iota".as_ptr(), kernel, &mut again));
        assert_eq!(iota, again);
        let none = olGetSymbol(program, c"nothing".as_ptr(), kernel, &mut again);
        assert_eq!(code(none), OL_ERRC_NOT_FOUND);
        let variable = OL_SYMBOL_KIND_GLOBAL_VARIABLE;
        ok(olGetSymbol(program, c"counter".as_ptr(), variable, &mut counter));
        ok(olMemAlloc(*device, OL_ALLOC_TYPE_DEVICE, 32, &mut there));
        ok(olCreateQueue(*device, &mut queue));
        for queue in [queue, null_mut()] {
            let (mut address, mut count) = (there, 8u64);
            let mut pointers = [(&raw mut address).cast(), (&raw mut count).cast()];
            let bytes = [8usize, 8];
            let mut launch = |kernel, count| {
                let pointers = pointers.as_mut_ptr();
                olLaunchKernel(
                    queue,
                    *device,
                    kernel,
                    &sizes,
                    null(),
                    count,
                    pointers,
                    bytes.as_ptr(),
                )
            };
            assert_eq!(code(launch(counter, 2)), OL_ERRC_SYMBOL_KIND);
            assert_eq!(code(launch(iota, 1)), OL_ERRC_INVALID_ARGUMENT);
            ok(launch(iota, 2));
            (address, count) = (null_mut(), 0);
            let _ = (address, count);
            ok(olMemcpy(queue, here.as_mut_ptr().cast(), *device, there, *device, 32));
            if !queue.is_null() {
                ok(olSyncQueue(queue));
            }
            assert_eq!(here, [0, 1, 2, 3, 4, 5, 6, 7]);
            here.fill(0);
        }
        ok(olMemFree(there));
        ok(olDestroyProgram(program));
        assert_eq!(code(olDestroyProgram(program)), OL_ERRC_INVALID_ARGUMENT);
        let gone = olLaunchKernel(queue, *device, iota, &sizes, null(), 0, null_mut(), null());
        assert_eq!(code(gone), OL_ERRC_INVALID_ARGUMENT);
    }
}

fn events_and_functions_of_the_host_are_in_order() {
    unsafe extern "C" fn add(to: *mut c_void) {
        // SAFETY: `to` points to the number below.
        unsafe { *to.cast::<u32>() += 1 };
    }
    let Library { device, .. } = &Library::start();
    let (mut queue, mut other, mut start, mut end) =
        (null_mut(), null_mut(), null_mut(), null_mut());
    let (mut called, mut milliseconds, mut is_done) = (0u32, -1f32, false);
    // SAFETY: written memory outlives the work of the queues.
    unsafe {
        ok(olCreateQueue(*device, &mut queue));
        ok(olCreateQueue(*device, &mut other));
        ok(olCreateEvent(queue, OL_EVENT_FLAGS_ENABLE_PROFILING, &mut start));
        ok(olLaunchHostFunction(queue, Some(add), (&raw mut called).cast()));
        ok(olCreateEvent(queue, OL_EVENT_FLAGS_ENABLE_PROFILING, &mut end));
        ok(olWaitEvents(other, [start, end].as_mut_ptr(), 2));
        let mut none = [null_mut()];
        assert_eq!(code(olWaitEvents(other, none.as_mut_ptr(), 1)), OL_ERRC_INVALID_NULL_HANDLE);
        ok(olSyncQueue(other));
        assert_eq!(called, 1);
        ok(olGetEventElapsedTime(start, end, &mut milliseconds));
        assert!(milliseconds >= 0.0);
        ok(olSyncEvent(end));
        ok(olGetEventInfo(end, OL_EVENT_INFO_IS_COMPLETE, 1, (&raw mut is_done).cast()));
        assert!(is_done);
        ok(olQueryQueue(queue, null_mut()));
        ok(olDestroyEvent(start));
        assert_eq!(code(olSyncEvent(start)), OL_ERRC_INVALID_EVENT);
        assert_eq!(code(olSyncEvent(queue.cast())), OL_ERRC_INVALID_EVENT, "a handle of a queue");
        let unknown = ol_event_flags_t(64);
        assert_eq!(code(olCreateEvent(queue, unknown, &mut start)), OL_ERRC_INVALID_ENUMERATION);
    }
}
