//! `longshore inspect`: the same source on three targets, containers, and files that are no image.

use crate::support::{alone, longshore, outcome};
use longshore::{ImageKind, OffloadImage, OffloadKind, write_offload_binary};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A kernel as declared by the device header, with notes in its body and in a helper.
const SOURCE: &str = r#"
typedef unsigned u32;
typedef unsigned long u64;
#define GLOBAL __attribute__((used, visibility("default")))
#define NOTE(kind, value) \
    do { static const u32 longshore_note[2] __attribute__((used)) = {kind, value}; } while (0)
#ifdef __cplusplus
#define C extern "C"
#else
#define C
#endif
#if defined(__NVPTX__)
#define KERNEL __attribute__((nvptx_kernel)) void
#elif defined(__AMDGCN__)
#define KERNEL __attribute__((amdgpu_kernel)) void
#else
#define KERNEL void
#endif
struct description { u32 head[8]; u32 arguments[4][2]; char text[48]; };
C GLOBAL const struct description __longshore_kernel_saxpy = {
    {1, 0, 64, 0, 0, 4, 48, 0}, {{8, 2}, {4, 3}, {8, 4}, {8, 4}},
    "(uint64_t n, float a, const float *x, float *y)"};
C GLOBAL const u32 __longshore_kernel_tiles[10] = {1, 1, 0, 0, 0, 1, 0, 0, 8, 4};
static void helper(void) { NOTE(2, 0); }
static inline void __longshore_body_saxpy(u64 n, float a, const float *x, float *y) {
    NOTE(1, 0);
    NOTE(4, 256);
    NOTE(4, 16);
    NOTE(5, 0);
    helper();
    y[n] += a * x[n];
}
C GLOBAL KERNEL saxpy(u64 n, float a, const float *x, float *y) {
    __longshore_body_saxpy(n, a, x, y);
}
C GLOBAL KERNEL tiles(float *x) { *x = 1; }
C GLOBAL u32 counter = 3;
C GLOBAL u32 table[10] = {0};
volatile u32 seen;
__attribute__((constructor(150))) static void early(void) { seen = 1; }
__attribute__((constructor(200))) static void late(void) { seen = 2; }
__attribute__((destructor)) static void end(void) { seen = 3; }
"#;

const TARGETS: [(&str, &[&str]); 3] = [
    ("elf-o", &["-c", "-fPIC"]),
    ("ptx", &["--target=nvptx64-nvidia-cuda", "-march=sm_70", "-nogpulib", "-ffreestanding", "-S"]),
    (
        "code-object",
        &[
            "--target=amdgcn-amd-amdhsa",
            "-mcpu=gfx90a:xnack+",
            "-nogpulib",
            "-ffreestanding",
            "-fuse-ld=lld",
        ],
    ),
];

fn clang_is_installed() -> bool {
    let there = ["clang-19", "ld.lld-19"]
        .iter()
        .all(|tool| Command::new(tool).arg("--version").output().is_ok_and(|o| o.status.success()));
    if !there {
        println!("clang-19 and lld-19 are not installed; nothing was tried");
    }
    there
}

fn compile(folder: &Path, language: &str, name: &str, flags: &[&str]) -> PathBuf {
    let (source, image) = (folder.join("source"), folder.join(name));
    std::fs::write(&source, SOURCE).unwrap();
    let mut clang = Command::new("clang-19");
    clang.args(["-O2", "-x", language]).args(flags).arg(&source).arg("-o").arg(&image);
    let output = clang.output().unwrap();
    assert!(output.status.success(), "{clang:?}: {}", String::from_utf8_lossy(&output.stderr));
    image
}

fn inspect(image: &Path) -> Value {
    let shown = longshore(&["inspect", image.to_str().unwrap(), "--json"]);
    shown.assert_succeeds();
    shown.json()
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect()
}

