//! Images, their kernels and variables.

use crate::support::cuda::{Cuda, LaunchAttribute, LaunchConfig, ok};
use crate::support::images::{Twins, ptxas};
use crate::support::with_double;
use longshore_double_gpu::testing::{CONSTRUCTORS, COUNTED};
use longshore_format_nvidia::Contents;

const SOURCE: &str = r#"
#include <longshore_device.h>
LONGSHORE_GLOBAL uint64_t hits = 7;
LONGSHORE_GLOBAL uint64_t *where = &hits;
LONGSHORE_CONSTANT float weights[3] = {0.25f, 0.5f, 0.25f};
static volatile uint64_t secret;
LONGSHORE_KERNEL(scale, (uint64_t factor, uint64_t *x, uint64_t n)) {
  uint64_t i = longshore_global_id(0);
  if (i < n) x[i] *= factor;
  if (i == 0) { hits += 1; secret = hits; }
}
LONGSHORE_KERNEL(poke, (uint64_t *x)) { *x = (uint64_t)(weights[1] * 8); }
LONGSHORE_KERNEL(claim, (uint64_t x)) { longshore_assert(x == 1); }
"#;

#[test]
fn a_kernel_runs_by_its_twin() {
    let Some(twins) = Twins::new() else { return };
    let image = twins.ptx("k", SOURCE);
    with_double(&format!("twins={}", twins.path().display()), |cuda| {
        cuda.start(0);
        let module = cuda.load(&image).expect("the image has a twin");
        let stream = cuda.stream();
        let x = cuda.allocate(800);
        cuda.write(x, &(0..100u64).collect::<Vec<_>>());
        ok(cuda.cuCtxSynchronize());
        ok(cuda.launch(cuda.function(module, "scale"), [4, 32], stream, &[3, x, 100]));
        ok(cuda.cuStreamSynchronize(stream));
        assert_eq!(cuda.read::<u64>(x, 100), (0..100).map(|i| i * 3).collect::<Vec<u64>>());
        finish(cuda, module, &[stream], &[x]);
    })
    .nothing_wrong();
}

/// Destroys the objects of a test.
fn finish(cuda: &Cuda, module: usize, streams: &[usize], memory: &[u64]) {
    for stream in streams {
        ok(cuda.cuStreamDestroy_v2(*stream));
    }
    for address in memory {
        ok(cuda.cuMemFree_v2(*address));
    }
    ok(cuda.cuModuleUnload(module));
    ok(cuda.cuDevicePrimaryCtxRelease_v2(0));
    assert_eq!(cuda.double.live(), [""; 0]);
    assert_eq!(cuda.double.violations(), [""; 0]);
}

#[test]
fn variables_have_the_images_values_and_addresses() {
    let Some(twins) = Twins::new() else { return };
    let image = twins.ptx("k", SOURCE);
    with_double(&format!("twins={}", twins.path().display()), |cuda| {
        cuda.start(0);
        let module = cuda.load(&image).expect("the image has a twin");
        let (hits, bytes) = cuda.global(module, "hits").expect("it is visible");
        assert_eq!((bytes, cuda.read::<u64>(hits, 1)), (8, vec![7]));
        let (place, _) = cuda.global(module, "where").expect("it is visible");
        assert_eq!(cuda.read::<u64>(place, 1), [hits]);
        assert_eq!(cuda.global(module, "secret"), Err(500));
        assert_eq!(cuda.global(module, "nothing"), Err(500));
        let x = cuda.allocate(8);
        cuda.write(x, &[1u64]);
        cuda.write(hits, &[41u64]);
        ok(cuda.launch(cuda.function(module, "scale"), [1, 1], 0, &[1, x, 1]));
        assert_eq!(cuda.read::<u64>(hits, 1), [42]);
        let (weights, _) = cuda.global(module, "weights").expect("it is weak");
        cuda.write(weights + 4, &[2.0f32]);
        ok(cuda.launch(cuda.function(module, "poke"), [1, 1], 0, &[x]));
        assert_eq!(cuda.read::<u64>(x, 1), [16]);
        finish(cuda, module, &[], &[x]);
    })
    .nothing_wrong();
}

/// Returns the names of the variables for constructors or destructors, in the order of their
/// priorities.
fn listed(image: &[u8], start: &str) -> Vec<String> {
    let text = String::from_utf8_lossy(image);
    let words = text.split_whitespace().filter(|word| word.starts_with(start));
    let mut names: Vec<String> = words.map(str::to_owned).collect();
    names.sort_by_key(|name| name.rsplit('_').next().and_then(|last| last.parse::<u32>().ok()));
    names
}

