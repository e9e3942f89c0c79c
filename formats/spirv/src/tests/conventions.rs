//! Hand-made modules, for code that compilers do not write, and hostile modules.

use crate::tests::support;
use crate::tests::support::{MANY, from_words, module, module_with};
use crate::{BlockStorage, Fault, FaultKind, GroupSize, Module, Specialization, Target};
use rspirv::binary::Assemble;
use rspirv::dr::{Builder, Operand};
use rspirv::spirv::{
    AddressingModel, BuiltIn, Capability, Decoration, ExecutionMode, ExecutionModel,
    FunctionControl, LinkageType, MemoryModel, StorageClass, Word,
};

/// A module with one kernel without arguments, `main`, and additions.
struct ModuleBuilder {
    builder: Builder,
    void: Word,
    uint: Word,
    main: Word,
}

impl ModuleBuilder {
    fn new() -> ModuleBuilder {
        let mut builder = Builder::new();
        builder.set_version(1, 3);
        builder.capability(Capability::Shader);
        builder.memory_model(AddressingModel::Logical, MemoryModel::GLSL450);
        let void = builder.type_void();
        let uint = builder.type_int(32, 0);
        let mut made = ModuleBuilder { builder, void, uint, main: 0 };
        made.main = made.function();
        made.entry_point(ExecutionModel::GLCompute, made.main, "main");
        made
    }

    fn function(&mut self) -> Word {
        let of = self.builder.type_function(self.void, []);
        let control = FunctionControl::NONE;
        let function = self.builder.begin_function(self.void, None, control, of).unwrap();
        self.builder.begin_block(None).unwrap();
        self.builder.ret().unwrap();
        self.builder.end_function().unwrap();
        function
    }

    fn entry_point(&mut self, model: ExecutionModel, function: Word, name: &str) {
        self.builder.entry_point(model, function, name, []);
        if model == ExecutionModel::GLCompute {
            self.builder.execution_mode(function, ExecutionMode::LocalSize, [4, 1, 1]);
        }
    }

    fn words(self) -> Vec<u32> {
        self.builder.module().assemble()
    }

    fn bytes(self) -> Vec<u8> {
        self.words().into_iter().flat_map(u32::to_le_bytes).collect()
    }

    fn fault(self) -> Fault {
        Module::parse(&self.bytes(), MANY).err().unwrap()
    }
}

#[test]
fn imports_are_named_all_together() {
    let mut made = ModuleBuilder::new();
    made.builder.capability(Capability::Linkage);
    for name in ["sinf_helper", "table"] {
        let imported = made.function();
        let operands = [Operand::from(name), Operand::LinkageType(LinkageType::Import)];
        made.builder.decorate(imported, Decoration::LinkageAttributes, operands);
    }
    let fault = made.fault();
    assert_eq!(fault.kind, FaultKind::Undefined);
    assert!(fault.message.contains("sinf_helper, table"), "{fault}");
}

#[test]
fn a_module_without_kernels_says_what_it_has() {
    let mut builder = Builder::new();
    builder.capability(Capability::Kernel);
    builder.memory_model(AddressingModel::Physical64, MemoryModel::OpenCL);
    let (void, uint) = (builder.type_void(), builder.type_int(32, 0));
    let mut made = ModuleBuilder { builder, void, uint, main: 0 };
    let function = made.function();
    made.entry_point(ExecutionModel::Kernel, function, "saxpy");
    let fault = made.fault();
    assert_eq!(fault.kind, FaultKind::Unsupported);
    assert!(fault.message.contains("Kernel saxpy"), "{fault}");
}

#[test]
fn two_kernels_of_one_name_are_malformed_but_other_kinds_are_left_alone() {
    let mut made = ModuleBuilder::new();
    let function = made.function();
    made.entry_point(ExecutionModel::GLCompute, function, "main");
    assert_eq!(made.fault().kind, FaultKind::Malformed);

    let mut made = ModuleBuilder::new();
    let function = made.function();
    made.entry_point(ExecutionModel::Vertex, function, "main");
    assert_eq!(Module::parse(&made.bytes(), MANY).unwrap().kernels().len(), 1);
}

