//! Checks by the validator of this machine, or by the compiled-in one.

use super::{Layouts, Validator};
use longshore_format_spirv::{Module, Target};
use longshore_plugin_api::ErrorCode;

const TARGET: Target = Target::new(128);

const WGSL: &[u8] = b"
    @group(0) @binding(0) var<storage, read_write> numbers: array<u32>;
    @compute @workgroup_size(1)
    fn bump() { numbers[0] += 1u; }
";
/// Number of words of SPIR-V's header.
const HEADER: usize = 5;

/// Returns the validator; `None` if this machine has none, which is a failure where tests must run.
fn validator() -> Option<Validator> {
    let validator = Validator::new(false, None);
    let description = validator.description();
    if description.starts_with("none") {
        assert!(std::env::var_os("CI").is_none(), "{description}");
        println!("nothing is tried: {description}");
        return None;
    }
    Some(validator)
}

/// Returns the words of a module with one opcode replaced by another in every instruction.
fn with_opcode_changed(module: &Module, from: u32, to: u32) -> Vec<u8> {
    let mut words = module.words().to_vec();
    let mut at = HEADER;
    while let Some(first) = words.get_mut(at) {
        let (length, opcode) = (*first >> 16, *first & 0xffff);
        if opcode == from {
            *first = length << 16 | to;
        }
        at += length as usize;
    }
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Returns a module in SPIR-V that breaks a rule.
fn broken() -> Module {
    const I_ADD: u32 = 128;
    const F_ADD: u32 = 129;
    let broken = with_opcode_changed(&Module::parse(WGSL, TARGET).unwrap(), I_ADD, F_ADD);
    Module::parse(&broken, TARGET).unwrap()
}

#[test]
fn a_valid_module_passes_for_each_version_of_vulkan() {
    let Some(validator) = validator() else { return };
    let wgsl = Module::parse(WGSL, TARGET).unwrap();
    for vulkan in [(1, 2), (1, 3)] {
        assert!(validator.vouches_for(&wgsl, vulkan, Layouts::default()));
        validator.check(&wgsl, vulkan, Layouts::default()).unwrap();
    }
}

#[test]
fn a_module_that_reads_well_but_breaks_a_rule_is_an_invalid_binary_with_the_rule() {
    let Some(validator) = validator() else { return };
    for vulkan in [(1, 2), (1, 3)] {
        let error = validator.check(&broken(), vulkan, Layouts::default()).unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidBinary);
        assert!(error.message().contains("FAdd"), "{error}");
    }
}

#[cfg(not(feature = "spirv-tools"))]
mod without_a_validator {
    use super::*;
    use crate::validate::Folder;
    use std::path::Path;

    /// Returns a missing validator, or the one in `folder`.
    fn missing(is_required: bool, folder: Option<&Folder>) -> Validator {
        let path = folder.map_or(Path::new("/nowhere"), Folder::path);
        Validator::looked_for("/nowhere/libSPIRV-Tools.so", path, is_required)
    }

    #[test]
    fn modules_pass_and_nothing_is_vouched_for() {
        let validator = missing(false, None);
        let module = broken();
        assert!(!validator.vouches_for(&module, (1, 3), Layouts::default()));
        validator.check(&module, (1, 3), Layouts::default()).unwrap();
    }

    #[test]
    fn a_required_one_makes_it_an_error_that_says_what_to_install() {
        let validator = missing(true, None);
        let error = validator.check(&broken(), (1, 3), Layouts::default()).unwrap_err();
        assert_eq!(error.code(), ErrorCode::HostToolNotFound);
        for text in ["/nowhere/libSPIRV-Tools.so", "spirv-val: not in PATH", "package spirv-tools"]
        {
            assert!(error.message().contains(text), "{error}");
            assert!(validator.description().contains(text), "{}", validator.description());
        }
    }

    #[test]
    fn a_module_that_was_vouched_for_is_refused_if_the_validator_is_gone_by_then() {
        let folder = Folder::with_validator();
        let validator = missing(false, Some(&folder));
        assert!(validator.vouches_for(&broken(), (1, 3), Layouts::default()));
        folder.clear();
        let error = validator.check(&broken(), (1, 3), Layouts::default()).unwrap_err();
        assert_eq!(error.code(), ErrorCode::HostToolNotFound, "{error}");
    }

    #[test]
    fn a_validator_that_fails_on_a_module_is_an_error_and_no_pass() {
        let folder = Folder::with_validator_that("if [ $words -gt 40 ]; then kill -SEGV $$; fi");
        let validator = missing(false, Some(&folder));
        let error = validator.check(&broken(), (1, 3), Layouts::default()).unwrap_err();
        assert_eq!(error.code(), ErrorCode::BackendFailure, "{error}");
        assert!(error.message().contains("signal: 11"), "{error}");
    }
}