#[test]
fn one_source_has_the_same_description_on_all_targets() {
    if !clang_is_installed() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let saxpy = json!({
        "form": "items", "on_cpu": "fibers",
        "declaration": "(uint64_t n, float a, const float *x, float *y)",
        "arguments": [
            {"bytes": 8, "kind": "unsigned"}, {"bytes": 4, "kind": "float"},
            {"bytes": 8, "kind": "pointer"}, {"bytes": 8, "kind": "pointer"},
        ],
        "required_group": [64, 0, 0], "barrier": true, "sub_group": false, "grid_barrier": false,
        "static_shared_bytes": 272, "dynamic_shared": true,
    });
    for language in ["c", "c++"] {
        for (format, flags) in TARGETS {
            let file = inspect(&compile(folder.path(), language, "image", flags));
            let image = &file["images"][0];
            let context = format!("{language}, {format}: {image:#}");
            assert_eq!(image["format"], format, "{context}");
            assert_eq!(names(&image["kernels"]), ["saxpy", "tiles"], "{context}");
            assert_eq!(image["kernels"][0]["description"], saxpy, "{context}");
            let tiles = &image["kernels"][1]["description"];
            assert_eq!((&tiles["form"], &tiles["on_cpu"]), (&json!("regions"), &json!("regions")));
            assert_eq!(image["uses"]["sub_group"], true, "the helper's: {context}");
            assert_eq!(image["uses"]["barrier"], false, "{context}");
            let globals = json!([{"name": "counter", "bytes": 4}, {"name": "table", "bytes": 40}]);
            let found: Vec<_> = image["globals"].as_array().unwrap().clone();
            let found: Vec<_> = found.into_iter().filter(|one| one["name"] != "seen").collect();
            assert_eq!(json!(found), globals, "{context}");
            assert_eq!(image["problems"], json!([]), "{context}");
        }
    }
}

#[test]
fn each_target_shows_its_architecture_and_its_constructors() {
    if !clang_is_installed() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let [cpu, ptx, code_object] = TARGETS.map(|(name, flags)| {
        inspect(&compile(folder.path(), "c", name, flags))["images"][0].clone()
    });
    let of = |priority, count| json!({"priority": priority, "count": count});
    assert_eq!(cpu["architecture"], std::env::consts::ARCH);
    assert_eq!(cpu["constructors"], json!([of(Some(150), 1), of(Some(200), 1)]));
    assert_eq!(cpu["destructors"], json!([of(None, 1)]));
    assert_eq!(ptx["architecture"], "sm_70");
    assert!(ptx["facts"]["ptx_version"].is_string());
    assert_eq!(ptx["constructors"], json!([of(Some(150), 1), of(Some(200), 1)]));
    assert_eq!(ptx["destructors"], json!([of(Some(65535), 1)]));
    assert_eq!(ptx["kernels"][0]["metadata"]["argument_sizes"], json!([8, 4, 8, 8]));
    assert_eq!(code_object["architecture"], "gfx90a:xnack+");
    assert_eq!(code_object["constructors"], json!([of(None, 2)]));
    let metadata = &code_object["kernels"][0]["metadata"];
    assert_eq!(metadata["argument_sizes"], json!([8, 4, 8, 8]));
    assert!(metadata["registers"].as_u64().unwrap() > 0, "{metadata}");
    assert_eq!(metadata["sub_group_items"], 64);
    assert_eq!(
        (&metadata["spilled_registers"], &metadata["dynamic_private"]),
        (&json!(0), &json!(false))
    );
    let facts = json!({
        "code_object_version": "5", "linked": "yes",
        "constructors_run_by": "amdgcn.device.init", "destructors_run_by": "amdgcn.device.fini",
    });
    assert_eq!((&code_object["facts"], &code_object["undefined"]), (&facts, &json!([])));
}

