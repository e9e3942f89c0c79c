//! Failing kernels: each failure is an error of its queue that names the fault and its place, and
//! does no other harm.

use longshore::{
    Device, DevicePointer, Environment, Error, ErrorCode, Grid, MemoryKind, Program, Queue,
};
use longshore_conformance::TrustedImages;
use longshore_tests::device_code::{Workshop, clangs};
use longshore_tests::resource_usage::{ResourceUsage, assert_nothing_is_left_by};
use std::time::Duration;

const SOURCE: &str = r#"
#include "longshore_device.h"

/* All that goes wrong goes wrong in item 5 of group 3. */
#define IS_IT() (longshore_group_id(0) == 3 && longshore_item_id(0) == 5)

LONGSHORE_KERNEL(store, (uint32_t *volatile where, uint32_t *out)) {
  if (IS_IT()) *(volatile uint32_t *)where = 1;
  out[longshore_global_id(0)] = 1;
}
LONGSHORE_KERNEL(load, (const uint32_t *where, uint32_t *out)) {
  if (IS_IT()) out[0] = *(const volatile uint32_t *)where;
}
LONGSHORE_KERNEL(illegal, (uint32_t *out)) {
  if (IS_IT()) {
#if defined(__x86_64__)
    __asm__ volatile("ud2");
#else
    __asm__ volatile("udf #0");
#endif
  }
  out[longshore_global_id(0)] = 1;
}
LONGSHORE_KERNEL(divide, (uint32_t *out, uint32_t by)) {
  if (IS_IT()) out[longshore_global_id(0)] = 7 / *(volatile uint32_t *)&by;
}
LONGSHORE_KERNEL(asserted, (uint32_t *out)) {
  longshore_assert(!IS_IT());
  out[longshore_global_id(0)] = 1;
}
LONGSHORE_KERNEL(trap, (uint32_t *out)) {
  if (IS_IT()) longshore_trap();
  out[longshore_global_id(0)] = 1;
}
LONGSHORE_KERNEL(overflow, (uint32_t *out)) {
  volatile char big[64 << 20];
  if (IS_IT()) for (uint32_t i = 0; i < sizeof(big); i += 512) big[i] = (char)out[0];
}
static int deep(volatile uint32_t *out, int depth) {
  volatile int frame[100];
  frame[depth % 100] = depth;
  return out[0] == 7 ? frame[0] : deep(out, depth + 1) + frame[1];
}
LONGSHORE_KERNEL(recursion, (uint32_t *out)) { out[longshore_global_id(0)] = (uint32_t)deep(out, 1); }

/* The same on fibers, and in regions. */
LONGSHORE_KERNEL(store_fibers, (uint32_t *where, uint32_t *out)) {
  longshore_barrier();
  if (IS_IT()) *(volatile uint32_t *)where = 1;
  longshore_barrier();
  out[longshore_global_id(0)] = 1;
}
LONGSHORE_KERNEL(assert_fibers, (uint32_t *out)) {
  longshore_barrier();
  longshore_assert(!IS_IT());
  out[longshore_global_id(0)] = 1;
}
LONGSHORE_KERNEL(overflow_fibers, (uint32_t *out)) {
  volatile char big[1 << 20];
  longshore_barrier();
  if (IS_IT()) for (uint32_t i = 0; i < sizeof(big); i += 512) big[i] = (char)out[0];
}
LONGSHORE_GROUP_KERNEL(store_regions, (uint32_t *where, uint32_t *out)) {
  LONGSHORE_ITEMS { out[longshore_global_id(0)] = 1; }
  LONGSHORE_ITEMS { if (IS_IT()) *(volatile uint32_t *)where = 1; }
}

/* Items that wait at different places. */
LONGSHORE_KERNEL(uneven, (uint32_t *out)) {
  if (!IS_IT()) longshore_barrier();
  out[longshore_global_id(0)] = 1;
}

