//! Reflection of glslang's output for GLSL by the conventions.

use crate::tests::support::{MANY, from_words, glsl, module, module_with, only};
use crate::{
    Atomic, Block, BlockStorage, Buffer, Code, FaultKind, GroupSize, Module, Place, Specialization,
    SubgroupSize,
};

/// Environments with SPIR-V before 1.4 and from 1.4 on, which encode an entry point's usage
/// differently.
const ENVIRONMENTS: [&str; 4] = ["vulkan1.0", "vulkan1.1", "vulkan1.2", "vulkan1.3"];

const VECTORS: &str = "#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
layout(local_size_x_id = 0, local_size_y = 2) in;
layout(buffer_reference, scalar) buffer Floats { float at[]; };
layout(push_constant, scalar) uniform Arguments {
    uint n;
    float factor;
    Floats from;
    Floats to;
    mat3x2 turn;
    vec3 list[3];
};
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < n) to.at[i] = factor * from.at[i] + turn[0].x + list[1].y;
}";

#[test]
fn members_of_push_constants_are_arguments_by_offset() {
    for environment in ENVIRONMENTS {
        let Some(image) = glsl(VECTORS, &["--target-env", environment]) else { return };
        let module = module(&image);
        let kernel = only(&module);
        assert_eq!(kernel.name, "main");
        assert_eq!(kernel.group, [GroupSize::Free(1), GroupSize::Fixed(2), GroupSize::Fixed(1)]);
        assert_eq!(kernel.blocks, [Block { storage: BlockStorage::PushConstants, bytes: 84 }]);
        assert_eq!(kernel.buffers, []);
        let parameters: Vec<_> = kernel
            .parameters
            .iter()
            .map(|parameter| {
                let Place::Block { index: 0, offset } = parameter.place else { panic!() };
                (parameter.name.as_str(), offset, parameter.bytes, parameter.pointer)
            })
            .collect();
        assert_eq!(
            parameters,
            [
                ("n", 0, 4, false),
                ("factor", 4, 4, false),
                ("from", 8, 8, true),
                ("to", 16, 8, true),
                ("turn", 24, 24, false),
                ("list", 48, 36, false),
            ]
        );
    }
}

#[test]
fn bindings_follow_by_set_and_number_and_uniforms_are_values() {
    let source = "#version 460
        layout(local_size_x = 8, local_size_y = 4, local_size_z = 2) in;
        layout(set = 1, binding = 0) buffer To { uvec4 head; float at[]; } to;
        layout(set = 0, binding = 7) readonly buffer From { float at[]; };
        layout(set = 0, binding = 3) uniform Values { vec3 v; float f; mat3 m; } values;
        layout(set = 0, binding = 4) uniform Large { vec4 at[300]; } large;
        void main() { to.at[0] = at[0] + values.f + large.at[1].x; }";
    for environment in ENVIRONMENTS {
        let Some(image) = glsl(source, &["--target-env", environment]) else { return };
        let module = module(&image);
        let kernel = only(&module);
        assert_eq!(kernel.group, [8, 4, 2].map(GroupSize::Fixed));
        let uniform = BlockStorage::Uniform { set: 0, binding: 3 };
        assert_eq!(kernel.blocks, [Block { storage: uniform, bytes: 60 }]);
        let buffer =
            |set, binding, uniform, least_bytes| Buffer { set, binding, uniform, least_bytes };
        assert_eq!(
            kernel.buffers,
            [buffer(0, 4, true, 4800), buffer(0, 7, false, 4), buffer(1, 0, false, 20)]
        );
        let names: Vec<_> =
            kernel.parameters.iter().map(|of| (of.name.as_str(), of.bytes)).collect();
        assert_eq!(names, [("v", 12), ("f", 4), ("m", 44), ("large", 8), ("From", 8), ("to", 8)]);
    }
}