#[test]
fn constructors_and_destructors_run_as_their_lists_say() {
    let Some(twins) = Twins::new() else { return };
    let image = twins.ptx("c", CONSTRUCTORS);
    with_double(&format!("twins={}", twins.path().display()), |cuda| {
        cuda.start(0);
        let module = cuda.load(&image).expect("the image has a twin");
        let list = cuda.allocate(16);
        let (order, _) = cuda.global(module, "order").expect("it is visible");
        for (kind, expected) in [("init", [1, 2, 0, 0]), ("fini", [1, 2, 3, 4])] {
            let kernel = cuda.function(module, &format!("nvptx$device${kind}"));
            ok(cuda.launch(kernel, [1, 1], 0, &[]));
            let names = listed(&image, &format!("__{kind}_array_object_"));
            assert_eq!(names.len(), 2);
            let functions = names.iter().map(|name| {
                let (address, _) = cuda.global(module, name).expect("it is visible");
                cuda.read::<u64>(address, 1)[0]
            });
            cuda.write(list, &functions.collect::<Vec<_>>());
            for (end, value) in [("start", list), ("end", list + 16)] {
                let bound = cuda.global(module, &format!("__{kind}_array_{end}"));
                cuda.write(bound.expect("it is weak").0, &[value]);
            }
            ok(cuda.launch(kernel, [1, 1], 0, &[]));
            assert_eq!(cuda.read::<u64>(order, 4), expected);
        }
        finish(cuda, module, &[], &[list]);
    })
    .nothing_wrong();
}

#[test]
fn a_kernel_that_leaves_its_memory_breaks_its_context() {
    let Some(twins) = Twins::new() else { return };
    let image = twins.ptx("k", SOURCE);
    with_double(&format!("twins={}", twins.path().display()), |cuda| {
        let context = cuda.start(0);
        let freed = cuda.allocate(64);
        ok(cuda.cuMemFree_v2(freed));
        let on_host = Box::new(5u64);
        for address in [8, freed, freed + (1 << 30), (&raw const *on_host) as u64] {
            let module = cuda.load(&image).expect("the image has a twin");
            let stream = cuda.stream();
            ok(cuda.launch(cuda.function(module, "poke"), [1, 1], stream, &[address]));
            assert_eq!(cuda.cuStreamSynchronize(stream), 700, "{address:#x}");
            let mut x = 0;
            assert_eq!(cuda.cuMemAlloc_v2(&mut x, 8), 700);
            assert_eq!(cuda.cuStreamDestroy_v2(stream), 700);
            assert_eq!(cuda.cuModuleUnload(module), 700);
            ok(cuda.cuDevicePrimaryCtxRelease_v2(0));
            let mut again = 0;
            ok(cuda.cuDevicePrimaryCtxRetain(&mut again, 0));
            assert_ne!(again, context);
            ok(cuda.cuCtxSetCurrent(again));
        }
        assert_eq!(*on_host, 5);
        ok(cuda.cuDevicePrimaryCtxRelease_v2(0));
        assert_eq!(cuda.double.violations(), [""; 0]);
        assert_eq!(cuda.double.lost(), [""; 0]);
    })
    .complaint("segmentation fault");
}

#[test]
fn a_failed_assertion_is_one() {
    let Some(twins) = Twins::new() else { return };
    let image = twins.ptx("k", SOURCE);
    with_double(&format!("twins={};quiet", twins.path().display()), |cuda| {
        cuda.start(0);
        let module = cuda.load(&image).expect("the image has a twin");
        let claim = cuda.function(module, "claim");
        ok(cuda.launch(claim, [1, 1], 0, &[1]));
        ok(cuda.cuCtxSynchronize());
        ok(cuda.launch(claim, [1, 1], 0, &[2]));
        assert_eq!(cuda.cuCtxSynchronize(), 710);
        ok(cuda.cuDevicePrimaryCtxReset_v2(0));
        assert_eq!(cuda.cuCtxSynchronize(), 709);
    });
}

