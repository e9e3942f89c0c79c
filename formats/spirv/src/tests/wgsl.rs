//! Translation and reflection of WGSL by the conventions.

use crate::tests::support;
use crate::tests::support::{MANY, module, module_for, module_with, only};
use crate::{
    Block, BlockStorage, FaultKind, GroupSize, Kernel, Module, Place, Specialization, SubgroupSize,
    Target,
};

const SCALE: &str = "
override items: u32 = 64;
override longshore_dynamic_shared_bytes: u32 = 4;
override longshore_subgroup_size: u32 = 0;

struct Values { n: u32, factor: f32, turn: mat2x2f, middle: vec3f }
struct Globals { calls: atomic<u32>, last: f32 }

@group(0) @binding(0) var<uniform> values: Values;
@group(0) @binding(1) var<storage, read> input: array<f32>;
@group(1) @binding(0) var<storage, read_write> to: array<f32>;
@group(2) @binding(5) var<storage, read_write> longshore_globals: Globals;
@group(0) @binding(2) var<uniform> bias: f32;
var<workgroup> dynamic: array<f32, longshore_dynamic_shared_bytes / 4>;
var<workgroup> fixed: array<vec3f, 4>;

@compute @workgroup_size(items, 2)
fn scale(@builtin(global_invocation_id) id: vec3u, @builtin(local_invocation_index) local: u32) {
    dynamic[local] = values.factor;
    fixed[local].x = values.turn[0].x + values.middle.x;
    workgroupBarrier();
    if id.x < values.n { to[id.x] = input[id.x] * dynamic[local] + fixed[local].x + bias; }
    atomicAdd(&longshore_globals.calls, 1u);
}

@compute @workgroup_size(1)
fn longshore_constructor_7_all() { longshore_globals.last = f32(longshore_subgroup_size); }

@compute @workgroup_size(8, 8, 1)
fn nothing() { }
";

fn kernel<'m>(module: &'m Module, name: &str) -> &'m Kernel {
    module.kernels().iter().find(|kernel| kernel.name == name).unwrap()
}

fn places(kernel: &Kernel) -> Vec<(&str, u32, bool, Place)> {
    let parameters = kernel.parameters.iter();
    parameters.map(|of| (of.name.as_str(), of.bytes, of.pointer, of.place)).collect()
}

#[test]
fn uniform_buffers_are_values_and_storage_buffers_are_pointers() {
    let module = module(SCALE.as_bytes());
    let kernel = kernel(&module, "scale");
    let block = |index, offset| Place::Block { index, offset };
    assert_eq!(
        places(kernel),
        [
            ("n", 4, false, block(0, 0)),
            ("factor", 4, false, block(0, 4)),
            ("turn", 16, false, block(0, 8)),
            ("middle", 12, false, block(0, 32)),
            ("input", 8, true, Place::Buffer { index: 0 }),
            ("bias", 4, false, block(1, 0)),
            ("to", 8, true, Place::Buffer { index: 1 }),
        ]
    );
    assert_eq!(
        kernel.blocks,
        [
            Block { storage: BlockStorage::Uniform { set: 0, binding: 0 }, bytes: 44 },
            Block { storage: BlockStorage::Uniform { set: 0, binding: 2 }, bytes: 4 },
        ]
    );
    assert_eq!(
        kernel.buffers.iter().map(|buffer| buffer.least_bytes).collect::<Vec<_>>(),
        [4, 4, 8]
    );
}

#[test]
fn overrides_are_chosen_by_the_launch() {
    let module = module(SCALE.as_bytes());
    let scale = kernel(&module, "scale");
    assert_eq!(scale.group, [GroupSize::Free(64), GroupSize::Fixed(2), GroupSize::Fixed(1)]);
    assert!(scale.dynamic_shared && scale.subgroup_size == SubgroupSize::Any);
    assert_eq!(scale.static_shared_bytes, 64);
    assert!(!kernel(&module, "nothing").dynamic_shared);

    let wanted = Specialization { group: [32, 2, 1], dynamic_shared_bytes: 1024, subgroup_size: 8 };
    let code = module.code(scale, &wanted).unwrap();
    assert_eq!(code.constants, []);
    let again = support::from_words(&code.words);
    let again = only(&again);
    assert_eq!(again.group, [32, 2, 1].map(GroupSize::Fixed));
    assert_eq!(again.static_shared_bytes, 64 + 1024);

    let fault = module.code(scale, &Specialization { group: [32, 1, 1], ..wanted }).unwrap_err();
    assert_eq!(fault.kind, FaultKind::Unsupported);
    assert!(fault.message.contains("2 items in y, but 1"), "{fault}");
}

