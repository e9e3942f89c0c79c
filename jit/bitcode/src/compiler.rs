//! The compiler: clang, and `llvm-extract` of the same LLVM, as processes of their own.
//!
//! A module may have any contents. A compiler that crashes, hangs or takes all memory must be an
//! error of that module, so no part of the compiler runs in this process. Input and output pass
//! through pipes.

mod find;
mod pipeline;
mod slots;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Seek;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use longshore_jitlink::{Error, Result};
use longshore_orc_rt::memory_file;

use pipeline::{Stage, run};
use slots::Slots;

/// A compiler of pieces of modules. Cheap to clone; clones share the limit on concurrent
/// compilations. Any thread may use it.
#[derive(Debug, Clone)]
pub struct Compiler {
    clang: PathBuf,
    extract: PathBuf,
    version: u32,
    flags: Vec<OsString>,
    limits: Limits,
    slots: Arc<Slots>,
}

/// The limits for the compilation of one piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Time after which the compiler is killed.
    pub time: Duration,
    /// Maximum size of the object in bytes.
    pub output: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { time: Duration::from_secs(120), output: 256 << 20 }
    }
}

/// A module's bytes in a memory file, which each process opens and reads by itself.
pub(crate) struct Input(File);

/// The part of a module that is compiled.
pub(crate) enum Part<'a> {
    /// Only these functions and aliases.
    Only { functions: Vec<&'a [u8]>, aliases: Vec<&'a [u8]> },
    /// All except these functions and aliases.
    Without { functions: &'a [Vec<u8>], aliases: &'a [Vec<u8>] },
}

impl Compiler {
    /// Returns the newest clang in these folders for which `llvm-extract` of the same version is
    /// also present: `clang-19` and `llvm-extract-19`, or `clang` and `llvm-extract`. Colons
    /// separate the folders, as in `PATH`.
    ///
    /// # Errors
    /// [`Error::Open`] if there is no such pair; it says what to
    /// install.
    pub fn find(path: &OsStr) -> Result<Self> {
        find::find(path)
    }

    /// Creates a compiler from two programs of LLVM 14 or later, which it runs to get their
    /// versions. Blocks until they have ended.
    ///
    /// # Errors
    /// [`Error::Open`] if a program cannot be run, reports no
    /// version of LLVM, or is too old, or if the versions differ.
    pub fn new(clang: impl Into<PathBuf>, extract: impl Into<PathBuf>) -> Result<Self> {
        find::ask(clang.into(), extract.into())
    }

    /// Adds flags for clang, which follow its own: `-O2`, for position-independent code.
    #[must_use]
    pub fn with_flags(mut self, flags: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.flags.extend(flags.into_iter().map(Into::into));
        self
    }

    /// Sets other limits.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Returns the compiler's version of LLVM. It reads bitcode of this version and earlier ones.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Returns the path of clang, for messages.
    pub(crate) fn name(&self) -> String {
        self.clang.display().to_string()
    }

    fn with_tools(clang: PathBuf, extract: PathBuf, version: u32) -> Self {
        let (flags, limits, slots) = (Vec::new(), Limits::default(), Arc::default());
        Self { clang, extract, version, flags, limits, slots }
    }

    /// Compiles a part of a module for a target. First blocks while there are as many other
    /// compilations as processors, then until the compilation is done. The error has the problem
    /// and the compiler's message.
    pub(crate) fn compile(
        &self,
        module: &Input,
        part: Part<'_>,
        target: &str,
    ) -> Result<Vec<u8>, String> {
        let list;
        let mut arguments = vec!["-o".into(), "-".into(), "/proc/self/fd/0".into()];
        match part {
            Part::Only { functions, aliases } => {
                let named = |option: &str, names: Vec<&[u8]>| -> Vec<OsString> {
                    names.into_iter().map(|name| argument(option, name)).collect()
                };
                arguments.extend(named("--func=", functions));
                arguments.extend(named("--alias=", aliases));
            }
            Part::Without { functions, aliases } => {
                // There may be more names than a command line takes.
                let mut lines = Vec::new();
                for (option, names) in [("--func=", functions), ("--alias=", aliases)] {
                    names.iter().for_each(|name| add_line(&mut lines, option, name));
                }
                list = Input::new(&lines)?;
                arguments.push("--delete".into());
                arguments.push(list.response_file());
            }
        }
        let extract = Stage { program: self.extract.clone(), arguments };
        let clang = Stage { program: self.clang.clone(), arguments: self.arguments(target) };
        let _slot = self.slots.take();
        run(vec![extract, clang], module.reader()?, self.limits)
    }

