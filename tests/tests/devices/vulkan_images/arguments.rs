//! Passing of arguments.

use super::{Check, glsl, is_driver, launch, linked, refused, says};
use longshore::{Device, DevicePointer, ErrorCode, Grid, MemoryKind, RawArguments};
use longshore_conformance::TrustedImages;
use std::ffi::c_void;

pub(crate) const CHECKS: &[Check] = &[
    ("push constants may be more than the device has", large_push_constants),
    ("members of a uniform buffer are passed by value", uniform_buffers),
    ("a large uniform buffer is passed by pointer", large_uniform_buffers),
    ("arguments are ordered by set and binding, behind push constants", order),
    ("a bound pointer may point into an allocation", offset_pointers),
    (
        "the length of a bound array is what was asked for, in memory that is used again too",
        lengths,
    ),
    ("a misaligned bound pointer is refused, with the alignment", misaligned_pointers),
    ("a pointer in a block may point anywhere, or nowhere", pointers_in_blocks),
    ("an address may be passed as a number", addresses_as_numbers),
    ("memory that host and device share is reached by its address", shared_memory),
    ("a wrong number or size of arguments is refused", wrong_arguments),
    ("what only other entry points use is no argument", unused_bindings),
    ("launches in a row have their own pointers and values", launches_in_a_row),
];

/// An alignment in bytes that every device accepts for bound pointers.
const ANY_ALIGNMENT: i64 = 256;

fn large_push_constants(device: &Device) {
    let image = glsl(
        "stored",
        "layout(local_size_x = 1) in;
        layout(push_constant) uniform Arguments {
          Numbers result;
          uint first;
          uint many[45];
          uvec2 last;
        };
        void main() {
          result.at[0] = first;
          for (uint i = 0; i < 45; ++i) result.at[1 + i] = many[i];
          result.at[46] = last.x;
          result.at[47] = last.y;
        }",
    );
    let (queue, program) = (device.queue().unwrap(), device.load_trusted(image).unwrap());
    let kernel = program.kernel("stored").unwrap();
    assert_eq!(kernel.attributes().argument_sizes, Some(vec![8, 4, 180, 8]));
    let result = device.buffer::<u32>(&queue, 48).unwrap();
    for seed in [0u32, 1000] {
        let expected: Vec<u32> = (seed..seed + 48).collect();
        let address = result.pointer().address();
        let values: [*const c_void; 4] = [
            (&raw const address).cast(),
            expected[..1].as_ptr().cast(),
            expected[1..46].as_ptr().cast(),
            expected[46..].as_ptr().cast(),
        ];
        // SAFETY: the values have these sizes; `result` is large enough for all.
        unsafe {
            let arguments = RawArguments::new(&values, &[8, 4, 180, 8]).unwrap();
            queue.launch(&kernel, Grid::default(), arguments).unwrap();
        }
        assert_eq!(result.to_vec(&queue).unwrap(), expected);
    }
}

fn uniform_buffers(device: &Device) {
    let image = glsl(
        "stored",
        "layout(local_size_x = 1) in;
        layout(set = 0, binding = 0, std430) buffer Result { float result[]; };
        layout(set = 0, binding = 1, std140) uniform Values { float a; vec3 b; float c; mat2 d; };
        void main() {
          result[0] = a;
          for (int i = 0; i < 3; ++i) result[1 + i] = b[i];
          result[4] = c;
          for (int i = 0; i < 4; ++i) result[5 + i] = d[i / 2][i % 2];
        }",
    );
    let (queue, program) = (device.queue().unwrap(), device.load_trusted(image).unwrap());
    let kernel = program.kernel("stored").unwrap();
    // The columns of a matrix are 16 bytes apart here; there is no padding after the last.
    assert_eq!(kernel.attributes().argument_sizes, Some(vec![8, 4, 12, 4, 24]));
    let result = device.buffer::<f32>(&queue, 9).unwrap();
    let (address, a, b, c) = (result.pointer().address(), 1.0f32, [2.0f32, 3.0, 4.0], 5.0f32);
    let d = [6.0f32, 7.0, f32::NAN, f32::NAN, 8.0, 9.0];
    let values: [*const c_void; 5] = [
        (&raw const address).cast(),
        (&raw const a).cast(),
        b.as_ptr().cast(),
        (&raw const c).cast(),
        d.as_ptr().cast(),
    ];
    // SAFETY: the values have these sizes; `result` is large enough for all.
    unsafe {
        let arguments = RawArguments::new(&values, &[8, 4, 12, 4, 24]).unwrap();
        queue.launch(&kernel, Grid::default(), arguments).unwrap();
    }
    assert_eq!(result.to_vec(&queue).unwrap(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]);
}

