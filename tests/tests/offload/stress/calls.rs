//! One call of each function with random arguments: handles that other threads destroy
//! concurrently, and invalid arguments. A thread accesses memory only where no other thread can
//! free it.

use super::pool::{Random, Shared};
use super::tally::Function;
use super::worker::{PIECE, SIZES, Worker};
use longshore_capi::*;
use std::ffi::{CStr, c_void};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Greatest number of allocations of a thread.
const ALLOCATIONS: usize = 16;
/// One in this number of loads has a valid image.
const SELDOM: usize = 8;
/// A size in bytes above that of every reply.
const ROOM: usize = 256;
static SOURCE: [u8; 4096] = [7; 4096];

/// Calls a function.
pub(crate) fn call(worker: &mut Worker<'_>, function: Function) {
    use Function::*;
    match function {
        olInit | olShutDown => {}
        olGetPlatformInfo | olGetPlatformInfoSize | olPlatformRegisterRPCCallback => {
            platform_calls(worker, function);
        }
        olIterateDevices | olGetDeviceInfo | olGetDeviceInfoSize => device_calls(worker, function),
        olMemAlloc | olMemAllocAligned | olMemFree => allocate(worker, function),
        olGetMemInfo | olGetMemInfoSize | olMemRegister | olMemUnregister => {
            memory_calls(worker, function);
        }
        olMemPrefetch | olMemcpy | olMemFill => transfer(worker, function),
        olCreateQueue | olDestroyQueue | olSyncQueue | olQueryQueue | olGetQueueInfo
        | olGetQueueInfoSize => queue_calls(worker, function),
        olWaitEvents | olLaunchHostFunction | olCreateEvent => on_queue(worker, function),
        olDestroyEvent
        | olSyncEvent
        | olGetEventInfo
        | olGetEventInfoSize
        | olGetEventElapsedTime => event_calls(worker, function),
        olCreateProgram | olDestroyProgram | olIsValidBinary => program_calls(worker, function),
        olGetSymbol => get_symbol(worker),
        olGetSymbolInfo | olGetSymbolInfoSize => symbol_calls(worker, function),
        olLaunchKernel | olCalculateOptimalOccupancy | olGetKernelMaxCooperativeGroupCount => {
            kernel_calls(worker, function);
        }
    }
}

/// Returns the place for a reply, rarely null.
fn out<T>(random: &mut Random, to: &mut T) -> *mut T {
    if random.once_in(30) { null_mut() } else { to }
}

/// Returns the size for a reply: enough, or too small.
fn room(random: &mut Random) -> usize {
    random.one_of(&[ROOM, ROOM, ROOM, ROOM, 4, 1, 0])
}

fn platform_calls(worker: &mut Worker<'_>, function: Function) {
    let Worker { shared, random, .. } = worker;
    let platform = shared.platforms.any(random);
    let query = ol_platform_info_t(random.below(5) as u32);
    let (mut answer, mut size) = ([0u8; ROOM], 0);
    // SAFETY: the buffers have the given sizes.
    let result = unsafe {
        match function {
            Function::olGetPlatformInfo => {
                let to = out(random, &mut answer).cast();
                olGetPlatformInfo(platform, query, room(random), to)
            }
            Function::olGetPlatformInfoSize => {
                olGetPlatformInfoSize(platform, query, out(random, &mut size))
            }
            _ => {
                let callback: ol_platform_rpc_cb_t = random.one_of(&[Some(serve), None]);
                olPlatformRegisterRPCCallback(platform, callback)
            }
        }
    };
    shared.tally.count(function, result);
}

unsafe extern "C" fn serve(_port: *mut c_void, _lanes: u32) -> u32 {
    0
}

fn device_calls(worker: &mut Worker<'_>, function: Function) {
    let Worker { shared, random, .. } = worker;
    let device = shared.devices.any(random);
    let query = ol_device_info_t(random.below(34) as u32);
    let (mut answer, mut size, mut found) = ([0u8; ROOM], 0, null_mut::<c_void>());
    // SAFETY: the buffers have the given sizes; the callback writes the handle.
    let result = unsafe {
        match function {
            Function::olIterateDevices => {
                let callback: ol_device_iterate_cb_t =
                    random.one_of(&[Some(find), Some(find), None]);
                olIterateDevices(callback, (&raw mut found).cast())
            }
            Function::olGetDeviceInfo if query == OL_DEVICE_INFO_PLATFORM => {
                olGetDeviceInfo(device, query, 8, out(random, &mut found).cast())
            }
            Function::olGetDeviceInfo => {
                let to = out(random, &mut answer).cast();
                olGetDeviceInfo(device, query, room(random), to)
            }
            _ => olGetDeviceInfoSize(device, query, out(random, &mut size)),
        }
    };
    if shared.tally.count(function, result) && !found.is_null() {
        let is_device = function == Function::olIterateDevices;
        let of = if is_device { &shared.devices } else { &shared.platforms };
        of.put(random, found);
    }
}

