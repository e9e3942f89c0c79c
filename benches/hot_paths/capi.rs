//! The time of a call of the C API beyond the same work by `longshore`, which is the floor here.
//! Each side has a device of its own on the same plugin. The C side is called in the shared
//! library, as by programs.

use super::offload::OffloadLibrary;
use super::{Bench, host_plugin};
use criterion::Criterion;
use longshore::{DeviceInfo, Grid, MemoryKind, RawArguments};
use longshore_capi::*;
use longshore_conformance::Fixtures;
use std::ffi::c_void;
use std::hint::black_box;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Number of calls of each side in a round. After the round, both queues are waited for.
const ROUND: u64 = 500;
const BYTES: usize = 64;
const NAME_BYTES: usize = 256;
const ONE: ol_dimensions_t = ol_dimensions_t { x: 1, y: 1, z: 1 };
const SIZES: ol_kernel_launch_size_args_t = ol_kernel_launch_size_args_t {
    Dimensions: 1,
    NumGroups: ONE,
    GroupSize: ONE,
    DynSharedMemory: 0,
};

/// Returns the shared library's function with the name and type of a declared one.
macro_rules! function {
    ($library:expr, $name:ident($($any:tt),*)) => {{
        let declared: unsafe extern "C" fn($($any),*) -> ol_result_t = $name;
        // SAFETY: it has the type of the declared function.
        unsafe { $library.function(stringify!($name), declared) }
    }};
}

/// The library in use, with the objects for the calls.
struct Offload {
    library: OffloadLibrary,
    device: ol_device_handle_t,
    queue: ol_queue_handle_t,
    nop: ol_symbol_handle_t,
    iota: ol_symbol_handle_t,
}

pub(super) fn calls(criterion: &mut Criterion) {
    let bench = Bench::new();
    let offload = Offload::new(&bench);
    launches(criterion, &bench, &offload);
    copies(criterion, &bench, &offload);
    allocations(criterion, &bench, &offload);
    events(criterion, &bench, &offload);
    queries(criterion, &bench, &offload);
}

fn launches(criterion: &mut Criterion, bench: &Bench, offload: &Offload) {
    let &Offload { device, queue, nop, iota, .. } = offload;
    let launch = function!(offload.library, olLaunchKernel(_, _, _, _, _, _, _, _));
    let kernel = bench.program.kernel("nop").expect("the fixture has it");
    let launched = |queue| {
        // SAFETY: the kernel takes no arguments.
        ok(unsafe { launch(queue, device, nop, &SIZES, null(), 0, null_mut(), null()) });
    };
    let held = Some((offload, bench));
    // Without a queue, the C API uses an idle queue of the device, so the floor does, too.
    let floor = || {
        let queue = bench.device.queue().unwrap();
        // SAFETY: the kernel takes no arguments.
        unsafe { queue.launch_and_wait(&kernel, Grid::default(), ()) }.unwrap();
    };
    compare(criterion, "capi_launch_and_wait", floor, || launched(null_mut()), None);
    // SAFETY: as above.
    let floor = || unsafe { bench.queue.launch(&kernel, Grid::default(), ()) }.unwrap();
    compare(criterion, "capi_launch_queued", floor, || launched(queue), held);

    let kernel = bench.program.kernel("iota").expect("the fixture has it");
    let mut numbers = [0u32; 4];
    let (mut address, mut count) = ((&raw mut numbers), numbers.len() as u64);
    let mut pointers: [*mut c_void; 2] = [(&raw mut address).cast(), (&raw mut count).cast()];
    let (constants, bytes) = (pointers.map(<*mut c_void>::cast_const), [8usize, 8]);
    let pointers = pointers.as_mut_ptr();
    let floor = || {
        // SAFETY: the kernel takes a pointer to numbers and their count; all live longer than the
        // queue's work.
        let arguments = unsafe { RawArguments::new(&constants, &bytes) }.unwrap();
        // SAFETY: as above.
        unsafe { bench.queue.launch(&kernel, Grid::default(), arguments) }.unwrap();
    };
    let ours = || {
        // SAFETY: as above.
        ok(unsafe { launch(queue, device, iota, &SIZES, null(), 2, pointers, bytes.as_ptr()) });
    };
    compare(criterion, "capi_launch_with_arguments", floor, ours, held);
}

