//! The settings of compilations, from the program and from the environment.

use super::JitLoad;
use super::cache::Cache;
use crate::environment::{Environment, is_set_uid};
use longshore_compiler::{Level, LibraryChoice, Options};
use longshore_plugin_api::{Error, ErrorCode, Result};
use std::path::PathBuf;
use std::time::Duration;

/// The program's choices, each in place of the variable.
#[derive(Clone, Debug, Default)]
pub(crate) struct JitConfig {
    /// The optimization level.
    pub(crate) level: Option<u32>,
    /// Whether LLVM runs in the program's own process.
    pub(crate) in_own_process: Option<bool>,
    /// The cache folder; the inner `None` for no cache.
    pub(crate) cache: Option<Option<PathBuf>>,
    /// Most bytes of the cache folder.
    pub(crate) cache_bytes: Option<u64>,
    /// The executable of the worker process.
    pub(crate) executor: Option<PathBuf>,
    /// The longest compilation in the worker process.
    pub(crate) time_limit: Option<Duration>,
}

/// The choices of program and user, combined.
#[derive(Clone, Debug)]
pub(crate) struct JitSettings {
    level: u32,
    optimizes: bool,
    library: LibraryChoice,
    pub(super) pre_opt_ir_module: Option<PathBuf>,
    pub(super) post_opt_ir_module: Option<PathBuf>,
    pub(super) replacement_module: Option<PathBuf>,
    pub(super) replacement_object: Option<PathBuf>,
    pub(super) in_own_process: bool,
    pub(super) cache: Option<PathBuf>,
    pub(super) cache_bytes: u64,
    /// The executable of the worker process; `None` for the first one found.
    pub(super) executor: Option<PathBuf>,
    /// The longest compilation in the worker process; `None` for the default.
    pub(super) time_limit: Option<Duration>,
}

const DEFAULT_LEVEL: u32 = 3;

impl JitSettings {
    /// Combines the program's choices with the environment's.
    ///
    /// # Errors
    /// `InvalidValue` for a value that cannot be parsed.
    pub(crate) fn new(config: &JitConfig, environment: &Environment) -> Result<JitSettings> {
        let in_own_process = environment.jit_in_own_process()?;
        let cache_bytes = environment.jit_cache_bytes()?;
        let cache = config.cache.clone().unwrap_or_else(|| environment.jit_cache());
        Ok(JitSettings {
            level: config.level.or(environment.jit_opt_level()?).unwrap_or(DEFAULT_LEVEL),
            optimizes: !environment.jit_skip_opt(),
            library: environment.jit_llvm().map_or(LibraryChoice::Newest, library),
            pre_opt_ir_module: environment.jit_pre_opt_ir_module(),
            post_opt_ir_module: environment.jit_post_opt_ir_module(),
            replacement_module: environment.jit_replacement_module(),
            replacement_object: environment.jit_replacement_object(),
            in_own_process: config.in_own_process.or(in_own_process).unwrap_or(false),
            // The caller of a program with more rights must not provide code for it.
            cache: cache.filter(|_| !is_set_uid()),
            cache_bytes: config.cache_bytes.or(cache_bytes).unwrap_or(Cache::MOST_BYTES),
            executor: config.executor.clone().or_else(|| environment.executor()),
            time_limit: config.time_limit.or(environment.jit_time_limit()?),
        })
    }

    /// Returns whether each load reads or writes a file that the user has named.
    pub(super) fn has_files(&self) -> bool {
        let files = [
            &self.pre_opt_ir_module,
            &self.post_opt_ir_module,
            &self.replacement_module,
            &self.replacement_object,
        ];
        files.into_iter().any(Option::is_some)
    }

    /// Returns the compiler's options for a load.
    ///
    /// # Errors
    /// `InvalidValue` for an unknown optimization level.
    pub(super) fn options(&self, load: &JitLoad) -> Result<Options> {
        let number = load.level.unwrap_or(self.level);
        let level = Level::from_number(number).ok_or_else(|| {
            let message = format!("the optimization level is {number}, expected 0, 1, 2 or 3");
            Error::new(ErrorCode::InvalidValue, message)
        })?;
        Ok(Options {
            library: self.library.clone(),
            level,
            optimizes: self.optimizes,
            keeps_text_before: self.pre_opt_ir_module.is_some(),
            keeps_text_after: self.post_opt_ir_module.is_some(),
            checks: load.checks,
            variants: load.variants.clone(),
            ..Options::default()
        })
    }
}

/// Returns the choice of a text: a major version, or a path.
fn library(text: PathBuf) -> LibraryChoice {
    match text.to_str().and_then(|text| text.trim().parse().ok()) {
        Some(version) => LibraryChoice::Major(version),
        None => LibraryChoice::File(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(config: &JitConfig, variables: &[(&str, &str)]) -> JitSettings {
        let environment = variables.iter().fold(Environment::empty(), |all, (name, value)| {
            all.with(format!("LONGSHORE_JIT_{name}"), value)
        });
        JitSettings::new(config, &environment).unwrap()
    }

    #[test]
    fn the_programs_choices_precede_the_users() {
        let user = [("OPT_LEVEL", "1"), ("PROCESS", "own"), ("CACHE", "/c"), ("LLVM", "19")];
        let from_user = settings(&JitConfig::default(), &user);
        assert_eq!((from_user.level, from_user.in_own_process), (1, true));
        assert_eq!(from_user.library, LibraryChoice::Major(19));
        assert_eq!(from_user.cache, Some("/c".into()));
        let config = JitConfig {
            level: Some(0),
            in_own_process: Some(false),
            cache: Some(None),
            ..JitConfig::default()
        };
        let from_program = settings(&config, &user);
        assert_eq!((from_program.level, from_program.in_own_process), (0, false));
        assert_eq!(from_program.cache, None);
    }

    #[test]
    fn a_load_has_the_settings_level_unless_it_has_its_own() {
        let settings = settings(&JitConfig::default(), &[("SKIP_OPT", "1")]);
        let level = |level| {
            settings.options(&JitLoad { level, ..JitLoad::default() }).map(|options| options.level)
        };
        assert_eq!(level(None), Ok(Level::Aggressive));
        assert_eq!(level(Some(1)), Ok(Level::Less));
        assert_eq!(level(Some(4)).unwrap_err().code(), ErrorCode::InvalidValue);
        assert!(!settings.options(&JitLoad::default()).unwrap().optimizes);
        assert_eq!(library("/l/libLLVM.so".into()), LibraryChoice::File("/l/libLLVM.so".into()));
    }
}
