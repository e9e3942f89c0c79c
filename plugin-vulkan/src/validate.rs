//! Validation of modules before the driver sees them, by SPIRV-Tools.
//!
//! With the feature `spirv-tools` the validator is compiled in. Otherwise an installed one is used:
//! the library of a Vulkan SDK or the command `spirv-val`. Users of `longshore-format-spirv` read
//! modules without loading them, so the validation is here.

#[cfg(feature = "spirv-tools")]
mod compiled;
#[cfg(not(feature = "spirv-tools"))]
mod installed;
mod rules;
#[cfg(test)]
mod tests;

#[cfg(all(test, not(feature = "spirv-tools")))]
pub(crate) use installed::fake_validator::Folder;
pub(crate) use rules::Layouts;

#[cfg(feature = "spirv-tools")]
use compiled::Tool;
#[cfg(not(feature = "spirv-tools"))]
use installed::Tool;
use longshore_format_spirv::{Format, Module};
use longshore_plugin_api::{Error, ErrorCode, Result};
use rules::{Environment, Rules, ValidatorError, Verdict};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// The validator of a platform's devices. Any thread may use it; checks block while the validator
/// works.
pub(crate) struct Validator {
    tool: Tool,
    /// Whether a module that cannot be validated is refused.
    is_required: bool,
    /// Whether a module was declared safe to load, which holds only as long as the validator
    /// exists.
    has_vouched: AtomicBool,
}

/// Rule against explicit layouts on types whose use has no layout, such as types of function
/// variables. Compilers from before 2025 break the rule, and drivers accept their modules.
const LAYOUT_WHERE_NONE_COUNTS: &str = "VUID-StandaloneSpirv-None-10684";
/// Remedy for a missing validator.
const INSTALL: &str =
    "install SPIRV-Tools, on Debian and Ubuntu the package spirv-tools, or a Vulkan SDK";

impl Validator {
    /// Creates a validator that keeps its verdicts in this folder, which need not exist. The
    /// validator is searched for later.
    pub(crate) fn new(is_required: bool, cache: Option<&Path>) -> Validator {
        Validator::with(Tool::new(cache), is_required)
    }

    fn with(tool: Tool, is_required: bool) -> Validator {
        Validator { tool, is_required, has_vouched: AtomicBool::new(false) }
    }

    /// Creates a validator that is searched for under these names, and keeps no verdicts.
    #[cfg(all(test, not(feature = "spirv-tools")))]
    pub(crate) fn looked_for(soname: &str, path: &Path, is_required: bool) -> Validator {
        Validator::with(Tool::named(soname.as_ref(), Some(path.as_os_str()), None), is_required)
    }

    /// Checks a module by the rules of SPIR-V and, if it was not translated, of Vulkan version 1.2
    /// or 1.3.
    ///
    /// Without a validator the module passes unchecked, and the first such module of the process
    /// causes a warning in the log.
    ///
    /// # Errors
    /// `InvalidBinary` for a module that breaks a rule, and `BackendFailure` if the validator fails
    /// on it. `HostToolNotFound` without a validator, if one is required or
    /// [`Validator::vouches_for`] counted on it.
    pub(crate) fn check(
        &self,
        module: &Module,
        vulkan: (u32, u32),
        layouts: Layouts,
    ) -> Result<()> {
        match self.verdict(module.words(), rules(module, vulkan, layouts)) {
            Ok(Verdict::Valid) => Ok(()),
            Ok(Verdict::Invalid(text)) => Err(Error::new(ErrorCode::InvalidBinary, text)),
            Err(ValidatorError::Failed(why)) => Err(Error::new(
                ErrorCode::BackendFailure,
                format!("the module cannot be validated: {why}"),
            )),
            Err(ValidatorError::Missing(why)) => self.pass_unchecked(&why),
        }
    }

    /// Returns whether [`Validator::check`] has a verdict on this module, or will have one. Then a
    /// module that passes is valid.
    pub(crate) fn vouches_for(
        &self,
        module: &Module,
        vulkan: (u32, u32),
        layouts: Layouts,
    ) -> bool {
        let is_judged = self.tool.can_judge(module.words(), rules(module, vulkan, layouts));
        if is_judged {
            self.has_vouched.store(true, Ordering::Relaxed);
        }
        is_judged
    }

    /// Returns the validator's name for the user; without a validator, the reason and the remedy.
    pub(crate) fn description(&self) -> String {
        match self.tool.description() {
            Ok(name) => name,
            Err(why) => format!("none ({why}; {INSTALL})"),
        }
    }

    fn verdict(&self, words: &[u32], rules: Rules) -> std::result::Result<Verdict, ValidatorError> {
        match self.tool.verdict(words, rules)? {
            // The validator stops at the first broken rule, so this second check omits Vulkan's
            // other rules.
            Verdict::Invalid(text) if text.contains(LAYOUT_WHERE_NONE_COUNTS) => {
                self.tool.verdict(words, Rules { environment: Environment::Universal1_6, ..rules })
            }
            verdict => Ok(verdict),
        }
    }

    fn pass_unchecked(&self, why: &str) -> Result<()> {
        static HAS_WARNED: AtomicBool = AtomicBool::new(false);
        if self.is_required || self.has_vouched.load(Ordering::Relaxed) {
            let message = format!("there is no validator for SPIR-V ({why}): {INSTALL}");
            return Err(Error::new(ErrorCode::HostToolNotFound, message));
        }
        if !HAS_WARNED.swap(true, Ordering::Relaxed) {
            log::warn!("modules reach the driver without being validated: {why}; {INSTALL}");
        }
        Ok(())
    }
}

fn rules(module: &Module, vulkan: (u32, u32), layouts: Layouts) -> Rules {
    let environment = match (module.format(), vulkan) {
        (Format::Wgsl, _) => Environment::Universal1_5,
        (Format::Spirv, version) if version < (1, 3) => Environment::Vulkan1_2,
        (Format::Spirv, _) => Environment::Vulkan1_3,
    };
    Rules { environment, layouts }
}
