//! Kernels that take their arguments as parameters of C, as clang compiles them for OpenMP.

use longshore::{ArgumentPassing, Buffer, Device, ErrorCode, Grid, Host, Kernel, Program};
use longshore::{Queue, RawArguments};
use longshore_conformance::TrustedImages;
use longshore_tests::device_code::{Workshop, clangs, threads};
use longshore_tests::world::{World, copy_into, executor, host_plugin};
use std::ffi::c_void;
use std::fmt::Write;

/// Numbers of words in registers alone, and on the stack, an even and an odd number.
const COUNTS: [usize; 8] = [1, 2, 6, 7, 8, 9, 20, 300];

/// Further kernels. `print` uses vector instructions and `snprintf`, which need an aligned stack;
/// its last words are on the stack.
const OTHERS: &str = r#"
typedef unsigned long long word;
int snprintf(char *, unsigned long, const char *, ...);
word calls = 0;

void none(void) { ++calls; }

void print(char *to, word size, word a, word b, word c, word d, word e, word f, word g) {
  _Alignas(16) float vector[4] = {0.5f, (float)a, (float)b, (float)c};
#if defined(__x86_64__)
  __asm__ volatile("movaps %0, %%xmm5" : : "m"(vector) : "xmm5");
#endif
  snprintf(to, size, "%.1f %.1f %llu %llu %llu %llu", vector[0], vector[3], d, e, f, g);
}

void fault(word a, word b, word c, word d, word e, word f, word *bad) { *bad = a + b + c + d + e + f; }

/* Parameters of other integer types take their part of a word. */
void narrow(word *to, unsigned char a, int b, unsigned short c) {
  to[0] = a, to[1] = (word)(long long)b, to[2] = c;
}
"#;

/// Returns a kernel for each count, whose first word is the address for all words.
fn stores() -> String {
    let mut source = OTHERS.to_owned();
    for count in COUNTS {
        let parameters: Vec<_> = (1..count).map(|i| format!(", word w{i}")).collect();
        let stores: Vec<_> = (1..count).map(|i| format!(" to[{i}] = w{i};")).collect();
        let (parameters, stores) = (parameters.concat(), stores.concat());
        writeln!(source, "void store{count}(word *to{parameters}) {{ to[0] = {count};{stores} }}")
            .expect("a string takes all text");
    }
    source
}

fn words() -> Grid {
    Grid::default().with_passing(ArgumentPassing::Words)
}

/// Launches a kernel with words; waits for it in the same call or afterwards.
fn launch(queue: &Queue, kernel: &Kernel, values: &[u64], waits: bool) -> longshore::Result<()> {
    let pointers: Vec<*const c_void> =
        values.iter().map(|word| (&raw const *word).cast()).collect();
    let sizes = vec![8; values.len()];
    // SAFETY: the kernels of this file take these words; a pointer among them outlives the launch.
    unsafe {
        let arguments = RawArguments::new(&pointers, &sizes)?;
        if waits {
            return queue.launch_and_wait(kernel, words(), arguments);
        }
        queue.launch(kernel, words(), arguments)?;
    }
    queue.synchronize()
}

fn every_word_arrives(device: &Device, program: &Program) {
    let queue = device.queue().unwrap();
    for count in COUNTS {
        let kernel = program.kernel(&format!("store{count}")).unwrap();
        for waits in [true, false] {
            let to: Buffer<u64> = device.buffer(&queue, count).unwrap();
            let mut values: Vec<u64> =
                (0..count as u64).map(|i| (i << 48) | 0x9234_0000_0000 | i).collect();
            values[0] = to.pointer().address();
            launch(&queue, &kernel, &values, waits).unwrap();
            values[0] = count as u64;
            assert_eq!(to.to_vec(&queue).unwrap(), values, "{count} words");
        }
    }
    let none = program.kernel("none").unwrap();
    launch(&queue, &none, &[], true).unwrap();
    launch(&queue, &none, &[], false).unwrap();
    assert_eq!(program.global("calls").unwrap().read::<u64>(&queue).unwrap(), 2);
}

#[test]
fn every_word_arrives_unchanged() {
    let workshop = Workshop::new();
    for clang in clangs() {
        for flags in ["-O0", "-O2"] {
            let device = workshop.device(threads(2));
            for image in [
                workshop.image(clang, "words", &stores(), &[flags]),
                workshop.shared(clang, "words", &stores(), &[flags]),
            ] {
                let program = device.load_trusted(image).unwrap();
                every_word_arrives(&device, &program);
            }
        }
    }
}

