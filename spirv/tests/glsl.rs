//! What glslang makes of GLSL is reflected by the conventions.

mod support;

use longshore_spirv::{Block, GroupSize, Home, Place};
use support::{glsl, module, only};

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
    for environment in ["vulkan1.0", "vulkan1.1", "vulkan1.2", "vulkan1.3"] {
        let Some(image) = glsl(VECTORS, &["--target-env", environment]) else { return };
        let module = module(&image);
        let kernel = only(&module);
        assert_eq!(kernel.name, "main");
        assert_eq!(kernel.group, [GroupSize::Free(1), GroupSize::Fixed(2), GroupSize::Fixed(1)]);
        assert_eq!(kernel.blocks, [Block { home: Home::PushConstants, bytes: 84 }]);
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
