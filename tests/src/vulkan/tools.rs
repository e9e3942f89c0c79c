//! SPIR-V modules, made by the tools of Debian's packages glslang-tools and spirv-tools.

use crate::world::root;
use std::path::Path;
use std::process::Command;

const COMPILER: &str = "glslangValidator";
const LINKER: &str = "spirv-link";
const ASSEMBLER: &str = "spirv-as";

/// Returns a tool that cannot be started, if there is one: the functions of this module need all
/// tools.
pub fn missing_tool() -> Option<&'static str> {
    let starts = |tool: &str| Command::new(tool).arg("--version").output().is_ok();
    [COMPILER, LINKER, ASSEMBLER].into_iter().find(|tool| !starts(tool))
}

/// Compiles a file of `tests/kernels/vulkan`; its entry point gets the file's name. Blocks.
///
/// # Panics
/// If the compiler fails.
pub fn compile_kernel(name: &str) -> Vec<u8> {
    let source = root().join("tests/kernels/vulkan").join(name).with_extension("comp");
    made(|image| compile(&source, name, image))
}

/// Compiles an entry point of a GLSL source. The entry point's name is defined for the
/// preprocessor. Blocks.
///
/// # Panics
/// If the compiler fails.
pub fn glsl(entry_point: &str, source: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("source.comp");
    std::fs::write(&file, source).expect("the folder can be written");
    made(|image| compile(&file, entry_point, image))
}

/// Compiles several entry points like [`glsl`], and links the modules in this order. Blocks.
///
/// # Panics
/// If a tool fails.
pub fn linked_glsl(entry_points: &[&str], source: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    made(|image| {
        let mut linker = Command::new(LINKER);
        linker.args(["--target-env", "vulkan1.2", "-o"]).arg(image);
        for entry_point in entry_points {
            let module = folder.path().join(entry_point);
            std::fs::write(&module, glsl(entry_point, source)).expect("the folder can be written");
            linker.arg(module);
        }
        linker
    })
}

/// Assembles a module. Blocks.
///
/// # Panics
/// If the assembler fails.
pub fn assembled(text: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("source.spvasm");
    std::fs::write(&file, text).expect("the folder can be written");
    made(|image| {
        let mut assembler = Command::new(ASSEMBLER);
        assembler.args(["--target-env", "spv1.5", "-o"]).arg(image).arg(&file);
        assembler
    })
}

fn compile(source: &Path, entry_point: &str, image: &Path) -> Command {
    let mut compiler = Command::new(COMPILER);
    compiler.args(["--quiet", "--target-env", "vulkan1.2", "-S", "comp"]);
    compiler.args(["--source-entrypoint", "main", "-e", entry_point]);
    compiler.arg(format!("-D{entry_point}")).arg("-o").arg(image).arg(source);
    compiler
}

/// Returns the output file of a command, which gets the file's path.
fn made(command: impl FnOnce(&Path) -> Command) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let image = folder.path().join("image.spv");
    let mut command = command(&image);
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    std::fs::read(image).expect("the tool wrote it")
}
