//! Work on the devices of two nodes: copies, events and functions of the program.

use crate::{TrialResult, part, run, trial};
use libtest_mimic::Trial;
use longshore::{Buffer, Device, Grid, Host, MemoryKind, Queue, Result};
use longshore_conformance::{Fixtures, TrustedImages};
use longshore_tests::mpi::{Implementation, Job};
use longshore_tests::vulkan;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

/// The parts of jobs, by name.
pub(crate) const PARTS: [(&str, fn()); 4] =
    [("copies", copies), ("events", events), ("functions", functions), ("hosts", hosts)];
/// Time after which a silent process is lost.
const LIMIT: Duration = Duration::from_secs(2);

/// Sizes of copies in bytes: around the limits of messages, pieces and transfers.
const SIZES: [usize; 9] = [
    1,
    7,
    4096,
    (8 << 10) + 1,
    (48 << 10) - 20,
    (48 << 10) + 1,
    (1 << 20) - 1,
    (1 << 20) + 3,
    20 << 20,
];

pub(crate) fn trials(implementation: Implementation) -> Vec<Trial> {
    let on_cpus = |name: &'static str| {
        trial(implementation, &format!("{name} of two nodes"), move |implementation| {
            let limit = LIMIT.as_secs().to_string();
            run(&part(implementation, name).nodes(2).env("LONGSHORE_MPI_TIME_LIMIT", limit))
        })
    };
    let between = |name: &'static str| {
        trial(implementation, &format!("{name} of lavapipe and a CPU"), move |implementation| {
            on_lavapipe_and_a_cpu(part(implementation, name))
        })
    };
    let mut trials = vec![between("copies"), between("events")];
    trials.extend(PARTS.map(|(name, _)| on_cpus(name)));
    trials
}

/// Runs a part on a node with both devices, and on another with the CPU alone.
fn on_lavapipe_and_a_cpu(job: Job) -> TrialResult {
    let Some(manifest) = vulkan::lavapipe() else {
        return crate::not_tried("not installed: lavapipe");
    };
    let job = job.env("VK_DRIVER_FILES", manifest).env("LONGSHORE_NODE_BACKEND", "vulkan,host");
    // Each node has lavapipe and a CPU, in this order.
    run(&job.nodes(2).env("LONGSHORE_DEVICES", "mpi:0,3"))
}

/// Opens the devices of both nodes.
pub(crate) fn devices() -> (Host, Device, Device) {
    let host = Host::new().unwrap();
    assert_eq!(host.devices().len(), 2, "{}", host.why_no_device());
    let [first, second] = [0, 1].map(|index| host.devices()[index].open().unwrap());
    (host, first, second)
}

/// Returns bytes that differ at each place, and with the seed.
fn bytes(count: usize, seed: usize) -> Vec<u8> {
    (0..count).map(|at| (at * 31 + (at >> 8) * 7 + seed * 13 + 5) as u8).collect()
}

/// Memory of each device, whose contents are known.
struct Pair {
    near: Buffer<u8>,
    far: Buffer<u8>,
}

fn copies() {
    let (_host, first, second) = devices();
    for (seed, size) in SIZES.into_iter().enumerate() {
        for (near, far) in [(&first, &second), (&second, &first)] {
            for queue in [near, far].map(|device| device.queue().unwrap()) {
                go_there_and_back(&queue, near, far, &bytes(size, seed)).unwrap();
            }
        }
    }
    overlap(&first, &second).unwrap();
}