/// Takes the first device or, every other time, the last, and makes a query meanwhile.
unsafe extern "C" fn find(device: ol_device_handle_t, found: *mut c_void) -> bool {
    static TIMES: AtomicUsize = AtomicUsize::new(0);
    let mut size = 0;
    // SAFETY: `found` points to the handle above.
    unsafe {
        let _ = olGetDeviceInfoSize(device, OL_DEVICE_INFO_NAME, &mut size);
        *found.cast() = device;
    }
    // One call continues the iteration and the next ends it; a third ends its iteration at once.
    TIMES.fetch_add(1, Relaxed).is_multiple_of(3)
}

/// Allocates memory of the thread, and only while no other thread can end the library.
fn allocate(worker: &mut Worker<'_>, function: Function) {
    let Worker { shared, random, memory, is_inside, .. } = worker;
    let device = shared.devices.any(random);
    let (kind, mut at) = (ol_alloc_type_t(random.below(4) as u32), null_mut::<c_void>());
    let has_room = *is_inside && memory.len() < ALLOCATIONS;
    let bytes = if has_room { random.below(1 << 14) } else { 0 };
    // SAFETY: the freed memory belongs to the thread, or is null.
    let result = unsafe {
        match function {
            Function::olMemFree => {
                let freed = match memory.len() {
                    0 => null_mut(),
                    count => memory.swap_remove(random.below(count)),
                };
                if random.once_in(8) {
                    let inside = olMemFree(freed.wrapping_byte_add(8));
                    assert!(!shared.tally.count(function, inside), "it is freed by its middle");
                }
                olMemFree(freed)
            }
            Function::olMemAlloc => olMemAlloc(device, kind, bytes, out(random, &mut at)),
            _ => {
                let alignment = random.one_of(&[0, 1, 3, 64, 256, 4096]);
                olMemAllocAligned(device, kind, bytes, alignment, out(random, &mut at))
            }
        }
    };
    if shared.tally.count(function, result) && !at.is_null() {
        memory.push(at);
        shared.addresses.put(random, at);
    }
}

fn memory_calls(worker: &mut Worker<'_>, function: Function) {
    let Worker { shared, random, .. } = worker;
    let address: *mut c_void = shared.addresses.any(random);
    let address = address.wrapping_byte_add(random.below(64));
    let (mut answer, mut size, mut pinned) = ([0u8; ROOM], 0, null_mut());
    let query = ol_mem_info_t(random.below(5) as u32);
    let device = shared.devices.any(random);
    let start = random.below(SOURCE.len());
    let (flags, range) = (random.below(3) as u32, SOURCE[start..].as_ptr().cast_mut().cast());
    // SAFETY: the buffers have the given sizes; registration does not access memory of the CPU.
    let result = unsafe {
        match function {
            Function::olGetMemInfo => {
                let to = out(random, &mut answer).cast();
                olGetMemInfo(address, query, room(random), to)
            }
            Function::olGetMemInfoSize => olGetMemInfoSize(address, query, out(random, &mut size)),
            Function::olMemRegister => {
                let bytes = random.below(SOURCE.len() - start);
                olMemRegister(device, range, bytes, flags, out(random, &mut pinned))
            }
            _ => olMemUnregister(device, range, flags & 2),
        }
    };
    shared.tally.count(function, result);
}