LONGSHORE_KERNEL(fine, (uint32_t *out)) { out[longshore_global_id(0)] = 2; }
LONGSHORE_KERNEL(spin, (uint32_t *flag)) {
  (void)longshore_self;
  while (!__atomic_load_n(flag, __ATOMIC_RELAXED)) {}
}
LONGSHORE_KERNEL(busy, (uint64_t *sum, uint32_t rounds)) {
  uint64_t mine = 0;
  for (uint32_t i = 0; i < rounds; ++i) mine += *(volatile uint32_t *)&rounds & 1;
  __atomic_fetch_add(sum, mine, __ATOMIC_RELAXED);
  (void)longshore_self;
}
"#;

const GROUPS: u32 = 8;
const ITEMS: u32 = 16;

struct Scene {
    workshop: Workshop,
    clang: &'static str,
}

impl Scene {
    fn new() -> Option<Scene> {
        Some(Scene { workshop: Workshop::new(), clang: clangs().pop()? })
    }

    fn open(&self, flag: &str) -> (Device, Program, Queue) {
        let device = self.workshop.device(Environment::empty().with("LONGSHORE_HOST_THREADS", "2"));
        let program = device
            .load_trusted(self.workshop.image(self.clang, "faults", SOURCE, &[flag]))
            .unwrap();
        let queue = device.queue().unwrap();
        (device, program, queue)
    }
}

fn grid() -> Grid {
    Grid::linear(GROUPS, ITEMS)
}

/// Asserts that the error has the place and these words.
#[track_caller]
fn assert_says(error: &Error, kernel: &str, words: &[&str]) {
    assert_eq!(error.code(), ErrorCode::BackendFailure, "{error}");
    let place = format!("kernel '{kernel}', group (3, 0, 0), item (5, 0, 0): ");
    for word in [&[place.as_str()], words].concat() {
        assert!(error.message().contains(word), "expected '{word}': {error}");
    }
}

/// An unmapped address.
const HOLE: u64 = 0x10_0000_0000;

#[test]
fn each_kind_of_fault_is_an_error_with_kernel_group_and_item() {
    let Some(scene) = Scene::new() else { return };
    for flag in ["-O0", "-O3"] {
        let (device, program, queue) = scene.open(flag);
        let out = device.buffer_of(&queue, &[0u32; (GROUPS * ITEMS) as usize]).unwrap();
        let one = |name: &str| program.kernel(name).unwrap();
        // SAFETY: each kernel writes within `out`, or to unmapped memory.
        unsafe {
            let fails = |result: longshore::Result<()>| result.unwrap_err();
            for name in ["store", "store_fibers", "store_regions"] {
                let error =
                    fails(queue.launch_and_wait(&one(name), grid(), (DevicePointer(HOLE), &out)));
                let writing = if cfg!(target_arch = "x86_64") {
                    "writing 0x1000000000"
                } else {
                    "0x1000000000"
                };
                assert_says(
                    &error,
                    name,
                    &["segmentation fault", writing, "far from any allocation"],
                );
                assert_eq!(error.vendor().unwrap().name, "SIGSEGV");
            }
            let error =
                fails(queue.launch_and_wait(&one("load"), grid(), (DevicePointer(8), &out)));
            assert_says(&error, "load", &["segmentation fault", "0x8, next to the null pointer"]);
            let error = fails(queue.launch_and_wait(&one("illegal"), grid(), (&out,)));
            assert_says(&error, "illegal", &["illegal instruction in the code at 0x"]);
            if cfg!(target_arch = "x86_64") {
                let error = fails(queue.launch_and_wait(&one("divide"), grid(), (&out, 0u32)));
                assert_says(&error, "divide", &["integer division by zero"]);
            }
            for name in ["asserted", "assert_fibers"] {
                let error = fails(queue.launch_and_wait(&one(name), grid(), (&out,)));
                assert_says(&error, name, &["!IS_IT()", "faults.c:"]);
            }
            let error = fails(queue.launch_and_wait(&one("trap"), grid(), (&out,)));
            assert_says(&error, "trap", &["trap"]);
            let error = fails(queue.launch_and_wait(&one("overflow_fibers"), grid(), (&out,)));
            assert!(error.message().contains("its stack of 262144 bytes overflowed"), "{error}");
            let error = fails(queue.launch_and_wait(&one("uneven"), grid(), (&out,)));
            let words =
                ["different places", "(0, 0, 0) waits at a barrier", "(5, 0, 0) has returned"];
            assert_says(&error, "uneven", &words);
            queue.launch_and_wait(&one("fine"), grid(), (&out,)).unwrap();
        }
        assert_eq!(out.to_vec(&queue).unwrap(), [2; (GROUPS * ITEMS) as usize]);
    }
}