/// Copies to one device, to the other and back, by calls that wait and by queued ones.
fn go_there_and_back(queue: &Queue, near: &Device, far: &Device, content: &[u8]) -> Result<()> {
    let pair = Pair {
        near: near.buffer_of(queue, content)?,
        far: far.buffer_of(queue, &vec![0; content.len()])?,
    };
    let what = |step| {
        let (near, far, on) = (near.name(), far.name(), queue.device().name());
        format!("{step}: {} bytes from {near} to {far}, queued on {on}", content.len())
    };
    pair.far.as_slice().copy_from(queue, pair.near.as_slice())?;
    assert!(pair.far.to_vec(queue)? == content, "{}", what("waiting"));

    let other: Vec<_> = content.iter().map(|byte| !byte).collect();
    let mut back = vec![0; content.len()];
    let mut direct = vec![0; content.len()];
    let size = content.len() as u64;
    // SAFETY: all memory stays in place until the queue is synchronized.
    unsafe {
        let [near, far] = [pair.near.pointer(), pair.far.pointer()];
        queue.copy_from_host(near, other.as_ptr().cast(), size)?;
        queue.copy(far, near, size)?;
        queue.copy_to_host(direct.as_mut_ptr().cast(), far, size)?;
        queue
            .fill(near, &[0], size)
            .or_else(|_| queue.copy_from_host(near, content.as_ptr().cast(), size))?;
        queue.copy(near, far, size)?;
        queue.copy_to_host(back.as_mut_ptr().cast(), near, size)?;
    }
    queue.synchronize()?;
    assert!(direct == other, "{}", what("queued"));
    assert!(back == other, "{}", what("queued, and back"));
    Ok(())
}

/// Copies in both directions at a time.
fn overlap(first: &Device, second: &Device) -> Result<()> {
    const COUNT: usize = 8;
    const BYTES: usize = 300_000;
    let queues = [first.queue()?, second.queue()?];
    let contents: Vec<_> = (0..COUNT).map(|seed| bytes(BYTES, seed)).collect();
    let buffers = |device: &Device, queue: &Queue| -> Result<Vec<Buffer<u8>>> {
        contents.iter().map(|content| device.buffer_of(queue, content)).collect()
    };
    let (here, there) = (buffers(first, &queues[0])?, buffers(second, &queues[1])?);
    let zeros = vec![0; BYTES];
    let into_second: Vec<_> =
        here.iter().map(|_| second.buffer_of(&queues[0], &zeros)).collect::<Result<_>>()?;
    let into_first: Vec<_> =
        there.iter().map(|_| first.buffer_of(&queues[1], &zeros)).collect::<Result<_>>()?;
    for index in 0..COUNT {
        // SAFETY: the buffers stay in place until the queues are synchronized.
        unsafe {
            let size = BYTES as u64;
            queues[0].copy(into_second[index].pointer(), here[index].pointer(), size)?;
            queues[1].copy(into_first[index].pointer(), there[index].pointer(), size)?;
        }
    }
    queues.iter().try_for_each(Queue::synchronize)?;
    for (index, content) in contents.iter().enumerate() {
        assert!(into_second[index].to_vec(&queues[1])? == *content, "{index} to the second node");
        assert!(into_first[index].to_vec(&queues[0])? == *content, "{index} to the first node");
    }
    Ok(())
}

fn events() {
    let (_host, first, second) = devices();
    for (one, other) in [(&first, &second), (&second, &first)] {
        events_order_queues(one, other).unwrap();
        events_are_waited_for_before_they_happen(one, other).unwrap();
        copies_follow_events(one, other).unwrap();
        copies_and_events_alternate(one, other).unwrap();
    }
    events_form_chains(&first, &second).unwrap();
}

/// Reads with one queue after an event of another queue, which has written.
fn events_order_queues(one: &Device, other: &Device) -> Result<()> {
    let (writes, reads) = (one.queue()?, other.queue()?);
    for seed in 0..20 {
        let content = bytes(10_000, seed);
        let shared = one.buffer_of(&writes, &vec![0; content.len()])?;
        let written = writes.write_owned(&shared, content.clone())?;
        reads.wait_for(written.event())?;
        let read = reads.read_owned(&shared)?;
        assert!(read.wait()? == content, "round {seed}");
        written.wait()?;
    }
    Ok(())
}