#[test]
fn images_that_the_device_does_not_run_are_refused_with_a_reason() {
    let Some(twins) = Twins::new() else { return };
    let image = twins.ptx("k", SOURCE);
    with_double(&format!("twins={}", twins.path().display()), |cuda| {
        cuda.start(0);
        let text = String::from_utf8_lossy(&image);
        let refused = |image: &str| cuda.load(image.as_bytes()).expect_err("it cannot be run");
        for (from, to, code, reason) in [
            ("sm_90", "sm_100", 218, "higher than default"),
            (".version 7.8", ".version 99.0", 222, "Unsupported .version 99.0"),
            ("\tret;", "\tno;", 218, "Not a name of any known instruction: 'no'"),
            (".visible .entry", ".extern .func f;\n.visible .entry", 218, "extern function 'f'"),
            ("hits = 7;", "hits = 8;", 218, "no twin"),
        ] {
            let (found, log) = refused(&text.replacen(from, to, 1));
            assert_eq!(found, code, "{to}: {log}");
            assert!(log.contains(reason), "{to}: {log}");
        }
        assert_eq!(refused("hello").0, 218);
        ok(cuda.cuDevicePrimaryCtxRelease_v2(0));
    })
    .nothing_wrong();
}

#[test]
fn cubins_and_links_run_by_the_twins_of_their_sources() {
    let (Some(twins), Some(ptxas)) = (Twins::new(), ptxas()) else { return };
    let ptx = twins.ptx("k", SOURCE);
    let cubin = twins.cubin("k", &ptxas, &[]);
    let tools = ptxas.parent().expect("a file is in a folder").display();
    let settings = format!("twins={};tools={tools}", twins.path().display());
    with_double(&settings, |cuda| {
        cuda.start(0);
        let x = cuda.allocate(8);
        let linked = link(cuda, 1, &ptx).expect("it links");
        for image in [&cubin, &linked] {
            let module = cuda.load(image).expect("the image has a twin");
            let (weights, bytes) = cuda.global(module, "weights").expect("it is weak");
            assert_eq!((bytes, cuda.read::<f32>(weights, 3)), (12, vec![0.25, 0.5, 0.25]));
            ok(cuda.launch(cuda.function(module, "poke"), [1, 1], 0, &[x]));
            assert_eq!(cuda.read::<u64>(x, 1), [4]);
            ok(cuda.cuModuleUnload(module));
        }
        ok(cuda.cuMemFree_v2(x));
        ok(cuda.cuDevicePrimaryCtxRelease_v2(0));
    })
    .nothing_wrong();
}

#[test]
fn clusters_are_of_sizes_that_the_device_has() {
    let Some(twins) = Twins::new() else { return };
    let image = twins.ptx("k", SOURCE);
    with_double(&format!("twins={}", twins.path().display()), |cuda| {
        cuda.start(0);
        let module = cuda.load(&image).expect("the image has a twin");
        let claim = cuda.function(module, "claim");
        for (groups, cluster, expected) in [(4, 2, 0), (4, 3, 912), (16, 16, 912), (8, 8, 0)] {
            let mut value = [0; 16];
            value[..3].copy_from_slice(&[cluster, 1, 1]);
            let attribute = LaunchAttribute { which: 4, padding: 0, value };
            let config = LaunchConfig {
                groups: [groups, 1, 1],
                items: [32, 1, 1],
                shared_bytes: 0,
                stream: 0,
                attributes: &attribute,
                count: 1,
            };
            let argument = 1u64;
            let mut pointers = [(&raw const argument).cast_mut().cast()];
            let arguments = pointers.as_mut_ptr();
            let result = cuda.cuLaunchKernelEx(&config, claim, arguments, std::ptr::null_mut());
            assert_eq!(result, expected, "{groups} groups in clusters of {cluster}");
        }
        ok(cuda.cuCtxSynchronize());
        finish(cuda, module, &[], &[]);
    })
    .nothing_wrong();
}

