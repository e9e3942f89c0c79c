//! Contexts, memory, streams and events; violations; failures that tests request.

use crate::support::cuda::{Cuda, ok};
use crate::support::with_double;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};

/// Releases the primary context of device 0; no object may be left.
fn finish(cuda: &Cuda) {
    ok(cuda.cuDevicePrimaryCtxRelease_v2(0));
    assert_eq!(cuda.double.live(), [""; 0]);
}

#[test]
fn memory_keeps_copied_bytes() {
    with_double("", |cuda| {
        cuda.start(0);
        let (a, b) = (cuda.allocate(1 << 20), cuda.allocate(1 << 20));
        let values: Vec<u32> = (0..1 << 18).collect();
        assert_eq!(cuda.read::<u8>(a, 4), [0xa5; 4]);
        cuda.write(a, &values);
        ok(cuda.cuMemcpyDtoDAsync_v2(b, a, 1 << 20, 0));
        assert_eq!(cuda.read::<u32>(b, 1 << 18), values);
        ok(cuda.cuMemsetD32Async(b + 4, 7, 2, 0));
        assert_eq!(cuda.read::<u32>(b, 4), [0, 7, 7, 3]);
        ok(cuda.cuMemsetD2D16Async(b, 8, 1, 2, 2, 0));
        assert_eq!(cuda.read::<u16>(b, 8), [1, 1, 7, 0, 1, 1, 3, 0]);
        ok(cuda.cuMemFree_v2(a));
        ok(cuda.cuMemFree_v2(b));
        finish(cuda);
    })
    .nothing_wrong();
}

/// Returns a `CUDA_MEMCPY3D` without offsets: for each end the type of memory, the address, and the
/// pitches in bytes and in rows; then the extent.
fn rect(to: [u64; 4], from: [u64; 4], extent: [u64; 3]) -> [u64; 25] {
    let end = |[memory, address, pitch, height]: [u64; 4]| {
        let (host, device) = if memory == 1 { (address, 0) } else { (0, address) };
        [0, 0, 0, 0, memory, host, device, 0, 0, pitch, height]
    };
    let words = [&end(from)[..], &end(to), &extent].concat();
    words.try_into().expect("25 words")
}

#[test]
fn rectangles_are_copied_between_memory_of_the_stated_kinds() {
    with_double("", |cuda| {
        cuda.start(0);
        let (a, b) = (cuda.allocate(64), cuda.allocate(64));
        cuda.write(a, &[0u8; 64]);
        let values: Vec<u8> = (1..13).collect();
        let host = values.as_ptr().expose_provenance() as u64;
        // 2 slices of 2 rows of 3 bytes.
        let to_device = rect([2, a + 1, 8, 3], [1, host, 3, 2], [3, 2, 2]);
        ok(cuda.cuMemcpy3DAsync_v2(&to_device, 0));
        ok(cuda.cuMemcpy3DAsync_v2(&rect([2, b, 4, 2], [4, a + 1, 8, 3], [3, 2, 2]), 0));
        let found = cuda.read::<u8>(a, 40);
        assert_eq!(found[..12], [0, 1, 2, 3, 0, 0, 0, 0, 0, 4, 5, 6]);
        assert_eq!(found[24..36], [0, 7, 8, 9, 0, 0, 0, 0, 0, 10, 11, 12]);
        assert_eq!(cuda.read::<u8>(b + 8, 7), [7, 8, 9, 0xa5, 10, 11, 12]);
        ok(cuda.cuMemcpy3DAsync_v2(&rect([2, b, 0, 0], [2, a, 0, 0], [3, 0, 1]), 0));
        ok(cuda.cuMemFree_v2(a));
        ok(cuda.cuMemFree_v2(b));
        finish(cuda);
    })
    .nothing_wrong();
}

