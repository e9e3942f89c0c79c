//! The search for `libLLVM`, and its version.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::Functions;

/// The oldest supported major version.
pub const OLDEST: u32 = 14;
/// The newest supported major version.
pub const NEWEST: u32 = 22;

/// An opened `libLLVM`. Cheap to clone; clones share the table. It stays loaded until the process
/// ends, as LLVM registers destructors. Any thread may use it, with contexts of its own.
#[derive(Clone)]
pub struct Library {
    functions: Arc<Functions>,
    version: [u32; 3],
    path: PathBuf,
}

/// The reason why no `libLLVM` was opened, as text for the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenError(String);

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for OpenError {}

impl Library {
    /// Opens the newest installed `libLLVM`, or the one of major version `version`. Blocks.
    ///
    /// # Errors
    /// The names that were tried, and what to install.
    ///
    /// # Safety
    /// The libraries that the system's loader finds under these names are LLVM's.
    pub unsafe fn find(version: Option<u32>) -> Result<Library, OpenError> {
        // SAFETY: promised by the caller.
        unsafe { Self::find_in(&[], version) }
    }

    /// Opens a library as [`find`](Self::find) does, but searches these folders first. Blocks.
    ///
    /// # Errors
    /// As for [`find`](Self::find).
    ///
    /// # Safety
    /// As for [`find`](Self::find), also for the folders.
    pub unsafe fn find_in(folders: &[PathBuf], version: Option<u32>) -> Result<Library, OpenError> {
        let versions = version.map_or(OLDEST..=NEWEST, |version| version..=version);
        for name in versions.clone().rev().flat_map(candidates) {
            let files = folders.iter().map(|folder| folder.join(&name));
            let present = files.filter(|file| file.is_file());
            for file in present.chain([PathBuf::from(&name)]) {
                // SAFETY: promised by the caller.
                if let Ok(library) = unsafe { Self::open(&file) } {
                    return Ok(library);
                }
            }
        }
        let wanted = versions.end();
        Err(OpenError(format!(
            "found no libLLVM of {}; install it, on Debian and Ubuntu the package libllvm{wanted}",
            match version {
                Some(version) =>
                    format!("LLVM {version} (tried {})", candidates(version).join(", ")),
                None => format!("LLVM {OLDEST} to {NEWEST}"),
            }
        )))
    }

    /// Opens a file, or a library that the system's loader finds under this name. Blocks.
    ///
    /// # Errors
    /// The loader's message, the missing function, or an unsupported version.
    ///
    /// # Safety
    /// The library is LLVM's.
    pub unsafe fn open(path: &Path) -> Result<Library, OpenError> {
        let shown = path.display();
        // SAFETY: the caller vouches for the library, whose initialisers run here.
        let library = unsafe { libloading::Library::new(path) };
        let library = library.map_err(|error| OpenError(format!("'{shown}': {error}")))?;
        // SAFETY: the caller vouches for the library, and `forget` keeps it loaded.
        let functions = unsafe { Functions::find(&library) };
        let functions = functions.map_err(|missing| {
            OpenError(format!(
                "'{shown}' is no libLLVM of {OLDEST} to {NEWEST}: it lacks {missing}"
            ))
        })?;
        std::mem::forget(library);
        let version = version(&functions);
        if !(OLDEST..=NEWEST).contains(&version[0]) {
            let found = version[0];
            let problem = format!("'{shown}' is LLVM {found}, expected {OLDEST} to {NEWEST}");
            return Err(OpenError(problem));
        }
        Ok(Library { functions: Arc::new(functions), version, path: path.to_owned() })
    }

    /// Returns the table of functions.
    pub fn functions(&self) -> &Functions {
        &self.functions
    }

    /// Returns the major version.
    pub fn major(&self) -> u32 {
        self.version[0]
    }

    /// Returns the version; the last two numbers are 0 for LLVM 14 and 15, which do not tell.
    pub fn version(&self) -> [u32; 3] {
        self.version
    }

    /// Returns the name or path by which the library was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Library").field("version", &self.version).field("path", &self.path).finish()
    }
}

/// Returns the names of the shared library of a version.
pub fn candidates(version: u32) -> Vec<String> {
    let (with_minor, with_dash) =
        (format!("libLLVM.so.{version}.1"), format!("libLLVM-{version}.so"));
    match version {
        ..18 => vec![format!("{with_dash}.1"), with_dash],
        _ => vec![with_minor, format!("{with_dash}.1"), with_dash],
    }
}

fn version(functions: &Functions) -> [u32; 3] {
    let mut version = [0; 3];
    let [major, minor, patch] = &mut version;
    match functions.LLVMGetVersion {
        // SAFETY: the function writes the three numbers.
        Some(get) => unsafe { get(major, minor, patch) },
        // Only LLVM 15 and 16 have this function, and 16 has the one above.
        None => *major = if functions.LLVMContextSetOpaquePointers.is_some() { 15 } else { 14 },
    }
    version
}
