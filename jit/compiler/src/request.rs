//! Requests to a compiler, and its results.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Variant, VariantProblem};

/// A compiler, in this process or in another one. Any thread may use it; several threads compile at
/// the same time.
pub trait Compile: Send + Sync {
    /// Compiles a module, or a part of it. Blocks until that is done.
    ///
    /// # Errors
    /// The reason, with LLVM's messages.
    fn compile(&self, request: &Request<'_>) -> Result<Compiled, CompileError>;

    /// Returns the version of the `libLLVM` that a request with this choice uses. Blocks while the
    /// library is opened, at the first request for it.
    ///
    /// # Errors
    /// [`CompileError::Library`], [`CompileError::Process`].
    fn version(&self, library: &LibraryChoice) -> Result<LibraryVersion, CompileError>;

    /// Drops all that the compiler has kept of a module whose parts it has compiled. Does not
    /// block.
    fn forget(&self, module: &Module);
}

/// A request to compile.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The code.
    pub module: &'a Module,
    /// The part of the module that is compiled.
    pub part: &'a Part<'a>,
    /// The processor for which code is generated.
    pub target: &'a Target,
    /// The settings.
    pub options: &'a Options,
}

/// LLVM bitcode, or LLVM's assembly text. Cheap to clone. A compiler may keep a copy of a module
/// whose parts it compiles, until [`Compile::forget`].
#[derive(Debug, Clone)]
pub struct Module(Arc<Contents>);

#[derive(Debug)]
struct Contents {
    number: u64,
    bytes: Vec<u8>,
}

impl Module {
    /// Creates a module from its bytes.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self(Arc::new(Contents { number, bytes: bytes.into() }))
    }

    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0.bytes
    }

    /// Returns the module's number, which no other module of this process has.
    pub fn number(&self) -> u64 {
        self.0.number
    }
}

/// The part of a module that is compiled. The other definitions become declarations, and globals
/// that only the module sees become hidden ones, so that parts find each other.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Part<'a> {
    /// All of it, unchanged.
    #[default]
    Whole,
    /// Only these functions and aliases, without assembly outside of functions. Functions that a
    /// resolver chooses stay too, so their resolvers must be among the functions.
    Only {
        /// Names of functions.
        #[serde(borrow)]
        functions: Vec<&'a [u8]>,
        /// Names of aliases of these functions.
        #[serde(borrow)]
        aliases: Vec<&'a [u8]>,
    },
    /// All except these functions and aliases.
    Without {
        /// Names of functions.
        #[serde(borrow)]
        functions: Vec<&'a [u8]>,
        /// Names of aliases of these functions.
        #[serde(borrow)]
        aliases: Vec<&'a [u8]>,
    },
}

/// A processor.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Target {
    /// Target triple; empty for the module's own.
    pub triple: String,
    /// Processor, as `-mcpu` of `llc` names it; empty for the module's own.
    pub cpu: String,
    /// Features, such as `+avx2,-avx512f`; empty for the processor's and the functions' own.
    pub features: String,
}

/// The settings of a compilation.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Options {
    /// The `libLLVM` that compiles.
    pub library: LibraryChoice,
    /// Optimisation level, of the passes and of the code generator.
    pub level: Level,
    /// Whether optimisation passes run; without them, the code generator alone uses `level`.
    pub optimizes: bool,
    /// Whether code may be placed at any address.
    pub position_independent: bool,
    /// Whether the compiler's pre-pass runs before the optimisation passes, if the compiler has
    /// one.
    pub runs_pre_pass: bool,
    /// Whether the compiler's pre-pass adds checks to the accesses of kernels for CPUs.
    pub checks: bool,
    /// Variants of kernels that the compiler's pre-pass adds to a whole module.
    pub variants: Vec<Variant>,
    /// Whether globals without a name get names.
    pub names_globals: bool,
    /// The form of the result.
    pub output: Output,
    /// Whether the result has the module's text before the optimisation passes.
    pub keeps_text_before: bool,
    /// Whether the result has the module's text after the optimisation passes.
    pub keeps_text_after: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            library: LibraryChoice::Newest,
            level: Level::Aggressive,
            optimizes: true,
            position_independent: true,
            runs_pre_pass: true,
            checks: false,
            variants: Vec::new(),
            names_globals: false,
            output: Output::Code,
            keeps_text_before: false,
            keeps_text_after: false,
        }
    }
}