#[test]
fn rectangles_that_do_not_fit_are_violations() {
    with_double("quiet", |cuda| {
        cuda.start(0);
        let a = cuda.allocate(64);
        for (to, from) in [
            ([2, a, 2, 2], [2, a + 32, 3, 2]),
            ([2, a, 3, 1], [2, a + 32, 3, 2]),
            ([2, a, 32, 2], [2, a + 32, 30, 2]),
            ([2, a, 1 << 31, 2], [2, a + 32, 3, 2]),
            ([1, a, 3, 2], [2, a + 32, 3, 2]),
            ([3, a, 3, 2], [2, a + 32, 3, 2]),
        ] {
            assert_eq!(cuda.cuMemcpy3DAsync_v2(&rect(to, from, [3, 2, 1]), 0), 1, "{to:?}");
        }
        assert_eq!(cuda.double.violations().len(), 6);
        ok(cuda.cuMemFree_v2(a));
    });
}

#[test]
fn memory_runs_out_and_comes_back() {
    with_double("memory=1M", |cuda| {
        cuda.start(0);
        let all = cuda.allocate(1 << 20);
        let mut more = 0;
        assert_eq!(cuda.cuMemAlloc_v2(&mut more, 1), 2);
        ok(cuda.cuMemFree_v2(all));
        let (mut free, mut total) = (0, 0);
        ok(cuda.cuMemGetInfo_v2(&mut free, &mut total));
        assert_eq!((free, total), (1 << 20, 1 << 20));
        finish(cuda);
    })
    .nothing_wrong();
}

#[test]
fn host_memory_of_all_kinds_is_copied_to_and_from() {
    with_double("", |cuda| {
        cuda.start(0);
        let (mut pinned, mut managed, mut mapped) = (0, 0, 0);
        let device = cuda.allocate(4096);
        ok(cuda.cuMemHostAlloc(&mut pinned, 4096, 0));
        ok(cuda.cuMemAllocManaged(&mut managed, 4096, 1));
        for host in [pinned, managed] {
            let words = std::ptr::with_exposed_provenance_mut::<u64>(host as usize);
            // SAFETY: memory that the driver gave to the program, with this size.
            unsafe { words.write(host) };
            ok(cuda.cuMemcpyHtoDAsync_v2(device, words.cast(), 4096, 0));
            assert_eq!(cuda.read::<u64>(device, 1), [host]);
        }
        let mut ours = vec![0u64; 512];
        let start = ours.as_mut_ptr();
        ok(cuda.cuMemHostRegister_v2(start as usize, 4096, 2));
        assert_eq!(cuda.cuMemHostRegister_v2(start as usize + 8, 8, 2), 712);
        ok(cuda.cuMemHostGetDevicePointer_v2(&mut mapped, start as usize, 0));
        assert_ne!(mapped, start as u64);
        ok(cuda.cuMemsetD32Async(mapped + 8, 3, 1, 0));
        ok(cuda.cuCtxSynchronize());
        // SAFETY: the program's own memory, which the device has written.
        assert_eq!(unsafe { start.add(1).read_volatile() }, 3);
        // SAFETY: as above, written by the program.
        unsafe { start.add(2).write_volatile(9) };
        ok(cuda.cuMemcpyDtoDAsync_v2(device, mapped, 24, 0));
        assert_eq!(cuda.read::<u64>(device, 3), [0, 3, 9]);
        ok(cuda.cuMemHostUnregister(start as usize));
        ok(cuda.cuMemFreeHost(pinned));
        ok(cuda.cuMemFree_v2(managed));
        ok(cuda.cuMemFree_v2(device));
        finish(cuda);
    })
    .nothing_wrong();
}

extern "C" fn wait_for_gate(gate: *mut c_void) {
    // SAFETY: the tests pass such a gate, and keep it until they have waited for the streams.
    let gate = unsafe { &*gate.cast::<AtomicU32>() };
    while gate.load(Ordering::Acquire) == 0 {
        std::thread::yield_now();
    }
}

