//! The compiler of a host: in a worker process, or in this one.

use super::settings::JitSettings;
use crate::discovery::find_executor;
use longshore_compiler::{Compile, CompileError, Compiler, VariantProblem};
use longshore_executor::compiler::{CompilerProcess, Limits, change_kernels};
use longshore_executor::controller::Spawn;
use longshore_plugin_api::{Error, ErrorCode, Result};
use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The compiler, which is started at the first compilation and kept.
pub(super) struct Compilers {
    in_own_process: bool,
    executor: Option<PathBuf>,
    limits: Limits,
    started: Mutex<Option<Arc<dyn Compile>>>,
}

impl Compilers {
    pub(super) fn new(settings: &JitSettings) -> Compilers {
        Compilers {
            in_own_process: settings.in_own_process,
            executor: settings.executor.clone(),
            limits: settings
                .time_limit
                .map_or_else(Limits::default, |time| Limits { time, ..Limits::default() }),
            started: Mutex::default(),
        }
    }

    /// Returns the compiler. The first call starts it; the executable of its process may lie beside
    /// a `plugin`. May block.
    ///
    /// # Errors
    /// `HostToolNotFound` without an executable for the worker process.
    pub(super) fn get(&self, plugin: &Path) -> Result<Arc<dyn Compile>> {
        let mut started = self.started.lock();
        if let Some(compiler) = &*started {
            return Ok(Arc::clone(compiler));
        }
        let compiler: Arc<dyn Compile> = if self.in_own_process {
            // SAFETY: the caller of `load` vouches for the bitcode, and the user, or the system's
            // loader, for the library.
            let compiler = unsafe { Compiler::in_process(folders_of_tools()) };
            Arc::new(compiler.with_pre_pass(change_kernels))
        } else {
            let executor = find_executor(self.executor.as_deref(), plugin, "compile bitcode")?;
            let process = CompilerProcess::new(Spawn::new(executor)).with_limits(self.limits);
            Arc::new(process.with_folders(folders_of_tools()))
        };
        Ok(Arc::clone(started.insert(compiler)))
    }
}

/// Returns the folders of LLD.
fn folders_of_tools() -> [PathBuf; 4] {
    ["/usr/local/bin", "/usr/bin", "/opt/rocm/llvm/bin", "/opt/rocm/bin"].map(PathBuf::from)
}

/// Converts the compiler's error.
pub(super) fn error(error: CompileError) -> Error {
    let code = match &error {
        CompileError::Library(_) => ErrorCode::HostToolNotFound,
        CompileError::Newer { .. } => ErrorCode::Unsupported,
        CompileError::Malformed(_) | CompileError::Target(_) => ErrorCode::InvalidBinary,
        CompileError::Failed(_) => ErrorCode::CompileFailure,
        CompileError::Variant { problem, .. } => match problem {
            VariantProblem::Kernel => ErrorCode::NotFound,
            VariantProblem::Value => ErrorCode::InvalidArgument,
            VariantProblem::Size => ErrorCode::InvalidSize,
            VariantProblem::Code => ErrorCode::CompileFailure,
        },
        CompileError::Linker(_) => ErrorCode::LinkFailure,
        CompileError::Process(_) | CompileError::TimeLimit(_) => ErrorCode::BackendFailure,
    };
    let remedy = match &error {
        CompileError::TimeLimit(_) => " (LONGSHORE_JIT_TIME_LIMIT sets another limit, in seconds)",
        _ => "",
    };
    Error::new(code, format!("{error}{remedy}")).with_source(error)
}