#[test]
fn an_overflow_of_the_threads_stack_is_a_fault_like_any_other() {
    let Some(scene) = Scene::new() else { return };
    let (device, program, queue) = scene.open("-O0");
    let out = device.buffer_of(&queue, &[0u32; (GROUPS * ITEMS) as usize]).unwrap();
    let kernel = program.kernel("overflow").unwrap();
    // The kernel runs on a thread of the queue, on this thread, and on a new thread.
    // SAFETY: the kernel only overflows its stack.
    unsafe {
        queue.launch(&kernel, grid(), (&out,)).unwrap();
        let error = queue.synchronize().unwrap_err();
        assert!(error.message().contains("segmentation fault"), "{error}");
        std::thread::scope(|scope| {
            let error =
                scope.spawn(|| queue.launch_and_wait(&kernel, grid(), (&out,)).unwrap_err());
            assert!(error.join().unwrap().message().contains("segmentation fault"));
        });
        queue.launch_and_wait(&program.kernel("fine").unwrap(), grid(), (&out,)).unwrap();
    }
}

#[test]
fn a_recursion_that_overflows_the_threads_stack_is_reported_as_that() {
    let Some(scene) = Scene::new() else { return };
    let (device, program, queue) = scene.open("-O0");
    let out = device.buffer_of(&queue, &[0u32; (GROUPS * ITEMS) as usize]).unwrap();
    let kernel = program.kernel("recursion").unwrap();
    // The kernel runs on this thread, and on a new one.
    // SAFETY: the kernel only overflows its stack.
    let run = || unsafe { queue.launch_and_wait(&kernel, grid(), (&out,)).unwrap_err() };
    for error in [run(), std::thread::scope(|scope| scope.spawn(run).join().unwrap())] {
        assert!(error.message().contains("its stack of"), "{error}");
        assert!(error.message().contains("overflowed"), "{error}");
    }
}

#[test]
fn a_fault_in_one_queue_leaves_another_that_computes_alone() {
    let Some(scene) = Scene::new() else { return };
    let (device, program, faulty) = scene.open("-O2");
    let queue = device.queue().unwrap();
    let out = device.buffer_of(&queue, &[0u32; (GROUPS * ITEMS) as usize]).unwrap();
    let sum = device.buffer_of(&queue, &[0u64]).unwrap();
    let (busy, store) = (program.kernel("busy").unwrap(), program.kernel("store").unwrap());
    let rounds = 20;
    // SAFETY: `busy` adds to one number; `store` writes to unmapped memory, and within `out`.
    unsafe {
        for _ in 0..rounds {
            queue.launch(&busy, Grid::linear(64, 16), (&sum, 10_001u32)).unwrap();
            faulty.launch(&store, grid(), (DevicePointer(HOLE), &out)).unwrap();
        }
    }
    assert_says(&faulty.synchronize().unwrap_err(), "store", &["segmentation fault"]);
    queue.synchronize().unwrap();
    assert_eq!(sum.to_vec(&queue).unwrap(), [rounds * 64 * 16 * 10_001]);
    faulty.synchronize().unwrap();
}

#[test]
fn a_thousand_faults_in_a_row_leak_nothing() {
    let Some(scene) = Scene::new() else { return };
    let (device, program, queue) = scene.open("-O2");
    let out = device.buffer_of(&queue, &[0u32; (GROUPS * ITEMS) as usize]).unwrap();
    let kernels =
        ["store", "store_fibers", "store_regions"].map(|name| program.kernel(name).unwrap());
    let mut kernels = kernels.iter().cycle();
    let mut fault = || {
        let kernel = kernels.next().expect("they are without end");
        // SAFETY: the kernels write to unmapped memory, and within `out`.
        unsafe { queue.launch_and_wait(kernel, grid(), (DevicePointer(HOLE), &out)).unwrap_err() };
    };
    (0..100).for_each(|_| fault());
    let before = ResourceUsage::now();
    assert_nothing_is_left_by(1000, fault);
    assert_eq!(ResourceUsage::now().threads, before.threads);
}