#[test]
fn a_code_object_shows_its_target_even_with_unreadable_metadata() {
    if !clang_is_installed() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (_, flags) = TARGETS[2];
    let flags: Vec<_> =
        flags.iter().map(|flag| flag.replace("gfx90a:xnack+", "gfx11-generic")).collect();
    let mut flags: Vec<_> = flags.iter().map(String::as_str).collect();
    flags.extend(["-c", "-mcode-object-version=6"]);
    let path = compile(folder.path(), "c", "image", &flags);
    let whole = inspect(&path)["images"][0].clone();
    assert_eq!(whole["architecture"], "gfx11-generic");
    let facts = &whole["facts"];
    assert_eq!(
        (&facts["code_object_version"], &facts["generic_version"]),
        (&json!("6"), &json!("1"))
    );
    assert_eq!(facts["linked"], "no");
    assert_eq!(names(&whole["kernels"]), ["saxpy", "tiles"]);

    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.windows(15).position(|part| part == b"amdhsa.kernels\x94").unwrap();
    bytes[at + 14] = 0xc1;
    std::fs::write(&path, bytes).unwrap();
    let damaged = inspect(&path)["images"][0].clone();
    assert_eq!(
        (&damaged["architecture"], &damaged["facts"]["linked"]),
        (&whole["architecture"], &json!("no"))
    );
    assert_eq!(
        (&damaged["globals"], &damaged["constructors"]),
        (&whole["globals"], &whole["constructors"])
    );
    let problems = damaged["problems"].to_string();
    assert!(problems.contains("its metadata at amdhsa.kernels"), "{problems}");
    let shown = longshore(&["inspect", path.to_str().unwrap()]);
    shown.assert_succeeds();
    for text in ["code-object for gfx11-generic", "generic_version: 1", "problem: the code object"]
    {
        assert!(shown.stdout.contains(text), "no '{text}' in: {}", shown.stdout);
    }
}

/// The kernels of `tests/kernels/kernels.c`, with the sizes of their arguments in bytes.
const KERNELS: [(&str, &[u64]); 27] = [
    ("bitonic_sort", &[8, 8, 8]),
    ("bitonic_sort_items", &[8, 8, 8]),
    ("empty", &[]),
    ("histogram", &[8, 8, 8]),
    ("histogram_items", &[8, 8, 8]),
    ("matmul", &[8, 8, 8, 4, 4, 4]),
    ("matmul_16", &[8, 8, 8, 4, 4, 4]),
    ("matmul_items", &[8, 8, 8, 4, 4, 4]),
    ("nbody", &[8, 8, 8]),
    ("nbody_items", &[8, 8, 8]),
    ("prefix_sum", &[8, 8, 8, 8]),
    ("prefix_sum_1", &[8, 8, 8, 8]),
    ("prefix_sum_items", &[8, 8, 8, 8]),
    ("prefix_sum_parts", &[8, 8, 8]),
    ("prefix_sum_parts_items", &[8, 8, 8]),
    ("reduce", &[8, 8, 8]),
    ("reduce_items", &[8, 8, 8]),
    ("saxpy", &[4, 8, 8, 8]),
    ("saxpy_items", &[4, 8, 8, 8]),
    ("stencil", &[8, 8, 8]),
    ("stencil_items", &[8, 8, 8]),
    ("stencil_shared", &[8, 8, 8]),
    ("stencil_shared_items", &[8, 8, 8]),
    ("tree_sum", &[8, 8, 8]),
    ("tree_sum_items", &[8, 8, 8]),
    ("triad", &[4, 8, 8, 8, 8]),
    ("triad_items", &[4, 8, 8, 8, 8]),
];

