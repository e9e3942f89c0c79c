//! Device code that ends its thread or the program, faults outside kernels, changes the
//! floating-point modes, or accesses pages protected by the program.

use longshore::{
    Device, DevicePointer, Environment, Error, ErrorCode, Grid, Image, Program, Queue,
};
use longshore_conformance::TrustedImages;
use longshore_tests::device_code::{Workshop, clangs, threads};
use std::process::Command;
use std::sync::Mutex;

/// Returns an image in both formats, with a description of the image.
fn both(workshop: &Workshop, name: &str, source: &str, flags: &[&str]) -> Vec<(Image, String)> {
    let Some(clang) = clangs().pop() else { return Vec::new() };
    let shared = workshop.shared(clang, name, source, flags);
    let object = workshop.image(clang, name, source, flags);
    vec![(shared, format!("{name} as elf-so")), (object, format!("{name} as elf-o"))]
}

/// Returns the CPU's device. Relocatable objects may use all names of the process.
fn device(workshop: &Workshop) -> Device {
    workshop.device(Environment::empty().with("LONGSHORE_HOST_SYMBOLS", "*"))
}

fn load(device: &Device, image: Image) -> longshore::Result<Program> {
    device.load_trusted(image)
}

/// Runs a kernel in LLVM's host form, or a one-item kernel, that takes an address.
fn run(queue: &Queue, program: &Program, kernel: &str, address: u64) -> longshore::Result<()> {
    let kernel = program.kernel(kernel)?;
    // SAFETY: the kernels of this file take an address that they may use.
    unsafe { queue.launch_and_wait(&kernel, Grid::linear(1, 1), (DevicePointer(address),)) }
}

/// Queues a kernel, so that it runs on the queue's own thread or on this one.
fn run_queued(queue: &Queue, program: &Program, kernel: &str) -> longshore::Result<()> {
    let kernel = program.kernel(kernel)?;
    // SAFETY: as above.
    unsafe { queue.launch(&kernel, Grid::linear(1, 1), (0_u64,)) }?;
    queue.synchronize()
}

#[track_caller]
fn assert_says(error: &Error, words: &[&str]) {
    assert_eq!(error.code(), ErrorCode::BackendFailure, "{error}");
    for word in words {
        assert!(error.message().contains(word), "expected '{word}': {error}");
    }
}

const ENDS: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <threads.h>
#include <unistd.h>
extern char **environ;
static char *const arguments[] = {"true", 0};
void k_pthread_exit(void **a) { (void)a; pthread_exit(0); }
void k_thrd_exit(void **a) { (void)a; thrd_exit(0); }
void k_exit(void **a) { (void)a; exit(3); }
void k__exit(void **a) { (void)a; _exit(0); }
void k__Exit(void **a) { (void)a; _Exit(0); }
void k_quick_exit(void **a) { (void)a; quick_exit(0); }
void k_execve(void **a) { (void)a; execve("/bin/true", arguments, environ); }
void k_execvp(void **a) { (void)a; execvp("true", arguments); }
void k_execl(void **a) { (void)a; execl("/bin/true", "true", (char *)0); }
void k_syscall(void **a) { (void)a; syscall(SYS_exit, 0); }
void k_group(void **a) { (void)a; syscall(SYS_exit_group, 0); }
void fine(void **a) { **(int **)a[0] = (int)syscall(SYS_getpid); }
"#;

#[test]
fn an_exception_that_leaves_a_kernel_is_a_failure_of_the_kernel() {
    let source =
        "extern \"C\" __attribute__((visibility(\"default\"))) void throws(void **) { throw 7; }";
    let workshop = Workshop::new();
    let device = device(&workshop);
    let flags = ["-x", "c++", "-Wno-unused-command-line-argument", "-lstdc++"];
    for (image, what) in both(&workshop, "throws", source, &flags) {
        let program = load(&device, image).unwrap();
        let error = run(&device.queue().unwrap(), &program, "throws", 0).unwrap_err();
        assert_eq!(error.code(), ErrorCode::BackendFailure, "{what}");
        assert!(error.message().contains("abort() was called"), "{what}: {error}");
        program.unload().unwrap();
    }
}

