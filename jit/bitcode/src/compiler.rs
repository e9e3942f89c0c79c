//! The compiler: clang, and `llvm-extract` of the same LLVM, as processes of their own.
//!
//! A module may be anything, and a compiler that crashes, hangs or takes all memory on one must be an error of that one, so none of it
//! runs in this process. What goes in and comes out goes through pipes.

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

/// Compiles pieces of modules. Cheap to clone; clones share the number of pieces that are compiled at once. Any thread may use it.
#[derive(Debug, Clone)]
pub struct Compiler {
    clang: PathBuf,
    extract: PathBuf,
    version: u32,
    flags: Vec<OsString>,
    limits: Limits,
    slots: Arc<Slots>,
}

/// What compiling one piece may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How long it may take, after which the compiler is killed.
    pub time: Duration,
    /// How many bytes its object may have.
    pub output: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { time: Duration::from_secs(120), output: 256 << 20 }
    }
}

/// A module's bytes, in memory from which each process reads them for itself.
pub(crate) struct Input(File);

/// What is taken out of a module.
pub(crate) enum Part<'a> {
    /// These functions and aliases.
    Only { functions: Vec<&'a [u8]>, aliases: Vec<&'a [u8]> },
    /// All but these.
    Without { functions: &'a [Vec<u8>], aliases: &'a [Vec<u8>] },
}

impl Compiler {
    /// Returns the newest clang in these folders, which are separated as those of `PATH` are, for which `llvm-extract` of the same version is
    /// there too: `clang-19` and `llvm-extract-19`, or `clang` and `llvm-extract`.
    ///
    /// # Errors
    /// [`Error::Open`](longshore_jitlink::Error::Open) if there is none; it says what to install.
    pub fn find(path: &OsStr) -> Result<Self> {
        find::find(path)
    }

    /// These programs, of LLVM 14 or later. Asks them for their versions. Blocks until they have answered.
    ///
    /// # Errors
    /// [`Error::Open`](longshore_jitlink::Error::Open) if one cannot be run, or is something else, or of another LLVM than the other.
    pub fn new(clang: impl Into<PathBuf>, extract: impl Into<PathBuf>) -> Result<Self> {
        find::ask(clang.into(), extract.into())
    }

    /// Returns the same with further flags for clang, which come after its own: `-O2`, for position-independent code.
    #[must_use]
    pub fn with_flags(mut self, flags: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.flags.extend(flags.into_iter().map(Into::into));
        self
    }

    /// Returns the same with other limits.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Returns the version of LLVM that it is of. It reads what this one and earlier ones write.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Returns the name of clang, for messages.
    pub(crate) fn name(&self) -> String {
        self.clang.display().to_string()
    }

    fn with_tools(clang: PathBuf, extract: PathBuf, version: u32) -> Self {
        let (flags, limits, slots) = (Vec::new(), Limits::default(), Arc::default());
        Self { clang, extract, version, flags, limits, slots }
    }

    /// Compiles a part of a module for a target. Blocks until it is done, and before that while as many others are compiled as there
    /// are processors. The error says what went wrong, and what the compiler said.
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
                // There may be more than a command line takes.
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

    /// Returns the bitcode of a module that is written as LLVM's assembly text, as `clang -S -emit-llvm` does, by a program of the same LLVM.
    /// Its name is for messages. Blocks until it is done.
    ///
    /// # Errors
    /// [`Error::Piece`] if `llvm-as` is not there, or refuses the text: it says what the program said.
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

    /// What clang is called with.
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
            // The target is the module's own, so nothing is overridden but how it is written.
            "-Wno-override-module",
            // A table of symbols by their numbers, which change.
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
        let fail = |error: std::io::Error| format!("keeping it for the compiler: {error}");
        let mut memory = memory_file::create("longshore-module", bytes).map_err(fail)?;
        memory.rewind().map_err(fail)?;
        Ok(Self(memory))
    }

    /// Returns a file of its own, with a position of its own.
    fn reader(&self) -> Result<File, String> {
        let path = format!("/proc/self/fd/{}", self.number());
        File::open(&path).map_err(|error| format!("{path}: {error}"))
    }

    /// What has an LLVM tool take this as further arguments.
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

/// Adds an argument to a response file, in which backslashes make characters what they are.
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
