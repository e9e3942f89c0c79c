//! Refused modules, after which the device still works.

use super::{Check, glsl, is_driver, launch, refused, says};
use longshore::{Acceptance, Device, ErrorCode, Grid};
use longshore_conformance::Fixtures;
use longshore_conformance::TrustedImages;
use longshore_tests::vulkan;

pub(crate) const CHECKS: &[Check] = &[
    ("a module cut off anywhere is refused", truncated),
    ("a module that breaks the rules is refused, with what the validator says", invalid),
    ("a header without a module is refused", only_headers),
    ("a module without entry points is refused", no_entry_points),
    ("entry points of other kinds are left alone", other_stages),
    ("a capability that the device lacks is named", lacking_features),
    ("an imported function is named", imports),
    ("errors in WGSL are reported with their line", wgsl_errors),
    ("bad WGSL of many kinds is refused", bad_wgsl),
    ("bindings of other kinds are refused", other_bindings),
    ("groups that are too large for the device are refused", large_groups),
    ("a buffer that must be larger than the device can bind is refused", large_buffers),
];

/// Checks without the validation layer. The layer and the plugin's own validator may differ in
/// version, and disagree about a module that no compiler makes.
pub(crate) const WITHOUT_LAYER: &[Check] = &[("a module with flipped bits does no harm", flipped)];

const DOUBLED: &str = "
layout(local_size_x = 1) in;
layout(push_constant) uniform Arguments { Numbers numbers; uint n; };
shared uint tile[16];
void main() {
  for (uint i = 0; i < n; ++i) {
    tile[i % 16] = numbers.at[i];
    numbers.at[i] = 2 * tile[i % 16];
  }
}";

fn doubled() -> Vec<u8> {
    glsl("doubled", DOUBLED)
}

/// Checks that the device still works.
fn works(device: &Device) {
    let (queue, program) = (device.queue().unwrap(), device.load_trusted(doubled()).unwrap());
    let numbers = device.buffer_of(&queue, &[1u32, 2, 3]).unwrap();
    // SAFETY: the buffer has three numbers.
    unsafe { launch(&queue, &program, "doubled", Grid::default(), (&numbers, 3u32)) }.unwrap();
    assert_eq!(numbers.to_vec(&queue).unwrap(), [2, 4, 6]);
}

fn truncated(device: &Device) {
    let image = doubled();
    for length in (0..image.len()).filter(|length| length % 4 == 0 || length % 7 == 0) {
        refused(device.load_trusted(&image[..length]), ErrorCode::InvalidBinary);
    }
    works(device);
}

fn flipped(device: &Device) {
    const ROUNDS: u32 = 3000;
    let image = doubled();
    let mut random = random();
    for round in 0..ROUNDS {
        let mut changed = image.clone();
        for _ in 0..1 + round % 3 {
            let bit = random() as usize % (8 * image.len());
            changed[bit / 8] ^= 1 << (bit % 8);
        }
        // A changed module that is still valid may be loaded; the test does not launch it.
        if let Err(error) = device.load_trusted(&changed) {
            let right = [
                ErrorCode::InvalidBinary,
                ErrorCode::LinkFailure,
                ErrorCode::Unsupported,
                ErrorCode::CompileFailure,
            ];
            assert!(right.contains(&error.code()), "round {round}: {error:?}");
            assert!(!error.message().is_empty(), "round {round}");
        }
    }
    works(device);
}

fn invalid(device: &Device) {
    // The module returns a number from a void function.
    let module = MINIMAL.replace("OpReturn", "OpReturnValue %number");
    let error = refused(device.load_trusted(vulkan::assembled(&module)), ErrorCode::InvalidBinary);
    says(&error, &["OpReturnValue"]);
    // The module breaks a rule of Vulkan: the execution model `Kernel` is not allowed.
    let module = MINIMAL.replace("GLCompute %main", "Kernel %main");
    let error = device.load_trusted(vulkan::assembled(&module)).err().expect("refused");
    assert!(!error.message().is_empty());
    let image = vulkan::assembled(MINIMAL);
    assert_eq!(device.load_trusted(image).unwrap().symbols().unwrap().len(), 1);
}

/// A kernel that does nothing.
pub(crate) const MINIMAL: &str = r#"
             OpCapability Shader
             OpMemoryModel Logical GLSL450
             OpEntryPoint GLCompute %main "minimal"
             OpExecutionMode %main LocalSize 1 1 1
     %void = OpTypeVoid
     %uint = OpTypeInt 32 0
   %number = OpConstant %uint 7
 %function = OpTypeFunction %void
     %main = OpFunction %void None %function
    %begin = OpLabel
             OpReturn
             OpFunctionEnd
