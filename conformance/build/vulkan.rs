//! SPIR-V images from GLSL and from SPIR-V assembly: clang has no SPIR-V for Vulkan.

use crate::images::{Image, are_installed, place, sources};
use crate::read;
use crate::text::included;
use std::path::Path;
use std::process::Command;

/// Compiles GLSL, and assembles the images that GLSL cannot express.
pub(crate) fn spirv(folder: &Path, out: &Path) -> Vec<Image> {
    if !are_installed("SPIR-V", &["glslangValidator", "spirv-link", "spirv-as"]) {
        return Vec::new();
    }
    let in_glsl = sources(folder, "comp");
    let in_assembly = sources(folder, "spvasm");
    let linked = in_glsl.iter().map(|source| compile_glsl(source, out));
    linked.chain(in_assembly.iter().map(|source| assemble(source, out))).collect()
}

/// Compiles a GLSL source once for each entry point, because a module from GLSL has one, and links
/// the modules.
fn compile_glsl(source: &Path, out: &Path) -> Image {
    let file = place(out, source, "spv");
    let mut linker = Command::new("spirv-link");
    linker.args(["--target-env", "vulkan1.2", "-o"]).arg(&file);
    let mut commands = Vec::new();
    for entry_point in entry_points(source) {
        let module = file.with_extension(format!("{entry_point}.module"));
        let mut compiler = Command::new("glslangValidator");
        compiler.args(["--quiet", "--target-env", "vulkan1.2", "-S", "comp"]);
        compiler.args(["--source-entrypoint", "main", "-e", &entry_point]);
        compiler.arg(format!("-D{entry_point}")).arg("-o").arg(&module).arg(source);
        linker.arg(module);
        commands.push(compiler);
    }
    commands.push(linker);
    Image::new("spirv", file, commands)
}

/// Returns the names after `#ifdef` in a source and its included files, in order.
fn entry_points(source: &Path) -> Vec<String> {
    let names = |line: &str| match line.strip_prefix("#ifdef ") {
        Some(name) => vec![name.to_owned()],
        None => included(line)
            .map(|file| entry_points(&source.with_file_name(file)))
            .unwrap_or_default(),
    };
    read(source).lines().flat_map(names).collect()
}

fn assemble(source: &Path, out: &Path) -> Image {
    let file = place(out, source, "spv");
    let mut assembler = Command::new("spirv-as");
    assembler.args(["--target-env", "spv1.5", "-o"]).arg(&file).arg(source);
    Image::new("spirv", file, vec![assembler])
}
