//! SPIRV-Tools' validator, compiled into the plugin.

use super::rules::{Environment, Rules, ValidatorError, Verdict};
use spirv_tools::TargetEnv;
use spirv_tools::error::Error;
use spirv_tools::val::{self, Validator, ValidatorOptions};
use std::ffi::{c_int, c_void};
use std::path::Path;

/// The validator. It runs in the process, so its verdicts need not be kept.
pub(super) struct Tool;

impl Tool {
    pub(super) fn new(_cache: Option<&Path>) -> Tool {
        Tool
    }

    pub(super) fn verdict(&self, words: &[u32], rules: Rules) -> Result<Verdict, ValidatorError> {
        let environment = match rules.environment {
            Environment::Universal1_5 => TargetEnv::Universal_1_5,
            Environment::Universal1_6 => TargetEnv::Universal_1_6,
            Environment::Vulkan1_2 => TargetEnv::Vulkan_1_2,
            Environment::Vulkan1_3 => TargetEnv::Vulkan_1_3,
        };
        let options = ValidatorOptions {
            scalar_block_layout: rules.layouts.scalar,
            uniform_buffer_standard_layout: rules.layouts.standard_uniform,
            ..ValidatorOptions::default()
        };
        let validated = val::create(Some(environment)).validate(words, Some(options));
        Ok(validated.map_or_else(|error| refusal(&error), |()| Verdict::Valid))
    }

    pub(super) fn can_judge(&self, _words: &[u32], _rules: Rules) -> bool {
        true
    }

    pub(super) fn description(&self) -> Result<String, String> {
        Ok("compiled in".to_owned())
    }
}

fn refusal(error: &Error) -> Verdict {
    match &error.diagnostic {
        Some(said) => Verdict::invalid(&format!("{}\n{}", said.message, said.notes)),
        None => Verdict::invalid(&format!("the validator says {:?}", error.inner)),
    }
}

/// Replaces the plugin's `__cxa_atexit` (`build.rs`), with which SPIRV-Tools would register the
/// destruction of its tables. The tables stay. Programs may load modules until their last static
/// destructor, which can run after this library's destructors.
#[unsafe(no_mangle)]
extern "C" fn __wrap___cxa_atexit(
    _destroy: Option<extern "C" fn(*mut c_void)>,
    _table: *mut c_void,
    _library: *mut c_void,
) -> c_int {
    0
}
