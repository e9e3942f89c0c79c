//! The compiler of pieces: `libLLVM`, in another process or in this one.

use std::fmt;
use std::sync::Arc;

use longshore_compiler::{
    Compile, CompileError, Level, LibraryChoice, LibraryVersion, Module, Options, Output, Part,
    Request, Target,
};
use longshore_jitlink::{Error, Result};

use crate::slots::Slots;

/// A compiler of pieces of modules. Cheap to clone; clones share the limit on concurrent
/// compilations. Any thread may use it.
#[derive(Clone)]
pub struct Compiler {
    compile: Arc<dyn Compile>,
    library: LibraryVersion,
    options: Options,
    slots: Arc<Slots>,
}

impl Compiler {
    /// Creates a compiler that uses a `libLLVM`, which is opened here. Blocks meanwhile.
    ///
    /// # Errors
    /// [`Error::Open`] if the library cannot be opened; it says what to install.
    pub fn new(compile: Arc<dyn Compile>, library: LibraryChoice) -> Result<Self> {
        let opened = compile.version(&library).map_err(|error| Error::Open {
            path: "libLLVM".to_owned(),
            problem: error.to_string(),
        })?;
        let options = Options { library, level: Level::Default, ..Options::default() };
        Ok(Self { compile, library: opened, options, slots: Arc::default() })
    }

    /// Sets another optimisation level than [`Level::Default`].
    #[must_use]
    pub fn with_level(mut self, level: Level) -> Self {
        self.options.level = level;
        self
    }

    /// Returns the library's major version. It reads bitcode of this version and earlier ones.
    pub fn version(&self) -> u32 {
        self.library.version[0]
    }

    /// Returns the name of the library, for messages.
    pub(crate) fn name(&self) -> String {
        self.library.path.display().to_string()
    }

    /// Assembles a module in LLVM's text format, as from `clang -S -emit-llvm`. `name` is for
    /// messages. Blocks until it is done.
    ///
    /// # Errors
    /// [`Error::Piece`] if LLVM refuses the text; it has LLVM's message.
    pub fn assemble(&self, name: &str, text: &[u8]) -> Result<Vec<u8>> {
        let assembled = self.to_bitcode(&Module::new(text), false);
        assembled.map_err(|error| Error::Piece {
            piece: "its bitcode".to_owned(),
            file: name.to_owned(),
            problem: error.to_string(),
        })
    }

    /// Compiles a part of a module for a target. First blocks while there are as many other
    /// compilations as processors, then until the compilation is done.
    pub(crate) fn compile(
        &self,
        module: &Module,
        part: &Part<'_>,
        triple: &str,
    ) -> std::result::Result<Vec<u8>, CompileError> {
        let target = Target { triple: triple.to_owned(), ..Target::default() };
        self.run(&Request { module, part, target: &target, options: &self.options })
    }

    /// Gives all of a module's globals names.
    pub(crate) fn name_globals(
        &self,
        module: &Module,
    ) -> std::result::Result<Vec<u8>, CompileError> {
        self.to_bitcode(module, true)
    }

    /// Drops the compiler's copy of a module.
    pub(crate) fn forget(&self, module: &Module) {
        self.compile.forget(module);
    }

    fn to_bitcode(
        &self,
        module: &Module,
        names_globals: bool,
    ) -> std::result::Result<Vec<u8>, CompileError> {
        let options = Options {
            library: self.options.library.clone(),
            optimizes: false,
            runs_pre_pass: false,
            names_globals,
            output: Output::Bitcode,
            ..Options::default()
        };
        let (part, target) = (Part::Whole, Target::default());
        self.run(&Request { module, part: &part, target: &target, options: &options })
    }

    fn run(&self, request: &Request<'_>) -> std::result::Result<Vec<u8>, CompileError> {
        let _slot = self.slots.take();
        Ok(self.compile.compile(request)?.bytes)
    }
}

impl fmt::Debug for Compiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { library, options, .. } = self;
        f.debug_struct("Compiler").field("library", library).field("options", options).finish()
    }
}
