//! Launches forbidden by an image's description or by the device, on the CPU, in this process and
//! isolated.

use longshore::{
    Argument, Device, DeviceInfo, DevicePointer, Element, Environment, ErrorCode, Grid, Untyped,
};
use longshore_conformance::TrustedImages;
use longshore_tests::device_code::{Workshop, clangs, everywhere, threads};
use longshore_tests::world::{World, copy_into, executor, host_plugin};

const SOURCE: &str = r#"
#include "longshore_device.h"
struct pair { float first, second; };

LONGSHORE_KERNEL(scale, (float factor, float *x, uint64_t n)) {
  uint64_t i = longshore_global_id(0);
  if (i < n) x[i] *= factor;
}
LONGSHORE_KERNEL(mixed, (int sign, const uint16_t *halves, struct pair *pairs, void *any,
                         LONGSHORE_BY_VALUE(struct pair, pair))) {
  (void)longshore_self, (void)sign, (void)halves, (void)pairs, (void)any, (void)pair;
}
LONGSHORE_KERNEL(shift, (LONGSHORE_BY_VALUE(struct pair, by), float *x)) {
  x[longshore_global_id(0)] += by.first * by.second;
}
LONGSHORE_GROUP_KERNEL(fixed, (uint32_t *out), LONGSHORE_GROUP_SIZE(64, 8, 1)) {
  LONGSHORE_ITEMS { out[longshore_item_index()] = 1; }
}
uint32_t one(void);
uint32_t one(void) { return 1; }
LONGSHORE_KERNEL(plain, (uint32_t *out)) { longshore_atomic_add(out, 1u); }
LONGSHORE_KERNEL(waits, (uint32_t *out)) { longshore_atomic_add(out, 1u); longshore_barrier(); }
LONGSHORE_GROUP_KERNEL(regions, (uint32_t *out)) { LONGSHORE_ITEMS { longshore_atomic_add(out, 1u); } }
"#;

/// Runs `test` with the CPU in this process, and with the CPU in a process of its own.
fn both_ways(test: impl Fn(&Device, &longshore::Program)) {
    let Some(clang) = clangs().pop() else { return };
    let workshop = Workshop::new();
    let image = workshop.image(clang, "source", SOURCE, &["-O2"]);
    let world = World::new();
    copy_into(&world, &host_plugin());
    let isolated =
        world.host().with_isolated_backends("all").with_executor(executor()).build().unwrap();
    for device in [workshop.device(Environment::empty()), isolated.default_device().unwrap()] {
        let program = load(&device, image.clone());
        test(&device, &program);
    }
}

fn load(device: &Device, image: longshore::Image) -> longshore::Program {
    device.load_trusted(image).expect("the CPU takes it")
}

/// Launches a kernel that takes a buffer of one `u32`, and returns the error.
fn refused(device: &Device, kernel: &longshore::Kernel, grid: Grid) -> longshore::Error {
    let queue = device.queue().unwrap();
    let out = device.buffer_of(&queue, &[0u32; 512]).unwrap();
    // SAFETY: the launch is refused.
    let error = unsafe { queue.launch(kernel, grid, (&out,)) }.unwrap_err();
    queue.synchronize().unwrap();
    assert_eq!(out.to_vec(&queue).unwrap(), [0; 512], "something ran");
    error
}

#[test]
fn an_argument_of_another_kind_is_refused_and_named() {
    both_ways(|device, program| {
        let queue = device.queue().unwrap();
        let scale = program.kernel("scale").unwrap();
        let floats = device.buffer_of(&queue, &[1.0f32; 4]).unwrap();
        let doubles = device.buffer_of(&queue, &[1.0f64; 4]).unwrap();
        let grid = Grid::linear(1, 4);
        // SAFETY: refused launches run nothing.
        let errors = unsafe {
            [
                (queue.launch(&scale, grid, (2u32, &floats, 4u64)), "argument 0 'float factor'"),
                (queue.launch(&scale, grid, (2f32, &doubles, 4u64)), "argument 1 'float *x'"),
                (queue.launch(&scale, grid, (2f32, 4u64, &floats)), "argument 1 'float *x'"),
                (queue.launch(&scale, grid, (2f32, &floats, 4f64)), "argument 2 'uint64_t n'"),
                (queue.launch(&scale, grid, (2f32, &floats, &floats)), "argument 2 'uint64_t n'"),
            ]
        };
        let types = [
            ["declared as f32 (4 bytes)", "u32 (4 bytes) was given"],
            ["declared as pointer to f32", "pointer to f64 (8 bytes) was given"],
            ["declared as pointer to f32", "u64 (8 bytes) was given"],
            ["declared as u64", "f64 (8 bytes) was given"],
            ["declared as u64", "pointer to f32 (8 bytes) was given"],
        ];
        for ((result, named), types) in errors.into_iter().zip(types) {
            let error = result.unwrap_err();
            assert_eq!(error.code(), ErrorCode::InvalidArgument, "{error}");
            for words in [named, "kernel 'scale'", types[0], types[1]] {
                assert!(error.message().contains(words), "{words}: {error}");
            }
        }
        // SAFETY: as above.
        let error = unsafe { queue.launch(&scale, grid, (2f64, &floats, 4u64)) }.unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidSize, "{error}");
        assert!(error.message().contains("argument 0 'float factor'"), "{error}");
        // SAFETY: as above.
        let error = unsafe { queue.launch(&scale, grid, (2f32, &floats)) }.unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidArgument, "{error}");
        assert!(error.message().contains("takes 3 arguments, 2 were given"), "{error}");
        queue.synchronize().unwrap();
        assert_eq!(floats.to_vec(&queue).unwrap(), [1.0; 4]);
    });
}

