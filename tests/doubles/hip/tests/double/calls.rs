//! Devices, memory, streams and events, where HIP differs from other drivers; differences between
//! its versions.

use crate::support::hip::{Hip, ok, out};
use crate::support::with_double;
use longshore_double_gpu::testing::ProcessOutput;
use std::ffi::CStr;

/// Checks that no object is left.
fn finish(hip: &Hip) {
    assert_eq!(hip.double.live(), [""; 0]);
    assert_eq!(hip.double.violations(), [""; 0]);
}

/// Returns whether the loader finds a function.
fn has(hip: &Hip, name: &str) -> bool {
    // SAFETY: the function is not called.
    unsafe { hip.double.library().get::<unsafe extern "C" fn()>(name) }.is_ok()
}

#[test]
fn the_first_call_initialises() {
    with_double("", |hip| {
        let x = hip.allocate(4096);
        hip.write(x, &[7u32; 1024]);
        ok(hip.hipMemsetD32Async(x + 4, -1, 2, 0));
        ok(hip.hipMemsetD16Async(x + 12, 3, 1, 0));
        ok(hip.hipMemsetD8Async(x + 14, 4, 1, 0));
        assert_eq!(hip.read::<u32>(x, 5), [7, u32::MAX, u32::MAX, 0x0004_0003, 7]);
        ok(hip.hipFree(x));
        ok(hip.hipInit(0));
        finish(hip);
    })
    .nothing_wrong();
}

#[test]
fn rectangles_are_copied_in_the_stated_direction() {
    with_double("", |hip| {
        let x = hip.allocate(64);
        hip.write(x, &[0u8; 64]);
        let values: Vec<u8> = (1..7).collect();
        let host = values.as_ptr().expose_provenance() as u64;
        // 2 rows of 3 bytes, from byte 1 of row 1 on.
        let from = [0, 0, 0, 0, host, 3, 3, 2];
        let to = [0, 1, 1, 0, x, 8, 8, 4];
        let request = |kind| [&from[..], &to, &[3, 2, 1, kind]].concat().try_into().unwrap();
        ok(hip.hipMemcpy3DAsync(&request(1), 0));
        ok(hip.hipMemcpy3DAsync(&request(4), 0));
        assert_eq!(hip.read::<u8>(x, 20)[8..], [0, 1, 2, 3, 0, 0, 0, 0, 0, 4, 5, 6]);
        ok(hip.hipFree(x));
        finish(hip);
    })
    .nothing_wrong();
}

#[test]
fn no_bytes_are_no_memory() {
    with_double("", |hip| {
        assert_eq!(hip.allocate(0), 0);
        assert_eq!(out(|address| hip.hipHostMalloc(address, 0, 0)), 0);
        ok(hip.hipFree(0));
        ok(hip.hipHostFree(0));
        finish(hip);
    })
    .nothing_wrong();
}

/// Checks the names of results, the properties by the offsets of a layout, and the types of
/// pointers.
fn version(number: &str, is_before_6: bool) -> ProcessOutput {
    with_double(&format!("version={number};target=gfx1100"), |hip| {
        let found: i32 = out(|found| hip.hipRuntimeGetVersion(found));
        let major = number.split('.').next().and_then(|major| major.parse().ok());
        assert_eq!(Some(found / 10_000_000), major);
        for later in
            ["hipGetDevicePropertiesR0600", "hipDeviceSetLimit", "hipModuleLaunchCooperativeKernel"]
        {
            assert_eq!(has(hip, later), !is_before_6, "{later}");
        }
        let mut properties = [0xffu8; 2048];
        ok(hip.hipGetDeviceProperties(properties.as_mut_ptr(), 0));
        check_properties(&properties, [256, 276, 396, 792]);
        if !is_before_6 {
            type Get = unsafe extern "C" fn(*mut u8, i32) -> u32;
            let mut properties = [0xffu8; 2048];
            // SAFETY: the function has this type, and the structure is smaller.
            let result = unsafe {
                let get = hip.double.library().get::<Get>("hipGetDevicePropertiesR0600");
                get.expect("it was found")(properties.as_mut_ptr(), 0)
            };
            ok(result);
            check_properties(&properties, [288, 308, 1160, 1472]);
        }
        let x = hip.allocate(8);
        let host = out(|address| hip.hipHostMalloc(address, 8, 0));
        let types = [host, x].map(|pointer| hip.pointer(2, pointer));
        assert_eq!(types, if is_before_6 { [Ok(0), Ok(1)] } else { [Ok(1), Ok(2)] });
        let registers: u32 = hip.hipDeviceGetAttribute(&mut 0, 90, 0);
        assert_eq!(registers, u32::from(is_before_6));
        ok(hip.hipFree(x));
        ok(hip.hipHostFree(host));
        finish(hip);
    })
}

