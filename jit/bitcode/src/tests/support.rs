//! Modules from small sources, added lazily and called.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use crate::{Bitcode, Compiler};
use longshore_compiler::{
    Compile, CompileError, Compiled, Compiler as InProcess, LibraryChoice, LibraryVersion, Module,
    Part, Request,
};
use longshore_jitlink::lazy::{LazyFiles, LazyReexports, Source};
use longshore_jitlink::session::{DynamicLibrary, ProcessSymbols};
use longshore_jitlink::{Library, Session};

/// Returns the compiler of this machine, for the newest LLVM that has its clang. Without one,
/// prints the reason and returns `None`, or panics where `CI` is set.
pub(crate) fn compiler() -> Option<Compiler> {
    let has_clang = |version: &u32| {
        let mut clang = Command::new(format!("clang-{version}"));
        clang.arg("--version").stdout(Stdio::null()).status().is_ok_and(|it| it.success())
    };
    let newest = (14..=22).rev().find(has_clang).unwrap_or(22);
    match Compiler::new(Arc::new(llvm()), LibraryChoice::Major(newest)) {
        Ok(compiler) => Some(compiler),
        Err(error) => {
            assert!(std::env::var_os("CI").is_none(), "{error}");
            eprintln!("skipped: {error}");
            None
        }
    }
}

/// A source: its language, its flags for clang, separated by spaces, and its text.
pub(crate) type Text<'a> = (&'a str, &'a str, &'a str);

/// Compiles a source by clang of this version.
pub(crate) fn bitcode(version: u32, (language, flags, source): Text<'_>) -> Vec<u8> {
    let mut command = Command::new(format!("clang-{version}"));
    command.args(["-x", language, "-c", "-emit-llvm", "-o", "-"]).args(flags.split_whitespace());
    command.arg("-").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(source.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{command:?}");
    output.stdout
}

/// Modules that are added lazily, together, to a library of a session of this process.
pub(crate) struct World {
    pub(crate) session: Session,
    pub(crate) library: Library,
    pub(crate) lazy: LazyReexports,
    pub(crate) files: LazyFiles,
    pub(crate) modules: Vec<Bitcode>,
}

impl World {
    /// Creates a world from these sources; `None` without a compiler.
    pub(crate) fn from_texts(texts: &[Text<'_>]) -> Option<Self> {
        Some(Self::by(&compiler()?, texts))
    }

    /// Creates a world from these sources, which clang of the compiler's version translates to
    /// bitcode.
    pub(crate) fn by(compiler: &Compiler, texts: &[Text<'_>]) -> Self {
        let session = session();
        let modules: Vec<Bitcode> = texts
            .iter()
            .enumerate()
            .map(|(index, text)| {
                let bytes = bitcode(compiler.version(), *text);
                let name = format!("{index}.bc");
                Bitcode::for_session(&session, compiler, &name, &bytes).unwrap()
            })
            .collect();
        let lazy = LazyReexports::for_session(&session).unwrap();
        let library = library(&session);
        let mut addition = lazy.lazily(&library, "program");
        for module in &modules {
            addition = addition.source(Arc::new(module.clone()) as Arc<dyn Source>);
        }
        let files = addition.add().unwrap();
        Self { session, library, lazy, files, modules }
    }

    /// Calls a function that takes and returns a `long`.
    pub(crate) fn call(&self, name: &str, argument: i64) -> i64 {
        call(&self.library, name, argument)
    }

    /// Runs constructors.
    pub(crate) fn initialize(&self) {
        // SAFETY: the sources are sound to run.
        unsafe { self.files.initialize(Default::default()) }.unwrap();
    }

    /// Returns the number of compiled pieces.
    pub(crate) fn compiled(&self) -> usize {
        self.modules.iter().map(Bitcode::compiled).sum()
    }
}

pub(crate) fn session() -> Session {
    // SAFETY: the modules are programs of these tests, which are sound to have in this process.
    unsafe { Session::new() }.unwrap()
}

/// Returns a library that finds the symbols of this process and of the C++ library.
pub(crate) fn library(session: &Session) -> Library {
    let library = session.create_library("program");
    library.add_generator(ProcessSymbols);
    // SAFETY: the library is meant to be opened.
    let standard = unsafe { DynamicLibrary::open(Path::new("libstdc++.so.6")) }.unwrap();
    library.add_generator(standard);
    library
}

/// Calls a function that takes and returns a `long`.
pub(crate) fn call(library: &Library, name: &str, argument: i64) -> i64 {
    let function = library.lookup(name).unwrap();
    // SAFETY: the sources define functions of this type.
    let function: extern "C" fn(i64) -> i64 = unsafe { std::mem::transmute(function as usize) };
    function(argument)
}

/// A compiler whose compilations pass through a function, which gets the names of the functions of
/// a piece; for the rest it gets none.
pub(crate) struct Changed<F> {
    llvm: InProcess,
    change: F,
}

/// A compilation.
pub(crate) type Compilation<'a> = &'a dyn Fn() -> Result<Compiled, CompileError>;

/// Returns a compiler like [`compiler`]'s whose compilations pass through a function.
pub(crate) fn changed<F>(change: F) -> Option<Compiler>
where
    F: Fn(&[&[u8]], Compilation<'_>) -> Result<Compiled, CompileError> + Send + Sync + 'static,
{
    let version = compiler()?.version();
    let changed = Arc::new(Changed { llvm: llvm(), change });
    Some(Compiler::new(changed, LibraryChoice::Major(version)).unwrap())
}

impl<F> Compile for Changed<F>
where
    F: Fn(&[&[u8]], Compilation<'_>) -> Result<Compiled, CompileError> + Send + Sync,
{
    fn compile(&self, request: &Request<'_>) -> Result<Compiled, CompileError> {
        let functions = match request.part {
            Part::Only { functions, .. } => functions.as_slice(),
            _ => &[],
        };
        (self.change)(functions, &|| self.llvm.compile(request))
    }

    fn version(&self, library: &LibraryChoice) -> Result<LibraryVersion, CompileError> {
        self.llvm.version(library)
    }

    fn forget(&self, module: &Module) {
        self.llvm.forget(module);
    }
}

fn llvm() -> InProcess {
    // SAFETY: the system's libLLVM is LLVM's, and clang makes the modules.
    unsafe { InProcess::in_process([]) }
}