"#;

fn only_headers(device: &Device) {
    let header = |version: u32, bound: u32| [0x0723_0203, version, 0, bound, 0];
    let bodies: [&[u32]; 6] =
        [&[], &[0], &[u32::MAX], &[0x0001_0000], &[0x0002_0011, 1], &[0xffff_0011, 1]];
    for (version, bound) in [(0x10000, 1), (0x10500, 10), (0x10500, u32::MAX), (0x990000, 1)] {
        for body in bodies {
            let words = header(version, bound).into_iter().chain(body.iter().copied());
            let native: Vec<u8> = words.clone().flat_map(u32::to_le_bytes).collect();
            let swapped: Vec<u8> = words.flat_map(u32::to_be_bytes).collect();
            for image in [native, swapped] {
                let error = device.load_trusted(image).err().expect("refused");
                let right = [ErrorCode::InvalidBinary, ErrorCode::Unsupported];
                assert!(right.contains(&error.code()), "{version:#x} {body:x?}: {error:?}");
            }
        }
    }
    works(device);
}

fn no_entry_points(device: &Device) {
    let kept = |line: &&str| !line.contains("OpEntryPoint") && !line.contains("OpExecutionMode");
    let module: Vec<_> = MINIMAL.lines().filter(kept).collect();
    refused(device.load_trusted(vulkan::assembled(&module.join("\n"))), ErrorCode::InvalidBinary);
    works(device);
}

fn other_stages(device: &Device) {
    let module = MINIMAL.replace(
        "             OpExecutionMode",
        "             OpEntryPoint Fragment %main \"painted\"
             OpExecutionMode %main OriginUpperLeft
             OpExecutionMode",
    );
    // Two entry points must not share a function that has the modes of both.
    let module = module.replace("Fragment %main", "Fragment %paint");
    let module = module.replace("%main OriginUpperLeft", "%paint OriginUpperLeft");
    let module = module
        + "    %paint = OpFunction %void None %function
      %dip = OpLabel
             OpReturn
             OpFunctionEnd
";
    let program = device.load_trusted(vulkan::assembled(&module)).unwrap();
    let names: Vec<_> = program.symbols().unwrap().into_iter().map(|symbol| symbol.0).collect();
    assert_eq!(names, ["minimal"]);
    refused(program.kernel("painted"), ErrorCode::NotFound);
}

fn lacking_features(device: &Device) {
    let with = |extension: &str, type_name: &str| {
        let source = format!(
            "#extension GL_EXT_shader_explicit_arithmetic_types_{extension} : require
            layout(local_size_x = 1) in;
            layout(push_constant) uniform Arguments {{ Numbers numbers; }};
            void main() {{
              {type_name} x = {type_name}(numbers.at[0]);
              numbers.at[0] = uint(x + x);
            }}"
        );
        glsl("widened", &source)
    };
    for (extension, type_name, feature) in [
        ("int64", "uint64_t", "shaderInt64"),
        ("int16", "uint16_t", "shaderInt16"),
        ("int8", "uint8_t", "shaderInt8"),
        ("float64", "float64_t", "shaderFloat64"),
    ] {
        let image = with(extension, type_name);
        match device.load_trusted(&image) {
            Ok(program) => {
                assert!(!is_driver(device, "SwiftShader"), "it has {feature}");
                let queue = device.queue().unwrap();
                let numbers = device.buffer_of(&queue, &[21u32]).unwrap();
                // SAFETY: the buffer has a number.
                unsafe { launch(&queue, &program, "widened", Grid::default(), (&numbers,)) }
                    .unwrap();
                assert_eq!(numbers.to_vec(&queue).unwrap(), [42], "{feature}");
            }
            Err(error) => {
                assert_eq!(error.code(), ErrorCode::Unsupported, "{error:?}");
                says(&error, &[feature]);
                assert!(!is_driver(device, "llvmpipe"), "{error:?}");
                let Acceptance::Refused(why) = device.accepts(&image).unwrap() else {
                    panic!("{feature} was accepted");
                };
                assert!(why.contains(feature), "{why}");
            }
        }
    }
    works(device);
}

fn imports(device: &Device) {
    let images = Fixtures::built_in();
    let image = images.image(device, "undefined").unwrap().expect("it is tried to be loaded");
    let error = refused(device.load_trusted(&*image), ErrorCode::LinkFailure);
    says(&error, &["longshore_fixture_that_nobody_defines"]);
    works(device);
}

