//! Helpers of this crate's tests.
use std::io::Write;
use std::process::{Command, Stdio};

use crate::{Format, Kernel, Module, Target};

/// A target with more push constants than any module here has.
pub(crate) const MANY: Target = Target::new(1 << 16);

/// Compiles GLSL by glslang; prints a message if it is not installed.
pub(crate) fn glsl(source: &str, arguments: &[&str]) -> Option<Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("out.spv");
    let child = Command::new("glslangValidator")
        .args(["--stdin", "-S", "comp", "-V", "-o"])
        .arg(&output)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        eprintln!("skipped: glslangValidator cannot be run");
        return None;
    };
    child.stdin.take().unwrap().write_all(source.as_bytes()).unwrap();
    let done = child.wait_with_output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
    Some(std::fs::read(output).unwrap())
}

/// Returns the module of an image, which must be valid.
pub(crate) fn module(image: &[u8]) -> Module {
    module_for(image, MANY)
}

/// Returns the module of an image, which must be valid, for a device with this number of bytes of
/// push constants.
pub(crate) fn module_with(image: &[u8], push_constant_bytes: u32) -> Module {
    module_for(image, Target::new(push_constant_bytes))
}

/// Returns the module of an image, which must be valid, for a device.
pub(crate) fn module_for(image: &[u8], target: Target) -> Module {
    let module = Module::parse(image, target).unwrap_or_else(|fault| panic!("{fault}"));
    validate(&module);
    module
}

/// Validates a module by SPIRV-Tools; prints a message if they are not installed.
fn validate(module: &Module) {
    let environment = match module.format() {
        Format::Spirv => "vulkan1.3",
        Format::Wgsl => "spv1.5",
    };
    let file = tempfile::NamedTempFile::new().unwrap();
    let bytes: Vec<u8> = module.words().iter().flat_map(|word| word.to_le_bytes()).collect();
    std::fs::write(file.path(), bytes).unwrap();
    let mut validator = Command::new("spirv-val");
    validator.args(["--target-env", environment, "--scalar-block-layout"]).arg(file.path());
    let Ok(done) = validator.output() else {
        assert!(std::env::var_os("CI").is_none(), "spirv-val cannot be run");
        return eprintln!("not validated: spirv-val cannot be run");
    };
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// Returns a module's only kernel.
pub(crate) fn only(module: &Module) -> &Kernel {
    let [kernel] = module.kernels() else { panic!("{:?}", module.kernels()) };
    kernel
}

/// Returns the module of these words, which must be valid.
pub(crate) fn from_words(words: &[u32]) -> Module {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    module(&bytes)
}
