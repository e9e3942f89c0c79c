//! Code objects, their kernels and variables.

use crate::support::hip::{Hip, ok, out};
use crate::support::images::Twins;
use crate::support::{HIP, with_double};
use longshore_double_gpu::testing::CONSTRUCTORS;
use std::ffi::c_void;

const SOURCE: &str = r#"
#include <longshore_device.h>
LONGSHORE_GLOBAL uint64_t hits = 7;
LONGSHORE_GLOBAL uint64_t *where = &hits;
static volatile uint64_t secret;
LONGSHORE_KERNEL(scale, (uint8_t factor, uint64_t *x, uint64_t n)) {
  uint64_t i = longshore_global_id(0);
  if (i < n) x[i] *= factor;
  if (i == 0) { hits += 1; secret = hits; }
}
LONGSHORE_KERNEL(poke, (uint64_t *x)) { *x = 4; }
LONGSHORE_KERNEL(say, (uint64_t x)) { longshore_printf("it is %d\n", (int)x); }
"#;

/// Frees the memory and module of a test; no object may be left.
fn finish(hip: &Hip, module: usize, memory: &[u64]) {
    for address in memory {
        ok(hip.hipFree(*address));
    }
    ok(hip.hipModuleUnload(module));
    assert_eq!(hip.double.live(), [""; 0]);
    assert_eq!(hip.double.violations(), [""; 0]);
}

#[test]
fn kernels_take_the_arguments_that_the_metadata_names() {
    let Some(twins) = Twins::new() else { return };
    let image = twins.code_object("k", SOURCE);
    with_double(&twins.settings(), |hip| {
        let module = hip.load(&image).expect("the image has a twin");
        let (scale, x) = (hip.function(module, "scale"), hip.allocate(800));
        hip.write(x, &(0..100u64).collect::<Vec<_>>());
        ok(hip.launch(scale, [4, 32], 0, &[3, x, 100]));
        assert_eq!(hip.read::<u64>(x, 100), (0..100).map(|i| i * 3).collect::<Vec<u64>>());
        // The first argument is one byte, and the next one is at a multiple of 8.
        let mut packed = [2u64, x, 100];
        let mut bytes = size_of_val(&packed);
        let mut extra = |end: usize| {
            let parts = [1, packed.as_mut_ptr() as usize, 2, (&raw mut bytes) as usize, end];
            parts.map(std::ptr::without_provenance_mut::<c_void>)
        };
        let (none, mut extra, mut others) = (std::ptr::null_mut(), extra(3), extra(0));
        let start = extra.as_mut_ptr();
        ok(hip.hipModuleLaunchKernel(scale, 4, 1, 1, 32, 1, 1, 0, 0, none, start));
        assert_eq!(hip.read::<u64>(x, 3), [0, 6, 12]);
        let start = others.as_mut_ptr();
        assert_eq!(hip.hipModuleLaunchKernel(scale, 1, 1, 1, 1, 1, 1, 0, 0, none, start), 1);
        hip.double.reset();
        finish(hip, module, &[x]);
    })
    .nothing_wrong();
}

#[test]
fn variables_come_from_the_dynamic_symbols() {
    let Some(twins) = Twins::new() else { return };
    let image = twins.code_object("k", SOURCE);
    with_double(&twins.settings(), |hip| {
        let module = hip.load(&image).expect("the image has a twin");
        let (hits, bytes) = hip.global(module, "hits").expect("it is visible");
        assert_eq!((bytes, hip.read::<u64>(hits, 1)), (8, vec![7]));
        let (place, _) = hip.global(module, "where").expect("it is visible");
        assert_eq!(hip.read::<u64>(place, 1), [hits]);
        for hidden in ["secret", "nothing", "scale.kd", "scale"] {
            assert_eq!(hip.global(module, hidden), Err(500), "{hidden}");
        }
        let x = hip.allocate(8);
        ok(hip.launch(hip.function(module, "scale"), [1, 1], 0, &[1, x, 0]));
        assert_eq!(hip.read::<u64>(hits, 1), [8]);
        // The address of a variable works like any other.
        ok(hip.launch(hip.function(module, "poke"), [1, 1], 0, &[hits]));
        assert_eq!(hip.read::<u64>(hits, 1), [4]);
        finish(hip, module, &[x]);
    })
    .nothing_wrong();
}