#[test]
fn globals_and_constructors_are_found() {
    let module = module(SCALE.as_bytes());
    let names: Vec<_> = module.globals().iter().map(|global| global.name.as_str()).collect();
    assert_eq!((names, module.globals_bytes()), (vec!["calls", "last"], 8));
    let [constructor] = module.constructors() else { panic!() };
    assert_eq!(constructor.priority, 7);
    assert_eq!(constructor.kernel.globals, [Place::Buffer { index: 0 }]);
    assert_eq!(constructor.kernel.parameters, []);
    assert_eq!(kernel(&module, "scale").globals, [Place::Buffer { index: 2 }]);
}

#[test]
fn immediates_are_push_constants_or_a_storage_buffer_in_every_specialisation() {
    let source = "
        override items: u32;
        struct Arguments { a: vec4f, b: vec4f }
        var<immediate> arguments: Arguments;
        @group(0) @binding(0) var<storage, read_write> to: array<vec4f>;
        @compute @workgroup_size(items) fn main() { to[0] = arguments.a + arguments.b; }";
    assert_eq!(only(&module(source.as_bytes())).blocks[0].storage, BlockStorage::PushConstants);
    let module = module_with(source.as_bytes(), 16);
    let kernel = only(&module);
    let storage = BlockStorage::Storage { set: 0, binding: 1 };
    assert_eq!(kernel.blocks, [Block { storage, bytes: 32 }]);
    assert_eq!(kernel.parameters.len(), 3);
    let wanted = Specialization { group: [7, 1, 1], ..Specialization::default() };
    let code = module.code(kernel, &wanted).unwrap();
    let again = support::from_words(&code.words);
    let bindings: Vec<_> = only(&again).buffers.iter().map(|at| (at.set, at.binding)).collect();
    assert_eq!(bindings, [(0, 0), (0, 1)]);
}

#[test]
fn shared_memory_may_have_the_types_of_a_buffer() {
    let source = "
        struct Particle { at: vec3f, mass: f32 }
        @group(0) @binding(0) var<storage, read_write> all: array<Particle>;
        var<workgroup> tile: array<Particle, 64>;
        @compute @workgroup_size(64)
        fn step(@builtin(local_invocation_index) local: u32) {
            tile[local] = all[local];
            workgroupBarrier();
            all[local] = tile[63 - local];
        }";
    let module = module(source.as_bytes());
    assert_eq!(only(&module).static_shared_bytes, 1024);
}

#[test]
fn a_dimension_that_is_computed_of_overrides_is_checked_by_a_launch() {
    let source = "override n: u32 = 4; @compute @workgroup_size(n, n * 2) fn main() { }";
    let module = module(source.as_bytes());
    let kernel = only(&module);
    let code = |x, y| {
        module.code(kernel, &Specialization { group: [x, y, 1], ..Specialization::default() })
    };
    assert!(code(4, 8).is_ok());
    assert_eq!(code(8, 8).unwrap_err().kind, FaultKind::Unsupported);
}

#[test]
fn a_source_that_does_not_compile_says_where() {
    for (source, place) in [
        ("@compute @workgroup_size(1)\nfn main() { let x: u32 = 1.5; }", "2:17"),
        ("@compute @workgroup_size(1)\nfn main() { return 1; }", "2:20"),
        ("// é @compute\n/* /* */ é */ fn broken(", "2:26"),
    ] {
        let fault = Module::parse(source.as_bytes(), MANY).err().unwrap();
        assert_eq!(fault.kind, FaultKind::Source, "{fault}");
        assert!(fault.message.starts_with(place), "{fault}");
    }
}

