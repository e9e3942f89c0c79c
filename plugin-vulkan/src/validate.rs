//! What SPIRV-Tools says of a module. Here and not in `longshore-format-spirv`: it is C++, which the command, which
//! reads modules too, must not bring into the processes of the programs that it links.

use longshore_format_spirv::{Format, Module};
use longshore_plugin_api::{Error, ErrorCode, Result};
use spirv_tools::TargetEnv;
use spirv_tools::val::{self, Validator, ValidatorOptions};
use std::ffi::{c_int, c_void};

/// How blocks may be laid out.
#[derive(Clone, Copy, Default)]
pub(crate) struct Layouts {
    /// The feature `scalarBlockLayout`.
    pub(crate) scalar: bool,
    /// The feature `uniformBufferStandardLayout`.
    pub(crate) standard_uniform: bool,
}

/// Checks a module by the rules of SPIR-V and, if it was not translated, of Vulkan 1.2 or 1.3.
pub(crate) fn validate(module: &Module, vulkan: (u32, u32), layouts: Layouts) -> Result<()> {
    let words = module.words();
    let environment = match (module.format(), vulkan) {
        (Format::Wgsl, _) => TargetEnv::Universal_1_5,
        (Format::Spirv, version) if version < (1, 3) => TargetEnv::Vulkan_1_2,
        (Format::Spirv, _) => TargetEnv::Vulkan_1_3,
    };
    check(words, environment, layouts).or_else(|error| {
        match error.message().contains(LAYOUT_WHERE_NONE_COUNTS) {
            // The validator stops at the first breach, so this goes without Vulkan's other rules.
            true => check(words, TargetEnv::Universal_1_6, layouts),
            false => Err(error),
        }
    })
}

/// Explicit layouts on types that are used where a layout has no meaning, as in variables of functions.
/// Compilers from before 2025 write such modules, and drivers take them.
const LAYOUT_WHERE_NONE_COUNTS: &str = "VUID-StandaloneSpirv-None-10684";

fn check(words: &[u32], environment: TargetEnv, layouts: Layouts) -> Result<()> {
    let options = ValidatorOptions {
        scalar_block_layout: layouts.scalar,
        uniform_buffer_standard_layout: layouts.standard_uniform,
        ..ValidatorOptions::default()
    };
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

/// Where the plugin's `__cxa_atexit` goes (`build.rs`), by which SPIRV-Tools would have its tables destroyed: they stay,
/// as programs may load modules until their last static destructor, which can run after those of this library.
#[unsafe(no_mangle)]
extern "C" fn __wrap___cxa_atexit(
    _destroy: Option<extern "C" fn(*mut c_void)>,
    _table: *mut c_void,
    _library: *mut c_void,
) -> c_int {
    0
}

#[cfg(test)]
mod tests {
    use super::{Layouts, validate};
    use longshore_format_spirv::{Module, Target};
    use longshore_plugin_api::ErrorCode;

    const TARGET: Target = Target::new(128);

    const WGSL: &[u8] = b"
        @group(0) @binding(0) var<storage, read_write> numbers: array<u32>;
        @compute @workgroup_size(1)
        fn bump() { numbers[0] += 1u; }
    ";
    /// SPIR-V's header is so many words.
    const HEADER: usize = 5;

    /// The words of a module with every instruction of one opcode made another one.
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

    #[test]
    fn a_valid_module_passes_for_each_version_of_vulkan() {
        let wgsl = Module::parse(WGSL, TARGET).unwrap();
        for vulkan in [(1, 2), (1, 3)] {
            validate(&wgsl, vulkan, Layouts::default()).unwrap();
        }
    }

    #[test]
    fn a_module_that_reads_well_but_breaks_a_rule_is_an_invalid_binary_with_the_rule() {
        const I_ADD: u32 = 128;
        const F_ADD: u32 = 129;
        let broken = with_opcode_changed(&Module::parse(WGSL, TARGET).unwrap(), I_ADD, F_ADD);
        let module = Module::parse(&broken, TARGET).unwrap();
        for vulkan in [(1, 2), (1, 3)] {
            let error = validate(&module, vulkan, Layouts::default()).unwrap_err();
            assert_eq!(error.code(), ErrorCode::InvalidBinary);
            assert!(error.message().contains("FAdd"), "{error}");
        }
    }
}