/// The choice of a `libLLVM`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum LibraryChoice {
    /// The newest installed one.
    #[default]
    Newest,
    /// An installed one of this major version.
    Major(u32),
    /// A file.
    File(PathBuf),
}

/// An optimisation level.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Level {
    /// `-O0`.
    None,
    /// `-O1`.
    Less,
    /// `-O2`.
    Default,
    /// `-O3`.
    #[default]
    Aggressive,
}

impl Level {
    /// Returns the level of a number from 0 to 3.
    pub fn from_number(number: u32) -> Option<Level> {
        [Level::None, Level::Less, Level::Default, Level::Aggressive].get(number as usize).copied()
    }

    /// Returns the level's number, which is LLVM's own number for code generation too.
    pub fn number(self) -> u32 {
        self as u32
    }
}

/// The form of a result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Output {
    /// Code of the target: a relocatable ELF object for x86-64 and AArch64, PTX text for NVIDIA, a
    /// code object for AMD.
    #[default]
    Code,
    /// Bitcode, after all passes.
    Bitcode,
    /// LLVM's assembly text, after all passes.
    Text,
}

/// A result.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Compiled {
    /// The bytes, in the form of the request's [`Output`].
    pub bytes: Vec<u8>,
    /// Facts about the compilation.
    pub facts: CompilationFacts,
}

/// Facts about a compilation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompilationFacts {
    /// The library that compiled.
    pub library: LibraryVersion,
    /// Warnings of LLVM.
    pub warnings: Vec<String>,
    /// The report of the pre-pass, if one ran.
    pub pre_pass: Vec<String>,
    /// The module's text before the optimisation passes, on request.
    pub text_before: Option<String>,
    /// The module's text after the optimisation passes, on request.
    pub text_after: Option<String>,
}

/// An opened `libLLVM`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LibraryVersion {
    /// The version; LLVM 14 and 15 do not report the last two numbers, which are 0.
    pub version: [u32; 3],
    /// The name or path by which the library was opened.
    pub path: PathBuf,
}

/// The reason why a module was not compiled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum CompileError {
    /// No `libLLVM`, or one without the target.
    #[error("{0}")]
    Library(String),
    /// Bitcode of a newer LLVM than the library's.
    #[error(
        "{producer} wrote it, but '{path}' reads bitcode of LLVM {version} and earlier. Install \
         libLLVM of LLVM {needed}, on Debian and Ubuntu the package libllvm{needed}, or compile it \
         with an earlier compiler"
    )]
    Newer {
        /// The writer of the bitcode, such as `LLVM22.1.0`.
        producer: String,
        /// The writer's major version.
        needed: u32,
        /// The library.
        path: String,
        /// The library's major version.
        version: u32,
    },
    /// Bytes that are no valid module.
    #[error("{0}")]
    Malformed(String),
    /// A module for another target than the requested one.
    #[error("{0}")]
    Target(String),
    /// A module that LLVM cannot compile.
    #[error("{0}")]
    Failed(String),
    /// A variant that the module's kernel does not allow.
    #[error("{message}")]
    Variant {
        /// The part of the request that is wrong.
        problem: VariantProblem,
        /// The reason.
        message: String,
    },
    /// A failure of the linker of code objects.
    #[error("{0}")]
    Linker(String),
    /// A failure of the process that compiles, or of the connection to it.
    #[error("the compiler's process failed: {0}")]
    Process(String),
    /// A compilation that took longer than the compiler's limit, and whose process was killed.
    #[error("LLVM did not end within {0:?}, and its process was killed")]
    TimeLimit(Duration),
}