#[repr(C)]
#[derive(Clone, Copy, Element, Argument)]
struct Pair {
    first: f32,
    second: f32,
}

#[repr(C)]
#[derive(Clone, Copy, Element, Argument)]
struct Single {
    only: f32,
}

#[repr(transparent)]
#[derive(Clone, Copy, Element, Argument)]
struct Factor(f32);

/// The derives know the type of a field that names the structure's own constant.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Element, Argument)]
struct Table {
    rows: [u16; Self::ROWS],
}

impl Table {
    const ROWS: usize = 3;
}

#[test]
fn derived_structures_are_passed_by_value_and_checked() {
    both_ways(|device, program| {
        let queue = device.queue().unwrap();
        let (scale, shift) = (program.kernel("scale").unwrap(), program.kernel("shift").unwrap());
        let floats = device.buffer_of(&queue, &[1.0f32; 4]).unwrap();
        let tables = [Table { rows: [1, 2, 3] }; 2];
        let copied = device.buffer_of(&queue, &tables).unwrap();
        assert_eq!(copied.to_vec(&queue).unwrap(), tables);
        let (by, grid) = (Pair { first: 3.0, second: 0.5 }, Grid::for_items(4, 4).unwrap());
        // SAFETY: the kernels stay within four elements; refused launches run nothing.
        unsafe {
            queue.launch(&shift, grid, (by, &floats)).unwrap();
            queue.launch(&scale, grid, (Factor(2.0), floats.as_slice(), 3u64)).unwrap();
            let error = queue.launch(&shift, grid, (Single { only: 1.0 }, &floats)).unwrap_err();
            assert_eq!(error.code(), ErrorCode::InvalidSize, "{error}");
            let error =
                queue.launch(&scale, grid, (Single { only: 1.0 }, &floats, 4u64)).unwrap_err();
            assert_eq!(error.code(), ErrorCode::InvalidArgument, "{error}");
            assert!(error.message().contains("structure of 4 bytes"), "{error}");
        }
        assert_eq!(floats.to_vec(&queue).unwrap(), [5.0, 5.0, 5.0, 2.5]);
    });
}

#[test]
fn arguments_that_mean_the_same_and_untyped_ones_are_passed() {
    both_ways(|device, program| {
        let queue = device.queue().unwrap();
        let (scale, mixed) = (program.kernel("scale").unwrap(), program.kernel("mixed").unwrap());
        let floats = device.buffer_of(&queue, &[1.0f32; 4]).unwrap();
        let blocks = device.buffer_of(&queue, &[[1.0f32; 4]]).unwrap();
        let signed = device.buffer_of(&queue, &[1i16]).unwrap();
        let (two, grid) = (2f32.to_bits(), Grid::linear(1, 4));
        // SAFETY: the kernels use at most four numbers, which are actually floats.
        unsafe {
            queue.launch(&scale, grid, (2f32, &floats, 4i64)).unwrap();
            queue.launch(&scale, grid, (Untyped(two), &floats, 4usize)).unwrap();
            queue.launch(&scale, grid, (2f32, floats.pointer(), 4u64)).unwrap();
            queue.launch(&scale, grid, (2f32, &blocks, 4u64)).unwrap();
            let (any, pair) = (DevicePointer(0), 0u64);
            queue.launch(&mixed, grid, (1u32, &signed, &blocks, &signed, pair)).unwrap();
            queue.launch(&mixed, grid, (1i32, any, any, any, pair)).unwrap();
        }
        queue.synchronize().unwrap();
        assert_eq!(floats.to_vec(&queue).unwrap(), [8.0; 4]);
    });
}