#[test]
fn push_constants_that_are_too_many_are_read_from_a_storage_buffer() {
    let source = "#version 460
        #extension GL_EXT_buffer_reference : require
        #extension GL_EXT_shader_16bit_storage : require
        #extension GL_EXT_shader_8bit_storage : require
        #extension GL_EXT_shader_explicit_arithmetic_types : require
        #extension GL_EXT_scalar_block_layout : require
        layout(local_size_x = 1) in;
        layout(buffer_reference, scalar) buffer Globals { uint calls; float table[4]; };
        layout(buffer_reference, scalar) buffer Floats { float at[]; };
        struct Inner { float16_t short_one; uint8_t byte; vec3 v; };
        layout(push_constant, scalar) uniform Arguments {
            Floats to; Globals longshore_globals; Inner inner[8]; mat4 m; uint i;
        } arguments;
        layout(binding = 0) buffer Taken { uint x; };
        float of(uint i) { return float(arguments.inner[i].short_one) + float(arguments.inner[2].byte); }
        void main() {
            x = arguments.longshore_globals.calls;
            arguments.to.at[arguments.i] = of(arguments.i) + arguments.m[1].x;
        }";
    for environment in ENVIRONMENTS {
        let Some(image) = glsl(source, &["--target-env", environment]) else { return };
        let small = module(&image);
        let large = module_with(&image, 128);
        let (small_kernel, large_kernel) = (only(&small), only(&large));
        assert_eq!(small_kernel.blocks[0].storage, BlockStorage::PushConstants);
        let storage = BlockStorage::Storage { set: 0, binding: 1 };
        assert_eq!(large_kernel.blocks, [Block { storage, ..small_kernel.blocks[0] }]);
        assert_eq!(large_kernel.parameters, small_kernel.parameters);
        assert_eq!(large_kernel.globals, [Place::Block { index: 0, offset: 8 }]);
        let globals: Vec<_> =
            large.globals().iter().map(|of| (of.name.as_str(), of.bytes)).collect();
        assert_eq!((globals, large.globals_bytes()), (vec![("calls", 4), ("table", 16)], 20));
        let capabilities = large.requirements().capabilities;
        let names: Vec<_> = capabilities.iter().map(|(_, name)| name.as_str()).collect();
        assert!(names.contains(&"StorageBuffer16BitAccess"), "{names:?}");
        assert!(!names.contains(&"StoragePushConstant16"), "{names:?}");

        let wanted = Specialization { group: [1, 1, 1], ..Specialization::default() };
        let again = from_words(&large.code(large_kernel, &wanted).unwrap().words);
        let bindings: Vec<_> = only(&again).buffers.iter().map(|at| (at.set, at.binding)).collect();
        assert_eq!(bindings, [(0, 0), (0, 1)]);
    }
}

#[test]
fn specialisation_constants_get_the_values_of_the_launch() {
    let source = "#version 460
        layout(local_size_x_id = 10, local_size_y = 2, local_size_z_id = 12) in;
        layout(constant_id = 3) const uint longshore_dynamic_shared_bytes = 0;
        layout(constant_id = 4) const uint longshore_subgroup_size = 16;
        layout(constant_id = 5) const uint other = 3;
        shared uint scratch[longshore_dynamic_shared_bytes / 4 + 1];
        shared vec3 fixed_size[other * 2];
        layout(binding = 0) buffer To { uint to[]; };
        void main() {
            scratch[0] = 2;
            fixed_size[1].x = 1;
            to[0] = scratch[0] + uint(fixed_size[0].x) + longshore_subgroup_size
                + gl_WorkGroupSize.xy.x;
        }";
    for environment in ENVIRONMENTS {
        let Some(image) = glsl(source, &["--target-env", environment]) else { return };
        let module = module(&image);
        let kernel = only(&module);
        assert_eq!(kernel.group, [GroupSize::Free(1), GroupSize::Fixed(2), GroupSize::Free(1)]);
        assert!(kernel.dynamic_shared);
        assert_eq!(kernel.subgroup_size, SubgroupSize::Required(16));
        assert_eq!(kernel.static_shared_bytes, 6 * 16);
        let wanted =
            Specialization { group: [64, 2, 3], dynamic_shared_bytes: 100, subgroup_size: 16 };
        let Code { constants, .. } = module.code(kernel, &wanted).unwrap();
        assert_eq!(constants, [(3, 100), (4, 16), (10, 64), (12, 3)]);
    }
}

#[test]
fn one_constant_for_two_dimensions_makes_them_equal() {
    let source = "#version 460
        layout(local_size_x_id = 1, local_size_y_id = 1) in;
        void main() { }";
    let Some(image) = glsl(source, &[]) else { return };
    let module = module(&image);
    let code = |x, y| {
        let wanted = Specialization { group: [x, y, 1], ..Specialization::default() };
        module.code(only(&module), &wanted).map(|code| code.constants)
    };
    assert_eq!(code(8, 8).unwrap(), [(1, 8)]);
    assert_eq!(code(8, 4).unwrap_err().kind, FaultKind::Unsupported);
}