#[test]
fn options_of_the_jit_are_numbers_in_the_place_of_pointers() {
    let Some(twins) = Twins::new() else { return };
    let image = [twins.ptx("k", SOURCE), vec![0]].concat();
    with_double(&format!("twins={};quiet", twins.path().display()), |cuda| {
        cuda.start(0);
        let (mut log, mut size) = ([0u8; 256], 256usize);
        let log_start = log.as_mut_ptr() as usize;
        let load = |numbers: &[u32], values: &[usize]| {
            let (mut module, mut values) = (0, values.to_vec());
            let (count, start) = (numbers.len() as u32, values.as_mut_ptr());
            let result = cuda.cuModuleLoadDataEx(
                &mut module,
                image.as_ptr(),
                count,
                numbers.as_ptr(),
                start,
            );
            if result == 0 {
                ok(cuda.cuModuleUnload(module));
            }
            (result, values)
        };
        let (result, values) = load(&[3, 4, 12, 7], &[log_start, 256, 1, 4]);
        assert_eq!(result, 0);
        assert!(values[1] > 1 && values[1] <= 256);
        assert!(log.starts_with(b"ptxas info"));
        let pointer = (&raw mut size) as usize;
        for (number, value) in [(4, 256), (7, 5), (0, 0), (99, 0), (12, pointer)] {
            assert_eq!(load(&[number], &[value]).0, 1, "option {number}");
        }
        assert_eq!(load(&[5, 6], &[log_start, pointer]).0, 1);
        assert_eq!(cuda.double.violations().len(), 6);
        ok(cuda.cuDevicePrimaryCtxRelease_v2(0));
    });
}

/// Links one input.
fn link(cuda: &Cuda, kind: u32, input: &[u8]) -> Result<Vec<u8>, u32> {
    let (mut state, mut cubin, mut bytes) = (0, std::ptr::null(), 0);
    let (none, no_values) = (std::ptr::null(), std::ptr::null_mut());
    ok(cuda.cuLinkCreate_v2(0, none, no_values, &mut state));
    let (data, size) = (input.as_ptr(), input.len());
    ok(cuda.cuLinkAddData_v2(state, kind, data, size, c"k".as_ptr(), 0, none, no_values));
    let result = cuda.cuLinkComplete(state, &mut cubin, &mut bytes);
    // SAFETY: the driver's result, which lives until the link state is destroyed.
    let output =
        (result == 0).then(|| unsafe { std::slice::from_raw_parts(cubin, bytes) }.to_vec());
    ok(cuda.cuLinkDestroy(state));
    output.ok_or(result)
}

const LARGER: &str = r#"
#include <longshore_device.h>
LONGSHORE_KERNEL(sum, (uint64_t *total)) {
  longshore_grid_barrier();
  longshore_atomic_add(total, (uint64_t)longshore_global_id(0));
}
LONGSHORE_GROUP_KERNEL(reverse, (uint64_t *x), LONGSHORE_GROUP_SIZE(64, 1, 1)) {
  uint64_t *tile = longshore_dynamic_shared();
  LONGSHORE_ITEMS { tile[longshore_item_id(0)] = x[longshore_item_id(0)]; }
  LONGSHORE_ITEMS { x[longshore_item_id(0)] = tile[63 - longshore_item_id(0)]; }
}
LONGSHORE_KERNEL(say, (uint64_t x)) { longshore_printf("it is %d\n", (int)x); }
"#;

#[test]
fn launches_are_cooperative_or_have_shared_memory_as_the_device_allows() {
    let Some(twins) = Twins::new() else { return };
    let image = twins.ptx("l", LARGER);
    with_double(&format!("twins={}", twins.path().display()), |cuda| {
        cuda.start(0);
        let module = cuda.load(&image).expect("the image has a twin");
        let x = cuda.allocate(512);
        let none = std::ptr::null_mut();
        let launch = |name: &str, groups: u32, items: u32, shared: u32, cooperative: bool| {
            let mut pointers = [(&raw const x).cast_mut().cast()];
            let (function, arguments) = (cuda.function(module, name), pointers.as_mut_ptr());
            match cooperative {
                true => cuda.cuLaunchCooperativeKernel(
                    function, groups, 1, 1, items, 1, 1, shared, 0, arguments,
                ),
                false => cuda.cuLaunchKernel(
                    function, groups, 1, 1, items, 1, 1, shared, 0, arguments, none,
                ),
            }
        };
        cuda.write(x, &[0u64]);
        ok(launch("sum", 4, 32, 0, true));
        assert_eq!(cuda.read::<u64>(x, 1), [(0..128).sum::<u64>()]);
        assert_eq!(launch("sum", 1 << 20, 32, 0, true), 720);
        assert_eq!(launch("sum", 0, 32, 0, false), 1);
        assert_eq!(launch("sum", 1, 1025, 0, false), 1);
        assert_eq!(launch("sum", 1, 32, 49153, false), 1);
        ok(cuda.cuFuncSetAttribute(cuda.function(module, "reverse"), 8, 60_000));
        cuda.write(x, &(0..64u64).collect::<Vec<_>>());
        ok(launch("reverse", 1, 64, 60_000, false));
        assert_eq!(cuda.read::<u64>(x, 2), [63, 62]);
        ok(cuda.launch(cuda.function(module, "say"), [1, 1], 0, &[42]));
        ok(cuda.cuCtxSynchronize());
        finish(cuda, module, &[], &[x]);
    })
    .printed("it is 42");
}