/// Copies and fills on shared queues, which write memory that no thread reads.
fn transfer(worker: &mut Worker<'_>, function: Function) {
    let shared = worker.shared;
    let own = worker.memory.first().copied();
    let piece = if function == Function::olMemcpy { worker.piece() } else { None };
    let random = &mut worker.random;
    let queue = shared.queues.any(random);
    let queue = if random.once_in(8) { null_mut() } else { queue };
    let (to_device, from_device) = (shared.devices.any(random), shared.devices.any(random));
    let from = SOURCE.as_ptr().cast::<c_void>();
    // SAFETY: each piece is written once; a fill of the thread's own memory is followed by a wait.
    let result = unsafe {
        match function {
            Function::olMemcpy => {
                let bytes = if piece.is_some() { random.below(PIECE + 1) } else { 0 };
                let mut nowhere = [0u8; PIECE];
                let to = piece.unwrap_or(nowhere.as_mut_ptr().cast());
                let to = if random.once_in(30) { null_mut() } else { to };
                olMemcpy(queue, to, to_device, from, from_device, bytes)
            }
            Function::olMemFill => {
                let pattern = random.below(5);
                let to = own.unwrap_or(from.cast_mut());
                let bytes = if own.is_some() { 0 } else { 12 };
                olMemFill(null_mut(), to, pattern, from, bytes)
            }
            _ => {
                let mut ranges = [shared.addresses.any::<c_void>(random).cast_const(), from];
                let (count, sizes) = (random.below(3), [random.below(64), random.below(64)]);
                let (ranges, flags) = (ranges.as_mut_ptr(), random.below(5) as u32);
                let ranges = if random.once_in(30) { null_mut() } else { ranges };
                olMemPrefetch(queue, count, ranges, sizes.as_ptr(), flags)
            }
        }
    };
    shared.tally.count(function, result);
}

fn queue_calls(worker: &mut Worker<'_>, function: Function) {
    let Worker { shared, random, .. } = worker;
    let queue = shared.queues.any(random);
    let (mut made, mut answer, mut size, mut is_done) = (null_mut(), [0u8; ROOM], 0, false);
    let query = ol_queue_info_t(random.below(3) as u32);
    // SAFETY: the buffers have the given sizes.
    let result = unsafe {
        match function {
            Function::olCreateQueue => {
                olCreateQueue(shared.devices.any(random), out(random, &mut made))
            }
            Function::olDestroyQueue => olDestroyQueue(queue),
            Function::olSyncQueue => olSyncQueue(queue),
            Function::olQueryQueue => olQueryQueue(queue, out(random, &mut is_done)),
            Function::olGetQueueInfo => {
                let to = out(random, &mut answer).cast();
                olGetQueueInfo(queue, query, room(random), to)
            }
            _ => olGetQueueInfoSize(queue, query, out(random, &mut size)),
        }
    };
    if shared.tally.count(function, result) && !made.is_null() {
        let old = shared.queues.put(random, made);
        // SAFETY: the library checks handles.
        shared.tally.count(Function::olDestroyQueue, unsafe { olDestroyQueue(old) });
    }
}

fn on_queue(worker: &mut Worker<'_>, function: Function) {
    let Worker { shared, random, .. } = worker;
    let (queue, mut made) = (shared.queues.any(random), null_mut());
    // SAFETY: the value for the host function outlives all queues.
    let result = unsafe {
        match function {
            Function::olWaitEvents => {
                let mut events: [ol_event_handle_t; 2] =
                    [shared.events.any(random), shared.events.any(random)];
                let events = out(random, &mut events).cast();
                olWaitEvents(queue, events, random.below(3))
            }
            Function::olLaunchHostFunction => {
                let callback: ol_host_function_cb_t =
                    random.one_of(&[Some(called), Some(called), Some(called), None]);
                olLaunchHostFunction(queue, callback, shared.as_data())
            }
            _ => {
                let flags = random.one_of(&[0, 1, 1, 2]);
                olCreateEvent(queue, ol_event_flags_t(flags), out(random, &mut made))
            }
        }
    };
    let is_done = shared.tally.count(function, result);
    if is_done && function == Function::olLaunchHostFunction {
        shared.queued.fetch_add(1, Relaxed);
    }
    if is_done && !made.is_null() {
        let old = shared.events.put(random, made);
        // SAFETY: the library checks handles.
        shared.tally.count(Function::olDestroyEvent, unsafe { olDestroyEvent(old) });
    }
}

/// Uses the library in a queue's order, without waiting.
unsafe extern "C" fn called(shared: *mut c_void) {
    // SAFETY: the value outlives all queues.
    let shared = unsafe { &*shared.cast::<Shared>() };
    let random = &mut Random::new(shared.called.fetch_add(1, Relaxed));
    // SAFETY: the library checks handles.
    let result = unsafe { olQueryQueue(shared.queues.any(random), null_mut()) };
    shared.tally.count(Function::olQueryQueue, result);
}

