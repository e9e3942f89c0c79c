//! Sizes of groups and sub-groups, and shared memory.

use super::refusals::MINIMAL;
use super::{Check, glsl, launch, linked, refused, says};
use longshore::{Device, DeviceInfo, DevicePointer, ErrorCode, Grid, Program};
use longshore_conformance::TrustedImages;
use longshore_tests::vulkan;

pub(crate) const CHECKS: &[Check] = &[
    ("another size than the fixed one is refused, with both", fixed_sizes),
    ("a free size is what the launch asks for", free_sizes),
    ("a size may be free in some dimensions", partly_free_sizes),
    ("entry points that were linked keep their own sizes", linked_sizes),
    ("a group of more items than the device has is refused", huge_sizes),
    ("a fixed size that the device does not have is refused by loading", huge_fixed_sizes),
    ("dynamic shared memory has the size that the launch asks for", dynamic_shared),
    ("dynamic shared memory is refused by kernels without it", no_dynamic_shared),
    ("more dynamic shared memory than the device has is refused", huge_dynamic_shared),
    ("what a launch makes of shared memory is refused if it is too large or empty", shared_sizes),
    ("WGSL may have much shared memory, which is zeroed", much_shared),
    ("a kernel learns the size of its sub-groups", subgroup_sizes),
    ("a size of sub-groups that the device lacks is refused", impossible_subgroup_sizes),
    ("many sizes of one kernel do not disturb each other", many_sizes),
];

/// Source of a kernel that writes the size of its groups and the number of items that ran.
const COUNTED: &str = "
layout(push_constant) uniform Arguments { Numbers result; };
void main() {
  for (uint i = 0; i < 3; ++i) result.at[i] = gl_WorkGroupSize[i];
  atomicAdd(result.at[3], 1);
}";

/// Returns the size of the groups, and the number of items of one group that ran.
#[track_caller]
fn counted(device: &Device, program: &Program, kernel: &str, items: [u32; 3]) -> [u32; 4] {
    let queue = device.queue().unwrap();
    let result = device.buffer_of(&queue, &[0u32; 4]).unwrap();
    // SAFETY: there is room for four numbers.
    unsafe { launch(&queue, program, kernel, Grid::new([1; 3], items), (&result,)) }.unwrap();
    result.to_vec(&queue).unwrap().try_into().unwrap()
}

fn fixed_sizes(device: &Device) {
    let source = ["layout(local_size_x = 64) in;", COUNTED].concat();
    let program = device.load_trusted(glsl("fixed", &source)).unwrap();
    let kernel = program.kernel("fixed").unwrap();
    assert_eq!(kernel.attributes().required_group, [64, 1, 1]);
    assert_eq!(counted(device, &program, "fixed", [64, 1, 1]), [64, 1, 1, 64]);
    let queue = device.queue().unwrap();
    // SAFETY: the launch is refused.
    let launched = unsafe { queue.launch(&kernel, Grid::linear(1, 32), (DevicePointer(0),)) };
    says(&refused(launched, ErrorCode::InvalidArgument), &["64", "32"]);
}

fn free_sizes(device: &Device) {
    let source =
        ["layout(local_size_x_id = 0, local_size_y_id = 1, local_size_z_id = 7) in;", COUNTED];
    let program = device.load_trusted(glsl("freely", &source.concat())).unwrap();
    assert_eq!(program.kernel("freely").unwrap().attributes().required_group, [0; 3]);
    for items in [[1, 1, 1], [64, 1, 1], [4, 8, 2], [1, 1, 7], [128, 1, 1]] {
        let [x, y, z] = items;
        assert_eq!(counted(device, &program, "freely", items), [x, y, z, x * y * z]);
    }
}

fn partly_free_sizes(device: &Device) {
    let source = ["layout(local_size_x_id = 3, local_size_y = 2) in;", COUNTED].concat();
    let program = device.load_trusted(glsl("partly", &source)).unwrap();
    let kernel = program.kernel("partly").unwrap();
    assert_eq!(kernel.attributes().required_group, [0, 2, 1]);
    assert_eq!(counted(device, &program, "partly", [5, 2, 1]), [5, 2, 1, 10]);
    let queue = device.queue().unwrap();
    // SAFETY: the launch is refused.
    let launched = unsafe { queue.launch(&kernel, Grid::linear(1, 5), (DevicePointer(0),)) };
    refused(launched, ErrorCode::InvalidArgument);
}

fn linked_sizes(device: &Device) {
    let source = [
        "#ifdef small\nlayout(local_size_x = 3) in;\n#endif\n",
        "#ifdef large\nlayout(local_size_x = 32) in;\n#endif\n",
        COUNTED,
    ];
    let program = device.load_trusted(linked(&["small", "large"], &source.concat())).unwrap();
    assert_eq!(counted(device, &program, "small", [3, 1, 1]), [3, 1, 1, 3]);
    assert_eq!(counted(device, &program, "large", [32, 1, 1]), [32, 1, 1, 32]);
}