#[test]
fn kernels_reach_memory_of_the_host_and_of_peers() {
    let Some(twins) = Twins::new() else { return };
    let image = twins.ptx("k", SOURCE);
    with_double(&format!("twins={};devices=2", twins.path().display()), |cuda| {
        let other = cuda.start(1);
        let before = cuda.allocate(8);
        let own = cuda.start(0);
        ok(cuda.cuCtxEnablePeerAccess(other, 0));
        ok(cuda.cuCtxSetCurrent(other));
        let after = cuda.allocate(8);
        ok(cuda.cuCtxSetCurrent(own));
        let module = cuda.load(&image).expect("the image has a twin");
        let (mut pinned, mut managed, mut mapped) = (0, 0, 0);
        let mut ours = vec![1u64; 1000];
        let place = &raw mut ours[500];
        ok(cuda.cuMemHostAlloc(&mut pinned, 8, 2));
        ok(cuda.cuMemAllocManaged(&mut managed, 8, 1));
        ok(cuda.cuMemHostRegister_v2(place as usize, 800, 2));
        ok(cuda.cuMemHostGetDevicePointer_v2(&mut mapped, place as usize + 8, 0));
        let poke = cuda.function(module, "poke");
        for address in [pinned, managed, mapped, before, after] {
            ok(cuda.launch(poke, [1, 1], 0, &[address]));
            ok(cuda.cuCtxSynchronize());
            assert_eq!(cuda.read::<u64>(address, 1), [4], "{address:#x}");
        }
        for address in [pinned as usize, managed as usize, place as usize + 8] {
            let word = std::ptr::with_exposed_provenance::<u64>(address);
            // SAFETY: host memory that the kernels have written.
            assert_eq!(unsafe { word.read_volatile() }, 4);
        }
        assert_eq!((ours[500], ours[502]), (1, 1));
        ok(cuda.cuMemHostUnregister(place as usize));
        ok(cuda.cuMemFreeHost(pinned));
        ok(cuda.cuMemFree_v2(before));
        ok(cuda.cuMemFree_v2(after));
        ok(cuda.cuDevicePrimaryCtxRelease_v2(1));
        finish(cuda, module, &[], &[managed]);
    })
    .nothing_wrong();
}

#[test]
fn counts_of_the_twin_are_in_the_images_counters() {
    let (Some(twins), Some(ptxas)) = (Twins::new(), ptxas()) else { return };
    let [_, ptx] = twins.instrumented("p", COUNTED);
    let cubin = twins.cubin("p", &ptxas, &[]);
    with_double(&format!("twins={}", twins.path().display()), |cuda| {
        cuda.start(0);
        for (image, anchor) in [(&ptx, "__profc_longshore_counted"), (&cubin, "total")] {
            let module = cuda.load(image).expect("the image has a twin");
            ok(cuda.launch(cuda.function(module, "count"), [1, 1], 0, &[30]));
            let contents = match anchor {
                "total" => Contents::from_cubin(&cubin).expect("it is a cubin"),
                _ => Contents::from_ptx(&ptx),
            };
            let place = |name: &str| {
                let found = contents.variables.iter().find(|variable| variable.name == name);
                found.and_then(|variable| variable.place).map_or(0, |place| place.offset)
            };
            let (address, _) = cuda.global(module, anchor).expect("it is visible");
            let counters = address + place("__profc_longshore_counted") - place(anchor);
            let mut counts = cuda.read::<u64>(counters, 2);
            counts.sort_unstable();
            assert!(matches!(counts[..], [10, 20 | 30] | [20, 30]), "{counts:?}");
            let (total, _) = cuda.global(module, "total").expect("it is visible");
            assert_eq!(cuda.read::<u64>(total, 1), [135]);
            ok(cuda.cuModuleUnload(module));
        }
        ok(cuda.cuDevicePrimaryCtxRelease_v2(0));
        assert_eq!(cuda.double.live(), [""; 0]);
    })
    .nothing_wrong();
}
