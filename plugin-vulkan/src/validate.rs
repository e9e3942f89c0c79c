//! What SPIRV-Tools says of a module. Here and not in `longshore-spirv`: it is C++, which the command, which
//! reads modules too, must not bring into the processes of the programs that it links.

use longshore_plugin_api::{Error, ErrorCode, Result};
use longshore_spirv::{Format, Module};
use spirv_tools::TargetEnv;
use spirv_tools::val::{self, Validator, ValidatorOptions};

/// Checks a module by the rules of SPIR-V and, if it was not translated, of Vulkan 1.2 or 1.3. Blocks
/// may have any layout that `scalarBlockLayout` allows.
pub(crate) fn validate(module: &Module, vulkan: (u32, u32)) -> Result<()> {
    let words = module.words();
    let environment = match (module.format(), vulkan) {
        (Format::Wgsl, _) => TargetEnv::Universal_1_5,
        (Format::Spirv, version) if version < (1, 3) => TargetEnv::Vulkan_1_2,
        (Format::Spirv, _) => TargetEnv::Vulkan_1_3,
    };
    check(words, environment).or_else(|error| {
        match error.message().contains(LAYOUT_WHERE_NONE_COUNTS) {
            // The validator stops at the first breach, so this goes without Vulkan's other rules.
            true => check(words, TargetEnv::Universal_1_6),
            false => Err(error),
        }
    })
}

/// Explicit layouts on types that are used where a layout has no meaning, as in variables of functions.
/// Compilers from before 2025 write such modules, and drivers take them.
const LAYOUT_WHERE_NONE_COUNTS: &str = "VUID-StandaloneSpirv-None-10684";

fn check(words: &[u32], environment: TargetEnv) -> Result<()> {
    let options = ValidatorOptions { scalar_block_layout: true, ..ValidatorOptions::default() };
    val::create(Some(environment)).validate(words, Some(options)).map_err(|error| {
        let Some(said) = error.diagnostic else {
            return malformed(format!("the validator says {:?}", error.inner));
        };
        malformed(format!("{}\n{}", said.message, said.notes).trim_end().to_owned())
    })
}

fn malformed(message: String) -> Error {
    Error::new(ErrorCode::InvalidBinary, message)
}
