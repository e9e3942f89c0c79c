//! What the tests of this crate share.
#![allow(dead_code)]

use std::io::Write;
use std::process::{Command, Stdio};

use longshore_format_spirv::{Format, Kernel, Module, Target};
use spirv_tools::TargetEnv;
use spirv_tools::val::{Validator, ValidatorOptions};

/// More push constants than any module here has.
pub(crate) const MANY: Target = Target::new(1 << 16);

/// Compiles GLSL by glslang, or says that it is not there.
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

/// The module that this is, which must be valid.
pub(crate) fn module(image: &[u8]) -> Module {
    module_for(image, MANY)
}

/// The module that this is on a device with so many bytes of push constants, which must be valid.
pub(crate) fn module_with(image: &[u8], push_constant_bytes: u32) -> Module {
    module_for(image, Target::new(push_constant_bytes))
}

/// The module that this is on a device, which must be valid.
pub(crate) fn module_for(image: &[u8], target: Target) -> Module {
    let module = Module::parse(image, target).unwrap_or_else(|fault| panic!("{fault}"));
    let environment = match module.format() {
        Format::Spirv => TargetEnv::Vulkan_1_3,
        Format::Wgsl => TargetEnv::Universal_1_5,
    };
    let options = ValidatorOptions { scalar_block_layout: true, ..ValidatorOptions::default() };
    let validator = spirv_tools::val::create(Some(environment));
    validator.validate(module.words(), Some(options)).unwrap_or_else(|error| panic!("{error:?}"));
    module
}

/// Its only kernel.
pub(crate) fn only(module: &Module) -> &Kernel {
    let [kernel] = module.kernels() else { panic!("{:?}", module.kernels()) };
    kernel
}

/// The module of these words, which must be valid.
pub(crate) fn from_words(words: &[u32]) -> Module {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    module(&bytes)
}