fn huge_sizes(device: &Device) {
    let source = ["layout(local_size_x_id = 0) in;", COUNTED].concat();
    let program = device.load_trusted(glsl("freely", &source)).unwrap();
    let most = device.info(DeviceInfo::MaxWorkGroupSize).unwrap().as_u64().unwrap() as u32;
    assert_eq!(counted(device, &program, "freely", [most, 1, 1]), [most, 1, 1, most]);
    let (queue, kernel) = (device.queue().unwrap(), program.kernel("freely").unwrap());
    for items in [[most + 1, 1, 1], [most, 2, 1], [u32::MAX; 3]] {
        // SAFETY: the launch is refused.
        let launched =
            unsafe { queue.launch(&kernel, Grid::new([1; 3], items), (DevicePointer(0),)) };
        refused(launched, ErrorCode::InvalidArgument);
    }
}

fn huge_fixed_sizes(device: &Device) {
    // Too many items in one dimension, or only in all dimensions together.
    for sizes in ["1048576 1 1", "128 128 64", "1 64 64"] {
        let module = MINIMAL.replace("LocalSize 1 1 1", &format!("LocalSize {sizes}"));
        let error =
            refused(device.load_trusted(vulkan::assembled(&module)), ErrorCode::Unsupported);
        says(&error, &["minimal", "items"]);
    }
}

const REVERSING: &str = "
layout(constant_id = 3) const uint longshore_dynamic_shared_bytes = 0;
layout(local_size_x_id = 0) in;
layout(push_constant) uniform Arguments { Numbers numbers; };
shared uint scratch[longshore_dynamic_shared_bytes / 4 + 1];
void main() {
  const uint id = gl_LocalInvocationID.x;
  scratch[id] = numbers.at[id];
  barrier();
  numbers.at[id] = scratch[gl_WorkGroupSize.x - 1 - id];
  if (id == 0) numbers.at[gl_WorkGroupSize.x] = longshore_dynamic_shared_bytes;
}";

const REVERSING_WGSL: &str = "
override longshore_dynamic_shared_bytes: u32 = 0;
override words: u32 = longshore_dynamic_shared_bytes / 4 + 1;
override items: u32 = 1;
@group(0) @binding(0) var<storage, read_write> numbers: array<u32>;
var<workgroup> scratch: array<u32, words>;
@compute @workgroup_size(items)
fn reversed(@builtin(local_invocation_index) id: u32) {
  scratch[id] = numbers[id];
  workgroupBarrier();
  numbers[id] = scratch[items - 1 - id];
  if id == 0 {
    numbers[items] = longshore_dynamic_shared_bytes;
  }
}";

fn dynamic_shared(device: &Device) {
    let queue = device.queue().unwrap();
    for image in [glsl("reversed", REVERSING), REVERSING_WGSL.as_bytes().to_vec()] {
        let program = device.load_trusted(image).unwrap();
        for items in [1u32, 5, 64, 100] {
            let numbers: Vec<u32> = (100..=100 + items).collect();
            let buffer = device.buffer_of(&queue, &numbers).unwrap();
            let grid = Grid::linear(1, items).with_shared_bytes(4 * u64::from(items));
            // SAFETY: the buffer has space for `items` numbers and one.
            unsafe { launch(&queue, &program, "reversed", grid, (&buffer,)) }.unwrap();
            let expected: Vec<u32> = (100..100 + items).rev().chain([4 * items]).collect();
            assert_eq!(buffer.to_vec(&queue).unwrap(), expected);
        }
    }
}

fn no_dynamic_shared(device: &Device) {
    let source = ["layout(local_size_x = 1) in;", COUNTED].concat();
    let program = device.load_trusted(glsl("plain", &source)).unwrap();
    let (queue, kernel) = (device.queue().unwrap(), program.kernel("plain").unwrap());
    // SAFETY: the launch is refused.
    let launched = unsafe {
        queue.launch(&kernel, Grid::default().with_shared_bytes(16), (DevicePointer(0),))
    };
    let error = refused(launched, ErrorCode::InvalidArgument);
    says(&error, &["longshore_dynamic_shared_bytes"]);
}