#[test]
fn a_code_object_shows_all_kernels_with_their_arguments_for_each_processor() {
    if !clang_is_installed() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for (processor, sub_group) in [("gfx90a", 64), ("gfx942", 64), ("gfx1100", 32), ("gfx1201", 32)]
    {
        let image = folder.path().join(processor);
        let mut clang = Command::new("clang-19");
        clang.args(["--target=amdgcn-amd-amdhsa", "-nogpulib", "-ffreestanding", "-fuse-ld=lld"]);
        clang.arg(format!("-mcpu={processor}")).arg("-O2").arg("-I").arg(root.join("include"));
        clang.arg(root.join("tests/kernels/kernels.c")).arg("-o").arg(&image);
        let output = clang.output().unwrap();
        assert!(output.status.success(), "{clang:?}: {}", String::from_utf8_lossy(&output.stderr));

        let file = inspect(&image);
        let shown = &file["images"][0];
        assert_eq!(shown["format"], "code-object");
        assert_eq!(shown["architecture"], processor);
        assert_eq!((&shown["problems"], &shown["undefined"]), (&json!([]), &json!([])));
        let text = longshore(&["inspect", image.to_str().unwrap()]);
        text.assert_succeeds();
        let mut kernels = shown["kernels"].as_array().unwrap().clone();
        kernels.sort_by_key(|kernel| kernel["name"].to_string());
        assert_eq!(kernels.len(), KERNELS.len(), "{processor}: {:?}", names(&shown["kernels"]));
        for (kernel, (name, bytes)) in kernels.iter().zip(KERNELS) {
            let context = format!("{processor}: {kernel:#}");
            assert_eq!(kernel["name"], name, "{context}");
            // The compiler's layout and the source's declaration agree.
            let (known, described) = (&kernel["metadata"], &kernel["description"]);
            assert_eq!(known["argument_sizes"], json!(bytes), "{context}");
            assert_eq!(known["sub_group_items"], sub_group, "{context}");
            let arguments = described["arguments"].as_array().unwrap();
            let sizes: Vec<_> = arguments.iter().map(|argument| &argument["bytes"]).collect();
            assert_eq!(json!(sizes), json!(bytes), "{context}");
            let declared = described["declaration"].as_str().unwrap();
            let is_of_kernel = |line: &&str| line.split(' ').next() == Some(name);
            let line = text.stdout.lines().find(is_of_kernel);
            assert!(line.is_some_and(|line| line.contains(declared)), "{}", text.stdout);
        }
    }
}

#[test]
fn instrumented_objects_show_their_profile_sections() {
    if !clang_is_installed() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let flags = ["-c", "-fPIC", "-fprofile-generate"];
    let file = inspect(&compile(folder.path(), "c", "image.o", &flags));
    let image = &file["images"][0];
    for kind in ["counters", "data", "names"] {
        assert!(image["profile"]["sections"][kind].as_u64().unwrap() > 0, "{image:#}");
    }
    let raw_version = image["profile"]["raw_version"].as_u64().unwrap();
    assert_eq!(raw_version & 0xffff_ffff, 10, "{raw_version:#x}");
}

/// Creates a container with a shared object for this machine and a PTX text.
fn container(folder: &Path) -> PathBuf {
    let source = folder.join("plain.c");
    let text = "extern int elsewhere; void run(void **a) { *(int *)a[0] = elsewhere; }\n\
                unsigned __longshore_arguments_run[] = {4};\n";
    std::fs::write(&source, text).unwrap();
    let library = folder.join("plain.so");
    let mut compile = Command::new("cc");
    compile.args(["-shared", "-fPIC", "-nostdlib", "-o"]).arg(&library).arg(source);
    assert!(compile.status().unwrap().success());
    let library = std::fs::read(library).unwrap();
    let image = |offload_kind, triple, arch, bytes| {
        OffloadImage::new(bytes)
            .with_image_kind(ImageKind::Object)
            .with_offload_kind(offload_kind)
            .with_triple(triple)
            .with_arch(arch)
    };
    let packed = write_offload_binary(&[
        image(OffloadKind::OpenMp, "x86_64-unknown-linux-gnu", "x86-64-v3", &library),
        image(OffloadKind::Cuda, "nvptx64-nvidia-cuda", "sm_90", b".version 8.0\n.target sm_90\n"),
    ]);
    let path = folder.join("fat.bin");
    std::fs::write(&path, packed).unwrap();
    path
}

#[test]
fn a_container_shows_its_entries_with_their_contents() {
    let folder = tempfile::tempdir().unwrap();
    let path = container(folder.path());
    let file = inspect(&path);
    assert_eq!((&file["format"], &file["container"]), (&json!("offload-binary"), &json!(true)));
    let images = file["images"].as_array().unwrap();
    assert_eq!(images.len(), 2);
    assert_eq!(images[0]["entry"]["offload_kind"], "openmp");
    assert_eq!(images[0]["entry"]["triple"], "x86_64-unknown-linux-gnu");
    assert_eq!(images[0]["entry"]["arch"], "x86-64-v3");
    assert_eq!(images[0]["undefined"], json!(["elsewhere"]));
    let kernel = &images[0]["kernels"][0];
    assert_eq!((&kernel["name"], &kernel["description"]), (&json!("run"), &Value::Null));
    assert_eq!(kernel["metadata"]["form"], "host form");
    assert_eq!(kernel["metadata"]["argument_sizes"], json!([4]));
    assert_eq!(images[1]["architecture"], "sm_90");

    let shown = longshore(&["inspect", path.to_str().unwrap()]);
    shown.assert_succeeds();
    for text in ["IMAGE", "openmp", "x86-64-v3", "sm_90", "KERNEL", "host form", "elsewhere"] {
        assert!(shown.stdout.contains(text), "no '{text}' in: {}", shown.stdout);
    }
}