/// Measures copies in the program's memory. Without a queue, the floor is the copy itself.
fn copies(criterion: &mut Criterion, bench: &Bench, offload: &Offload) {
    let &Offload { device, queue, .. } = offload;
    let copy = function!(offload.library, olMemcpy(_, _, _, _, _, _));
    let (mut from, mut to) = ([1u8; BYTES], [0u8; BYTES]);
    let (from, to) = ((&raw mut from).cast::<c_void>(), (&raw mut to).cast::<c_void>());
    // SAFETY: both have `BYTES` bytes, and live longer than the queue's work.
    let ours = |queue| ok(unsafe { copy(queue, to, device, from, device, BYTES) });
    // SAFETY: as above.
    let floor = || unsafe { black_box(to).copy_from(black_box(from), BYTES) };
    compare(criterion, "capi_copy_64B", floor, || ours(null_mut()), None);

    // SAFETY: as above.
    let floor = || unsafe { bench.queue.copy_on_host(to, from, BYTES as u64) }.unwrap();
    compare(criterion, "capi_queued_copy_64B", floor, || ours(queue), Some((offload, bench)));
}

/// Measures allocations. Both sides free by the address.
fn allocations(criterion: &mut Criterion, bench: &Bench, offload: &Offload) {
    let allocate = function!(offload.library, olMemAlloc(_, _, _, _));
    let free = function!(offload.library, olMemFree(_));
    let floor = || {
        let memory = bench.device.allocate(MemoryKind::Device, 1 << 20, 64).unwrap();
        // SAFETY: no code uses the memory.
        unsafe { bench.host.free(memory.into_raw()) }.unwrap();
    };
    let ours = || {
        let mut memory = null_mut();
        // SAFETY: no code uses the memory.
        unsafe {
            ok(allocate(offload.device, OL_ALLOC_TYPE_DEVICE, 1 << 20, &mut memory));
            ok(free(memory));
        }
    };
    compare(criterion, "capi_allocate_free_1MiB", floor, ours, None);
}

fn events(criterion: &mut Criterion, bench: &Bench, offload: &Offload) {
    let create = function!(offload.library, olCreateEvent(_, _, _));
    let synchronize = function!(offload.library, olSyncEvent(_));
    let destroy = function!(offload.library, olDestroyEvent(_));
    let floor = || bench.queue.record().unwrap().synchronize().unwrap();
    let ours = || {
        let mut event = null_mut();
        // SAFETY: the event is destroyed once.
        unsafe {
            ok(create(offload.queue, OL_EVENT_FLAGS_NONE, &mut event));
            ok(synchronize(event));
            ok(destroy(event));
        }
    };
    compare(criterion, "capi_event", floor, ours, None);
}

fn queries(criterion: &mut Criterion, bench: &Bench, offload: &Offload) {
    let info = function!(offload.library, olGetDeviceInfo(_, _, _, _));
    let mut answer = [0u8; NAME_BYTES];
    let answer = (&raw mut answer).cast::<c_void>();
    let entry = &bench.host.devices()[0];
    for (name, query, ours) in [
        ("capi_device_number", DeviceInfo::NumComputeUnits, OL_DEVICE_INFO_NUM_COMPUTE_UNITS),
        ("capi_device_name", DeviceInfo::Name, OL_DEVICE_INFO_NAME),
    ] {
        let room = if ours == OL_DEVICE_INFO_NAME { NAME_BYTES } else { size_of::<u32>() };
        // SAFETY: the buffer has `room` bytes.
        let ours = || ok(unsafe { info(offload.device, ours, room, answer) });
        compare(criterion, name, || drop(black_box(entry.info(query).unwrap())), ours, None);
    }
}