#[test]
fn streams_are_in_order_and_events_show_their_progress() {
    with_double("", |cuda| {
        cuda.start(0);
        let (one, two) = (cuda.stream(), cuda.stream());
        let gate = AtomicU32::new(0);
        let (mut start, mut end, mut milliseconds) = (0, 0, 0.0);
        ok(cuda.cuEventCreate(&mut start, 0));
        ok(cuda.cuEventCreate(&mut end, 0));
        assert_eq!(cuda.cuEventElapsedTime(&mut milliseconds, start, end), 400);
        ok(cuda.cuEventQuery(start));
        ok(cuda.cuEventRecord(start, one));
        ok(cuda.cuLaunchHostFunc(one, wait_for_gate, (&raw const gate).cast_mut().cast()));
        ok(cuda.cuEventRecord(end, one));
        ok(cuda.cuStreamWaitEvent(two, end, 0));
        let x = cuda.allocate(4);
        ok(cuda.cuMemsetD32Async(x, 5, 1, two));
        assert_eq!(cuda.cuStreamQuery(two), 600);
        assert_eq!(cuda.cuEventQuery(end), 600);
        assert_eq!(cuda.cuEventElapsedTime(&mut milliseconds, start, end), 600);
        gate.store(1, Ordering::Release);
        ok(cuda.cuStreamSynchronize(two));
        ok(cuda.cuEventSynchronize(end));
        ok(cuda.cuEventElapsedTime(&mut milliseconds, start, end));
        assert!(milliseconds >= 0.0);
        assert_eq!(cuda.read::<u32>(x, 1), [5]);
        ok(cuda.cuMemFree_v2(x));
        for event in [start, end] {
            ok(cuda.cuEventDestroy_v2(event));
        }
        for stream in [one, two] {
            ok(cuda.cuStreamDestroy_v2(stream));
        }
        finish(cuda);
    })
    .nothing_wrong();
}

#[test]
fn the_contexts_own_stream_is_in_order_with_blocking_ones() {
    with_double("", |cuda| {
        cuda.start(0);
        let (mut blocking, free) = (0, cuda.stream());
        ok(cuda.cuStreamCreate(&mut blocking, 0));
        let gate = AtomicU32::new(0);
        let argument: *mut c_void = (&raw const gate).cast_mut().cast();
        for (held_up, others) in [(blocking, [0, free]), (0, [blocking, free])] {
            gate.store(0, Ordering::Release);
            ok(cuda.cuLaunchHostFunc(held_up, wait_for_gate, argument));
            for stream in others {
                ok(cuda.cuMemsetD32Async(cuda.allocate(4), 1, 1, stream));
            }
            ok(cuda.cuStreamSynchronize(free));
            assert_eq!([0, blocking].map(|stream| cuda.cuStreamQuery(stream)), [600, 600]);
            gate.store(1, Ordering::Release);
            ok(cuda.cuCtxSynchronize());
        }
        ok(cuda.cuDevicePrimaryCtxRelease_v2(0));
        assert_eq!(cuda.double.lost().len(), 6);
        cuda.double.reset();
    })
    .nothing_wrong();
}

#[test]
fn copies_of_pageable_memory_block_and_copies_of_pinned_memory_do_not() {
    with_double("slow=copy:100000us", |cuda| {
        cuda.start(0);
        let (stream, x) = (cuda.stream(), cuda.allocate(1 << 20));
        let (mut pinned, mut ours) = (0, vec![1u8; 1 << 20]);
        ok(cuda.cuMemHostAlloc(&mut pinned, 1 << 20, 0));
        let is_idle = || cuda.cuStreamQuery(stream) == 0;
        let pinned_start = std::ptr::with_exposed_provenance_mut::<u8>(pinned as usize);
        ok(cuda.cuMemcpyHtoDAsync_v2(x, pinned_start, 1 << 20, stream));
        assert!(!is_idle());
        ok(cuda.cuMemcpyHtoDAsync_v2(x, ours.as_ptr(), 64 << 10, stream));
        ours.fill(2);
        assert!(!is_idle());
        ok(cuda.cuMemcpyDtoHAsync_v2(ours.as_mut_ptr(), x, 64 << 10, stream));
        assert!(is_idle());
        assert!(ours[..64 << 10].iter().all(|byte| *byte == 1));
        ok(cuda.cuMemcpyHtoDAsync_v2(x, ours.as_ptr(), 1 << 20, stream));
        assert!(is_idle());
        ok(cuda.cuMemFreeHost(pinned));
        ok(cuda.cuMemFree_v2(x));
        ok(cuda.cuStreamDestroy_v2(stream));
        finish(cuda);
    })
    .nothing_wrong();
}