#[test]
fn constructors_ascend_and_destructors_descend_by_priority() {
    let mut made = ModuleBuilder::new();
    for name in ["constructor_9_a", "constructor_1", "constructor_9_b", "constructor_10"] {
        let function = made.function();
        made.entry_point(ExecutionModel::GLCompute, function, &format!("longshore_{name}"));
        let function = made.function();
        let name = name.replace("con", "de");
        made.entry_point(ExecutionModel::GLCompute, function, &format!("longshore_{name}"));
    }
    let module = from_words(&made.words());
    assert_eq!(module.kernels().len(), 1);
    let names = |list: &[crate::Procedure]| {
        let names =
            list.iter().map(|one| one.kernel.name.rsplit("structor_").next().unwrap().to_owned());
        names.collect::<Vec<_>>()
    };
    assert_eq!(names(module.constructors()), ["1", "9_a", "9_b", "10"]);
    assert_eq!(names(module.destructors()), ["10", "9_b", "9_a", "1"]);

    let mut made = ModuleBuilder::new();
    let function = made.function();
    made.entry_point(ExecutionModel::GLCompute, function, "longshore_constructor_first");
    assert_eq!(made.fault().kind, FaultKind::Unsupported);
}

#[test]
fn the_workgroup_size_constant_overrides_the_mode() {
    let mut made = ModuleBuilder::new();
    let vector = made.builder.type_vector(made.uint, 3);
    let x = made.builder.spec_constant_bit32(made.uint, 32);
    made.builder.decorate(x, Decoration::SpecId, [Operand::LiteralBit32(6)]);
    let two = made.builder.constant_bit32(made.uint, 2);
    let fixed = made.builder.spec_constant_bit32(made.uint, 5);
    let size = made.builder.spec_constant_composite(vector, [x, two, fixed]);
    let built_in = [Operand::BuiltIn(BuiltIn::WorkgroupSize)];
    made.builder.decorate(size, Decoration::BuiltIn, built_in);
    let module = from_words(&made.words());
    let kernel = support::only(&module);
    assert_eq!(kernel.group, [GroupSize::Free(32), GroupSize::Fixed(2), GroupSize::Fixed(5)]);
    let wanted = Specialization { group: [7, 2, 5], ..Specialization::default() };
    assert_eq!(module.code(kernel, &wanted).unwrap().constants, [(6, 7)]);
}

/// Adds a kernel `name` that loads one number from a block with these members.
fn with_globals(made: &mut ModuleBuilder, name: &str, members: &[(&str, Word, u32)]) {
    let builder = &mut made.builder;
    let block = builder.id();
    builder.type_struct_id(Some(block), members.iter().map(|member| member.1));
    builder.decorate(block, Decoration::Block, []);
    for (index, &(name, _, offset)) in (0..).zip(members) {
        builder.member_name(block, index, name);
        let offset = [Operand::LiteralBit32(offset)];
        builder.member_decorate(block, index, Decoration::Offset, offset);
    }
    let pointer = builder.type_pointer(None, StorageClass::StorageBuffer, block);
    let variable = builder.variable(pointer, None, StorageClass::StorageBuffer, None);
    builder.name(variable, "longshore_globals");
    builder.decorate(variable, Decoration::DescriptorSet, [Operand::LiteralBit32(0)]);
    builder.decorate(variable, Decoration::Binding, [Operand::LiteralBit32(0)]);
    let inner = builder.type_pointer(None, StorageClass::StorageBuffer, made.uint);
    let zero = builder.constant_bit32(made.uint, 0);
    let of = builder.type_function(made.void, []);
    let function = builder.begin_function(made.void, None, FunctionControl::NONE, of).unwrap();
    builder.begin_block(None).unwrap();
    let at = builder.access_chain(inner, None, variable, [zero]).unwrap();
    builder.store(at, zero, None, []).unwrap();
    builder.ret().unwrap();
    builder.end_function().unwrap();
    made.entry_point(ExecutionModel::GLCompute, function, name);
}

#[test]
fn entry_points_agree_on_the_globals() {
    let mut made = ModuleBuilder::new();
    let uint = made.uint;
    with_globals(&mut made, "a", &[("count", uint, 0), ("sum", uint, 4)]);
    with_globals(&mut made, "b", &[("count", uint, 0), ("sum", uint, 4)]);
    let module = from_words(&made.words());
    assert_eq!((module.globals().len(), module.globals_bytes()), (2, 8));

    let mut made = ModuleBuilder::new();
    with_globals(&mut made, "a", &[("count", uint, 0), ("sum", uint, 4)]);
    with_globals(&mut made, "b", &[("count", uint, 0), ("sum", uint, 8)]);
    let fault = made.fault();
    assert_eq!(fault.kind, FaultKind::Unsupported);
    assert!(fault.message.contains("8 bytes") && fault.message.contains("12 bytes"), "{fault}");

    let mut made = ModuleBuilder::new();
    let list = made.builder.type_runtime_array(uint);
    made.builder.decorate(list, Decoration::ArrayStride, [Operand::LiteralBit32(4)]);
    with_globals(&mut made, "a", &[("count", uint, 0), ("list", list, 4)]);
    assert_eq!(made.fault().kind, FaultKind::Unsupported);
}