/// Checks the offsets of memory size, wavefront size and target in the properties, and the end of
/// the structure.
fn check_properties(properties: &[u8], [memory, wavefront, target, end]: [usize; 4]) {
    let text = |at: usize| CStr::from_bytes_until_nul(&properties[at..]).expect("it ends");
    assert!(text(0).to_bytes().starts_with(b"Longshore double"));
    assert_eq!(text(target), c"gfx1100");
    assert_eq!(properties[memory..][..8], (8u64 << 30).to_le_bytes());
    assert_eq!(properties[wavefront..][..4], 32u32.to_le_bytes());
    assert!(properties[end - 1] == 0 && properties[end..].iter().all(|byte| *byte == 0xff));
}

#[test]
fn versions_differ_in_functions_layouts_and_numbers() {
    version("5", true).nothing_wrong();
    version("6.4", false).nothing_wrong();
    version("7", false).nothing_wrong();
}

#[test]
fn without_devices_versions_answer_as_they_do() {
    for (settings, expected) in
        [("devices=0;version=5", [101, 100]), ("devices=0", [100, 100]), ("init=999", [999, 999])]
    {
        with_double(settings, |hip| {
            let (mut count, mut x) = (-1, 0);
            assert_eq!([hip.hipInit(0), hip.hipGetDeviceCount(&mut count)], expected);
            assert_eq!(hip.hipMalloc(&mut x, 8), expected[0]);
        })
        .nothing_wrong();
    }
}

#[test]
fn results_have_names_and_words() {
    with_double("", |hip| {
        // SAFETY: texts that live as long as the process.
        let text = |start| unsafe { CStr::from_ptr(start) };
        assert_eq!(text(hip.hipGetErrorName(209)), c"hipErrorNoBinaryForGpu");
        assert_eq!(text(hip.hipGetErrorString(600)), c"device not ready");
        assert_eq!(text(hip.hipGetErrorName(31)), c"hipErrorUnknown");
    })
    .nothing_wrong();
}

#[test]
fn devices_are_made_by_the_settings() {
    with_double("devices=3;target=gfx942:sramecc+:xnack-,gfx1201;managed=0;peer=0", |hip| {
        let wavefront = |device| out(|value| hip.hipDeviceGetAttribute(value, 87, device));
        assert_eq!([0, 1, 2].map(wavefront), [64, 32, 32]);
        assert_eq!(out(|count| hip.hipGetDeviceCount(count)), 3);
        assert_eq!(out(|value| hip.hipDeviceGetAttribute(value, 24, 0)), 0);
        assert_eq!(hip.hipMallocManaged(&mut 0, 8, 1), 801);
        assert_eq!(out(|can| hip.hipDeviceCanAccessPeer(can, 0, 1)), 0);
        assert_eq!(hip.hipDeviceEnablePeerAccess(1, 0), 101);
        let uuids = [0, 1].map(|device| out(|uuid| hip.hipDeviceGetUuid(uuid, device)));
        assert!(uuids[0] != uuids[1] && uuids.as_flattened().iter().all(u8::is_ascii_hexdigit));
        assert_eq!(hip.hipSetDevice(3), 101);
        finish(hip);
    })
    .nothing_wrong();
}

#[test]
fn each_thread_has_a_current_device() {
    with_double("devices=2", |hip| {
        ok(hip.hipSetDevice(1));
        let x = hip.allocate(8);
        assert_eq!(hip.pointer(9, x), Ok(1));
        std::thread::scope(|scope| {
            scope.spawn(|| assert_eq!(out(|device| hip.hipGetDevice(device)), 0));
        });
        assert_eq!(out(|device| hip.hipGetDevice(device)), 1);
        ok(hip.hipSetDevice(0));
        // Any device may be current.
        ok(hip.hipFree(x));
        finish(hip);
    })
    .nothing_wrong();
}

#[test]
fn streams_and_events_belong_to_the_device_that_was_current() {
    with_double("devices=2", |hip| {
        let (first, start) = (hip.stream(), hip.event());
        let x = hip.allocate(8);
        ok(hip.hipSetDevice(1));
        let (second, end) = (hip.stream(), hip.event());
        // Copies and waits work in any stream.
        ok(hip.hipMemsetD32Async(x, 5, 2, first));
        ok(hip.hipEventRecord(start, first));
        ok(hip.hipStreamWaitEvent(second, start, 0));
        ok(hip.hipEventRecord(end, second));
        for event in [start, end] {
            ok(hip.hipEventSynchronize(event));
            ok(hip.hipEventQuery(event));
        }
        ok(hip.hipStreamSynchronize(first));
        assert_eq!(hip.read::<u32>(x, 2), [5, 5]);
        assert_eq!(hip.hipEventElapsedTime(&mut 0.0, start, end), 400);
        assert_eq!(hip.double.violations(), [""; 0]);
        assert_eq!(hip.hipEventRecord(start, second), 400);
        // The stream 0 is that of the current device.
        assert_eq!(hip.hipEventRecord(start, 0), 400);
        assert_eq!(hip.double.violations().len(), 2);
        hip.double.reset();
        for (stream, event) in [(first, start), (second, end)] {
            ok(hip.hipStreamDestroy(stream));
            ok(hip.hipEventDestroy(event));
        }
        ok(hip.hipFree(x));
        finish(hip);
    })
    .nothing_wrong();
}