/// Creates a fatbin of uncompressed PTX for these architectures, with these flags.
fn fatbin(entries: &[(u32, u64, &str)]) -> Vec<u8> {
    let mut body = Vec::new();
    for (arch, flags, text) in entries {
        let mut header = vec![0u8; 64];
        header[..8].copy_from_slice(&[1, 0, 1, 1, 64, 0, 0, 0]);
        header[8..16].copy_from_slice(&(text.len() as u64).to_le_bytes());
        header[28..32].copy_from_slice(&arch.to_le_bytes());
        header[40..48].copy_from_slice(&flags.to_le_bytes());
        body.extend(header);
        body.extend(text.bytes());
    }
    let head = [0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0];
    [&head[..], &(body.len() as u64).to_le_bytes(), &body].concat()
}

#[test]
fn a_fatbin_shows_its_entries_alone_and_in_a_container() {
    const TEXT: &str =
        ".version 8.0\n.target sm_90a\n.visible .entry run(.param .u64 x)\n{ ret; }\n";
    let folder = tempfile::tempdir().unwrap();
    let fatbin = fatbin(&[(90, 0x10_0000, TEXT), (80, 0, TEXT)]);
    let packed = write_offload_binary(&[OffloadImage::new(&fatbin)
        .with_image_kind(ImageKind::Fatbinary)
        .with_offload_kind(OffloadKind::Cuda)
        .with_triple("nvptx64-nvidia-cuda")]);
    let path = folder.path().join("image");
    for bytes in [&fatbin, &packed] {
        std::fs::write(&path, bytes).unwrap();
        let file = inspect(&path);
        assert_eq!((&file["container"], &file["problem"]), (&json!(true), &Value::Null));
        let images = file["images"].as_array().unwrap();
        let arch: Vec<_> = images.iter().map(|image| &image["entry"]["arch"]).collect();
        assert_eq!(arch, ["sm_90a", "sm_80"]);
        assert_eq!(images[0]["entry"]["image_kind"], "ptx");
        assert_eq!(images[0]["entry"]["properties"], json!({"compressed": "false"}));
        assert_eq!(images[0]["architecture"], "sm_90a");
        assert_eq!(names(&images[0]["kernels"]), ["run"]);
    }
    std::fs::write(&path, &fatbin[..fatbin.len() - 1]).unwrap();
    let file = inspect(&path);
    assert!(file["problem"].as_str().unwrap().contains("fatbin"), "{file:#}");
}

#[test]
fn archives_show_their_members() {
    let folder = tempfile::tempdir().unwrap();
    container(folder.path());
    let (object, archive) = (folder.path().join("plain.o"), folder.path().join("plain.a"));
    let source = folder.path().join("plain.c");
    assert!(
        Command::new("cc").args(["-c", "-o"]).arg(&object).arg(source).status().unwrap().success()
    );
    assert!(Command::new("ar").arg("rcs").arg(&archive).arg(object).status().unwrap().success());
    let file = inspect(&archive);
    let member = &file["images"][0]["members"][0];
    assert_eq!(member["member"], "plain.o");
    assert_eq!(names(&member["kernels"]), ["run"]);
}