#[test]
fn device_code_that_would_end_its_thread_or_the_program_is_an_error_of_its_queue() {
    let workshop = Workshop::new();
    for (image, what) in both(&workshop, "ends", ENDS, &["-O1"]) {
        let device = device(&workshop);
        let program = load(&device, image).unwrap();
        let queue = device.queue().unwrap();
        for (kernel, name) in [
            ("k_pthread_exit", "pthread_exit()"),
            ("k_thrd_exit", "thrd_exit()"),
            ("k_exit", "exit()"),
            ("k__exit", "_exit()"),
            ("k__Exit", "_Exit()"),
            ("k_quick_exit", "quick_exit()"),
            ("k_execve", "execve()"),
            ("k_execvp", "execvp()"),
            ("k_execl", "execl()"),
            ("k_syscall", "SYS_exit"),
            ("k_group", "SYS_exit_group"),
        ] {
            println!("{what}: {kernel}");
            for error in [run(&queue, &program, kernel, 0), run_queued(&queue, &program, kernel)] {
                assert_says(&error.unwrap_err(), &[&format!("kernel '{kernel}': "), name]);
            }
        }
        let error = run(&queue, &program, "k_exit", 0).unwrap_err();
        let call = error.vendor().expect("the call has a status");
        assert_eq!((call.name.as_str(), call.number), ("exit", 3));
        assert_eq!(run(&queue, &program, "k_thrd_exit", 0).unwrap_err().vendor(), None);
        let number = device.buffer_of(&queue, &[0_u32]).unwrap();
        run(&queue, &program, "fine", number.pointer().0).unwrap();
        assert_eq!(number.to_vec(&queue).unwrap(), [std::process::id()]);
    }
}

/// Source in which the function named by `FAULTY` writes to address 0x10: a constructor, a
/// destructor, an exit handler or a resolver.
const FAULTS: &str = r#"
#include <stdlib.h>
#define CONSTRUCTOR 1
#define DESTRUCTOR 2
#define HANDLER 3
#define RESOLVER 4
#define EXIT 5
static void fault(int what) { if (what == FAULTY) *(volatile int *)16 = 1; }
static void handler(void) { fault(HANDLER); }
int constructed, *destructed;
__attribute__((constructor(200))) static void first(void) {
  fault(CONSTRUCTOR);
  if (FAULTY == EXIT) exit(0);
  atexit(handler);
}
__attribute__((constructor(300))) static void second(void) { constructed = 1; }
__attribute__((destructor(300))) static void last_but_one(void) { fault(DESTRUCTOR); }
__attribute__((destructor(200))) static void last(void) { if (destructed) *destructed = 1; }
void keep(void **a) { destructed = *(int **)a[0]; }
static void chosen(void **a) { **(int **)a[0] = 7; }
static void (*choose(void))(void **) { fault(RESOLVER); return chosen; }
static void indirect(void **a) __attribute__((ifunc("choose")));
void call(void **a) { indirect(a); }
"#;

#[test]
fn constructors_and_resolvers_that_fault_are_errors_of_the_load() {
    let workshop = Workshop::new();
    for (faulty, words) in [
        ("CONSTRUCTOR", ["constructor ", "segmentation fault writing 0x10"]),
        ("EXIT", ["constructor ", "exit() was called"]),
        ("RESOLVER", ["resolver ", "segmentation fault writing 0x10"]),
    ] {
        let flag = format!("-DFAULTY={faulty}");
        for (image, what) in both(&workshop, "faults", FAULTS, &["-O1", &flag]) {
            println!("{what}: {faulty}");
            let device = device(&workshop);
            for _ in 0..2 {
                let error = load(&device, image.clone()).err().expect("the load fails");
                assert_says(&error, &words);
            }
            // The device still works.
            let (fine, _) = both(&workshop, "fine", FAULTS, &["-DFAULTY=0"]).remove(0);
            let (program, queue) = (load(&device, fine).unwrap(), device.queue().unwrap());
            let number = device.buffer_of(&queue, &[0_u32]).unwrap();
            run(&queue, &program, "call", number.pointer().0).unwrap();
            assert_eq!(number.to_vec(&queue).unwrap(), [7]);
        }
    }
}

#[test]
fn constructors_that_fault_when_their_member_is_first_called_are_errors_of_the_launch() {
    let workshop = Workshop::new();
    let Some(clang) = clangs().pop() else { return };
    for (faulty, words) in [
        ("CONSTRUCTOR", ["constructor ", "segmentation fault writing 0x10"]),
        ("RESOLVER", ["resolver ", "segmentation fault writing 0x10"]),
    ] {
        let flag = format!("-DFAULTY={faulty}");
        let object = workshop.object(clang, "faults", FAULTS, &["-O1", &flag]);
        let archive = object.with_extension("a");
        let made = std::process::Command::new("ar").arg("rcs").arg(&archive).arg(&object).status();
        assert!(made.unwrap().success());
        let device = device(&workshop);
        let program = device.load_trusted_lazily(Image::read(archive).unwrap()).unwrap();
        let queue = device.queue().unwrap();
        assert_says(&run(&queue, &program, "call", 0).unwrap_err(), &words);
    }
}