#[test]
fn copies_go_where_their_kind_says() {
    with_double("devices=2", |hip| {
        let (x, y, ours) = (hip.allocate(8), hip.allocate(8), [7u64]);
        let host = ours.as_ptr() as u64;
        for (kind, to, from) in
            [(1, x, host), (4, x, host), (3, y, x), (2, host, y), (0, host, host)]
        {
            ok(hip.hipMemcpyAsync(to, from, 8, kind, 0));
        }
        assert_eq!(hip.read::<u64>(y, 1), ours);
        ok(hip.hipSetDevice(1));
        let far = hip.allocate(8);
        let stream = hip.stream();
        ok(hip.hipMemcpyPeerAsync(far, 1, y, 0, 8, stream));
        ok(hip.hipStreamSynchronize(stream));
        assert_eq!(hip.read::<u64>(far, 1), ours);
        assert_eq!(hip.double.violations(), [""; 0]);
        assert_eq!(hip.hipMemcpyAsync(x, host, 8, 2, 0), 1);
        assert_eq!(hip.hipMemcpyAsync(x, host, 8, 7, 0), 21);
        assert_eq!(hip.hipMemcpyPeerAsync(far, 0, y, 0, 8, stream), 1);
        assert_eq!(hip.double.violations().len(), 3);
        hip.double.reset();
        ok(hip.hipStreamDestroy(stream));
        for address in [x, y, far] {
            ok(hip.hipFree(address));
        }
        finish(hip);
    })
    .nothing_wrong();
}

#[test]
fn host_memory_is_mapped_whatever_the_flags() {
    with_double("", |hip| {
        let ours = vec![1u64; 512];
        let start = ours.as_ptr() as usize;
        assert_eq!(hip.pointer(2, start as u64), Err(1));
        ok(hip.hipHostRegister(start, 4096, 0));
        let mapped = out(|device| hip.hipHostGetDevicePointer(device, start + 8, 0));
        ok(hip.hipMemsetD8Async(mapped, 0, 8, 0));
        ok(hip.hipStreamSynchronize(0));
        // SAFETY: the program's own memory, which the device has written.
        assert_eq!(unsafe { ours.as_ptr().add(1).read_volatile() }, 0);
        assert_eq!(
            [11, 12].map(|which| hip.pointer(which, start as u64 + 9)),
            [Ok(start as u64), Ok(4096)]
        );
        ok(hip.hipHostUnregister(start));
        let managed = out(|address| hip.hipMallocManaged(address, 64, 1));
        assert_eq!(hip.pointer(8, managed), Ok(1));
        ok(hip.hipMemPrefetchAsync(managed, 64, 0, 0));
        ok(hip.hipMemPrefetchAsync(managed, 64, -1, 0));
        // Non-coherent memory has to be freed by the program, like all other.
        let host = out(|address| hip.hipHostMalloc(address, 64, 0x8000_0000));
        assert_eq!(hip.double.live().len(), 2);
        ok(hip.hipHostFree(host));
        ok(hip.hipFree(managed));
        finish(hip);
    })
    .nothing_wrong();
}

#[test]
fn pools_are_of_a_device() {
    with_double("", |hip| {
        let mut properties = [0u32; 22];
        (properties[0], properties[2]) = (1, 1);
        let pool = out(|pool| hip.hipMemPoolCreate(pool, &properties));
        let mut kept = u64::MAX;
        ok(hip.hipMemPoolSetAttribute(pool, 4, (&raw mut kept).cast()));
        let stream = hip.stream();
        let x = out(|address| hip.hipMallocFromPoolAsync(address, 64, pool, stream));
        ok(hip.hipMemsetD32Async(x, 5, 16, stream));
        ok(hip.hipFreeAsync(x, stream));
        ok(hip.hipStreamSynchronize(stream));
        assert_eq!(hip.hipStreamQuery(stream), 0);
        let (free, total) = {
            let (mut free, mut total) = (0, 0);
            ok(hip.hipMemGetInfo(&mut free, &mut total));
            (free, total)
        };
        assert_eq!(total - free, 64);
        ok(hip.hipMemPoolDestroy(pool));
        ok(hip.hipStreamDestroy(stream));
        finish(hip);
    })
    .nothing_wrong();
}

#[test]
fn errors_and_leaks_are_reported() {
    with_double("fail=hipMalloc:2:2", |hip| {
        let x = hip.allocate(8);
        assert_eq!(hip.hipMalloc(&mut 0, 8), 2);
        ok(hip.hipFree(x));
        assert_eq!(hip.hipFree(x), 1);
        hip.stream();
        assert_eq!(hip.double.live().len(), 1);
    })
    .complaint("not given back: stream");
}