fn huge_dynamic_shared(device: &Device) {
    let program = device.load_trusted(glsl("reversed", REVERSING)).unwrap();
    let (queue, kernel) = (device.queue().unwrap(), program.kernel("reversed").unwrap());
    let numbers = device.buffer_of(&queue, &[0u32; 2]).unwrap();
    for bytes in [1 << 26, u64::from(u32::MAX), 1 << 32, u64::MAX] {
        let grid = Grid::default().with_shared_bytes(bytes);
        // SAFETY: the launch is refused.
        let launched = unsafe { queue.launch_and_wait(&kernel, grid, (&numbers,)) };
        let error = launched.expect_err("the device has less");
        let right = [ErrorCode::InvalidArgument, ErrorCode::OutOfResources];
        assert!(right.contains(&error.code()), "{bytes}: {error:?}");
    }
}

fn shared_sizes(device: &Device) {
    let source = "
layout(constant_id = 3) const uint longshore_dynamic_shared_bytes = 4;
layout(local_size_x = 1) in;
layout(push_constant) uniform Arguments { Numbers numbers; };
shared uint scratch[64 * longshore_dynamic_shared_bytes];
void main() {
  scratch[0] = numbers.at[0];
  numbers.at[1] = scratch[0];
}";
    let program = device.load_trusted(glsl("scratched", source)).unwrap();
    let queue = device.queue().unwrap();
    let numbers = device.buffer_of(&queue, &[7u32, 0]).unwrap();
    let with = |bytes| {
        let grid = Grid::default().with_shared_bytes(bytes);
        // SAFETY: the buffer has two numbers.
        unsafe { launch(&queue, &program, "scratched", grid, (&numbers,)) }
    };
    says(&refused(with(0), ErrorCode::InvalidArgument), &["no elements"]);
    says(&refused(with(8192), ErrorCode::InvalidArgument), &["2097152 bytes"]);
    with(16).unwrap();
    assert_eq!(numbers.to_vec(&queue).unwrap(), [7, 7]);
}

fn much_shared(device: &Device) {
    let source = b"
var<workgroup> tile: array<u32, 4096>;
@group(0) @binding(0) var<storage, read_write> sums: array<u32>;
@compute @workgroup_size(64)
fn summed(@builtin(local_invocation_index) at: u32) {
  var sum = 0u;
  for (var i = at; i < 4096; i += 64) { sum += tile[i]; tile[i] = 1; }
  workgroupBarrier();
  for (var i = 0u; i < 64; i++) { sum += tile[64 * i + 63 - at]; }
  sums[at] = sum;
}";
    let (queue, program) = (device.queue().unwrap(), device.load_trusted(&source[..]).unwrap());
    let sums = device.buffer_of(&queue, &[7u32; 64]).unwrap();
    for _ in 0..2 {
        // SAFETY: the buffer has 64 sums.
        unsafe { launch(&queue, &program, "summed", Grid::linear(1, 64), (&sums,)) }.unwrap();
        assert_eq!(sums.to_vec(&queue).unwrap(), [64; 64]);
    }
}

fn subgroup_kernel(required: u32) -> Vec<u8> {
    let source = format!(
        "#extension GL_KHR_shader_subgroup_basic : require
        layout(constant_id = 5) const uint longshore_subgroup_size = {required};
        layout(local_size_x = 64) in;
        layout(push_constant) uniform Arguments {{ Numbers result; }};
        void main() {{
          if (gl_LocalInvocationID.x == 0) {{
            result.at[0] = longshore_subgroup_size;
            result.at[1] = gl_SubgroupSize;
          }}
        }}"
    );
    glsl("sized", &source)
}

/// Returns the sub-group size that the kernel reads, and the one that it had.
fn subgroup(device: &Device, required: u32) -> longshore::Result<[u32; 2]> {
    let (queue, program) = (device.queue()?, device.load_trusted(subgroup_kernel(required))?);
    let result = device.buffer_of(&queue, &[0u32; 2])?;
    // SAFETY: there is room for two numbers.
    unsafe { launch(&queue, &program, "sized", Grid::linear(1, 64), (&result,)) }?;
    Ok(result.to_vec(&queue)?.try_into().expect("two"))
}

fn subgroup_sizes(device: &Device) {
    let [reported, had] = subgroup(device, 0).unwrap();
    assert!(reported.is_power_of_two(), "{reported}");
    assert_eq!(reported, had);
    assert_eq!(subgroup(device, reported).unwrap(), [reported; 2]);
}

fn impossible_subgroup_sizes(device: &Device) {
    for size in [3, 256, 1 << 20] {
        let error = refused(subgroup(device, size), ErrorCode::Unsupported);
        says(&error, &[&size.to_string()]);
    }
}

fn many_sizes(device: &Device) {
    let source = ["layout(local_size_x_id = 0) in;", COUNTED].concat();
    let program = device.load_trusted(glsl("freely", &source)).unwrap();
    for _ in 0..2 {
        for items in 1..=40 {
            assert_eq!(counted(device, &program, "freely", [items, 1, 1]), [items, 1, 1, items]);
        }
    }
}