/// Kinds of memory that a program can allocate.
const KINDS: [MemoryKind; 3] = [MemoryKind::Device, MemoryKind::Host, MemoryKind::Managed];

const RUNS_PAST: &str = r#"
#include "longshore_device.h"
LONGSHORE_KERNEL(set, (uint8_t *memory, uint64_t begin, uint64_t count)) {
  (void)longshore_self;
  for (uint64_t i = 0; i < count; ++i) ((volatile uint8_t *)memory)[begin + i] = 0xff;
}
"#;

#[test]
fn a_kernel_that_runs_past_a_large_buffer_or_before_it_fails() {
    let Some(scene) = Scene::new() else { return };
    let device = scene.workshop.device(Environment::empty());
    let image = scene.workshop.image(scene.clang, "runs_past", RUNS_PAST, &["-O1"]);
    let program = device.load_trusted(image).unwrap();
    let (queue, set) = (device.queue().unwrap(), program.kernel("set").unwrap());
    for (kind, bytes) in KINDS.into_iter().flat_map(|kind| [(kind, 1_u64 << 20), (kind, 5 << 20)]) {
        let memory = device.allocate(kind, bytes, 64).unwrap();
        for (begin, words) in [(bytes, "0 bytes past the end of"), (u64::MAX, "1 bytes before")] {
            // SAFETY: the kernel writes to unmapped memory.
            let run = unsafe {
                queue.launch_and_wait(&set, Grid::linear(1, 1), (memory.pointer(), begin, 40_u64))
            };
            let error = run.unwrap_err();
            assert_eq!(error.code(), ErrorCode::BackendFailure);
            let words = format!("{words} the allocation of {bytes} bytes");
            assert!(error.message().contains(&words), "{kind:?}, {bytes} bytes: {error}");
        }
        // SAFETY: the range is the whole allocation.
        let run = unsafe {
            queue.launch_and_wait(&set, Grid::linear(1, 1), (memory.pointer(), 0_u64, bytes))
        };
        run.unwrap();
    }
}

#[test]
fn a_kernel_that_writes_past_small_buffers_changes_nothing_of_the_programs_heap() {
    let Some(scene) = Scene::new() else { return };
    let device = scene.workshop.device(Environment::empty());
    let image = scene.workshop.image(scene.clang, "runs_past", RUNS_PAST, &["-O1"]);
    let program = device.load_trusted(image).unwrap();
    let (queue, set) = (device.queue().unwrap(), program.kernel("set").unwrap());
    let sizes = [1_usize, 100, 256, 300, 1000, 4096, 10_000, 40_000, 100_000];
    // Buffers on the heap would lie among the data of the program.
    let mut own = Vec::new();
    let mut buffers = Vec::new();
    for (kind, size) in KINDS.into_iter().cycle().zip(sizes.repeat(20)) {
        buffers.push((device.allocate(kind, size as u64, 1).unwrap(), size));
        own.push(vec![7_u8; size]);
    }
    for (memory, size) in &buffers {
        let (begin, count) = (*size as u64, 1000_u64);
        // SAFETY: the kernel writes into other buffers, which no code reads, or to unmapped memory.
        let _ = unsafe {
            queue.launch_and_wait(&set, Grid::linear(1, 1), (memory.pointer(), begin, count))
        };
    }
    assert!(own.iter().flatten().all(|byte| *byte == 7));
    drop(buffers);
    own.drain(..).for_each(drop);
    device.close().unwrap();
    // The heap is intact: the program can allocate all of it again.
    drop((0..1000).map(|size| vec![1_u8; size * 10]).collect::<Vec<_>>());
}

const HOST_FORM: &str = r#"
#include <assert.h>
#include <stdlib.h>
void store(void **arguments) { **(int *volatile *)arguments[0] = 1; }
void give_up(void **arguments) { (void)arguments; abort(); }
void claim(void **arguments) { assert(!arguments); }
void fine(void **arguments) { **(int **)arguments[0] = 7; }
"#;

