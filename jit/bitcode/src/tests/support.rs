//! Modules from small sources, added lazily and called.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use crate::{Bitcode, Compiler};
use longshore_jitlink::lazy::{LazyFiles, LazyReexports, Source};
use longshore_jitlink::session::{DynamicLibrary, ProcessSymbols};
use longshore_jitlink::{Library, Session};
use tempfile::TempDir;

/// Returns the compiler of this machine. Without one, prints the reason and returns `None`, or
/// panics where `CI` is set.
pub(crate) fn compiler() -> Option<Compiler> {
    match Compiler::find(&path()) {
        Ok(compiler) => Some(compiler),
        Err(error) => {
            assert!(std::env::var_os("CI").is_none(), "{error}");
            eprintln!("skipped: {error}");
            None
        }
    }
}

pub(crate) fn path() -> OsString {
    std::env::var_os("PATH").unwrap_or_default()
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

/// A folder with scripts, which is removed on drop.
pub(crate) struct Scripts(TempDir);

impl Scripts {
    pub(crate) fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    /// Writes a shell script, and returns its path.
    pub(crate) fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        path
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}
