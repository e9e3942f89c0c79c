//! Globals, constructors, destructors, and profiles.

use super::{Check, HEAD, glsl, launch, linked, refused, says};
use longshore::{Device, ErrorCode, Grid, ProfileSectionKind};
use longshore_conformance::TrustedImages;
use longshore_tests::{vulkan, world};
use std::process::Command;

pub(crate) const CHECKS: &[Check] = &[
    ("globals are found by name, and are zeros at first", globals),
    ("globals may be a bound block", bound_globals),
    ("globals are one block for all entry points", shared_globals),
    ("entry points that disagree on the globals are refused", disagreement),
    ("constructors and destructors run by priority, then by their order", order),
    ("a constructor's status is in the error", constructor_status),
    ("a constructor with arguments is refused", constructor_with_arguments),
    ("a profile of counters alone is written as JSON", profile),
    ("launches keep their values while others are queued", many_launches),
    ("memory that is pinned in part is read when what writes it is done", pinned_in_part),
    ("`longshore run` takes the device, the kernel and the group that the image leaves", run),
];

fn globals(device: &Device) {
    let image = glsl(
        "counted",
        "layout(local_size_x = 1) in;
        struct Pair { uint a; uvec2 b; };
        layout(buffer_reference, std430) buffer Globals {
          uint count; uint spare[3]; Pair pair; vec3 place; float scale;
        };
        layout(push_constant) uniform Arguments { uint by; Globals longshore_globals; };
        void main() {
          longshore_globals.count += by;
          longshore_globals.spare[2] += 2 * by;
          longshore_globals.pair.b.y += 3 * by;
          longshore_globals.scale += longshore_globals.place.z;
        }",
    );
    let (queue, program) = (device.queue().unwrap(), device.load_trusted(image).unwrap());
    let global = |name: &str| program.global(name).unwrap();
    let sizes = ["count", "spare", "pair", "place", "scale"].map(|name| global(name).bytes());
    assert_eq!(sizes, [4, 12, 16, 12, 4]);
    assert_eq!(global("spare").read::<[u32; 3]>(&queue).unwrap(), [0; 3]);
    let sizes = program.kernel("counted").unwrap().attributes().argument_sizes.clone();
    assert_eq!(sizes, Some(vec![4]));
    global("place").write(&queue, [0.0f32, 0.0, 1.5]).unwrap();
    for by in [1u32, 10] {
        // SAFETY: the kernel takes a number.
        unsafe { launch(&queue, &program, "counted", Grid::default(), (by,)) }.unwrap();
    }
    assert_eq!(global("count").read::<u32>(&queue).unwrap(), 11);
    assert_eq!(global("spare").read::<[u32; 3]>(&queue).unwrap(), [0, 0, 22]);
    assert_eq!(global("pair").read::<[u32; 4]>(&queue).unwrap(), [0, 0, 0, 33]);
    assert_eq!(global("scale").read::<f32>(&queue).unwrap(), 3.0);
    for name in ["Globals", "longshore_globals", "a", "by"] {
        refused(program.global(name), ErrorCode::NotFound);
    }
}

fn bound_globals(device: &Device) {
    let source = "
struct Globals { count: u32, place: vec3<f32>, spare: array<u32, 5> }
@group(1) @binding(9) var<storage, read_write> longshore_globals: Globals;
@group(0) @binding(0) var<storage, read_write> result: array<u32>;
@compute @workgroup_size(1)
fn counted() {
  longshore_globals.count += 1u;
  longshore_globals.spare[4] += 2u;
  result[0] = longshore_globals.count;
}";
    let (queue, program) =
        (device.queue().unwrap(), device.load_trusted(source.as_bytes()).unwrap());
    let sizes = ["count", "place", "spare"].map(|name| program.global(name).unwrap().bytes());
    assert_eq!(sizes, [4, 12, 20]);
    let result = device.buffer_of(&queue, &[0u32]).unwrap();
    for expected in 1..=3 {
        // SAFETY: there is room for a number.
        unsafe { launch(&queue, &program, "counted", Grid::default(), (&result,)) }.unwrap();
        assert_eq!(result.to_vec(&queue).unwrap(), [expected]);
    }
    let spare = program.global("spare").unwrap().read::<[u32; 5]>(&queue).unwrap();
    assert_eq!(spare, [0, 0, 0, 0, 6]);
}

const SHARED: &str = "
layout(local_size_x = 1) in;
layout(buffer_reference, std430) buffer Globals { uint count; };
#ifdef added
layout(push_constant) uniform Arguments { uint by; Globals longshore_globals; };
void main() { longshore_globals.count += by; }
#endif
#ifdef multiplied
layout(push_constant) uniform Arguments { Globals longshore_globals; uint by; };
void main() { longshore_globals.count *= by; }
#endif
#ifdef stored
layout(binding = 0, std430) buffer longshore_globals_block { uint count; } longshore_globals;
layout(push_constant) uniform Arguments { Numbers result; };
void main() { result.at[0] = longshore_globals.count; }
#endif";