#[test]
fn memory_of_pools_ends_in_the_order_of_streams() {
    with_double("", |cuda| {
        cuda.start(0);
        let stream = cuda.stream();
        let mut x = 0;
        ok(cuda.cuMemAllocAsync(&mut x, 64, stream));
        ok(cuda.cuMemsetD32Async(x, 5, 1, stream));
        ok(cuda.cuMemFreeAsync(x, stream));
        assert_eq!(cuda.cuMemFreeAsync(x, stream), 1);
        ok(cuda.cuStreamSynchronize(stream));
        assert_eq!(cuda.cuMemsetD32Async(x, 5, 1, stream), 1);
        assert_eq!(cuda.double.violations().len(), 2);
        cuda.double.reset();
        ok(cuda.cuStreamDestroy_v2(stream));
        finish(cuda);
    })
    .nothing_wrong();
}

#[test]
fn a_breach_of_the_contract_fails_and_is_recorded() {
    with_double("", |cuda| {
        let mut context = 0;
        assert_eq!(cuda.cuDevicePrimaryCtxRetain(&mut context, 0), 3);
        ok(cuda.cuInit(0));
        let mut x = 0;
        assert_eq!(cuda.cuMemAlloc_v2(&mut x, 8), 201);
        context = cuda.start(0);
        let mut ours = [0u8; 8];
        let x = cuda.allocate(8);
        let host = ours.as_mut_ptr();
        assert_eq!(cuda.cuMemcpyHtoD_v2(host as u64, host, 8), 1);
        let device = std::ptr::with_exposed_provenance_mut::<u8>(x as usize);
        assert_eq!(cuda.cuMemcpyDtoH_v2(device, x, 8), 1);
        assert_eq!(cuda.cuMemcpyHtoD_v2(x + 4, host, 8), 1);
        assert_eq!(cuda.cuMemFree_v2(x + 4), 1);
        ok(cuda.cuMemFree_v2(x));
        assert_eq!(cuda.cuMemFree_v2(x), 1);
        let stream = cuda.stream();
        ok(cuda.cuStreamDestroy_v2(stream));
        assert_eq!(cuda.cuStreamSynchronize(stream), 400);
        assert_eq!(cuda.cuEventDestroy_v2(stream), 400);
        assert_eq!(cuda.cuStreamCreate(std::ptr::null_mut(), 1), 1);
        let stream = cuda.stream();
        let mut other = 0;
        ok(cuda.cuCtxCreate_v2(&mut other, 0, 0));
        assert_eq!(cuda.cuLaunchHostFunc(stream, calls_back, std::ptr::null_mut()), 400);
        ok(cuda.cuCtxDestroy_v2(other));
        ok(cuda.cuCtxSetCurrent(context));
        ok(cuda.cuStreamDestroy_v2(stream));
        finish(cuda);
        assert_eq!(cuda.cuDevicePrimaryCtxRelease_v2(0), 201);
        assert_eq!(cuda.cuCtxSynchronize(), 709);
        assert_eq!(cuda.double.violations().len(), 13, "{:#?}", cuda.double.violations());
    })
    .complaint("cuMemFree_v2");
}

static BACK: AtomicU32 = AtomicU32::new(0);

extern "C" fn calls_back(cuda: *mut c_void) {
    // SAFETY: the test passes its loaded functions, and keeps them.
    let cuda = unsafe { &*cuda.cast::<Cuda>() };
    BACK.store(cuda.cuCtxSynchronize(), Ordering::Release);
}