#[test]
fn a_kernel_of_a_fixed_group_size_is_launched_with_that_alone() {
    both_ways(|device, program| {
        let fixed = program.kernel("fixed").unwrap();
        assert_eq!(fixed.attributes().required_group, [64, 8, 1]);
        for items in [[1, 1, 1], [8, 64, 1], [512, 1, 1], [64, 8, 2]] {
            let error = refused(device, &fixed, Grid::new([1; 3], items));
            assert_eq!(error.code(), ErrorCode::InvalidArgument, "{error}");
            assert!(error.message().contains("requires groups of [64, 8, 1]"), "{error}");
            let error = device.max_cooperative_groups(&fixed, items, 0).unwrap_err();
            assert_eq!(error.code(), ErrorCode::InvalidArgument, "{error}");
        }
        assert_eq!(device.optimal_group_items(&fixed, 0).unwrap(), 512);
        assert!(device.max_cooperative_groups(&fixed, [64, 8, 1], 0).unwrap() > 0);
    });
}

#[test]
fn an_image_that_describes_its_kernels_lists_no_other_function() {
    both_ways(|_, program| {
        let symbols = program.symbols().unwrap();
        let mut names: Vec<&str> = symbols.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, ["fixed", "mixed", "plain", "regions", "scale", "shift", "waits"]);
        assert!(program.kernel("one").is_ok(), "it is exported, though not listed");
    });
}

#[test]
fn a_group_has_no_more_items_than_the_device_says() {
    both_ways(|device, program| {
        let most = device.info(DeviceInfo::MaxWorkGroupSize).unwrap().as_u64();
        assert_eq!(most, Some(1024));
        for name in ["plain", "waits", "regions"] {
            let kernel = program.kernel(name).unwrap();
            assert_eq!(kernel.attributes().max_group_items, 1024);
            for items in [[1025, 1, 1], [32, 33, 1], [11, 10, 10], [u32::MAX; 3], [1 << 31, 2, 1]] {
                let grid = Grid::new([1; 3], items);
                for grid in [grid, grid.with_cooperative(true)] {
                    let error = refused(device, &kernel, grid);
                    assert_eq!(error.code(), ErrorCode::InvalidArgument, "{error}");
                    assert!(error.message().contains("at most 1024 items"), "{error}");
                }
                let error = device.max_cooperative_groups(&kernel, items, 0).unwrap_err();
                assert_eq!(error.code(), ErrorCode::InvalidArgument, "{error}");
            }
            assert!(device.optimal_group_items(&kernel, 0).unwrap() <= 1024);
        }
    });
}

#[test]
fn a_group_may_have_as_many_items_as_the_device_says() {
    everywhere(SOURCE, |device, program| {
        let queue = device.queue().unwrap();
        let out = device.buffer_of(&queue, &[0u32]).unwrap();
        for name in ["plain", "waits", "regions"] {
            let kernel = program.kernel(name).unwrap();
            for items in [[1024, 1, 1], [8, 16, 8]] {
                // SAFETY: the kernels increment one number.
                unsafe {
                    queue.launch_and_wait(&kernel, Grid::new([1; 3], items), (&out,)).unwrap();
                }
            }
        }
        assert_eq!(out.to_vec(&queue).unwrap(), [6 * 1024]);
    });
}

#[test]
fn more_cooperative_groups_than_can_run_at_once_are_refused_also_without_a_barrier() {
    let Some(clang) = clangs().pop() else { return };
    let workshop = Workshop::new();
    let device = workshop.device(threads(2));
    let program = load(&device, workshop.image(clang, "source", SOURCE, &["-O2"]));
    let queue = device.queue().unwrap();
    let out = device.buffer_of(&queue, &[0u32]).unwrap();
    for (name, items) in [("plain", 1), ("plain", 1024), ("waits", 64), ("regions", 3)] {
        let kernel = program.kernel(name).unwrap();
        let most = device.max_cooperative_groups(&kernel, [items, 1, 1], 0).unwrap();
        let error = refused(&device, &kernel, Grid::linear(most + 1, items).with_cooperative(true));
        assert_eq!(error.code(), ErrorCode::InvalidArgument, "{name}: {error}");
        assert!(error.message().contains(&format!("expected at most {most}")), "{error}");
        // SAFETY: the kernels increment one number.
        unsafe {
            let grid = Grid::linear(most, items).with_cooperative(true);
            queue.launch_and_wait(&kernel, grid, (&out,)).unwrap();
        }
    }
}