#[test]
fn kernels_in_llvms_host_form_fail_alike() {
    let Some(scene) = Scene::new() else { return };
    let device = scene.workshop.device(Environment::empty());
    let image = scene.workshop.image(scene.clang, "host_form", HOST_FORM, &["-O2"]);
    let program = device.load_trusted(image).unwrap();
    let queue = device.queue().unwrap();
    let number = device.buffer_of(&queue, &[0u32]).unwrap();
    // SAFETY: the kernels write one number, or to unmapped memory.
    unsafe {
        for (name, address, words) in [
            ("store", HOLE, "segmentation fault"),
            ("give_up", 0, "abort() was called"),
            ("claim", 0, "abort() was called"),
        ] {
            for _ in 0..3 {
                queue.launch(&program.kernel(name).unwrap(), Grid::default(), (address,)).unwrap();
                let error = queue.synchronize().unwrap_err();
                assert_eq!(error.code(), ErrorCode::BackendFailure);
                assert!(error.message().contains(words), "{error}");
                assert!(error.message().starts_with(&format!("kernel '{name}': ")), "{error}");
            }
        }
        queue
            .launch_and_wait(&program.kernel("fine").unwrap(), Grid::default(), (&number,))
            .unwrap();
    }
    assert_eq!(number.to_vec(&queue).unwrap(), [7]);
}

/// The variable with the action of a process after its kernels: its later faults belong to the
/// process alone.
const FAULT: &str = "LONGSHORE_TEST_FAULT";

/// Kernels that start four threads and wait for them. Thread 2 faults: at once, after a while, or
/// while the kernel's own thread computes or allocates.
const TEAMS: &str = r#"
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
static volatile int done;
static void *worker(void *of) {
  uintptr_t number = (uintptr_t)of;
  if (number & 0x100) usleep(50000);
  if ((number & 0xff) == 2) *(volatile int *)8 = 1;
  return 0;
}
static void start(pthread_t *threads, uintptr_t flags) {
  for (uintptr_t i = 0; i < 4; i++) pthread_create(&threads[i], 0, worker, (void *)(i | flags));
}
static void join(pthread_t *threads) {
  for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
}
void waits(void **a) { (void)a; pthread_t t[4]; start(t, 0); join(t); }
void waits_long(void **a) { (void)a; pthread_t t[4]; start(t, 0x100); join(t); }
void computes(void **a) {
  (void)a;
  pthread_t t[4];
  start(t, 0x100);
  while (!done) {}
  join(t);
}
void allocates(void **a) {
  (void)a;
  pthread_t t[4];
  start(t, 0x100);
  for (size_t i = 1; !done; i = i * 7 % 100003) free(malloc(i));
  join(t);
}
void fine(void **a) { **(int **)a[0] = 1; }
"#;

#[test]
fn a_fault_of_a_thread_that_a_kernel_has_started_is_an_error_of_the_kernel() {
    let workshop = Workshop::new();
    let Some(clang) = clangs().pop() else { return };
    let image = workshop.shared(clang, "teams", TEAMS, &["-O1"]);
    let device = workshop.device(Environment::empty());
    let program = device.load_trusted(image).unwrap();
    let (first, second) = (device.queue().unwrap(), device.queue().unwrap());
    let cell = device.buffer_of(&first, &[0_u32]).unwrap();
    let run = |queue: &Queue, name: &str| {
        let kernel = program.kernel(name).unwrap();
        // SAFETY: the kernels take the address of a cell.
        unsafe { queue.launch_and_wait(&kernel, Grid::linear(1, 1), (&cell,)) }
    };
    for name in ["waits", "waits_long", "computes", "allocates"] {
        for queue in [&first, &second, &first] {
            let error = run(queue, name).unwrap_err();
            assert_eq!(error.code(), ErrorCode::BackendFailure, "{error}");
            let expected = format!(
                "kernel '{name}': segmentation fault writing 0x8, next to the null pointer, in a \
                 thread that the kernel started"
            );
            assert_eq!(error.message(), expected);
            run(queue, "fine").unwrap();
        }
    }
    assert_eq!(cell.to_vec(&first).unwrap(), [1]);
}