fn shared_globals(device: &Device) {
    let image = linked(&["added", "multiplied", "stored"], SHARED);
    let (queue, program) = (device.queue().unwrap(), device.load_trusted(image).unwrap());
    let result = device.buffer_of(&queue, &[0u32]).unwrap();
    // SAFETY: the kernels take a number, and a place for one.
    unsafe {
        launch(&queue, &program, "added", Grid::default(), (7u32,)).unwrap();
        launch(&queue, &program, "multiplied", Grid::default(), (6u32,)).unwrap();
        launch(&queue, &program, "stored", Grid::default(), (&result,)).unwrap();
    }
    assert_eq!(result.to_vec(&queue).unwrap(), [42]);
}

fn disagreement(device: &Device) {
    let source = "
layout(local_size_x = 1) in;
#ifdef first
layout(buffer_reference, std430) buffer Globals { uint count; };
#else
layout(buffer_reference, std430) buffer Globals { uint other; uint count; };
#endif
layout(push_constant) uniform Arguments { Globals longshore_globals; };
void main() { longshore_globals.count = 1; }
";
    let error =
        refused(device.load_trusted(linked(&["first", "second"], source)), ErrorCode::Unsupported);
    says(&error, &["longshore_globals"]);
}

/// Source of constructors and destructors that each append a digit; the counters show the digits of
/// the destructors.
const ORDER: &str = "
layout(local_size_x = 1) in;
layout(buffer_reference, std430) buffer Globals { uvec2 order; uvec2 llvm_prf_cnts[2]; };
layout(push_constant) uniform Arguments { Globals longshore_globals; };
#define ORDER longshore_globals.order.x
#define COUNTER longshore_globals.llvm_prf_cnts[1].x
#ifdef longshore_constructor_200
void main() { ORDER = ORDER * 10 + 4; }
#endif
#ifdef longshore_constructor_9_late
void main() { ORDER = ORDER * 10 + 2; }
#endif
#ifdef longshore_constructor_9_early
void main() { ORDER = ORDER * 10 + 3; }
#endif
#ifdef longshore_constructor_0
void main() { ORDER = ORDER * 10 + 1; }
#endif
#ifdef longshore_destructor_5
void main() { COUNTER = COUNTER * 10 + 3; }
#endif
#ifdef longshore_destructor_5_b
void main() { COUNTER = COUNTER * 10 + 2; }
#endif
#ifdef longshore_destructor_65535
void main() { COUNTER = COUNTER * 10 + 1; }
#endif
#ifdef marked
void main() { longshore_globals.llvm_prf_cnts[0].x += 1; }
#endif
";
const ORDER_ENTRY_POINTS: [&str; 8] = [
    "longshore_constructor_200",
    "longshore_constructor_9_late",
    "longshore_constructor_9_early",
    "longshore_constructor_0",
    "longshore_destructor_5",
    "longshore_destructor_5_b",
    "longshore_destructor_65535",
    "marked",
];

fn order(device: &Device) {
    let program = device.load_trusted(linked(&ORDER_ENTRY_POINTS, ORDER)).unwrap();
    let queue = device.queue().unwrap();
    assert_eq!(program.global("order").unwrap().read::<u64>(&queue).unwrap(), 1234);
    let names: Vec<_> = program.symbols().unwrap().into_iter().map(|symbol| symbol.0).collect();
    assert!(names.contains(&"marked".to_owned()), "{names:?}");
    assert!(!names.iter().any(|name| name.contains("structor")), "{names:?}");
    assert_eq!(counters_of(&program.unload().unwrap()), [0, 123]);
}