#[test]
fn where_messages_go_is_a_variable_that_twins_do_not_need() {
    let Some(twins) = Twins::new() else { return };
    let image = twins.code_object("k", SOURCE);
    with_double(&twins.settings(), |hip| {
        let module = hip.load(&image).expect("the image has a twin");
        let (ring, bytes) = hip.global(module, "__longshore_printf_buffer").expect("it is weak");
        assert_eq!((bytes, hip.read::<u64>(ring, 1)), (8, vec![0]));
        let host = out(|address| hip.hipHostMalloc(address, 4096, 3));
        hip.write(ring, &[host]);
        assert_eq!(hip.read::<u64>(ring, 1), [host]);
        ok(hip.launch(hip.function(module, "say"), [1, 1], 0, &[42]));
        ok(hip.hipStreamSynchronize(0));
        ok(hip.hipHostFree(host));
        finish(hip, module, &[]);
    })
    .printed("it is 42");
}

#[test]
fn the_runtime_runs_constructors_by_itself() {
    let Some(twins) = Twins::new() else { return };
    let image = twins.code_object("c", CONSTRUCTORS);
    with_double(&twins.settings(), |hip| {
        let module = hip.load(&image).expect("the image has a twin");
        let (order, _) = hip.global(module, "order").expect("it is visible");
        assert_eq!(hip.read::<u64>(order, 4), [1, 2, 0, 0]);
        finish(hip, module, &[]);
    })
    .nothing_wrong();
}

#[test]
fn hidden_kernels_run_constructors_and_destructors() {
    let Some(twins) = Twins::new() else { return };
    let mut image = twins.code_object("c", CONSTRUCTORS);
    for (shown, hidden) in [(b"\xa4init", b"\xa4INIT"), (b"\xa4fini", b"\xa4FINI")] {
        let place = image.windows(5).position(|bytes| bytes == shown).expect("the kind is there");
        image[place..place + 5].copy_from_slice(hidden);
    }
    with_double(&twins.settings(), |hip| {
        let module = hip.load(&image).expect("the image has a twin");
        let (order, _) = hip.global(module, "order").expect("it is visible");
        assert_eq!(hip.read::<u64>(order, 4), [0; 4]);
        for (kind, expected) in [("init", [1, 2, 0, 0]), ("fini", [1, 2, 3, 4])] {
            let kernel = hip.function(module, &format!("amdgcn.device.{kind}"));
            ok(hip.launch(kernel, [1, 1], 0, &[]));
            assert_eq!(hip.read::<u64>(order, 4), expected);
        }
        finish(hip, module, &[]);
    })
    .nothing_wrong();
}

const LACKING: &str = r#"
#include <longshore_device.h>
__attribute__((visibility("default"))) extern uint64_t other;
LONGSHORE_KERNEL(take, (uint64_t *x)) { *x = other; }
"#;

#[test]
fn images_that_the_device_does_not_run_are_refused_with_a_reason() {
    let Some(twins) = Twins::new() else { return };
    let image = twins.code_object("k", SOURCE);
    let other = twins.code_object_for("o", SOURCE, &["-mcpu=gfx942"]);
    let xnack = twins.code_object_for("x", SOURCE, &["-mcpu=gfx90a:xnack+"]);
    let lacking = twins.code_object_for("l", LACKING, &["-mcpu=gfx90a", "-Wl,-z,undefs"]);
    for (image, code, reason) in [
        (&other, 209, "for gfx942, which gfx90a:sramecc+:xnack- does not run"),
        (&xnack, 209, "its setting of xnack differs"),
        (&lacking, 303, "undefined: other"),
        (&b"__CLANG_OFFLOAD_BUNDLE__".repeat(8), 200, "not a 64-bit ELF file"),
    ] {
        with_double(&twins.settings(), |hip| assert_eq!(hip.load(image), Err(code)))
            .complaint(reason);
    }
    with_double("", |hip| assert_eq!(hip.load(&image), Err(200))).complaint("'twins' is missing");
    with_double(&format!("{};target=gfx942;quiet", twins.settings()), |hip| {
        let module = hip.load(&other).expect("it is for the device");
        finish(hip, module, &[]);
    })
    .nothing_wrong();
}