#[test]
fn the_programs_own_faults_end_it_as_ever() {
    use std::os::unix::process::ExitStatusExt;
    if let Ok(fault) = std::env::var(FAULT) {
        return fault_after_a_kernel(&fault);
    }
    if clangs().is_empty() {
        return;
    }
    for (fault, signal, words) in [
        ("null", libc::SIGSEGV, ""),
        ("abort", libc::SIGABRT, ""),
        ("trap", libc::SIGTRAP, ""),
        ("ignored", libc::SIGSEGV, ""),
        ("kill", libc::SIGABRT, ""),
        ("overflow", libc::SIGABRT, "has overflowed its stack"),
        ("host function", libc::SIGSEGV, ""),
    ] {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args([
            "--exact",
            "kernel_faults::the_programs_own_faults_end_it_as_ever",
            "--nocapture",
        ]);
        let output = child.env(FAULT, fault).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.signal(), Some(signal), "{fault}: {said}");
        assert!(said.contains(words), "{fault}: {said}");
    }
}

fn fault_after_a_kernel(fault: &str) {
    let (device, program, queue) = Scene::new().expect("there is a clang").open("-O2");
    let out = device.buffer_of(&queue, &[0u32; (GROUPS * ITEMS) as usize]).unwrap();
    let hole = HOLE as *const u32;
    if fault == "ignored" {
        // SAFETY: the call ignores the signal before the backend has installed its handler.
        unsafe { libc::signal(libc::SIGSEGV, libc::SIG_IGN) };
    }
    // SAFETY: the kernel writes to unmapped memory. The following fault must end the process.
    unsafe {
        let store = program.kernel("store").unwrap();
        queue.launch_and_wait(&store, grid(), (DevicePointer(HOLE), &out)).unwrap_err();
        match fault {
            "null" | "ignored" => _ = hole.read_volatile(),
            #[cfg(target_arch = "x86_64")]
            "trap" => std::arch::asm!("int3"),
            #[cfg(target_arch = "aarch64")]
            "trap" => std::arch::asm!("brk #0"),
            "kill" => {
                let spin = program.kernel("spin").unwrap();
                let zero = device.buffer_of(&queue, &[0u32]).unwrap();
                queue.synchronize().unwrap();
                let waits = libc::pthread_self();
                std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_millis(200));
                    // Sends the signal as `kill` does, but to the thread that runs the kernel.
                    let nothing = libc::sigval { sival_ptr: std::ptr::null_mut() };
                    libc::pthread_sigqueue(waits, libc::SIGABRT, nothing)
                });
                queue.launch_and_wait(&spin, Grid::linear(1, 1), (&zero,)).unwrap_err();
            }
            "abort" => libc::abort(),
            "overflow" => {
                fn deeper(depth: u64) -> u64 {
                    std::hint::black_box([depth; 512]);
                    if depth == u64::MAX { 0 } else { deeper(depth + 1) + 1 }
                }
                std::hint::black_box(deeper(0));
            }
            _ => {
                let address = hole as usize;
                let body = move || _ = (address as *const u32).read_volatile();
                queue.host_function(body).unwrap();
                queue.synchronize().unwrap();
            }
        }
    }
}

#[test]
fn a_stuck_kernel_is_waited_for_with_a_limit() {
    let Some(scene) = Scene::new() else { return };
    let (device, program, queue) = scene.open("-O2");
    let other = device.queue().unwrap();
    let flag = device.buffer_of(&other, &[0u32]).unwrap();
    // SAFETY: the kernel reads one number, which is set below.
    unsafe {
        queue.launch(&program.kernel("spin").unwrap(), Grid::linear(1, 1), (&flag,)).unwrap()
    };
    assert!(!queue.synchronize_for(Duration::from_millis(30)).unwrap());
    flag.write(&other, &[1]).unwrap();
    assert!(queue.synchronize_for(Duration::from_secs(60)).unwrap());
}
