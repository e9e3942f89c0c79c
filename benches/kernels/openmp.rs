//! Plain loops with OpenMP, in a shared object that clang compiles for this run.

use crate::COMPILER_FLAGS;
use anyhow::{Context, Result, ensure};
use libloading::{Library, Symbol};
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

const COMPILER: &str = "clang-19";

/// The loops.
pub(crate) struct OpenMp {
    library: Library,
    _folder: TempDir,
}

/// Makes OpenMP's idle threads spin for only a millisecond, so that they do not take cores from the
/// next contender.
///
/// # Safety
/// There is no other thread.
pub(crate) unsafe fn be_polite() {
    // SAFETY: promised by the caller.
    unsafe { std::env::set_var("KMP_BLOCKTIME", "1") };
}

impl OpenMp {
    /// Compiles and loads the loops.
    ///
    /// # Errors
    /// A compiler or a library of OpenMP that is missing.
    pub(crate) fn new() -> Result<OpenMp> {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels/peers/loops.c");
        let folder = tempfile::tempdir()?;
        let object = folder.path().join("loops.so");
        let mut compile = Command::new(COMPILER);
        compile.args(COMPILER_FLAGS).args(["-fno-math-errno", "-fopenmp", "-shared", "-fPIC"]);
        let output = compile.arg(source).arg("-o").arg(&object).output().context(COMPILER)?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{COMPILER} -fopenmp (libomp-19-dev): {said}");
        // SAFETY: our own code, whose constructors at most start OpenMP.
        let library = unsafe { Library::new(&object) }.context("libomp5-19")?;
        Ok(OpenMp { library, _folder: folder })
    }

    /// Returns a function of the loops.
    ///
    /// # Safety
    /// The function has the type `F`.
    pub(crate) unsafe fn function<F>(&self, name: &str) -> Symbol<'_, F> {
        // SAFETY: promised by the caller.
        unsafe { self.library.get(name.as_bytes()) }.expect("the loops have it")
    }
}