#[test]
fn a_kernel_that_leaves_its_memory_is_an_error_or_the_end() {
    let Some(twins) = Twins::new() else { return };
    let image = twins.code_object("k", SOURCE);
    with_double(&twins.settings(), |hip| {
        let module = hip.load(&image).expect("the image has a twin");
        ok(hip.launch(hip.function(module, "poke"), [1, 1], 0, &[64]));
        assert_eq!(hip.hipStreamSynchronize(0), 700);
        assert_eq!(hip.hipMalloc(&mut 0, 8), 700);
        assert_eq!(hip.hipModuleUnload(module), 700);
    })
    .complaint("segmentation fault");
    let settings = format!("{};fault=abort", twins.settings());
    let said = HIP.run_to_its_end(&settings, Hip::open, |hip| {
        let module = hip.load(&image).expect("the image has a twin");
        ok(hip.launch(hip.function(module, "poke"), [1, 1], 0, &[64]));
        hip.hipStreamSynchronize(0);
        unreachable!("the process has ended");
    });
    said.ended_by(6);
    said.complaint("ends the process");
}

#[test]
fn launches_are_refused_with_hips_own_results() {
    let Some(twins) = Twins::new() else { return };
    let image = twins.code_object("k", SOURCE);
    with_double(&format!("{};devices=2", twins.settings()), |hip| {
        let module = hip.load(&image).expect("the image has a twin");
        let (poke, x) = (hip.function(module, "poke"), hip.allocate(8));
        for (sizes, expected) in
            [([0, 1], 1), ([1, 0], 9), ([1, 1025], 1), ([1 << 30, 32], 9), ([1, 1024], 0)]
        {
            assert_eq!(hip.launch(poke, sizes, 0, &[x]), expected, "{sizes:?}");
        }
        assert_eq!(out(|value| hip.hipFuncGetAttribute(value, 0, poke)), 1024);
        let (mut grid, mut best) = (0, 0);
        ok(hip.hipModuleOccupancyMaxPotentialBlockSize(&mut grid, &mut best, poke, 0, 256));
        assert!(best > 0 && best <= 256 && grid > 0);
        let groups = |items| {
            out(|n| hip.hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(n, poke, items, 0))
        };
        assert_eq!([groups(1024), groups(64)], [2, 32]);
        // A kernel runs on its stream's device, which must have the kernel's module. The current
        // device does not matter.
        let stream = hip.stream();
        ok(hip.hipSetDevice(1));
        ok(hip.launch(poke, [1, 1], stream, &[x]));
        assert_eq!(hip.double.violations(), [""; 0]);
        assert_eq!(hip.launch(poke, [1, 1], 0, &[x]), 101);
        assert_eq!(hip.hipFuncGetAttribute(&mut 0, 0, poke), 400);
        assert_eq!(hip.double.violations().len(), 2);
        hip.double.reset();
        ok(hip.hipStreamSynchronize(stream));
        ok(hip.hipStreamDestroy(stream));
        finish(hip, module, &[x]);
    })
    .nothing_wrong();
}

#[test]
fn kernels_reach_memory_of_peers() {
    let Some(twins) = Twins::new() else { return };
    let image = twins.code_object("k", SOURCE);
    with_double(&format!("{};devices=2", twins.settings()), |hip| {
        ok(hip.hipSetDevice(1));
        let before = hip.allocate(8);
        ok(hip.hipSetDevice(0));
        ok(hip.hipDeviceEnablePeerAccess(1, 0));
        assert_eq!(hip.hipDeviceEnablePeerAccess(1, 0), 704);
        let module = hip.load(&image).expect("the image has a twin");
        ok(hip.launch(hip.function(module, "poke"), [1, 1], 0, &[before]));
        assert_eq!(hip.read::<u64>(before, 1), [4]);
        finish(hip, module, &[before]);
    })
    .nothing_wrong();
}