#[test]
fn duplicate_and_circular_definitions_are_faults() {
    let mut made = ModuleBuilder::new();
    let first = made.builder.type_array(made.uint, made.uint);
    let second = made.builder.type_array(first, made.uint);
    let mut words = made.words();
    // The first array becomes an array of the second.
    let at = words.windows(3).position(|words| words[0] == 0x0004_001c && words[1] == first);
    words[at.unwrap() + 2] = second;
    assert!(Module::parse(&bytes(&words), MANY).is_ok());
    // The second array gets the id of the first.
    let at = words.windows(3).position(|words| words[0] == 0x0004_001c && words[1] == second);
    words[at.unwrap() + 1] = first;
    let fault = Module::parse(&bytes(&words), MANY).err().unwrap();
    assert_eq!(fault.kind, FaultKind::Malformed);
}

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Returns a module with blocks, globals, matrices, arrays, shared memory and calls.
fn rich() -> Vec<u8> {
    let source = "
        struct Values { n: u32, factor: f32, turn: mat2x2f, list: array<vec4f, 9> }
        struct Globals { calls: atomic<u32>, last: f32 }
        var<immediate> arguments: Values;
        @group(0) @binding(0) var<uniform> values: Values;
        @group(1) @binding(0) var<storage, read_write> out: array<f32>;
        @group(2) @binding(5) var<storage, read_write> longshore_globals: Globals;
        var<workgroup> both: array<vec3f, 4>;
        fn f(x: u32) -> f32 { return values.factor * f32(x) + arguments.list[x].x; }
        @compute @workgroup_size(4, 2)
        fn scale(@builtin(global_invocation_id) id: vec3u) {
            both[id.x].x = f(id.y);
            out[id.x] = both[id.y].x;
            atomicAdd(&longshore_globals.calls, 1u);
        }
        @compute @workgroup_size(1) fn longshore_constructor_7() { longshore_globals.last = 1; }";
    let module = module(source.as_bytes());
    let kernel = &module.kernels()[0];
    let wanted = Specialization { group: [4, 2, 1], ..Specialization::default() };
    bytes(&module.code(kernel, &wanted).unwrap().words)
}

/// Reads an image, with push constants that fit and that do not.
fn survive(image: &[u8]) {
    for target in [Target::new(16), MANY] {
        let Ok(module) = Module::parse(image, target) else { continue };
        for kernel in module.kernels() {
            let group = kernel.group.map(|size| match size {
                GroupSize::Fixed(size) | GroupSize::Free(size) => size,
            });
            module.code(kernel, &Specialization { group, ..Specialization::default() }).unwrap();
        }
    }
}

#[test]
fn a_rich_module_is_understood_with_and_without_push_constants() {
    let image = rich();
    let module = module_with(&image, 16);
    let [kernel] = module.kernels() else { panic!() };
    assert_eq!(kernel.blocks[0].storage, BlockStorage::Storage { set: 0, binding: 1 });
    // naga itself would make the members of both blocks arguments; here the matrix of the uniform
    // buffer is two arguments, as naga splits it.
    assert_eq!(kernel.parameters.len(), 4 + 5 + 1);
}

#[test]
fn any_beginning_of_a_module_gives_a_module_or_a_fault() {
    let image = rich();
    (0..image.len()).for_each(|end| survive(&image[..end]));
    let words = image.len() / 4;
    (0..words).for_each(|end| survive(&image[..end * 4]));
}

#[test]
fn any_changed_word_gives_a_module_or_a_fault() {
    let image = rich();
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    // Each place, or every third one, which covers all bytes of words over several words.
    let step = if std::env::var("LONGSHORE_TEST_ALL").as_deref() == Ok("1") { 1 } else { 3 };
    for at in (0..image.len()).step_by(step) {
        let mut changed = image.clone();
        changed[at] ^= 1 << (next() % 8);
        survive(&changed);
        changed[at] = next() as u8;
        survive(&changed);
        let other = next() as usize % (image.len() / 4) * 4;
        changed[other..other + 4].copy_from_slice(&u32::MAX.to_le_bytes());
        survive(&changed);
    }
}

#[test]
fn bytes_of_neither_spirv_nor_wgsl_are_malformed() {
    for image in [&b""[..], b"\x7fELF", b"fn main() {}", b"\0@compute", b"\x03\x02\x23\x07"] {
        assert_eq!(Module::parse(image, MANY).err().unwrap().kind, FaultKind::Malformed);
    }
}