    /// Assembles a module in LLVM's text format, as from `clang -S -emit-llvm`, by a program of the
    /// same LLVM. `name` is for messages. Blocks until it is done.
    ///
    /// # Errors
    /// [`Error::Piece`] if `llvm-as` is missing or refuses the text; it has the program's message.
    pub fn assemble(&self, name: &str, text: &[u8]) -> Result<Vec<u8>> {
        let program = find::sibling(&self.extract, "llvm-as");
        let arguments = ["-o", "-", "/proc/self/fd/0"].map(OsString::from).to_vec();
        let _slot = self.slots.take();
        let assembled = Input::new(text)
            .and_then(|input| input.reader())
            .and_then(|input| run(vec![Stage { program, arguments }], input, self.limits));
        assembled.map_err(|problem| Error::Piece {
            piece: "its bitcode".to_owned(),
            file: name.to_owned(),
            problem,
        })
    }

    /// Gives all of a module's globals names, by a program of the same LLVM.
    pub(crate) fn name_globals(&self, module: &Input) -> Result<Vec<u8>, String> {
        let program = find::sibling(&self.extract, "opt");
        let arguments = ["-passes=name-anon-globals", "-o", "-", "/proc/self/fd/0"];
        let arguments = arguments.map(OsString::from).to_vec();
        let _slot = self.slots.take();
        run(vec![Stage { program, arguments }], module.reader()?, self.limits)
    }

    /// Returns the arguments of clang.
    fn arguments(&self, target: &str) -> Vec<OsString> {
        let own = [
            "-x",
            "ir",
            "-c",
            "-o",
            "-",
            "-",
            "-O2",
            "-fPIC",
            // The target is the module's own, so clang only overrides its spelling.
            "-Wno-override-module",
            // The table of significant addresses names symbols by their numbers, which change.
            "-fno-addrsig",
            "-fno-crash-diagnostics",
            "-fno-color-diagnostics",
        ];
        let target = OsString::from(format!("--target={target}"));
        let own = own.into_iter().map(OsString::from).chain([target]);
        own.chain(self.flags.iter().cloned()).collect()
    }
}

impl Input {
    pub(crate) fn new(bytes: &[u8]) -> Result<Self, String> {
        let fail = |error: std::io::Error| format!("storing it for the compiler: {error}");
        let mut memory = memory_file::create("longshore-module", bytes).map_err(fail)?;
        memory.rewind().map_err(fail)?;
        Ok(Self(memory))
    }

    /// Opens the file again, so that the reader has a position of its own.
    fn reader(&self) -> Result<File, String> {
        let path = format!("/proc/self/fd/{}", self.number());
        File::open(&path).map_err(|error| format!("{path}: {error}"))
    }

    /// Returns the argument with which an LLVM tool reads this file as further arguments.
    fn response_file(&self) -> OsString {
        format!("@/proc/{}/fd/{}", std::process::id(), self.number()).into()
    }

    fn number(&self) -> i32 {
        std::os::fd::AsRawFd::as_raw_fd(&self.0)
    }
}

fn argument(option: &str, name: &[u8]) -> OsString {
    OsString::from_vec([option.as_bytes(), name].concat())
}

/// Adds an argument to a response file, in which a backslash quotes a character.
fn add_line(lines: &mut Vec<u8>, option: &str, name: &[u8]) {
    lines.extend(option.as_bytes());
    for byte in name {
        if matches!(byte, b'\\' | b'\'' | b'"') || byte.is_ascii_whitespace() {
            lines.push(b'\\');
        }
        lines.push(*byte);
    }
    lines.push(b'\n');
}