#[test]
fn every_word_arrives_in_an_executor() {
    let Some(clang) = clangs().pop() else { return };
    let world = World::new();
    copy_into(&world, &host_plugin());
    let host: Host =
        world.host().with_isolated_backends("all").with_executor(executor()).build().unwrap();
    let device = host.default_device().unwrap();
    let image = Workshop::new().shared(clang, "words", &stores(), &["-O2"]);
    every_word_arrives(&device, &device.load_trusted(image).unwrap());
}

#[test]
fn kernels_with_words_have_an_aligned_stack() {
    let workshop = Workshop::new();
    let Some(clang) = clangs().pop() else { return };
    let device = workshop.device(threads(1));
    let image = workshop.shared(clang, "words", &stores(), &["-O2"]);
    let (program, queue) = (device.load_trusted(image).unwrap(), device.queue().unwrap());
    let (print, text) = (program.kernel("print").unwrap(), device.buffer(&queue, 64).unwrap());
    let text: Buffer<u8> = text;
    for waits in [true, false] {
        text.fill(&queue, 0).unwrap();
        let values = [text.pointer().address(), 64, 1, 2, 3, 4, 5, 6, u64::MAX];
        launch(&queue, &print, &values, waits).unwrap();
        let found = text.to_vec(&queue).unwrap();
        let found = String::from_utf8(found).unwrap();
        assert_eq!(found.trim_end_matches('\0'), "0.5 3.0 4 5 6 18446744073709551615");
    }
}

#[test]
fn values_shorter_than_a_word_arrive() {
    let workshop = Workshop::new();
    let Some(clang) = clangs().pop() else { return };
    let device = workshop.device(threads(1));
    let image = workshop.shared(clang, "words", &stores(), &["-O2"]);
    let (program, queue) = (device.load_trusted(image).unwrap(), device.queue().unwrap());
    let (narrow, to) = (program.kernel("narrow").unwrap(), device.buffer(&queue, 3).unwrap());
    let to: Buffer<u64> = to;
    // SAFETY: the kernel takes these values and writes three elements.
    unsafe { queue.launch_and_wait(&narrow, words(), (&to, 200u8, -5i32, 65_535u16)) }.unwrap();
    assert_eq!(to.to_vec(&queue).unwrap(), [200, -5i64 as u64, 65_535]);
}

#[test]
fn a_fault_of_a_kernel_with_words_is_an_error_of_its_queue() {
    let workshop = Workshop::new();
    let Some(clang) = clangs().pop() else { return };
    let device = workshop.device(threads(1));
    let image = workshop.shared(clang, "words", &stores(), &["-O2"]);
    let (program, queue) = (device.load_trusted(image).unwrap(), device.queue().unwrap());
    let (fault, none) = (program.kernel("fault").unwrap(), program.kernel("none").unwrap());
    for waits in [true, false] {
        let error = launch(&queue, &fault, &[1, 2, 3, 4, 5, 6, 0x10], waits).unwrap_err();
        assert_eq!(error.code(), ErrorCode::BackendFailure, "{error}");
        assert!(error.message().contains("kernel 'fault'"), "{error}");
        launch(&queue, &none, &[], waits).unwrap();
    }
}

const GROUPS: &str = r#"
#include "longshore_device.h"
LONGSHORE_KERNEL(put, (uint64_t *to)) { to[longshore_global_id(0)] = 1; }
"#;

#[test]
fn words_that_a_kernel_cannot_take_are_refused_at_the_call() {
    let workshop = Workshop::new();
    let Some(clang) = clangs().pop() else { return };
    let device = workshop.device(threads(1));
    let queue = device.queue().unwrap();
    let groups = device.load_trusted(workshop.image(clang, "groups", GROUPS, &["-O2"])).unwrap();
    let put = groups.kernel("put").unwrap();
    let error = launch(&queue, &put, &[0], false).unwrap_err();
    assert_eq!(error.code(), ErrorCode::Unsupported, "{error}");
    assert!(error.message().contains("'put' has the work-group form"), "{error}");
    let image = workshop.shared(clang, "words", &stores(), &["-O2"]);
    let program = device.load_trusted(image).unwrap();
    let (none, wide) = (program.kernel("none").unwrap(), [0u8; 9]);
    let (pointer, grid) = (wide.as_ptr().cast(), words());
    // SAFETY: the launch is refused; the value has 9 bytes.
    let refused =
        unsafe { queue.launch(&none, grid, RawArguments::new(&[pointer], &[9]).unwrap()) };
    let error = refused.unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidArgument, "{error}");
    assert!(error.message().contains("argument 0 has 9 bytes, expected at most 8"), "{error}");
}