#[test]
fn a_host_function_must_not_call_the_driver() {
    with_double("quiet", |cuda| {
        cuda.start(0);
        let stream = cuda.stream();
        ok(cuda.cuLaunchHostFunc(stream, calls_back, std::ptr::from_ref(cuda).cast_mut().cast()));
        ok(cuda.cuStreamSynchronize(stream));
        assert_eq!(BACK.load(Ordering::Acquire), 800);
        assert_eq!(cuda.double.violations().len(), 1);
        ok(cuda.cuStreamDestroy_v2(stream));
        finish(cuda);
    });
}

#[test]
fn calls_fail_as_tests_say() {
    with_double("fail=cuMemAlloc_v2:2:999", |cuda| {
        cuda.start(0);
        let mut x = 0;
        let mut allocate = || match cuda.cuMemAlloc_v2(&mut x, 8) {
            0 => cuda.cuMemFree_v2(x),
            code => code,
        };
        assert_eq!([allocate(), allocate(), allocate()], [0, 999, 0]);
        cuda.double.fail("cuMemAlloc_v2", 1, 2);
        assert_eq!([allocate(), allocate()], [2, 0]);
        cuda.double.fail("cuMemAlloc_v2", 1, 2);
        cuda.double.clear();
        assert_eq!(allocate(), 0);
        assert_eq!(cuda.double.calls_of("cuMemAlloc_v2"), 6);
        finish(cuda);
    })
    .nothing_wrong();
}

#[test]
fn leaks_are_reported_at_the_end() {
    with_double("", |cuda| {
        cuda.start(0);
        cuda.allocate(8);
        cuda.stream();
        assert_eq!(cuda.double.live().len(), 4);
    })
    .complaint("not given back: device memory of 8 bytes");
    with_double("", |cuda| {
        cuda.start(0);
        cuda.stream();
        ok(cuda.cuDevicePrimaryCtxRelease_v2(0));
        assert_eq!(cuda.double.lost().len(), 1);
    })
    .complaint("lost with its context: stream");
}

#[test]
fn functions_can_be_missing() {
    with_double("missing=cuMemPoolDestroy,cuProfilerStart", |cuda| {
        let library = cuda.double.library();
        type Plain = unsafe extern "C" fn(usize) -> u32;
        // SAFETY: the functions are not called.
        let has = |name: &str| unsafe { library.get::<Plain>(name) }.is_ok();
        assert!(!has("cuMemPoolDestroy") && !has("cuProfilerStart") && has("cuProfilerStop"));
        for (name, version, expected) in [
            (c"cuMemPoolDestroy", 12080, None),
            (c"cuMemFree", 12080, Some("cuMemFree_v2")),
            (c"cuMemFree", 2000, None),
            (c"cuMemPrefetchAsync", 12010, Some("cuMemPrefetchAsync")),
            (c"cuMemPrefetchAsync", 12020, Some("cuMemPrefetchAsync_v2")),
            (c"cuNothing", 12080, None),
        ] {
            let found = cuda.address_of(name, version);
            let expected = expected.map(|exported| {
                // SAFETY: the function is not called.
                *unsafe { library.get::<Plain>(exported) }.expect(exported) as usize
            });
            assert_eq!(found, expected.unwrap_or(0), "{name:?} {version}");
        }
    })
    .nothing_wrong();
}