fn counters_of(report: &longshore::UnloadReport) -> Vec<u64> {
    let mut sections = report.profile.iter();
    let counters = sections.find(|section| section.kind == ProfileSectionKind::Counters);
    let (words, _) = counters.expect("there are counters").contents.as_chunks();
    words.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

fn constructor_status(device: &Device) {
    let source = "
struct Globals { longshore_constructor_status: u32, longshore_destructor_status: u32 }
@group(0) @binding(0) var<storage, read_write> longshore_globals: Globals;
@compute @workgroup_size(1)
fn longshore_FAILING() { longshore_globals.longshore_KIND_status = 4711u; }
@compute @workgroup_size(1)
fn nop() {}
";
    let image = source.replace("FAILING", "constructor_7").replace("KIND", "constructor");
    let error = refused(device.load_trusted(image.as_bytes()), ErrorCode::BackendFailure);
    says(&error, &["4711", "longshore_constructor_7"]);
    let image = source.replace("FAILING", "destructor_7").replace("KIND", "destructor");
    let program = device.load_trusted(image.as_bytes()).unwrap();
    let error = refused(program.unload(), ErrorCode::BackendFailure);
    says(&error, &["4711", "longshore_destructor_7"]);
}

fn constructor_with_arguments(device: &Device) {
    let source = [
        HEAD,
        "layout(local_size_x = 1) in;
        layout(push_constant) uniform Arguments { Numbers numbers; };
        void main() { numbers.at[0] = 1; }",
    ];
    let image = vulkan::glsl("longshore_constructor_1", &source.concat());
    let error = refused(device.load_trusted(image), ErrorCode::Unsupported);
    says(&error, &["longshore_constructor_1"]);
}

fn profile(device: &Device) {
    let program = device.load_trusted(linked(&ORDER_ENTRY_POINTS, ORDER)).unwrap();
    let queue = device.queue().unwrap();
    for _ in 0..3 {
        // SAFETY: the kernel takes no arguments.
        unsafe { launch(&queue, &program, "marked", Grid::default(), ()) }.unwrap();
    }
    let report = program.unload().unwrap();
    assert_eq!(counters_of(&report), [3, 123]);
    let file = report.profile_file.expect("it was written");
    let text = std::fs::read_to_string(&file).unwrap();
    let profile: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(holds(&profile, &serde_json::json!([3, 123])), "{text}");
    std::fs::remove_file(file).unwrap();
}

fn holds(value: &serde_json::Value, wanted: &serde_json::Value) -> bool {
    let mut parts: Box<dyn Iterator<Item = &serde_json::Value>> = match value {
        serde_json::Value::Array(parts) => Box::new(parts.iter()),
        serde_json::Value::Object(parts) => Box::new(parts.values()),
        _ => Box::new(std::iter::empty()),
    };
    value == wanted || parts.any(|part| holds(part, wanted))
}

fn many_launches(device: &Device) {
    const LAUNCHES: u32 = 2000;
    let source = "
struct Values { at: u32, value: u32 }
@group(0) @binding(0) var<uniform> values: Values;
@group(0) @binding(1) var<storage, read_write> numbers: array<u32>;
@compute @workgroup_size(1)
fn stored() { numbers[values.at] = values.value; }
";
    let (queue, program) =
        (device.queue().unwrap(), device.load_trusted(source.as_bytes()).unwrap());
    let kernel = program.kernel("stored").unwrap();
    let numbers = device.buffer_of(&queue, &vec![0u32; LAUNCHES as usize]).unwrap();
    for i in 0..LAUNCHES {
        // SAFETY: the buffer has that number of elements.
        unsafe { queue.launch(&kernel, Grid::default(), (i, 3 * i, &numbers)) }.unwrap();
    }
    let expected: Vec<u32> = (0..LAUNCHES).map(|i| 3 * i).collect();
    assert_eq!(numbers.to_vec(&queue).unwrap(), expected);
}

fn pinned_in_part(device: &Device) {
    const HALF: usize = 4096;
    let source = b"
@group(0) @binding(0) var<storage, read_write> numbers: array<u32>;
@compute @workgroup_size(1)
fn slowly() { for (var i = 0u; i < 50000; i++) { numbers[0] += 1u; } }
";
    let mut memory = vec![0u8; 4 * HALF];
    let start = memory.as_ptr().align_offset(HALF);
    let memory = &mut memory[start..start + 2 * HALF];
    let second = memory[HALF..].as_mut_ptr();
    // SAFETY: the memory outlives its use by the device, and is unpinned at the end.
    let pinned = match unsafe { device.pin(second.cast(), HALF as u64) } {
        Err(error) if error.code() == ErrorCode::Unsupported => return,
        pinned => pinned.unwrap(),
    };
    let (queue, program) = (device.queue().unwrap(), device.load_trusted(&source[..]).unwrap());
    let copy = device.buffer::<u8>(&queue, 2 * HALF).unwrap();
    let slowly = program.kernel("slowly").unwrap();
    // SAFETY: the kernel counts in pinned memory, and the copy reads all of it; the test waits for
    // both.
    unsafe {
        queue.launch(&slowly, Grid::default(), (pinned,)).unwrap();
        queue.copy_from_host(copy.pointer(), memory.as_ptr().cast(), 2 * HALF as u64).unwrap();
    }
    queue.synchronize().unwrap();
    let copied = copy.to_vec(&queue).unwrap();
    let count = u32::from_le_bytes(*copied[HALF..].first_chunk().unwrap());
    assert_eq!(count, 50_000);
    // SAFETY: nothing uses the memory any more.
    unsafe { device.unpin(second.cast()) }.unwrap();
}

fn run(device: &Device) {
    let source = "
@group(0) @binding(0) var<storage, read> x: array<u32>;
@group(0) @binding(1) var<storage, read_write> y: array<u32>;
@compute @workgroup_size(64)
fn twice(@builtin(global_invocation_id) at: vec3u) {
  if (at.x < arrayLength(&x)) { y[at.x] = 2 * x[at.x]; }
}
";
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("twice.wgsl"), source).unwrap();
    let mut command = Command::new(world::command());
    command.args(["run", "twice.wgsl", "--groups", "2", "--full"]).current_dir(folder.path());
    let devices = format!("host:*;{}:{}", device.backend(), device.index());
    command.args(["--devices", &devices]).env("LONGSHORE_CACHE", "off");
    let output = command.args(["-a", "u32[100]=iota", "-a", "out:u32[100]"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("twice on vulkan:") && said.contains("items 64"), "{said}");
    assert!(said.contains(" 194, 196, 198\n"), "{said}");
}
