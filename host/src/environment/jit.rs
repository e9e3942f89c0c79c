//! The variables of the compilation of bitcode.

use super::Environment;
use longshore_plugin_api::{Error, ErrorCode, Result};
use std::path::PathBuf;
use std::time::Duration;

/// The backend in whose place [`Environment::setting`] finds the cache folder of compiled bitcode.
const CACHE_OWNER: &str = "jit";

impl Environment {
    /// Returns `LONGSHORE_JIT_OPT_LEVEL`, if set: the optimization level of compiled bitcode.
    ///
    /// # Errors
    /// `InvalidValue` unless the value is 0, 1, 2 or 3.
    pub(crate) fn jit_opt_level(&self) -> Result<Option<u32>> {
        let name = "LONGSHORE_JIT_OPT_LEVEL";
        let Some(text) = self.text(name) else { return Ok(None) };
        match text.trim().parse() {
            Ok(level @ 0..=3) => Ok(Some(level)),
            _ => Err(invalid(format!("{name} is '{text}', expected 0, 1, 2 or 3"))),
        }
    }

    /// Returns whether `LONGSHORE_JIT_SKIP_OPT` requests code generation without optimization
    /// passes.
    pub(crate) fn jit_skip_opt(&self) -> bool {
        self.text("LONGSHORE_JIT_SKIP_OPT").is_some_and(|value| value != "0")
    }

    /// Returns `LONGSHORE_JIT_PRE_OPT_IR_MODULE`, if set: the file for a module's text before the
    /// optimization passes.
    pub(crate) fn jit_pre_opt_ir_module(&self) -> Option<PathBuf> {
        self.get("LONGSHORE_JIT_PRE_OPT_IR_MODULE").map(PathBuf::from)
    }

    /// Returns `LONGSHORE_JIT_POST_OPT_IR_MODULE`, if set: the file for a module's text after the
    /// optimization passes.
    pub(crate) fn jit_post_opt_ir_module(&self) -> Option<PathBuf> {
        self.get("LONGSHORE_JIT_POST_OPT_IR_MODULE").map(PathBuf::from)
    }

    /// Returns `LONGSHORE_JIT_REPLACEMENT_MODULE`, if set: the file of bitcode, or of LLVM's
    /// assembly text, that is compiled in place of each module.
    pub(crate) fn jit_replacement_module(&self) -> Option<PathBuf> {
        self.get("LONGSHORE_JIT_REPLACEMENT_MODULE").map(PathBuf::from)
    }

    /// Returns `LONGSHORE_JIT_REPLACEMENT_OBJECT`, if set: the file that is loaded in place of each
    /// result of a compilation.
    pub(crate) fn jit_replacement_object(&self) -> Option<PathBuf> {
        self.get("LONGSHORE_JIT_REPLACEMENT_OBJECT").map(PathBuf::from)
    }

    /// Returns `LONGSHORE_JIT_LLVM`, if set: the path or the major version of `libLLVM`.
    pub(crate) fn jit_llvm(&self) -> Option<PathBuf> {
        self.get("LONGSHORE_JIT_LLVM").map(PathBuf::from)
    }

    /// Returns whether `LONGSHORE_JIT_PROCESS` chooses the program's own process for LLVM; `None`
    /// if not set.
    ///
    /// # Errors
    /// `InvalidValue` unless the value is `worker` or `own`.
    pub(crate) fn jit_in_own_process(&self) -> Result<Option<bool>> {
        let name = "LONGSHORE_JIT_PROCESS";
        let Some(text) = self.text(name) else { return Ok(None) };
        match text.trim() {
            "worker" => Ok(Some(false)),
            "own" => Ok(Some(true)),
            _ => Err(invalid(format!("{name} is '{text}', expected 'worker' or 'own'"))),
        }
    }

    /// Returns the folder of `LONGSHORE_JIT_CACHE`, by default `longshore/jit` in the folder
    /// `LONGSHORE_CACHE`. Returns `None` if either variable is `0` or `off`.
    pub(crate) fn jit_cache(&self) -> Option<PathBuf> {
        self.setting(CACHE_OWNER, super::CACHE_SETTING).map(PathBuf::from)
    }

    /// Returns `LONGSHORE_JIT_CACHE_BYTES`, if set: the most bytes that the cache folder of
    /// compiled bitcode has.
    ///
    /// # Errors
    /// `InvalidValue` for a value that is no number of bytes.
    pub(crate) fn jit_cache_bytes(&self) -> Result<Option<u64>> {
        let name = "LONGSHORE_JIT_CACHE_BYTES";
        let Some(text) = self.text(name) else { return Ok(None) };
        let bytes = text.trim().parse();
        bytes.map(Some).map_err(|_| {
            invalid(format!("{name} is '{text}', expected a number of bytes: 536870912"))
        })
    }

    /// Returns `LONGSHORE_JIT_TIME_LIMIT`, if set: the longest compilation in a worker process.
    ///
    /// # Errors
    /// `InvalidValue` unless it is a positive number of seconds.
    pub(crate) fn jit_time_limit(&self) -> Result<Option<Duration>> {
        self.seconds("LONGSHORE_JIT_TIME_LIMIT")
    }
}

fn invalid(message: String) -> Error {
    Error::new(ErrorCode::InvalidValue, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &str, value: &str) -> Environment {
        Environment::empty().with(format!("LONGSHORE_JIT_{name}"), value)
    }

    #[test]
    fn a_level_a_process_and_a_size_are_parsed() {
        assert_eq!(with("OPT_LEVEL", "2").jit_opt_level(), Ok(Some(2)));
        assert_eq!(Environment::empty().jit_opt_level(), Ok(None));
        assert_eq!(with("PROCESS", "own").jit_in_own_process(), Ok(Some(true)));
        assert_eq!(with("PROCESS", "worker").jit_in_own_process(), Ok(Some(false)));
        assert_eq!(with("CACHE_BYTES", "4096").jit_cache_bytes(), Ok(Some(4096)));
        assert!(with("SKIP_OPT", "1").jit_skip_opt() && !with("SKIP_OPT", "0").jit_skip_opt());
        for wrong in ["4", "-1", "fast"] {
            let error = with("OPT_LEVEL", wrong).jit_opt_level().unwrap_err();
            assert_eq!(error.code(), ErrorCode::InvalidValue);
            assert!(error.message().contains(&format!("LONGSHORE_JIT_OPT_LEVEL is '{wrong}'")));
        }
        assert!(with("PROCESS", "mine").jit_in_own_process().is_err());
        assert!(with("CACHE_BYTES", "1 GiB").jit_cache_bytes().is_err());
        let limit = |value| with("TIME_LIMIT", value).jit_time_limit();
        assert_eq!(limit("1.5"), Ok(Some(Duration::from_millis(1500))));
        assert!(limit("0").is_err() && limit("long").is_err());
    }

    #[test]
    fn the_cache_lies_beside_the_backends_caches() {
        let with = |value: &str| with("CACHE", value).with("LONGSHORE_CACHE", "/c").jit_cache();
        assert_eq!(with(""), Some(PathBuf::from("/c/longshore/jit")));
        assert_eq!(with("/own"), Some(PathBuf::from("/own")));
        assert_eq!([with("0"), with("off")], [None, None]);
        assert_eq!(Environment::empty().jit_cache(), None);
    }
}