#[test]
fn destructors_and_exit_handlers_that_fault_are_errors_of_the_unload_and_the_others_run() {
    let workshop = Workshop::new();
    for faulty in ["DESTRUCTOR", "HANDLER"] {
        let flag = format!("-DFAULTY={faulty}");
        for (image, what) in both(&workshop, "faults", FAULTS, &["-O1", &flag]) {
            println!("{what}: {faulty}");
            let device = device(&workshop);
            let (program, queue) = (load(&device, image).unwrap(), device.queue().unwrap());
            let number = device.buffer_of(&queue, &[0_u32]).unwrap();
            run(&queue, &program, "keep", number.pointer().0).unwrap();
            let error = program.unload().unwrap_err();
            assert_says(&error, &["running its destructors", "segmentation fault writing 0x10"]);
            assert_eq!(number.to_vec(&queue).unwrap(), [1], "the last destructor has run");
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod modes {
    use super::*;

    const MODES: &str = r#"
#include "longshore_device.h"
#include <immintrin.h>
#define FLAGS(set) __asm__ volatile("pushfq\n\torq %0, (%%rsp)\n\tpopfq" : : "i"(set) : "memory", "cc")
static void change(void) {
  unsigned short control = 0x0c7f;
  _mm_setcsr(_mm_getcsr() | 0x8040 | 0x6000);
  __asm__ volatile("fldcw %0" : : "m"(control));
}
#ifdef AT_LOAD
__attribute__((constructor)) static void first(void) { change(); }
__attribute__((destructor)) static void last(void) { change(); }
#endif
LONGSHORE_KERNEL(modes, (uint32_t *out)) { out[longshore_global_id(0)] = _mm_getcsr(); }
LONGSHORE_KERNEL(changes, (uint32_t *out)) { change(); out[0] = 1; (void)longshore_self; }
LONGSHORE_KERNEL(faults, (volatile uint32_t *out)) {
  change();
  (void)longshore_self;
  (void)out;
  FLAGS(0x400);
  *(volatile uint32_t *)16 = 1;
}
LONGSHORE_KERNEL(flags, (uint32_t *out)) { out[0] = 1; (void)longshore_self; FLAGS(0x400 | 0x40000); }
LONGSHORE_KERNEL(aligned, (volatile uint32_t *out)) {
  (void)longshore_self;
  FLAGS(0x40000);
  *(volatile uint32_t *)((char *)out + 1) = 1;
}
LONGSHORE_KERNEL(traps, (uint32_t *out)) { FLAGS(0x100); out[longshore_global_id(0)] = 1; }
LONGSHORE_KERNEL(one_item, (uint32_t *out)) {
  if (longshore_item_id(0) == 1) change();
  longshore_barrier();
  out[longshore_global_id(0)] = _mm_getcsr();
}
LONGSHORE_KERNEL(prints, (uint32_t *out)) {
  change();
  longshore_printf("%s", "");
  out[longshore_global_id(0)] = _mm_getcsr();
}
"#;

    /// The status bits of MXCSR, which report events and change nothing.
    const STATUS: u32 = 0x3f;

    /// Returns MXCSR without its status bits, the x87 control word, and the flags that must be
    /// clear.
    fn thread_modes() -> (u32, u16, u64) {
        let (mut mxcsr, mut control, flags) = (0_u32, 0_u16, &mut 0_u64);
        // SAFETY: the instructions store registers in variables of their sizes.
        unsafe {
            std::arch::asm!("stmxcsr [{}]", "fnstcw [{}]", "pushfq", "pop qword ptr [{}]",
                in(reg) &raw mut mxcsr, in(reg) &raw mut control, in(reg) flags);
        }
        (mxcsr & !STATUS, control, *flags & 0x4_0500)
    }

    fn change() {
        let mxcsr = 0x1f80 | 0x8040 | 0x6000_u32;
        // SAFETY: the processor supports these bits.
        unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const mxcsr) }
    }

    #[test]
    fn loading_and_unloading_leave_the_modes_of_the_thread() {
        let workshop = Workshop::new();
        let before = thread_modes();
        let mut images = both(&workshop, "at_load", MODES, &["-O1", "-mno-red-zone", "-DAT_LOAD"]);
        images.extend(both(&workshop, "fast", MODES, &["-O1", "-mno-red-zone", "-ffast-math"]));
        for (image, what) in images {
            let device = device(&workshop);
            let program = load(&device, image).unwrap();
            assert_eq!(thread_modes(), before, "{what}, loaded");
            program.unload().unwrap();
            assert_eq!(thread_modes(), before, "{what}, unloaded");
        }
    }

    #[test]
    fn kernels_leave_the_modes_and_flags_of_the_thread_and_of_later_kernels() {
        let workshop = Workshop::new();
        let before = thread_modes();
        for (image, what) in both(&workshop, "modes", MODES, &["-O1", "-mno-red-zone"]) {
            let device = device(&workshop);
            let (program, queue) = (load(&device, image).unwrap(), device.queue().unwrap());
            let out = device.buffer_of(&queue, &[0_u32; 4]).unwrap();
            for (kernel, fails) in [
                ("changes", None),
                ("flags", None),
                ("prints", None),
                ("faults", Some("segmentation fault")),
                ("aligned", Some("bus error")),
                ("traps", Some("trap")),
            ] {
                println!("{what}: {kernel}");
                let result = run(&queue, &program, kernel, out.pointer().0);
                assert_eq!(thread_modes(), before, "{what}: {kernel}");
                match fails {
                    None => result.unwrap(),
                    Some(words) => assert_says(&result.unwrap_err(), &[words]),
                }
                run(&queue, &program, "modes", out.pointer().0).unwrap();
                assert_eq!(out.to_vec(&queue).unwrap()[0] & !STATUS, before.0, "{kernel}");
            }
        }
    }

    #[test]
    fn a_host_function_leaves_the_modes_of_the_kernels_behind_it() {
        let workshop = Workshop::new();
        let before = thread_modes();
        for (image, what) in both(&workshop, "modes", MODES, &["-O1", "-mno-red-zone"]) {
            let device = device(&workshop);
            let (program, queue) = (load(&device, image).unwrap(), device.queue().unwrap());
            let out = device.buffer_of(&queue, &[0_u32; 4]).unwrap();
            queue.host_function(change).unwrap();
            run(&queue, &program, "modes", out.pointer().0).unwrap();
            queue.synchronize().unwrap();
            assert_eq!(out.to_vec(&queue).unwrap()[0] & !STATUS, before.0, "{what}");
            assert_eq!(thread_modes(), before, "{what}");
        }
    }

    #[test]
    fn items_that_wait_for_each_other_have_modes_of_their_own() {
        let workshop = Workshop::new();
        let changed = thread_modes().0 | 0x8040 | 0x6000;
        for (image, what) in both(&workshop, "modes", MODES, &["-O1", "-mno-red-zone"]) {
            let device = device(&workshop);
            let (program, queue) = (load(&device, image).unwrap(), device.queue().unwrap());
            let out = device.buffer_of(&queue, &[0_u32; 4]).unwrap();
            let kernel = program.kernel("one_item").unwrap();
            // SAFETY: the kernel writes four numbers.
            unsafe { queue.launch_and_wait(&kernel, Grid::linear(1, 4), (&out,)).unwrap() };
            let found = out.to_vec(&queue).unwrap().into_iter().map(|mxcsr| mxcsr & !STATUS);
            let plain = thread_modes().0;
            assert!(found.eq([plain, changed, plain, plain]), "{what}");
            run(&queue, &program, "prints", out.pointer().0).unwrap();
            assert_eq!(out.to_vec(&queue).unwrap()[0] & !STATUS, changed, "{what}");
        }
    }
}

const TOUCHES: &str = r#"
void touch(void **a) { **(volatile int *volatile *)a[0] += 1; }
"#;

mod barriers {
    use super::*;
    use std::ffi::{c_int, c_void};
    use std::ptr::null_mut;
    use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

    /// State of the handler: the page that it opens, the numbers of openings and of calls, and
    /// whether the signal mask was right in all calls.
    static PAGE: AtomicU64 = AtomicU64::new(0);
    static OPENED: AtomicUsize = AtomicUsize::new(0);
    static CALLED: AtomicUsize = AtomicUsize::new(0);
    static MASKED: AtomicBool = AtomicBool::new(true);
    const BYTES: usize = 4096;

    fn is_blocked(signal: c_int) -> bool {
        // SAFETY: the call reads the mask of this thread.
        unsafe {
            let mut mask: libc::sigset_t = std::mem::zeroed();
            libc::pthread_sigmask(libc::SIG_BLOCK, null_mut(), &raw mut mask);
            libc::sigismember(&raw const mask, signal) == 1
        }
    }

    fn open(address: u64, nodefer: bool) {
        CALLED.fetch_add(1, Ordering::Relaxed);
        let is_right = is_blocked(libc::SIGUSR1) && is_blocked(libc::SIGSEGV) != nodefer;
        MASKED.fetch_and(is_right, Ordering::Relaxed);
        let page = PAGE.load(Ordering::Relaxed);
        if (page..page + BYTES as u64).contains(&address) {
            // SAFETY: the page belongs to the test.
            unsafe {
                libc::mprotect(page as *mut c_void, BYTES, libc::PROT_READ | libc::PROT_WRITE)
            };
            OPENED.fetch_add(1, Ordering::Relaxed);
        }
    }

    extern "C" fn with_info(_: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
        // SAFETY: the kernel passes a valid pointer.
        open(unsafe { (*info).si_addr() } as u64, true);
    }

    extern "C" fn without_info(_: c_int) {
        open(PAGE.load(Ordering::Relaxed), false);
    }

    fn page(protection: c_int) -> u64 {
        // SAFETY: the mapping is new.
        let page = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            libc::mmap(null_mut(), BYTES, protection, flags, -1, 0)
        };
        page as u64
    }

    fn install(handler: usize, flags: c_int) {
        // SAFETY: the structure is complete.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            (action.sa_sigaction, action.sa_flags) = (handler, flags);
            libc::sigaddset(&raw mut action.sa_mask, libc::SIGUSR1);
            assert_eq!(libc::sigaction(libc::SIGSEGV, &raw const action, null_mut()), 0);
        }
    }

    /// Runs kernels that touch the page a hundred times, which the handler opens; then a kernel
    /// that touches an unknown page.
    fn kernels_go_on_behind_barriers() {
        let workshop = Workshop::new();
        let Some((image, _)) = both(&workshop, "touches", TOUCHES, &["-O1"]).pop() else { return };
        let device = device(&workshop);
        let (program, queue) = (load(&device, image).unwrap(), device.queue().unwrap());
        let (barrier, other) = (page(libc::PROT_NONE), page(libc::PROT_READ));
        PAGE.store(barrier, Ordering::Relaxed);
        for round in 1..=100 {
            run(&queue, &program, "touch", barrier + 8).unwrap();
            assert_eq!(OPENED.load(Ordering::Relaxed), round);
            // SAFETY: the page belongs to the test.
            unsafe { libc::mprotect(barrier as *mut c_void, BYTES, libc::PROT_NONE) };
        }
        assert_eq!(CALLED.load(Ordering::Relaxed), 100);
        assert!(MASKED.load(Ordering::Relaxed), "the mask was not the handler's");
        PAGE.store(1, Ordering::Relaxed);
        if OPENED.load(Ordering::Relaxed) == 100 {
            let error = run(&queue, &program, "touch", other).unwrap_err();
            assert_says(&error, &["segmentation fault"]);
        }
        // The CPU's own fences are not barriers of the program.
        let called = CALLED.load(Ordering::Relaxed);
        let memory = device.allocate(longshore::MemoryKind::Device, 1 << 20, 64).unwrap();
        let error = run(&queue, &program, "touch", memory.pointer().0 + (1 << 20)).unwrap_err();
        assert_says(&error, &["0 bytes past the end"]);
        assert_eq!(CALLED.load(Ordering::Relaxed), called);
    }

    #[test]
    fn a_handler_of_before_the_first_launch_opens_pages_for_kernels() {
        install(
            with_info as *const () as usize,
            libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER,
        );
        kernels_go_on_behind_barriers();
    }

    #[test]
    fn a_handler_without_information_opens_pages_for_kernels() {
        install(without_info as *const () as usize, libc::SA_ONSTACK);
        kernels_go_on_behind_barriers();
    }

    /// Rust's own handler restores the default action.
    #[test]
    fn a_handler_that_gives_a_fault_up_does_not_end_the_program() {
        let workshop = Workshop::new();
        let Some((image, _)) = both(&workshop, "touches", TOUCHES, &["-O1"]).pop() else { return };
        let device = device(&workshop);
        let (program, queue) = (load(&device, image).unwrap(), device.queue().unwrap());
        let page = page(libc::PROT_READ);
        for _ in 0..3 {
            for address in [page, 16] {
                let error = run(&queue, &program, "touch", address).unwrap_err();
                assert_says(&error, &["segmentation fault"]);
            }
        }
    }
}

