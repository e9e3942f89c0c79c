//! Launches with words, as a kernel finds them in registers and on the stack.

use super::*;
use crate::queue::HostQueue;
use crate::{HostBackend, HostKernel};
use longshore_plugin_api::{ArgumentPassing, LaunchShape, Queue};

/// Writes its `count` words, the first of which are `count` and `to`, to `to`; the word behind them
/// is the stack's distance from 16 bytes of alignment at the call.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn store(_: *mut *mut c_void) {
    naked_asm!(
        "mov [rsi], rdi",
        "mov [rsi + 8], rsi",
        "mov [rsi + 16], rdx",
        "mov [rsi + 24], rcx",
        "mov [rsi + 32], r8",
        "mov [rsi + 40], r9",
        "mov ecx, 6",
        "2:",
        "cmp rcx, rdi",
        "jae 3f",
        "mov rax, [rsp + 8*rcx - 40]",
        "mov [rsi + 8*rcx], rax",
        "inc rcx",
        "jmp 2b",
        "3:",
        "lea rax, [rsp + 8]",
        "and eax, 15",
        "mov [rsi + 8*rdi], rax",
        "ret",
    )
}

/// Writes its words as on x86-64.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
unsafe extern "C" fn store(_: *mut *mut c_void) {
    naked_asm!(
        "stp x0, x1, [x1]",
        "stp x2, x3, [x1, #16]",
        "stp x4, x5, [x1, #32]",
        "stp x6, x7, [x1, #48]",
        "mov x9, #8",
        "mov x11, sp",
        "2:",
        "cmp x9, x0",
        "b.hs 3f",
        "ldr x10, [x11], #8",
        "str x10, [x1, x9, lsl #3]",
        "add x9, x9, #1",
        "b 2b",
        "3:",
        "mov x9, sp",
        "and x9, x9, #15",
        "str x9, [x1, x0, lsl #3]",
        "ret",
    )
}

unsafe extern "C" fn adds_one(word: *mut *mut c_void) {
    // SAFETY: the kernel's one word is the address of a counter.
    unsafe { *word.cast::<u64>() += 1 };
}

unsafe extern "C" fn faults(address: *mut *mut c_void) {
    // SAFETY: the launch's guard treats the fault of a bad address.
    unsafe { address.cast::<u64>().write_volatile(1) };
}

unsafe extern "C" fn group_kernel(_: *const *const c_void, _: *mut Work) {}

fn launch<T>(kernel: &HostKernel, values: &[T], wait: bool) -> Result<()> {
    let queue = HostQueue::new(Engine::for_tests());
    launch_on(&queue, kernel, values, wait)?;
    Queue::<HostBackend>::synchronize(&queue)
}

fn launch_on<T>(queue: &HostQueue, kernel: &HostKernel, values: &[T], wait: bool) -> Result<()> {
    let pointers: Vec<*const c_void> =
        values.iter().map(|value| (&raw const *value).cast()).collect();
    let sizes = vec![size_of::<T>(); values.len()];
    // SAFETY: one size for each pointer to a value; the kernels of these tests take the values.
    let arguments = unsafe { Arguments::from_raw(pointers.as_ptr(), sizes.as_ptr(), values.len()) };
    let shape = LaunchShape::new([1; 3], [1; 3]).with_passing(ArgumentPassing::Words);
    queue.launch(kernel, &shape.with_wait(wait), arguments)
}

#[test]
fn every_word_arrives_in_its_place_on_an_aligned_stack() {
    let kernel = HostKernel::host_form("store", store);
    for wait in [true, false] {
        for count in [2, 5, 6, 7, 8, 9, 10, 20, 63, 64, 65, 300, 4096, MOST_WORDS] {
            let mut found = vec![u64::MAX; count.max(LEAST_WORDS) + 1];
            let mut words: Vec<u64> =
                (0..count as u64).map(|i| (i << 48) | 0x8000_1234_0000_0000 | i).collect();
            words[..2].copy_from_slice(&[count as u64, found.as_mut_ptr() as u64]);
            launch(&kernel, &words, wait).unwrap();
            assert_eq!(found[..count], words, "{count} words");
            assert_eq!(found[count], 0, "alignment with {count} words");
        }
    }
}

#[test]
fn a_kernel_without_words_runs() {
    let kernel = HostKernel::host_form("returns", returns);
    for wait in [true, false] {
        launch::<u64>(&kernel, &[], wait).unwrap();
    }
}

unsafe extern "C" fn returns(_: *mut *mut c_void) {}

#[test]
fn shorter_values_are_filled_up_with_zeros() {
    let kernel = HostKernel::host_form("store", store);
    let mut found = [u64::MAX; LEAST_WORDS + 1];
    let to = (found.as_mut_ptr() as u64).to_le_bytes();
    let (count, half, byte) = ([8u8], [0xfe, 0xff, 0xff, 0xff], [0x80u8]);
    let values: [&[u8]; 8] = [&count, &to, &half, &byte, &[], &half, &byte, &byte];
    let pointers = values.map(|value| value.as_ptr().cast::<c_void>());
    let sizes = values.map(<[u8]>::len);
    for wait in [true, false] {
        // SAFETY: one size for each value, with which the kernel writes nine words.
        let arguments = unsafe { Arguments::from_raw(pointers.as_ptr(), sizes.as_ptr(), 8) };
        let queue = HostQueue::new(Engine::for_tests());
        let shape = LaunchShape::new([1; 3], [1; 3]).with_passing(ArgumentPassing::Words);
        queue.launch(&kernel, &shape.with_wait(wait), arguments).unwrap();
        Queue::<HostBackend>::synchronize(&queue).unwrap();
        assert_eq!(found[2..], [0xffff_fffe, 0x80, 0, 0xffff_fffe, 0x80, 0x80, 0]);
        found[2..].fill(u64::MAX);
    }
}

#[test]
fn queued_launches_have_captured_their_words() {
    let kernel = HostKernel::host_form("adds_one", adds_one);
    let queue = HostQueue::new(Engine::for_tests());
    let mut counters = [0u64; 2];
    for round in 0..2000 {
        let address = (&raw mut counters[round % 2]) as u64;
        launch_on(&queue, &kernel, &[address], round % 100 == 99).unwrap();
    }
    Queue::<HostBackend>::synchronize(&queue).unwrap();
    assert_eq!(counters, [1000; 2]);
}

#[test]
fn a_fault_of_a_kernel_with_words_is_an_error() {
    let kernel = HostKernel::host_form("faults", faults);
    for wait in [true, false] {
        let error = launch(&kernel, &[64u64, 1, 2, 3, 4, 5, 6, 7], wait).unwrap_err();
        assert_eq!(error.code(), ErrorCode::BackendFailure, "{error}");
        assert!(error.message().contains("kernel 'faults'"), "{error}");
    }
}

#[test]
fn words_that_do_not_fit_are_refused_at_the_call() {
    let kernel = HostKernel::host_form("store", store);
    let error = launch(&kernel, &[[0u64; 2]; 3], false).unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidArgument);
    assert!(error.message().contains("argument 0 has 16 bytes, expected at most 8"), "{error}");
    let error = launch(&kernel, &vec![0u64; MOST_WORDS + 1], true).unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidArgument);
    assert!(error.message().contains("expected at most 8192"), "{error}");
    let group = HostKernel::work_group_form("group", group_kernel);
    let error = launch::<u64>(&group, &[], true).unwrap_err();
    assert_eq!(error.code(), ErrorCode::Unsupported);
    assert!(error.message().contains("'group' has the work-group form"), "{error}");
}