/// Has a queue wait for an event that the program holds back.
fn events_are_waited_for_before_they_happen(one: &Device, other: &Device) -> Result<()> {
    let (held, waiting) = (one.queue()?, other.queue()?);
    let (release, released) = channel::<()>();
    let order = Arc::new(AtomicU32::new(0));
    let before = Arc::clone(&order);
    held.host_function(move || {
        released.recv().unwrap();
        before.fetch_add(1, Ordering::SeqCst);
    })?;
    let event = held.record()?;
    waiting.wait_for(&event)?;
    let (seen, after) = (Arc::new(AtomicU32::new(9)), Arc::clone(&order));
    let see = Arc::clone(&seen);
    waiting.host_function(move || see.store(after.load(Ordering::SeqCst), Ordering::SeqCst))?;
    let behind = waiting.record()?;
    assert!(!event.is_complete()? && !behind.is_complete()?);
    release.send(()).unwrap();
    behind.synchronize()?;
    assert!(event.is_complete()?);
    assert_eq!(seen.load(Ordering::SeqCst), 1);
    held.synchronize()?;
    waiting.synchronize()
}

/// Copies between the devices behind an event, which is reached before the queue comes to the copy,
/// or after it.
fn copies_follow_events(one: &Device, other: &Device) -> Result<()> {
    let (writes, reads) = (one.queue()?, other.queue()?);
    for (seed, size) in [1, 4097, 64 << 10, (64 << 10) + 1].into_iter().enumerate() {
        for is_late in [false, true] {
            let content = bytes(size, seed + usize::from(is_late));
            let from = one.buffer_of(&writes, &vec![0; size])?;
            let to = other.buffer_of(&reads, &vec![0; size])?;
            let (release, released) = channel::<()>();
            writes.host_function(move || released.recv().unwrap())?;
            let written = writes.write_owned(&from, content.clone())?;
            if is_late {
                release.send(()).unwrap();
                written.event().synchronize()?;
            }
            reads.wait_for(written.event())?;
            // SAFETY: both buffers have the bytes, and live until the read below is done.
            unsafe { reads.copy(to.pointer(), from.pointer(), size as u64)? };
            if !is_late {
                // The queue comes to the copy meanwhile.
                std::thread::sleep(Duration::from_millis(5));
                assert!(!reads.is_idle()?);
                release.send(()).unwrap();
            }
            assert!(to.to_vec(&reads)? == content, "{size} bytes, late: {is_late}");
            written.wait()?;
        }
    }
    Ok(())
}

/// Writes and copies in turn by two queues, whose order is that of their events alone.
fn copies_and_events_alternate(one: &Device, other: &Device) -> Result<()> {
    const ROUNDS: usize = 100;
    const SIZE: usize = 6000;
    let (writes, reads) = (one.queue()?, other.queue()?);
    let (from, to) = (one.buffer::<u8>(&writes, SIZE)?, other.buffer::<u8>(&reads, ROUNDS * SIZE)?);
    for round in 0..ROUNDS {
        from.fill(&writes, round as u8)?;
        reads.wait_for(&writes.record()?)?;
        let place = to.pointer().offset((round * SIZE) as i64);
        // SAFETY: both buffers have the bytes, and live until all is done.
        unsafe { reads.copy(place, from.pointer(), SIZE as u64)? };
        writes.wait_for(&reads.record()?)?;
    }
    writes.synchronize()?;
    let all = to.to_vec(&reads)?;
    for (round, content) in all.chunks(SIZE).enumerate() {
        assert!(content.iter().all(|byte| *byte == round as u8), "round {round}");
    }
    Ok(())
}