fn event_calls(worker: &mut Worker<'_>, function: Function) {
    let Worker { shared, random, .. } = worker;
    let event = shared.events.any(random);
    let (mut answer, mut size, mut milliseconds) = ([0u8; ROOM], 0, 0.0);
    let query = ol_event_info_t(random.below(3) as u32);
    // SAFETY: the buffers have the given sizes.
    let result = unsafe {
        match function {
            Function::olDestroyEvent => olDestroyEvent(event),
            Function::olSyncEvent => olSyncEvent(event),
            Function::olGetEventInfo => {
                let to = out(random, &mut answer).cast();
                olGetEventInfo(event, query, room(random), to)
            }
            Function::olGetEventInfoSize => {
                olGetEventInfoSize(event, query, out(random, &mut size))
            }
            _ => {
                let end = shared.events.any(random);
                olGetEventElapsedTime(event, end, out(random, &mut milliseconds))
            }
        }
    };
    shared.tally.count(function, result);
}

fn program_calls(worker: &mut Worker<'_>, function: Function) {
    let Worker { shared, random, .. } = worker;
    let (mut made, mut is_valid) = (null_mut(), false);
    let device = shared.devices.any(random);
    let bytes = if random.once_in(SELDOM) { shared.image.len() } else { random.below(200) };
    let image = shared.image.as_ptr().cast();
    // SAFETY: the image has this number of bytes.
    let result = unsafe {
        match function {
            Function::olCreateProgram => {
                olCreateProgram(device, image, bytes, out(random, &mut made))
            }
            Function::olIsValidBinary => {
                olIsValidBinary(device, image, bytes, out(random, &mut is_valid))
            }
            _ if random.once_in(SELDOM) => olDestroyProgram(shared.programs.any(random)),
            _ => olDestroyProgram(null_mut()),
        }
    };
    if shared.tally.count(function, result) && !made.is_null() {
        let old = shared.programs.put(random, made);
        // SAFETY: the library checks handles.
        shared.tally.count(Function::olDestroyProgram, unsafe { olDestroyProgram(old) });
    }
}

fn get_symbol(worker: &mut Worker<'_>) {
    let Worker { shared, random, .. } = worker;
    let names: &[&CStr] = &[c"nop", c"nop", c"iota", c"iota", c"counter", c"nothing"];
    let (name, mut found) = (random.one_of(names), null_mut());
    let kind = match name == c"counter" {
        true => OL_SYMBOL_KIND_GLOBAL_VARIABLE,
        false => ol_symbol_kind_t(if random.once_in(20) { 7 } else { OL_SYMBOL_KIND_KERNEL.0 }),
    };
    let program = shared.programs.any(random);
    // SAFETY: names are texts with a NUL at the end.
    let result = unsafe { olGetSymbol(program, name.as_ptr(), kind, out(random, &mut found)) };
    if shared.tally.count(Function::olGetSymbol, result) && !found.is_null() {
        let of = if name == c"iota" { &shared.iotas } else { &shared.symbols };
        of.put(random, found);
    }
}

fn symbol_calls(worker: &mut Worker<'_>, function: Function) {
    let Worker { shared, random, .. } = worker;
    let symbol = shared.symbols.any(random);
    let query = ol_symbol_info_t(random.below(4) as u32);
    let (mut answer, mut size) = ([0u8; ROOM], 0);
    // SAFETY: the buffers have the given sizes.
    let result = unsafe {
        match function {
            Function::olGetSymbolInfo => {
                let to = out(random, &mut answer).cast();
                olGetSymbolInfo(symbol, query, room(random), to)
            }
            _ => olGetSymbolInfoSize(symbol, query, out(random, &mut size)),
        }
    };
    shared.tally.count(function, result);
}

fn kernel_calls(worker: &mut Worker<'_>, function: Function) {
    let Worker { shared, random, .. } = worker;
    let (device, kernel) = (shared.devices.any(random), shared.symbols.any(random));
    let queue = shared.queues.any(random);
    let queue = if random.once_in(8) { null_mut() } else { queue };
    let sizes: *const ol_kernel_launch_size_args_t =
        if random.once_in(30) { null() } else { &SIZES };
    let properties = ol_kernel_launch_prop_t {
        r#type: ol_kernel_launch_prop_type_t(random.one_of(&[0, 0, 0, 0, 9])),
        data: null_mut(),
    };
    let (mut group, mut count) = (0, 0);
    // SAFETY: the kernel takes no arguments.
    let result = unsafe {
        match function {
            Function::olLaunchKernel => {
                olLaunchKernel(queue, device, kernel, sizes, &properties, 0, null_mut(), null())
            }
            Function::olCalculateOptimalOccupancy => {
                olCalculateOptimalOccupancy(device, kernel, 0, out(random, &mut group))
            }
            _ => {
                olGetKernelMaxCooperativeGroupCount(device, kernel, sizes, out(random, &mut count))
            }
        }
    };
    shared.tally.count(function, result);
}