const HALVES: &str = r#"
#ifdef BRAIN
typedef __bf16 half;
#else
typedef _Float16 half;
#endif
void narrow(void **a) {
  float *volatile values = *(float **)a[0];
  for (int i = 0; i < 4; ++i) values[i] = (float)(half)values[i];
  double d = values[4];
  values[4] = (float)(half)d;
}
"#;

#[test]
fn kernels_of_16_bit_numbers_find_their_conversions() {
    let workshop = Workshop::new();
    let numbers = [1.0_f32, std::f32::consts::PI, -0.1, 1e-3, 0.333_333_34];
    for clang in clangs().into_iter().filter(|clang| !["clang-14", "clang-16"].contains(clang)) {
        for (flag, expected) in [
            ("-DBRAIN", [1.0, 3.140625, -0.100_097_656, 0.000_999_450_7, 0.333_984_38]),
            ("-DHALF", [1.0, 3.140625, -0.099_975_586, 0.001_000_404_4, 0.333_251_95]),
        ] {
            let images = [
                workshop.image(clang, "halves", HALVES, &["-O1", flag]),
                workshop.shared(clang, "halves", HALVES, &["-O1", flag]),
            ];
            for image in images {
                let device = workshop.device(Environment::empty());
                let (program, queue) = (load(&device, image).unwrap(), device.queue().unwrap());
                let values = device.buffer_of(&queue, &numbers).unwrap();
                run(&queue, &program, "narrow", values.pointer().0).unwrap();
                assert_eq!(values.to_vec(&queue).unwrap(), expected, "{clang} {flag}");
            }
        }
    }
}

