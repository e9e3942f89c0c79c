//! Containers as images for a program: the entry that a device gets, with a plugin that scores
//! entries and with one that does not.

use longshore::{
    Device, ErrorCode, Grid, Image, ImageKind, OffloadImage, OffloadKind, write_offload_binary,
};
use longshore_conformance::TrustedImages;
use longshore_tests::world::{World, copy_into, host_plugin};
use std::path::{Path, PathBuf};
use std::process::Command;

fn host_device(world: &World) -> Device {
    copy_into(world, &host_plugin());
    world.host().build().unwrap().default_device().unwrap()
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Links a shared object, or another file by `flags`, whose kernel `answer` writes `number`.
fn answering(folder: &Path, number: u32, flags: &[&str]) -> PathBuf {
    let source = folder.join(format!("answer{number}.c"));
    let text = format!(
        "__attribute__((visibility(\"default\"))) void answer(void **args) {{\n\
             **(unsigned **)args[0] = {number};\n}}\nint main(void) {{ return 0; }}\n"
    );
    std::fs::write(&source, text).unwrap();
    let file = source.with_extension("image");
    run(Command::new("gcc").arg("-o").arg(&file).arg(&source).args(flags));
    file
}

fn shared(folder: &Path, number: u32) -> Vec<u8> {
    std::fs::read(answering(folder, number, &["-shared", "-fPIC"])).unwrap()
}

/// Returns the result of the image's kernel `answer`.
pub(super) fn answer(device: &Device, image: impl Into<Image>) -> longshore::Result<u32> {
    let program = device.load_trusted(image)?;
    let queue = device.queue()?;
    let out = device.buffer_of(&queue, &[0u32])?;
    // SAFETY: `answer` takes a pointer to one number.
    unsafe { queue.launch(&program.kernel("answer")?, Grid::default(), (&out,))? };
    Ok(out.to_vec(&queue)?[0])
}

/// Returns the triple of this machine.
pub(super) fn own_triple() -> String {
    format!("{}-unknown-linux-gnu", std::env::consts::ARCH)
}

fn packed(entries: &[(&str, &str, &[u8])]) -> Vec<u8> {
    let image = |&(triple, arch, bytes): &(_, _, _)| {
        OffloadImage::new(bytes)
            .with_image_kind(ImageKind::Object)
            .with_offload_kind(OffloadKind::OpenMp)
            .with_triple(triple)
            .with_arch(arch)
    };
    write_offload_binary(&entries.iter().map(image).collect::<Vec<_>>())
}

/// Returns a processor level that every CPU of this machine supports, a high level, and whether
/// this CPU supports the high one.
#[cfg(target_arch = "x86_64")]
fn levels() -> (&'static str, &'static str, bool) {
    ("x86-64", "x86-64-v4", std::arch::is_x86_feature_detected!("avx512vl"))
}

#[cfg(target_arch = "aarch64")]
fn levels() -> (&'static str, &'static str, bool) {
    ("armv8-a", "armv9-a", std::arch::is_aarch64_feature_detected!("sve2"))
}

#[test]
fn the_cpu_gets_the_highest_level_that_it_has() {
    let world = World::new();
    let device = host_device(&world);
    let images = [1, 2, 3, 4].map(|number| shared(world.path(), number));
    let (low, high, has_high) = levels();
    let triple = own_triple();
    let container = packed(&[
        ("nvptx64-nvidia-cuda", "sm_90", &images[0]),
        (&triple, "", &images[1]),
        (&triple, high, &images[2]),
        (&triple, low, &images[3]),
    ]);
    assert_eq!(answer(&device, container).unwrap(), if has_high { 3 } else { 4 });
    let equal = packed(&[(&triple, low, &images[1]), (&triple, low, &images[0])]);
    assert_eq!(answer(&device, equal).unwrap(), 2, "the first of equals");
}

#[test]
fn if_nothing_fits_the_error_names_every_entry_and_why() {
    let world = World::new();
    let device = host_device(&world);
    let image = shared(world.path(), 1);
    let container = packed(&[
        ("nvptx64-nvidia-cuda", "sm_90", b"//\n.version 8.0\n"),
        (&own_triple(), "hal9000", &image),
    ]);
    let error = device.load_trusted(container).err().unwrap();
    assert_eq!(error.code(), ErrorCode::InvalidBinary);
    let lines: Vec<_> = error.message().lines().collect();
    assert!(lines[0].contains("2 images"), "{error}");
    assert!(lines[1].contains("openmp, nvptx64-nvidia-cuda, sm_90") && lines[1].contains("ptx"));
    assert!(lines[2].contains("hal9000, ") && lines[2].contains("another architecture"), "{error}");
}

#[test]
fn modules_for_vulkan_are_shown_to_every_plugin() {
    let world = World::new();
    let device = host_device(&world);
    let image = |image_kind, triple, bytes| {
        OffloadImage::new(bytes).with_image_kind(image_kind).with_triple(triple)
    };
    let container = write_offload_binary(&[
        image(ImageKind::Spirv, "spirv64-unknown-unknown", b"\x03\x02\x23\x07 and so on"),
        image(ImageKind::None, "spirv-unknown-vulkan", b"@compute @workgroup_size(1) fn f() {}"),
    ]);
    let error = device.load_trusted(container).err().unwrap();
    assert_eq!(error.code(), ErrorCode::InvalidBinary);
    let message = error.to_string();
    let refused: Vec<_> =
        message.lines().filter(|line| line.starts_with("  none, spirv")).collect();
    assert_eq!(refused.len(), 2, "{message}");
    assert!(refused[0].contains("bytes, spirv: the image starts"), "the plugin's word: {message}");
    assert!(refused[1].contains("bytes, wgsl: the image starts"), "the plugin's word: {message}");
}

#[test]
fn a_damaged_container_is_an_invalid_binary() {
    let world = World::new();
    let device = host_device(&world);
    let container = packed(&[(&own_triple(), "", &shared(world.path(), 1))]);
    let error = device.load_trusted(&container[..container.len() - 64]).err().unwrap();
    assert_eq!(error.code(), ErrorCode::InvalidBinary);
    assert!(error.message().contains("OffloadBinary at offset 0"), "{error}");
}

/// Adds a section with `content` to an ELF file.
fn embed(file: &Path, name: &str, content: &[u8]) -> Vec<u8> {
    let (section, fat) = (file.with_extension("section"), file.with_extension("fat"));
    std::fs::write(&section, content).unwrap();
    let add = format!("{name}={}", section.display());
    run(Command::new("objcopy").arg("--add-section").arg(add).arg(file).arg(&fat));
    std::fs::read(fat).unwrap()
}

#[test]
fn a_fat_executable_gives_an_entry_and_a_fat_shared_object_itself() {
    let world = World::new();
    let device = host_device(&world);
    let container = packed(&[(&own_triple(), "", &shared(world.path(), 1))]);
    for flags in [&["-no-pie"][..], &["-fPIE", "-pie"]] {
        let executable = answering(world.path(), 2, flags);
        assert_eq!(answer(&device, embed(&executable, ".llvm.offloading", &container)).unwrap(), 1);
        let plain = std::fs::read(&executable).unwrap();
        let error = device.load_trusted(plain).err().unwrap();
        assert_eq!(error.code(), ErrorCode::InvalidBinary);
        assert!(error.message().contains("executable"), "{error}");
    }
    let library = answering(world.path(), 3, &["-shared", "-fPIC"]);
    assert_eq!(answer(&device, embed(&library, ".llvm.offloading", &container)).unwrap(), 3);
}

/// Returns an offload bundle with one image for this machine, at an odd offset.
fn bundle(image: &[u8]) -> Vec<u8> {
    let id = format!("openmp-{}-", own_triple());
    let start = 32 + 24 + id.len() + usize::from(id.len().is_multiple_of(2));
    let mut bundle = b"__CLANG_OFFLOAD_BUNDLE__".to_vec();
    for number in [1, start, image.len(), id.len()] {
        bundle.extend((number as u64).to_le_bytes());
    }
    bundle.extend(id.bytes());
    bundle.resize(start, 0);
    bundle.extend(image);
    bundle
}

#[test]
fn an_entry_at_an_odd_offset_is_loaded_also_from_a_section_of_hip() {
    let world = World::new();
    let device = host_device(&world);
    let bundle = bundle(&shared(world.path(), 7));
    assert_eq!(answer(&device, &bundle).unwrap(), 7);
    let executable = answering(world.path(), 2, &["-no-pie"]);
    assert_eq!(answer(&device, embed(&executable, ".hip_fatbin", &bundle)).unwrap(), 7);
}

/// Returns an image for the sample plugin, with a kernel named `which`.
fn ops(which: &str) -> Vec<u8> {
    let text = format!("longshore-ops 1\nkernel {which} = nop\n");
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    format!("{text}checksum {hash:016x}\n").into_bytes()
}

#[test]
fn a_plugin_without_scores_gets_the_entry_of_its_own_architecture_else_the_first() {
    let world = World::new();
    world.add_sample("sample", &[]);
    let device = world.host().build().unwrap().default_device().unwrap();
    let images = ["first", "second", "third"].map(ops);
    let loads = |entries: &[(&str, &str, &[u8])], kernel: &str| {
        let program = device.load_trusted(packed(entries)).unwrap();
        assert!(program.kernel(kernel).is_ok(), "{:?}", program.symbols());
    };
    loads(&[("", "a", &images[0]), ("", "ops", &images[1]), ("", "ops", &images[2])], "second");
    loads(&[("", "x", b"junk"), ("", "a", &images[0]), ("", "b", &images[1])], "first");
}