fn large_uniform_buffers(device: &Device) {
    let image = glsl(
        "summed",
        "layout(local_size_x = 1) in;
        layout(binding = 0, std140) uniform Values { uvec4 values[300]; };
        layout(binding = 1, std430) buffer Result { uint result; };
        void main() {
          result = 0;
          for (uint i = 0; i < 300; ++i) result += values[i].x;
        }",
    );
    let (queue, program) = (device.queue().unwrap(), device.load_trusted(image).unwrap());
    let values: Vec<u32> = (0..1200).collect();
    let values = device.buffer_of(&queue, &values).unwrap();
    let result = device.buffer::<u32>(&queue, 1).unwrap();
    // SAFETY: the buffers have 300 times four numbers and one.
    unsafe { launch(&queue, &program, "summed", Grid::default(), (&values, &result)) }.unwrap();
    assert_eq!(result.to_vec(&queue).unwrap(), [4 * 299 * 300 / 2]);
}

fn order(device: &Device) {
    let image = glsl(
        "stored",
        "layout(local_size_x = 1) in;
        layout(set = 1, binding = 0, std140) uniform D { uint d; };
        layout(set = 0, binding = 7, std430) buffer C { uint c[]; };
        layout(set = 0, binding = 2, std140) uniform B { uint b2; uint b3; };
        layout(push_constant) uniform A { uint a1; Numbers result; };
        void main() {
          result.at[0] = a1;
          result.at[1] = b2;
          result.at[2] = b3;
          result.at[3] = c[0];
          result.at[4] = d;
        }",
    );
    let (queue, program) = (device.queue().unwrap(), device.load_trusted(image).unwrap());
    let (result, c) =
        (device.buffer::<u32>(&queue, 5).unwrap(), device.buffer_of(&queue, &[14u32]).unwrap());
    let arguments = (11u32, &result, 12u32, 13u32, &c, 15u32);
    // SAFETY: there is room for five numbers.
    unsafe { launch(&queue, &program, "stored", Grid::default(), arguments) }.unwrap();
    assert_eq!(result.to_vec(&queue).unwrap(), [11, 12, 13, 14, 15]);
}

const COUNTING: &str = "
@group(0) @binding(0) var<storage, read_write> numbers: array<u32>;
@compute @workgroup_size(1)
fn counted() {
  for (var i = 0u; i < 4; i++) {
    numbers[i] += 1 + i;
  }
}";

fn offset_pointers(device: &Device) {
    let (queue, program) =
        (device.queue().unwrap(), device.load_trusted(COUNTING.as_bytes()).unwrap());
    let numbers = device.buffer_of(&queue, &[7u32; 300]).unwrap();
    for times in [1, 4] {
        let pointer = numbers.pointer().offset(times * ANY_ALIGNMENT);
        // SAFETY: the range has four numbers.
        unsafe { launch(&queue, &program, "counted", Grid::default(), (pointer,)) }.unwrap();
    }
    let mut expected = [7u32; 300];
    for times in [1, 4] {
        let at = times * ANY_ALIGNMENT as usize / 4;
        expected[at..at + 4].copy_from_slice(&[8, 9, 10, 11]);
    }
    assert_eq!(numbers.to_vec(&queue).unwrap(), expected);
}

fn lengths(device: &Device) {
    let source = b"
@group(0) @binding(0) var<storage, read> numbers: array<u32>;
@group(0) @binding(1) var<storage, read_write> result: u32;
@compute @workgroup_size(1)
fn measure() { result = arrayLength(&numbers); }
";
    let (queue, program) = (device.queue().unwrap(), device.load_trusted(&source[..]).unwrap());
    let result = device.buffer_of(&queue, &[0u32]).unwrap();
    // Most of these sizes use blocks of one size.
    for length in [1000, 900, 1024, 897, 1000, 1, 3, 100_000] {
        let numbers = device.buffer::<u32>(&queue, length).unwrap();
        // SAFETY: the kernel takes two pointers and writes one number.
        unsafe { launch(&queue, &program, "measure", Grid::default(), (&numbers, &result)) }
            .unwrap();
        assert_eq!(result.to_vec(&queue).unwrap(), [length as u32]);
    }
}

