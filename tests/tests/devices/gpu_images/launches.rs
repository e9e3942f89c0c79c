//! Options of launches.

use super::{Check, Setting};
use longshore::{DeviceInfo, ErrorCode, Grid};
use longshore_conformance::TrustedImages;

pub(super) const CHECKS: &[Check] = &[
    ("a launch may have all the shared memory that there is, and no more", shared_memory_is_had),
    ("a kernel with a fixed group size is launched with it alone", fixed_groups_are_kept),
    ("an argument of another kind than the image declares is refused", kinds_are_checked),
    ("groups of a cooperative launch wait for each other", groups_wait_for_each_other),
    ("more cooperative groups than can run at once are refused", too_many_groups_are_refused),
];

fn shared_memory_is_had(setting: &Setting<'_>) {
    const SOURCE: &str = "
LONGSHORE_GROUP_KERNEL(spread, (uint32_t *out, uint32_t words)) {
  uint32_t *const shared = (uint32_t *)longshore_dynamic_shared();
  LONGSHORE_ITEMS { for (uint32_t i = longshore_item_id(0); i < words; i += longshore_group_items(0)) shared[i] = i; }
  LONGSHORE_ITEMS { if (longshore_item_id(0) == 0) *out = shared[words - 1]; }
}
";
    let Some(image) = setting.image(SOURCE) else { return };
    let queue = setting.device.queue().unwrap();
    let program = setting.device.load_trusted(&image[..]).unwrap();
    let spread = program.kernel("spread").unwrap();
    let out = setting.device.buffer_of(&queue, &[0u32]).unwrap();
    let most = setting.device.info(DeviceInfo::WorkGroupLocalMemSize).unwrap().as_u64().unwrap();
    let launch = |bytes: u64| {
        let grid = Grid::linear(1, 32).with_shared_bytes(bytes);
        // SAFETY: the kernel writes one number, and uses only its own shared memory.
        unsafe { queue.launch_and_wait(&spread, grid, (&out, (bytes / 4) as u32)) }
    };
    for bytes in [4096, 48 << 10, 64 << 10, most].into_iter().filter(|bytes| *bytes <= most) {
        launch(bytes).unwrap();
        assert_eq!(out.to_vec(&queue).unwrap(), [(bytes / 4) as u32 - 1]);
    }
    let error = launch(most + 4).unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidArgument);
    assert!(error.message().contains(&most.to_string()), "{error}");
    drop(spread);
    program.unload().unwrap();
}

fn fixed_groups_are_kept(setting: &Setting<'_>) {
    const SOURCE: &str = "
LONGSHORE_GROUP_KERNEL(fixed, (uint32_t *out), LONGSHORE_GROUP_SIZE(64, 1, 1)) {
  LONGSHORE_ITEMS { out[longshore_item_id(0)] = 1; }
}
";
    let Some(image) = setting.image(SOURCE) else { return };
    let queue = setting.device.queue().unwrap();
    let program = setting.device.load_trusted(&image[..]).unwrap();
    let fixed = program.kernel("fixed").unwrap();
    let out = setting.device.buffer_of(&queue, &[0u32; 64]).unwrap();
    // SAFETY: the kernel writes 64 numbers.
    unsafe { queue.launch_and_wait(&fixed, Grid::linear(1, 64), (&out,)).unwrap() };
    assert_eq!(out.to_vec(&queue).unwrap(), [1; 64]);
    assert_eq!(fixed.attributes().required_group, [64, 1, 1]);
    for items in [1, 32, 128] {
        // SAFETY: refused.
        let wrong = unsafe { queue.launch_and_wait(&fixed, Grid::linear(1, items), (&out,)) };
        let error = wrong.unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidArgument);
        assert!(error.message().contains("requires groups of [64, 1, 1]"), "{error}");
    }
    drop(fixed);
    program.unload().unwrap();
}

fn kinds_are_checked(setting: &Setting<'_>) {
    const SOURCE: &str = "
LONGSHORE_KERNEL(scale, (float factor, float *x, uint64_t n)) {
  uint64_t i = longshore_global_id(0);
  if (i < n) x[i] *= factor;
}
";
    let Some(image) = setting.image(SOURCE) else { return };
    let queue = setting.device.queue().unwrap();
    let program = setting.device.load_trusted(&image[..]).unwrap();
    let scale = program.kernel("scale").unwrap();
    let floats = setting.device.buffer_of(&queue, &[1.5f32; 4]).unwrap();
    let doubles = setting.device.buffer_of(&queue, &[1.5f64; 4]).unwrap();
    let grid = Grid::linear(1, 4);
    // SAFETY: refused launches run nothing, and the last one is valid.
    unsafe {
        for (result, words) in [
            (queue.launch(&scale, grid, (2u32, &floats, 4u64)), "argument 0 'float factor'"),
            (queue.launch(&scale, grid, (2f32, &doubles, 4u64)), "argument 1 'float *x'"),
            (queue.launch(&scale, grid, (2f32, 4u64, &floats)), "argument 1 'float *x'"),
        ] {
            let error = result.unwrap_err();
            assert_eq!(error.code(), ErrorCode::InvalidArgument, "{error}");
            assert!(error.message().contains(words), "{words}: {error}");
        }
        queue.launch(&scale, grid, (2f32, &floats, 4u64)).unwrap();
    }
    assert_eq!(floats.to_vec(&queue).unwrap(), [3.0; 4]);
    drop(scale);
    program.unload().unwrap();
}

const MEETING: &str = "
LONGSHORE_KERNEL(meet, (uint32_t *arrived, uint32_t *seen)) {
  longshore_atomic_add(arrived, 1u);
  longshore_grid_barrier();
  seen[longshore_group_id(0)] = longshore_atomic_load(arrived);
}
";

fn groups_wait_for_each_other(setting: &Setting<'_>) {
    const GROUPS: u32 = 4;
    let Some(image) = setting.image(MEETING) else { return };
    let queue = setting.device.queue().unwrap();
    let program = setting.device.load_trusted(&image[..]).unwrap();
    let meet = program.kernel("meet").unwrap();
    let arrived = setting.device.buffer_of(&queue, &[0u32]).unwrap();
    let seen = setting.device.buffer_of(&queue, &[0u32; GROUPS as usize]).unwrap();
    let grid = Grid::linear(GROUPS, 1).with_cooperative(true);
    // SAFETY: the kernel increments one number and writes one for each group.
    unsafe { queue.launch_and_wait(&meet, grid, (&arrived, &seen)).unwrap() };
    assert_eq!(seen.to_vec(&queue).unwrap(), [GROUPS; GROUPS as usize]);
    drop(meet);
    program.unload().unwrap();
}

fn too_many_groups_are_refused(setting: &Setting<'_>) {
    let Some(image) = setting.image(MEETING) else { return };
    let queue = setting.device.queue().unwrap();
    let program = setting.device.load_trusted(&image[..]).unwrap();
    let meet = program.kernel("meet").unwrap();
    let most = setting.device.max_cooperative_groups(&meet, [1; 3], 0).unwrap();
    let out = setting.device.buffer::<u32>(&queue, 1).unwrap();
    let grid = Grid::linear(most + 1, 1).with_cooperative(true);
    // SAFETY: refused.
    let error = unsafe { queue.launch_and_wait(&meet, grid, (&out, &out)) }.unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidArgument, "{error}");
    assert!(error.message().contains(&most.to_string()), "{error}");
    drop(meet);
    program.unload().unwrap();
}