#[test]
fn a_storage_buffer_of_that_name_is_the_globals() {
    for declaration in [
        "buffer longshore_globals { uint count; float list[3]; }",
        "buffer Any { uint count; float list[3]; } longshore_globals",
    ] {
        let source = format!(
            "#version 460
            layout(local_size_x = 1) in;
            layout(std430, set = 2, binding = 1) {declaration};
            void main() {{ {}count = 1; }}",
            if declaration.ends_with("globals") { "longshore_globals." } else { "" }
        );
        let Some(image) = glsl(&source, &[]) else { return };
        let module = module(&image);
        let kernel = only(&module);
        assert_eq!((kernel.parameters.len(), kernel.buffers.len()), (0, 1));
        assert_eq!(kernel.globals, [Place::Buffer { index: 0 }]);
        let globals: Vec<_> =
            module.globals().iter().map(|of| (of.name.as_str(), of.offset, of.bytes)).collect();
        assert_eq!(globals, [("count", 0, 4), ("list", 4, 12)]);
    }
}

#[test]
fn bindings_that_are_no_blocks_are_not_supported() {
    for (declaration, use_of_it) in [
        ("uniform image2D picture", "imageStore(picture, ivec2(0), vec4(1));"),
        ("uniform sampler2D picture", "vec4 x = textureLod(picture, vec2(0), 0);"),
        ("buffer B { uint x; } picture[2]", "picture[1].x = 1;"),
    ] {
        let layout = if declaration.contains("image2D") { "rgba8, " } else { "" };
        let source = format!(
            "#version 460
            layout(local_size_x = 1) in;
            layout({layout}binding = 0) {declaration};
            void main() {{ {use_of_it} }}"
        );
        let Some(image) = glsl(&source, &[]) else { return };
        let fault = Module::parse(&image, MANY).err().unwrap();
        assert_eq!(fault.kind, FaultKind::Unsupported);
        assert!(fault.message.contains("picture"), "{fault}");
    }
}

#[test]
fn debug_information_changes_nothing() {
    let source = "#version 460
        layout(local_size_x = 1) in;
        layout(push_constant) uniform Arguments { uint n; float list[9]; };
        layout(binding = 0) buffer To { float to[]; };
        void main() { to[n] = list[n]; }";
    let Some(image) = glsl(source, &[]) else { return };
    let Some(debug) = glsl(source, &["-gVS"]) else { return };
    for push_constant_bytes in [16, 1 << 16] {
        let plain = module_with(&image, push_constant_bytes);
        assert_eq!(plain.kernels(), module_with(&debug, push_constant_bytes).kernels());
    }
}

#[test]
fn either_byte_order_will_do() {
    let Some(mut image) = glsl(VECTORS, &[]) else { return };
    let kernels = module(&image).kernels().to_vec();
    image.as_chunks_mut::<4>().0.iter_mut().for_each(|word| word.reverse());
    assert_eq!(module(&image).kernels(), kernels);
}

#[test]
fn an_alignment_of_none_is_one() {
    let Some(image) = glsl(
        "#version 460
        #extension GL_EXT_buffer_reference : require
        layout(buffer_reference, std430, buffer_reference_align = 4) buffer Numbers { uint at[]; };
        layout(local_size_x = 1) in;
        layout(push_constant) uniform Arguments { Numbers numbers; };
        void main() { numbers.at[0] = numbers.at[1]; }",
        &[],
    ) else {
        return;
    };
    let (words, _) = image.as_chunks::<4>();
    let mut words: Vec<u32> = words.iter().map(|word| u32::from_le_bytes(*word)).collect();
    // glslang's output when it loses the alignment: `Aligned 4` becomes `Aligned 0`.
    const LOAD: u32 = 6 << 16 | 61;
    const STORE: u32 = 5 << 16 | 62;
    let (mut at, mut changed) = (5, 0);
    while at < words.len() {
        let end = at + (words[at] >> 16) as usize;
        if [LOAD, STORE].contains(&words[at]) {
            assert_eq!(words[end - 2..end], [2, 4]);
            words[end - 1] = 0;
            changed += 1;
        }
        at = end;
    }
    assert_eq!(changed, 2);
    assert_eq!(only(&from_words(&words)).parameters.len(), 1);
}

#[test]
fn atomics_are_distinguished_by_storage_class() {
    let Some(image) = glsl(
        "#version 460
        #extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
        #extension GL_EXT_shader_atomic_int64 : require
        #extension GL_EXT_shader_atomic_float : require
        layout(local_size_x = 1) in;
        shared uint64_t tile[4];
        layout(binding = 0) buffer Sums { float sum; uint count; };
        void main() {
          atomicAdd(tile[count], 1);
          atomicAdd(sum, 1.0);
          atomicAdd(count, 1);
        }",
        &[],
    ) else {
        return;
    };
    let atomic = |shared, float, adds, bits| Atomic { shared, float, adds, bits };
    let expected = [
        atomic(false, false, false, 32),
        atomic(false, true, true, 32),
        atomic(true, false, false, 64),
    ];
    assert!(module(&image).requirements().atomics.into_iter().eq(expected));
}