/// Compiles a compute shader with this entry point by glslang; `None` if glslang is not installed.
fn glsl(folder: &Path, entry_point: &str, source: &str) -> Option<PathBuf> {
    let (text, image) = (folder.join("source.comp"), folder.join(format!("{entry_point}.spv")));
    std::fs::write(&text, source).unwrap();
    let mut glslang = Command::new("glslangValidator");
    glslang.args(["-V", "--target-env", "vulkan1.2", "--source-entrypoint", "main"]);
    let Ok(output) = glslang.args(["-e", entry_point]).arg(&text).arg("-o").arg(&image).output()
    else {
        println!("glslangValidator is not installed; nothing was tried");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    Some(image)
}

const GLOBALS: &str = "#version 450
    #extension GL_EXT_buffer_reference : require
    #extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
    layout(buffer_reference, std430) buffer Floats { float v[]; };
    layout(buffer_reference, std430) buffer Globals { uint counter; uint64_t llvm_prf_cnts[4]; };
";

#[test]
fn a_vulkan_module_shows_places_of_arguments_and_required_features() {
    let folder = tempfile::tempdir().unwrap();
    let source = GLOBALS.to_owned()
        + "layout(local_size_x_id = 0, local_size_y = 2) in;
        layout(constant_id = 3) const uint longshore_dynamic_shared_bytes = 0;
        layout(constant_id = 4) const uint longshore_subgroup_size = 32;
        layout(push_constant) uniform P { uint n; float a; Floats x; Globals longshore_globals; };
        layout(set = 0, binding = 2) buffer Y { float v[]; } y;
        shared float tile[64];
        shared uint scratch[longshore_dynamic_shared_bytes / 4 + 1];
        void main() {
            scratch[0] = longshore_subgroup_size;
            tile[0] = a;
            if (n > 0) y.v[0] = tile[0] * x.v[0] + float(scratch[0]);
            longshore_globals.counter = n;
        }";
    let Some(path) = glsl(folder.path(), "axpy", &source) else { return };
    let file = inspect(&path);
    let image = &file["images"][0];
    assert_eq!((&image["format"], &image["problems"]), (&json!("spirv"), &json!([])), "{image:#}");
    assert_eq!(image["requirements"]["version"], "1.5");
    let capabilities = image["requirements"]["capabilities"].as_array().unwrap();
    assert!(capabilities.contains(&json!("PhysicalStorageBufferAddresses")), "{image:#}");
    assert_eq!(image["facts"]["globals"], "40 bytes, by push constants at 16");
    let globals = json!([{"name": "counter", "bytes": 4}, {"name": "llvm_prf_cnts", "bytes": 32}]);
    assert_eq!(image["globals"], globals);
    assert_eq!(image["profile"]["sections"], json!({"counters": 32}));
    assert_eq!(names(&image["kernels"]), ["axpy"]);
    let known = &image["kernels"][0]["metadata"];
    let pushed = |name, bytes, kind, offset| {
        json!({"name": name, "bytes": bytes, "kind": kind, "memory": "push constants",
               "set": null, "binding": null, "offset": offset})
    };
    let bound = json!({"name": "y", "bytes": 8, "kind": "pointer", "memory": "storage buffer",
                       "set": 0, "binding": 2, "offset": null});
    let parameters = json!([
        pushed("n", 4, "value", 0),
        pushed("a", 4, "value", 4),
        pushed("x", 8, "pointer", 8),
        bound,
    ]);
    assert_eq!(known["parameters"], parameters, "{known:#}");
    assert_eq!(known["argument_sizes"], json!([4, 4, 8, 8]));
    assert_eq!(
        (&known["required_group"], &known["default_group"]),
        (&json!([0, 2, 1]), &json!([1, 2, 1]))
    );
    assert_eq!(
        (&known["static_shared_bytes"], &known["dynamic_shared"]),
        (&json!(256), &json!(true))
    );
    assert_eq!(known["sub_group_items"], 32);

    let shown = longshore(&["inspect", path.to_str().unwrap()]);
    shown.assert_succeeds();
    for text in [
        "Int64",
        "pointer y in storage buffer 0.2",
        "4 a in push constants at 4",
        "groups of ?x2x1, by default 1x2x1",
        "sub-groups of 32",
    ] {
        assert!(shown.stdout.contains(text), "no '{text}' in: {}", shown.stdout);
    }
}

#[test]
fn constructors_of_a_module_for_vulkan_have_priorities_and_are_no_kernels() {
    let folder = tempfile::tempdir().unwrap();
    let source = GLOBALS.to_owned()
        + "layout(push_constant) uniform P { Globals longshore_globals; };
        void main() { longshore_globals.counter = 7; }";
    for (entry_point, steps) in [
        ("longshore_constructor_101_tables", "constructors"),
        ("longshore_destructor_101", "destructors"),
    ] {
        let Some(path) = glsl(folder.path(), entry_point, &source) else { return };
        let file = inspect(&path);
        let image = &file["images"][0];
        assert_eq!(image[steps], json!([{"priority": 101, "count": 1}]), "{image:#}");
        assert_eq!(image["kernels"], json!([]));
    }
}

const WGSL: &str = "
    @group(0) @binding(1) var<storage, read_write> y: array<f32>;
    @group(1) @binding(0) var<uniform> factor: f32;
    @compute @workgroup_size(16, 2) fn scale(@builtin(global_invocation_id) at: vec3<u32>) {
        y[at.x] = y[at.x] * factor;
    }";

/// Translates [`WGSL`] by naga to big-endian SPIR-V.
fn spirv_of_wgsl() -> Vec<u8> {
    let module = naga::front::wgsl::parse_str(WGSL).unwrap();
    let (flags, all) = (naga::valid::ValidationFlags::all(), naga::valid::Capabilities::all());
    let info = naga::valid::Validator::new(flags, all).validate(&module).unwrap();
    let mut options = naga::back::spv::Options::default();
    options.flags.insert(naga::back::spv::WriterFlags::DEBUG);
    let words = naga::back::spv::write_vec(&module, &info, &options, None).unwrap();
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

#[test]
fn wgsl_and_spirv_in_a_container_are_the_same_kernel() {
    let folder = tempfile::tempdir().unwrap();
    let spirv = spirv_of_wgsl();
    let image = |image_kind, triple, bytes| {
        OffloadImage::new(bytes).with_image_kind(image_kind).with_triple(triple)
    };
    let packed = write_offload_binary(&[
        image(ImageKind::Spirv, "spirv-unknown-vulkan1.2-compute", &spirv),
        image(ImageKind::None, "", WGSL.as_bytes()),
    ]);
    let path = folder.path().join("fat.bin");
    std::fs::write(&path, packed).unwrap();
    let file = inspect(&path);
    let images = file["images"].as_array().unwrap();
    assert_eq!((&images[0]["format"], &images[1]["format"]), (&json!("spirv"), &json!("wgsl")));
    assert_eq!(images[0]["entry"]["image_kind"], "spirv");
    for image in images {
        assert_eq!(image["problems"], json!([]), "{image:#}");
        let known = &image["kernels"][0]["metadata"];
        assert_eq!(names(&image["kernels"]), ["scale"]);
        assert_eq!(names(&known["parameters"]), ["y", "factor"], "{image:#}");
        assert_eq!(known["parameters"][1]["memory"], "uniform buffer");
        assert_eq!(known["required_group"], json!([16, 2, 1]));
    }
}

#[test]
fn a_module_that_cannot_be_reflected_is_a_problem() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.spv");
    let spirv = spirv_of_wgsl();
    for end in [4, 16, spirv.len() - 4] {
        std::fs::write(&path, &spirv[..end]).unwrap();
        let file = inspect(&path);
        let image = &file["images"][0];
        assert_eq!((&image["format"], &image["kernels"]), (&json!("spirv"), &json!([])));
        assert_eq!(image["problems"].as_array().unwrap().len(), 1, "{image:#}");
    }
}

#[test]
fn no_plugin_is_needed_and_other_files_are_named_as_such() {
    let (folder, mut command) = alone();
    let junk = folder.path().join("junk");
    std::fs::write(&junk, "neither code nor data").unwrap();
    let shown = outcome(command.arg("inspect").arg(&junk));
    shown.assert_succeeds();
    assert!(shown.stdout.contains("unknown"), "{}", shown.stdout);
    longshore(&["inspect", "/nonexistent/x.so"]).assert_fails(1, &["error: ", "/nonexistent/x.so"]);
    std::fs::write(&junk, b"\x10\xff\x10\xad\x01\0\0\0short").unwrap();
    let damaged = inspect(&junk);
    assert!(damaged["problem"].as_str().unwrap().contains("cut off"), "{damaged}");
}