/// Increments a counter by two queues in turn, each of which waits for the other.
fn events_form_chains(first: &Device, second: &Device) -> Result<()> {
    const TURNS: u32 = 40;
    let queues = [first.queue()?, second.queue()?];
    let counter = Arc::new(AtomicU32::new(0));
    for turn in 0..TURNS {
        let (queue, next) = (&queues[turn as usize % 2], &queues[(turn as usize + 1) % 2]);
        let counter = Arc::clone(&counter);
        queue.host_function(move || {
            let _ = counter.compare_exchange(turn, turn + 1, Ordering::SeqCst, Ordering::SeqCst);
        })?;
        next.wait_for(&queue.record()?)?;
    }
    queues.iter().try_for_each(Queue::synchronize)?;
    assert_eq!(counter.load(Ordering::SeqCst), TURNS);
    Ok(())
}

fn functions() {
    let (_host, first, second) = devices();
    functions_run_in_order(&first, &second).unwrap();
    kernels_see_the_programs_memory(&first).unwrap();
    kernels_see_the_programs_memory(&second).unwrap();
}

/// Runs functions of the program between the copies of their queue.
fn functions_run_in_order(first: &Device, second: &Device) -> Result<()> {
    for device in [first, second] {
        let queue = device.queue()?;
        let there = device.allocate(MemoryKind::Device, 8, 8)?;
        let place = Box::leak(Box::new([0_u64; 2]));
        let (from, to) = (&raw mut place[0] as usize, &raw mut place[1] as usize);
        for round in 1..=20_u64 {
            // SAFETY: the functions and copies of the queue use the places one after the other, and
            // the places are never freed.
            unsafe {
                queue.host_function(move || (from as *mut u64).write(round))?;
                queue.copy_from_host(there.pointer(), from as *const _, 8)?;
                queue.copy_to_host(to as *mut _, there.pointer(), 8)?;
                queue.host_function(move || {
                    assert_eq!((to as *mut u64).read(), round);
                    (to as *mut u64).write(0);
                })?;
            }
        }
        queue.synchronize()?;
        assert_eq!(place[0], 20);
    }
    Ok(())
}

/// Runs a kernel on queued data of the program.
fn kernels_see_the_programs_memory(device: &Device) -> Result<()> {
    const COUNT: usize = 1000;
    let image = Fixtures::built_in().image(device, "basic")?.expect("there is an image for it");
    let program = device.load_trusted(&*image)?;
    let (queue, saxpy) = (device.queue()?, program.kernel("saxpy")?);
    let x = device.buffer_of(&queue, &vec![0_f32; COUNT])?;
    let y = device.buffer_of(&queue, &vec![1_f32; COUNT])?;
    for round in 0..10 {
        let values: Vec<_> = (0..COUNT).map(|at| (at + round) as f32).collect();
        let written = queue.write_owned(&x, values)?;
        // SAFETY: the kernel takes (u64, f32, pointer, pointer) and stays within `COUNT` elements.
        unsafe { queue.launch(&saxpy, Grid::linear(8, 128), (COUNT as u64, 1_f32, &x, &y))? };
        written.wait()?;
    }
    let expected = (0..COUNT).map(|at| 1. + (0..10).map(|round| (at + round) as f32).sum::<f32>());
    assert!(y.to_vec(&queue)?.into_iter().eq(expected), "{}", device.name());
    drop((x, y));
    program.unload().map(drop)
}

/// Uses the nodes by one host after another. Between them the program is silent for long.
fn hosts() {
    for seed in 0..2 {
        let (host, first, second) = devices();
        let other = Host::new().unwrap();
        let queue = first.queue().unwrap();
        go_there_and_back(&queue, &first, &second, &bytes(1 << 20, seed)).unwrap();
        drop((host, first, second, queue));
        let device = other.devices()[1].open().unwrap();
        let queue = device.queue().unwrap();
        let buffer = device.buffer_of(&queue, &bytes(100, seed)).unwrap();
        assert_eq!(buffer.to_vec(&queue).unwrap(), bytes(100, seed));
        drop((buffer, queue, device, other));
        std::thread::sleep(LIMIT * 3 / 2);
    }
}