fn misaligned_pointers(device: &Device) {
    let (queue, program) =
        (device.queue().unwrap(), device.load_trusted(COUNTING.as_bytes()).unwrap());
    let numbers = device.buffer_of(&queue, &[7u32; 300]).unwrap();
    let pointer = numbers.pointer().offset(4);
    // SAFETY: the range has four numbers.
    let launched = unsafe { launch(&queue, &program, "counted", Grid::default(), (pointer,)) };
    if launched.is_ok() {
        let known = is_driver(device, "llvmpipe") || is_driver(device, "SwiftShader");
        assert!(!known, "it wants a larger alignment");
        return;
    }
    let error = refused(launched, ErrorCode::InvalidArgument);
    says(&error, &["counted", "multiple of"]);
    assert_eq!(numbers.to_vec(&queue).unwrap(), [7; 300]);
}

fn pointers_in_blocks(device: &Device) {
    let image = glsl(
        "counted",
        "layout(local_size_x = 1) in;
        layout(push_constant) uniform Arguments { Numbers some, others; };
        void main() {
          some.at[0] += 1;
          if (uvec2(others) != uvec2(0)) others.at[0] += 10;
        }",
    );
    let (queue, program) = (device.queue().unwrap(), device.load_trusted(image).unwrap());
    let numbers = device.buffer_of(&queue, &[0u32; 8]).unwrap();
    let at = |index: i64| numbers.pointer().offset(4 * index);
    // SAFETY: the pointers are to numbers, or null.
    unsafe {
        launch(&queue, &program, "counted", Grid::default(), (at(1), at(7))).unwrap();
        launch(&queue, &program, "counted", Grid::default(), (at(3), DevicePointer(0))).unwrap();
    }
    assert_eq!(numbers.to_vec(&queue).unwrap(), [0, 1, 0, 1, 0, 0, 0, 10]);
}

fn addresses_as_numbers(device: &Device) {
    let image = glsl(
        "counted",
        "layout(local_size_x = 1) in;
        layout(push_constant) uniform Arguments { uvec2 address; };
        void main() { Numbers(address).at[1] += 1; }",
    );
    let (queue, program) = (device.queue().unwrap(), device.load_trusted(image).unwrap());
    let numbers = device.buffer_of(&queue, &[5u32, 6]).unwrap();
    // SAFETY: the buffer has two numbers.
    unsafe { launch(&queue, &program, "counted", Grid::default(), (&numbers,)) }.unwrap();
    assert_eq!(numbers.to_vec(&queue).unwrap(), [5, 7]);
}

fn shared_memory(device: &Device) {
    let by_block = glsl(
        "counted",
        "layout(local_size_x = 1) in;
        layout(push_constant) uniform Arguments { Numbers numbers; };
        void main() { for (uint i = 0; i < 4; ++i) numbers.at[i] += 1 + i; }",
    );
    let images = [by_block, COUNTING.as_bytes().to_vec()];
    let queue = device.queue().unwrap();
    for kind in [MemoryKind::Host, MemoryKind::Managed] {
        let numbers = match device.allocate(kind, 4096, 4096) {
            Ok(numbers) => numbers,
            Err(error) => {
                assert_eq!(error.code(), ErrorCode::Unsupported, "{error:?}");
                println!("{kind:?}: {error}");
                continue;
            }
        };
        let place = numbers.pointer().address() as *mut [u32; 4];
        // SAFETY: the host may access both kinds of memory while the queue is idle.
        unsafe { place.write([0; 4]) };
        for image in &images {
            let program = device.load_trusted(image).unwrap();
            let arguments = (numbers.pointer(),);
            // SAFETY: the range has at least four numbers.
            unsafe { launch(&queue, &program, "counted", Grid::default(), arguments) }.unwrap();
        }
        // SAFETY: as above.
        assert_eq!(unsafe { place.read() }, [2, 4, 6, 8], "{kind:?}");
    }
}