#[test]
fn deep_sources_are_faults_and_shallow_ones_that_are_long_are_not() {
    const LONG: usize = 100_000;
    let head = "@group(0) @binding(0) var<storage, read_write> d: array<i32>;\n";
    let body = |text: &str| format!("{head}@compute @workgroup_size(1) fn main() {{ {text} }}");
    let deep = [
        body(&format!("d[0] = {}1;", "d[1] + ".repeat(LONG))),
        body(&format!("d[0] = {}1;", "- ".repeat(LONG))),
        body(&format!("d[0] = {}1{};", "(".repeat(LONG), ")".repeat(LONG))),
        body(&format!("d[0] = d{};", "[0]".repeat(LONG))),
        body(&format!("let v = vec4i(); d[0] = v{}.x;", ".xyzw".repeat(LONG))),
        body(&format!("if d[0] == 1 {{}} {}", "else if d[0] == 2 {} ".repeat(LONG))),
        body(&format!("{}{}", "{".repeat(LONG), "}".repeat(LONG))),
        body(&format!("var x: {}i32{};", "array<".repeat(LONG), ", 2>".repeat(LONG))),
        chain(LONG),
    ];
    for source in deep {
        let fault = Module::parse(source.as_bytes(), MANY).err().unwrap();
        assert_eq!(fault.kind, FaultKind::Source, "{fault}");
        assert!(fault.message.contains("more than"), "{fault}");
    }
    let comment = "// --------------------- ((( \n/* ((( /* */ ---- */";
    module(
        body(&format!("{} d[0] = 1; {}", comment.repeat(100), "d[0] += 1; ".repeat(500)))
            .as_bytes(),
    );
}

#[test]
fn the_deepest_permitted_nesting_fits_the_stack_of_naga() {
    let head = "@group(0) @binding(0) var<storage, read_write> d: array<i32>;\n";
    let body = |text: &str| format!("{head}@compute @workgroup_size(1) fn main() {{ {text} }}");
    let sources = [
        body(&format!("d[0] = {}1;", "d[1] + ".repeat(450))),
        body(&format!("d[0] = {}1;", "1 + ".repeat(980))),
        body(&format!("d[0] = {}1;", "- ".repeat(980))),
        body(&format!("if d[0] == 1 {{}} {}", "else if d[0] == 2 {} ".repeat(300))),
        chain(8_000),
    ];
    for source in sources {
        match Module::parse(source.as_bytes(), MANY) {
            Ok(_) => {}
            Err(fault) => println!("{fault}"),
        }
    }
}

#[test]
fn any_changed_source_gives_a_module_or_a_fault() {
    let survive = |source: &[u8]| {
        let Ok(module) = Module::parse(source, Target::new(16)) else { return };
        for kernel in module.kernels() {
            let group = [8, 2, 1];
            let _ = module.code(kernel, &Specialization { group, ..Specialization::default() });
        }
    };
    let source = SCALE.as_bytes();
    (0..source.len()).step_by(7).for_each(|end| survive(&source[..end]));
    for at in (0..source.len()).step_by(5) {
        for other in [b'0', b'(', b';', b'-', b'/', b'<'] {
            let mut changed = source.to_vec();
            changed[at] = other;
            survive(&changed);
        }
    }
}

/// Returns structures, each nested in the next.
fn chain(length: usize) -> String {
    let links = (1..length).rev().map(|link| format!("struct S{link} {{ a: S{} }}\n", link - 1));
    let last = length - 1;
    format!(
        "{}struct S0 {{ a: i32 }}\n@compute @workgroup_size(1) fn main() {{ var x = S{last}(); }}",
        links.collect::<String>()
    )
}

#[test]
fn halves_need_no_more_than_halves() {
    let source = "enable f16;
        @group(0) @binding(0) var<storage, read_write> o: array<f16>;
        @compute @workgroup_size(1) fn half() { o[0] = f16(1.5); }";
    let needs = module(source.as_bytes()).requirements();
    let names: Vec<_> = needs.capabilities.iter().map(|(_, name)| name.as_str()).collect();
    assert!(names.contains(&"Float16") && names.contains(&"StorageBuffer16BitAccess"), "{names:?}");
    assert!(!names.contains(&"StorageInputOutput16"), "{names:?}");
}

#[test]
fn shared_memory_is_zeroed_by_the_device_if_it_can() {
    const STORE: u32 = 3 << 16 | 62;
    let source = "var<workgroup> tile: array<u32, 64>;
        @group(0) @binding(0) var<storage, read_write> o: array<u32>;
        @compute @workgroup_size(1) fn copy() { o[0] = tile[o[1]]; }";
    let stores = |target: Target| {
        let module = module_for(source.as_bytes(), target);
        let opcodes = module.words()[5..].iter().filter(|word| **word == STORE);
        opcodes.count()
    };
    assert!(stores(MANY.with_zeroed_shared_memory(true)) < stores(MANY));
}