/// Measures a group of both sides. They run in turns, so that both meet the same state of the
/// machine. If `queues` is given, both queues are held.
fn compare(
    criterion: &mut Criterion,
    name: &str,
    floor: impl Fn(),
    ours: impl Fn(),
    queues: Option<(&Offload, &Bench)>,
) {
    let rounds = |count: u64| {
        let (mut floor_took, mut ours_took, mut left) = (Duration::ZERO, Duration::ZERO, count);
        while left > 0 {
            let times = left.min(ROUND);
            let held = queues.map(|(offload, bench)| offload.hold(bench));
            floor_took += timed(&floor, times);
            ours_took += timed(&ours, times);
            drop(held);
            left -= times;
        }
        (floor_took, ours_took)
    };
    let mut group = criterion.benchmark_group(name);
    group.bench_function("floor", |b| b.iter_custom(|count| rounds(count).0));
    group.bench_function("longshore", |b| b.iter_custom(|count| rounds(count).1));
    group.finish();
}

#[inline(never)]
fn timed(what: &impl Fn(), times: u64) -> Duration {
    let start = Instant::now();
    (0..times).for_each(|_| what());
    start.elapsed()
}

#[inline]
fn ok(result: ol_result_t) {
    assert!(result.is_null());
}

impl Offload {
    fn new(bench: &Bench) -> Offload {
        // SAFETY: no other thread uses the environment now.
        unsafe {
            std::env::set_var("LONGSHORE_PLUGIN_PATH", host_plugin());
            std::env::set_var("LONGSHORE_BACKEND", "host");
        }
        let library = OffloadLibrary::open();
        let mut device: ol_device_handle_t = null_mut();
        let (mut queue, mut program) = (null_mut(), null_mut());
        let (mut nop, mut iota) = (null_mut(), null_mut());
        let image = Fixtures::built_in().image(&bench.device, "basic");
        let image = image.expect("the device answers").expect("it takes shared objects");
        let init = function!(library, olInit(_));
        let iterate_devices = function!(library, olIterateDevices(_, _));
        let create_queue = function!(library, olCreateQueue(_, _));
        let create_program = function!(library, olCreateProgram(_, _, _, _));
        let get_symbol = function!(library, olGetSymbol(_, _, _, _));
        // SAFETY: the callback writes to the handle; the image has the given number of bytes.
        unsafe {
            ok(init(null()));
            ok(iterate_devices(Some(take_device), (&raw mut device).cast()));
            ok(create_queue(device, &mut queue));
            ok(create_program(device, image.as_ptr().cast(), image.len(), &mut program));
            ok(get_symbol(program, c"nop".as_ptr(), OL_SYMBOL_KIND_KERNEL, &mut nop));
            ok(get_symbol(program, c"iota".as_ptr(), OL_SYMBOL_KIND_KERNEL, &mut iota));
        }
        Offload { library, device, queue, nop, iota }
    }

    /// Holds up the work of both queues until the returned object is dropped, so that only the call
    /// is timed, without effects of the queue's thread.
    fn hold<'a>(&'a self, bench: &'a Bench) -> HeldQueues<'a> {
        unsafe extern "C" fn wait(_: *mut c_void) {
            HELD.fetch_add(1, Ordering::Release);
            while HELD.load(Ordering::Acquire) > 0 {
                std::thread::sleep(Duration::from_micros(50));
            }
        }
        // SAFETY: the function uses no data.
        bench.queue.host_function(|| unsafe { wait(null_mut()) }).unwrap();
        let host_function = function!(self.library, olLaunchHostFunction(_, _, _));
        // SAFETY: as above.
        ok(unsafe { host_function(self.queue, Some(wait), null_mut()) });
        while HELD.load(Ordering::Acquire) < 2 {
            std::thread::yield_now();
        }
        HeldQueues { offload: self, bench }
    }
}

/// Number of held queues.
static HELD: AtomicU32 = AtomicU32::new(0);

/// Two held queues. Dropping the object releases them and waits for them.
struct HeldQueues<'a> {
    offload: &'a Offload,
    bench: &'a Bench,
}

impl Drop for HeldQueues<'_> {
    fn drop(&mut self) {
        HELD.store(0, Ordering::Release);
        self.bench.queue.synchronize().unwrap();
        let synchronize = function!(self.offload.library, olSyncQueue(_));
        // SAFETY: the queue is there.
        ok(unsafe { synchronize(self.offload.queue) });
    }
}

unsafe extern "C" fn take_device(device: ol_device_handle_t, found: *mut c_void) -> bool {
    // SAFETY: the pointer is to the handle in `Offload::new`.
    unsafe { *found.cast() = device };
    false
}