#[test]
fn devices_are_made_by_the_settings() {
    with_double("devices=2;capability=8.6;managed=0;pools=0;peer=0", |cuda| {
        cuda.start(0);
        let (mut count, mut major, mut can, mut x) = (0, 0, 1, 0);
        ok(cuda.cuDeviceGetCount(&mut count));
        ok(cuda.cuDeviceGetAttribute(&mut major, 75, 1));
        ok(cuda.cuDeviceCanAccessPeer(&mut can, 0, 1));
        assert_eq!((count, major, can), (2, 8, 0));
        assert_eq!(cuda.cuMemAllocManaged(&mut x, 8, 1), 801);
        assert_eq!(cuda.cuMemAllocAsync(&mut x, 8, 0), 801);
        let mut name = [0u8; 64];
        ok(cuda.cuDeviceGetName(name.as_mut_ptr(), 64, 0));
        assert!(name.starts_with(b"Longshore double"));
        finish(cuda);
    })
    .nothing_wrong();
    with_double("devices=0", |cuda| assert_eq!(cuda.cuInit(0), 100)).nothing_wrong();
    with_double("init=999", |cuda| assert_eq!(cuda.cuInit(0), 999)).nothing_wrong();
}

#[test]
fn devices_copy_to_each_other() {
    with_double("devices=2", |cuda| {
        let first = cuda.start(0);
        let x = cuda.allocate(64);
        cuda.write(x, &[7u32; 16]);
        ok(cuda.cuCtxSynchronize());
        let second = cuda.start(1);
        let y = cuda.allocate(64);
        assert_ne!(x, y);
        let stream = cuda.stream();
        ok(cuda.cuMemcpyPeerAsync(y, second, x, first, 64, stream));
        ok(cuda.cuStreamSynchronize(stream));
        assert_eq!(cuda.read::<u32>(y, 16), [7; 16]);
        ok(cuda.cuCtxEnablePeerAccess(first, 0));
        assert_eq!(cuda.cuCtxEnablePeerAccess(first, 0), 704);
        let mut device = 9i32;
        ok(cuda.cuPointerGetAttribute((&raw mut device).cast(), 9, x));
        assert_eq!(device, 0);
        ok(cuda.cuStreamDestroy_v2(stream));
        ok(cuda.cuMemFree_v2(x));
        ok(cuda.cuMemFree_v2(y));
        ok(cuda.cuDevicePrimaryCtxRelease_v2(1));
        finish(cuda);
    })
    .nothing_wrong();
}

#[test]
fn the_program_cannot_use_device_memory_itself() {
    with_double("", |cuda| {
        cuda.start(0);
        let x = cuda.allocate(8);
        let mut pinned = 0;
        ok(cuda.cuMemHostAlloc(&mut pinned, 8, 0));
        let can_read = |address: u64| {
            let start = std::ptr::with_exposed_provenance::<c_void>(address as usize);
            let mut bytes = [0u8; 8];
            let to = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: 8 };
            let from = libc::iovec { iov_base: start.cast_mut(), iov_len: 8 };
            // SAFETY: the system checks both ranges.
            unsafe { libc::process_vm_readv(libc::getpid(), &to, 1, &from, 1, 0) == 8 }
        };
        assert!(!can_read(x) && can_read(pinned));
        ok(cuda.cuMemFreeHost(pinned));
        assert!(!can_read(pinned));
        ok(cuda.cuMemFree_v2(x));
        finish(cuda);
    })
    .nothing_wrong();
}

#[test]
fn a_gpu_process_that_dies_is_an_error() {
    with_double("quiet", |cuda| {
        cuda.start(0);
        let stream = cuda.stream();
        let children = std::fs::read_to_string("/proc/thread-self/children").expect("it is there");
        let child: i32 = children.trim().parse().expect("one GPU process");
        // SAFETY: a process that this one has started and not waited for.
        assert_eq!(unsafe { libc::kill(child, libc::SIGKILL) }, 0);
        let mut x = 0;
        let allocated = cuda.cuMemAlloc_v2(&mut x, 8);
        assert!(matches!(allocated, 0 | 719), "{allocated}");
        assert_eq!(cuda.cuMemAlloc_v2(&mut x, 8), 719);
        assert_eq!(cuda.cuStreamDestroy_v2(stream), 719);
        ok(cuda.cuDevicePrimaryCtxRelease_v2(0));
        cuda.start(0);
        ok(cuda.cuCtxSynchronize());
        finish(cuda);
    });
}