/// The child of the test below: its program and queue.
static LEFT: Mutex<Option<(Program, Queue)>> = Mutex::new(None);

#[test]
fn a_program_uses_and_unloads_images_after_the_variables_of_its_thread() {
    const CHILD: &str = "LONGSHORE_TEST_ENDING";
    const NAME: &str =
        "guarded_code::a_program_uses_and_unloads_images_after_the_variables_of_its_thread";
    const SOURCE: &str = "#include \"longshore_device.h\"\n\
        __attribute__((destructor)) static void last(void) {}\n\
        LONGSHORE_KERNEL(wait, (uint32_t *x)) {\n\
          LONGSHORE_SHARED(uint32_t, tile, [8]);\n\
          tile[longshore_item_id(0)] = longshore_item_id(0);\n\
          longshore_barrier();\n\
          x[longshore_item_id(0)] = tile[7 - longshore_item_id(0)];\n\
        }\n";
    let Some(clang) = clangs().pop() else { return };
    if std::env::var_os(CHILD).is_some() {
        let workshop = Workshop::new();
        let device = workshop.device(threads(1));
        let image = workshop.image(clang, "ending", SOURCE, &["-O1"]);
        let program = device.load_trusted(image).unwrap();
        let queue = device.queue().unwrap();
        wait(&program, &queue);
        *LEFT.lock().unwrap() = Some((program, queue));
        // SAFETY: the handler takes no arguments. `exit` destroys the variables of this thread, and
        // then calls the handler on it.
        unsafe {
            libc::atexit(at_end);
            libc::exit(0);
        }
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    let output = child.args(["--exact", NAME, "--nocapture"]).env(CHILD, "1").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.ends_with("unloaded\n"), "{said}");
}

extern "C" fn at_end() {
    let (program, queue) = LEFT.lock().unwrap().take().unwrap();
    wait(&program, &queue);
    let unloaded = program.unload().map(drop);
    // A failure of the test's printing would be another one after the thread's variables.
    let text = unloaded.map_or_else(|error| error.to_string(), |()| "unloaded\n".to_owned());
    // SAFETY: the text is readable.
    unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
}

fn wait(program: &Program, queue: &Queue) {
    let kernel = program.kernel("wait").unwrap();
    let numbers = queue.device().buffer_of(queue, &[0u32; 8]).unwrap();
    // SAFETY: the kernel takes a buffer with a number for each item.
    unsafe { queue.launch_and_wait(&kernel, Grid::linear(1, 8), (&numbers,)).unwrap() };
    assert_eq!(numbers.to_vec(queue).unwrap(), [7, 6, 5, 4, 3, 2, 1, 0]);
}
