//! Sources, compilers, and the symbols of objects.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use longshore_llvm::Library;
use object::{Object, ObjectSymbol};

use crate::{Compile, CompileError, Compiled, Compiler, Module, Options, Part, Request, Target};

/// Versions of LLVM for which both the library and clang are installed. In CI there must be one.
pub(super) fn versions() -> Vec<u32> {
    let is_there = |version: &u32| {
        // SAFETY: the system's libraries of these names are LLVM's.
        let library = unsafe { Library::find(Some(*version)) };
        library.is_ok() && runs(&format!("clang-{version}"))
    };
    let found: Vec<u32> = [14, 16, 19, 22].into_iter().filter(is_there).collect();
    if found.is_empty() {
        assert!(std::env::var_os("CI").is_none(), "no libLLVM with its clang");
        eprintln!("skipped: no libLLVM with its clang");
    }
    found
}

pub(super) fn runs(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdout(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Compiles a source to bitcode by clang of this version: in C, or the language that `-x` names.
pub(super) fn bitcode(version: u32, flags: &str, source: &str) -> Module {
    let program = format!("clang-{version}");
    let arguments = "-x c".split(' ').chain(flags.split_whitespace());
    let arguments = arguments.chain("-c -emit-llvm -o - -".split(' '));
    Module::new(run(&program, arguments, source.as_bytes()))
}

/// Runs a program with this input, and returns its output.
pub(super) fn run<'a>(
    program: &str,
    arguments: impl Iterator<Item = &'a str>,
    input: &[u8],
) -> Vec<u8> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{command:?}");
    output.stdout
}

pub(super) fn compiler() -> Compiler {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    // SAFETY: the system's libraries of these names are LLVM's, and the modules are clang's.
    unsafe { Compiler::in_process(folders) }
}

/// Compiles a part of a module for its own target.
pub(super) fn compile(
    compiler: &Compiler,
    module: &Module,
    part: &Part<'_>,
    options: &Options,
) -> Result<Compiled, CompileError> {
    let target = Target::default();
    compiler.compile(&Request { module, part, target: &target, options })
}

/// Returns the symbols of an object; undefined symbols have a question mark.
pub(super) fn symbols(object: &[u8]) -> Vec<String> {
    let file = object::File::parse(object).unwrap();
    let named = file.symbols().filter(|symbol| !symbol.is_local());
    let mut names: Vec<String> = named
        .map(|symbol| {
            let mark = if symbol.is_undefined() { "?" } else { "" };
            format!("{}{mark}", symbol.name().unwrap())
        })
        .collect();
    names.sort();
    names
}