fn wrong_arguments(device: &Device) {
    let (queue, program) =
        (device.queue().unwrap(), device.load_trusted(COUNTING.as_bytes()).unwrap());
    let attributes = program.kernel("counted").unwrap().attributes().clone();
    assert_eq!(attributes.argument_sizes, Some(vec![8]));
    // SAFETY: all launches are refused.
    unsafe {
        let none = launch(&queue, &program, "counted", Grid::default(), ());
        refused(none, ErrorCode::InvalidArgument);
        let two = launch(&queue, &program, "counted", Grid::default(), (1u64, 2u64));
        refused(two, ErrorCode::InvalidArgument);
        let small = launch(&queue, &program, "counted", Grid::default(), (1u32,));
        refused(small, ErrorCode::InvalidSize);
        let nothing = launch(&queue, &program, "counted", Grid::default(), (0u64,));
        refused(nothing, ErrorCode::InvalidArgument);
        let foreign = launch(&queue, &program, "counted", Grid::default(), (u64::MAX / 512 * 256,));
        refused(foreign, ErrorCode::InvalidArgument);
    }
}

fn unused_bindings(device: &Device) {
    let source = "
struct Values { n: u32 }
@group(0) @binding(0) var<storage, read_write> first: array<u32>;
@group(0) @binding(1) var<storage, read_write> second: array<u32>;
@group(0) @binding(2) var<uniform> values: Values;
fn set_second() { second[0] = values.n; }
@compute @workgroup_size(1) fn writes_first() { first[0] = 1u; }
@compute @workgroup_size(1) fn writes_second() { set_second(); }
@compute @workgroup_size(1) fn writes_nothing() {}
";
    let (queue, program) =
        (device.queue().unwrap(), device.load_trusted(source.as_bytes()).unwrap());
    let sizes = |name: &str| program.kernel(name).unwrap().attributes().argument_sizes.clone();
    assert_eq!(sizes("writes_first"), Some(vec![8]));
    assert_eq!(sizes("writes_second"), Some(vec![8, 4]));
    assert_eq!(sizes("writes_nothing"), Some(vec![]));
    let numbers = device.buffer_of(&queue, &[0u32]).unwrap();
    // SAFETY: the buffer has a number.
    unsafe { launch(&queue, &program, "writes_second", Grid::default(), (&numbers, 9u32)) }
        .unwrap();
    assert_eq!(numbers.to_vec(&queue).unwrap(), [9]);
}

/// Launches several kernels in a row: earlier launches, of the same kernel or another, do not
/// matter.
fn launches_in_a_row(device: &Device) {
    let image = linked(
        &["nine", "bound", "pushed"],
        "layout(local_size_x = 1) in;
        layout(binding = 0, std430) buffer Result { uint result; };
        #ifdef nine
        void main() { result = result * 10 + 9; }
        #endif
        #ifdef bound
        layout(binding = 1, std140) uniform Values { uint digit; };
        void main() { result = result * 10 + digit; }
        #endif
        #ifdef pushed
        layout(push_constant) uniform Arguments { Numbers to; uint digit; };
        void main() { to.at[0] = to.at[0] * 10 + digit; }
        #endif",
    );
    let (queue, program) = (device.queue().unwrap(), device.load_trusted(image).unwrap());
    let [nine, bound, pushed] = ["nine", "bound", "pushed"].map(|name| program.kernel(name));
    let (nine, bound, pushed) = (nine.unwrap(), bound.unwrap(), pushed.unwrap());
    let [a, b] = [0u32, 0].map(|zero| device.buffer_of(&queue, &[zero]).unwrap());
    let grid = Grid::default();
    // SAFETY: the kernels take a pointer to a number, and two of them also a number.
    unsafe {
        queue.launch(&nine, grid, (&a,)).unwrap();
        queue.launch(&nine, grid, (&a,)).unwrap();
        queue.launch(&bound, grid, (&a, 1u32)).unwrap();
        queue.launch(&bound, grid, (&a, 2u32)).unwrap();
        queue.launch(&pushed, grid, (&a, 3u32)).unwrap();
        queue.launch(&bound, grid, (&a, 4u32)).unwrap();
        queue.launch(&nine, grid, (&b,)).unwrap();
        queue.launch(&pushed, grid, (&b, 5u32)).unwrap();
        queue.launch(&nine, grid, (&b,)).unwrap();
        queue.launch(&nine, grid, (&a,)).unwrap();
    }
    assert_eq!(a.to_vec(&queue).unwrap(), [9_912_349]);
    assert_eq!(b.to_vec(&queue).unwrap(), [959]);
}