fn wgsl_errors(device: &Device) {
    let source = "// One line.\n@compute @workgroup_size(1)\nfn lost() {\n  missing = 1u;\n}\n";
    let error = refused(device.load_trusted(source.as_bytes()), ErrorCode::CompileFailure);
    says(&error, &["missing", "4:3"]);
    // The source breaks a rule of the language, not of its grammar.
    let source = "@compute @workgroup_size(1)\nfn wrong() {\n  let x: u32 = 1.5f;\n}\n";
    let error = refused(device.load_trusted(source.as_bytes()), ErrorCode::CompileFailure);
    says(&error, &["3:"]);
    works(device);
}

fn bad_wgsl(device: &Device) {
    let deep = |open: &str, close: &str| {
        let (open, close) = (open.repeat(100_000), close.repeat(100_000));
        format!("@compute @workgroup_size(1) fn deep() {{ var x = {open}1{close}; }}")
    };
    let sources = [
        "@compute".to_owned(),
        "@compute @workgroup_size(0) fn none() {}".to_owned(),
        "@compute @workgroup_size(1) fn open() {".to_owned(),
        "@compute @workgroup_size(1, 1, 99999999999) fn large() {}".to_owned(),
        "@compute @workgroup_size(4294967295, 4294967295) fn large() {}".to_owned(),
        "@compute @workgroup_size(1) fn twice() {} @compute @workgroup_size(1) fn twice() {}"
            .to_owned(),
        "struct S { s: S } @compute @workgroup_size(1) fn endless() { var s: S; }".to_owned(),
        "var<workgroup> x: array<u32, 1000000000>;
         @compute @workgroup_size(1) fn large() { x[0] = 1u; }"
            .to_owned(),
        "override n: u32; var<workgroup> x: array<u32, n>;
         @compute @workgroup_size(1) fn unset() { x[0] = 1u; }"
            .to_owned(),
        deep("(", ")"),
        deep("-", ""),
        deep("!", ""),
    ];
    for source in sources {
        let shown: String = source.chars().take(80).collect();
        // The launch refuses a module that only the launch can complete.
        let loaded = device.load_trusted(source.as_bytes()).and_then(|program| {
            let (name, _) = program.symbols()?.pop().expect("it has a kernel");
            let queue = device.queue()?;
            // SAFETY: the kernels take no arguments, and must not run.
            unsafe { launch(&queue, &program, &name, Grid::default(), ()) }
        });
        let error = loaded.err().unwrap_or_else(|| panic!("it ran: {shown}"));
        assert!(!error.message().contains("panic"), "{shown}: {error:?}");
    }
    works(device);
}

fn other_bindings(device: &Device) {
    let image = glsl(
        "painted",
        "layout(local_size_x = 1) in;
        layout(set = 0, binding = 3, r32f) uniform image2D canvas;
        void main() { imageStore(canvas, ivec2(0), vec4(1)); }",
    );
    let error = refused(device.load_trusted(image), ErrorCode::Unsupported);
    says(&error, &["canvas"]);
    works(device);
}

fn large_groups(device: &Device) {
    for size in ["4096 1 1", "1024 1024 1", "1024 1024 64"] {
        let module = MINIMAL.replace("LocalSize 1 1 1", &format!("LocalSize {size}"));
        let error =
            refused(device.load_trusted(vulkan::assembled(&module)), ErrorCode::Unsupported);
        says(&error, &["minimal", "items"]);
    }
    let constructor = "layout(local_size_x = 1024, local_size_y = 1024) in;
        layout(local_size_x_id = 0, local_size_y_id = 1) in;
        void main() {}";
    let image = glsl("longshore_constructor_1", constructor);
    let error = refused(device.load_trusted(image), ErrorCode::Unsupported);
    says(&error, &["longshore_constructor_1", "1024"]);
    works(device);
}

/// Returns a source of numbers without a pattern, the same in every run (xorshift).
fn random() -> impl FnMut() -> u64 {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state >> 8
    }
}

fn large_buffers(device: &Device) {
    let image = glsl(
        "summed",
        "layout(local_size_x = 1) in;
        layout(set = 0, binding = 3, std140) uniform Values { uvec4 values[1 << 26]; };
        layout(set = 0, binding = 4, std430) buffer Result { uint result; };
        void main() { result = values[0].x + values[(1 << 26) - 1].x; }",
    );
    let error = refused(device.load_trusted(image), ErrorCode::Unsupported);
    says(&error, &["set 0, binding 3", "1073741824 bytes"]);
    works(device);
}
