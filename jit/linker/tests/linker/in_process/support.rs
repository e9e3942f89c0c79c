//! Compilation of small sources, their link in a session, and calls of their functions.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{c_char, c_int};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::{LazyLock, Mutex};

use bytes::Bytes;
use longshore_jitlink::session::{
    DynamicLibrary, Generated, MainArguments, ProcessSymbols, Request, SessionBuilder,
};
use longshore_jitlink::{Error, Library, Session};
use tempfile::TempDir;

/// Compiles C with gcc. `flags` are separated by spaces.
pub(crate) fn c(flags: &str, source: &str) -> Bytes {
    compile("gcc", "c", flags, source)
}

/// Compiles C++ with g++.
pub(crate) fn cpp(flags: &str, source: &str) -> Bytes {
    compile("g++", "c++", flags, source)
}

/// Assembles a source with gcc.
pub(crate) fn assembly(source: &str) -> Bytes {
    compile("gcc", "assembler", "", source)
}

/// Compiles, or assembles, with any compiler that has gcc's options. Each result is kept for the
/// next call.
pub(crate) fn compile(compiler: &str, language: &str, flags: &str, source: &str) -> Bytes {
    static COMPILED: LazyLock<Mutex<HashMap<[String; 4], Bytes>>> = LazyLock::new(Mutex::default);
    let key = [compiler, language, flags, source].map(str::to_owned);
    if let Some(object) = COMPILED.lock().unwrap().get(&key) {
        return object.clone();
    }
    let object = run_compiler(compiler, language, flags, source);
    COMPILED.lock().unwrap().insert(key, object.clone());
    object
}

fn run_compiler(compiler: &str, language: &str, flags: &str, source: &str) -> Bytes {
    let directory = TempDir::new().unwrap();
    let object = directory.path().join("it.o");
    let mut command = Command::new(compiler);
    command.args(["-x", language, "-c", "-o"]).arg(&object);
    command.args(flags.split_whitespace()).arg("-").stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(source.as_bytes()).unwrap();
    succeed(&command, &child.wait_with_output().unwrap());
    std::fs::read(object).unwrap().into()
}

/// Returns the installed compilers among gcc and clang.
pub(crate) fn c_compilers() -> Vec<&'static str> {
    ["gcc", "clang-19", "clang"].into_iter().filter(|compiler| is_installed(compiler)).collect()
}

/// Returns whether a command is installed.
pub(crate) fn is_installed(command: &str) -> bool {
    Command::new(command).arg("--version").stdout(Stdio::null()).status().is_ok_and(|s| s.success())
}

/// Returns a static archive of these members.
pub(crate) fn archive(members: &[(&str, Bytes)]) -> Bytes {
    let directory = TempDir::new().unwrap();
    let files = write_all(directory.path(), members.iter().map(|(name, bytes)| (*name, bytes)));
    let archive = directory.path().join("it.a");
    let mut command = Command::new("ar");
    command.arg("rcs").arg(&archive).args(files);
    let output = command.output().unwrap();
    succeed(&command, &output);
    std::fs::read(archive).unwrap().into()
}

/// Returns a shared library of C, in a directory of its own.
pub(crate) fn shared_library(flags: &str, source: &str) -> TempDir {
    let directory = TempDir::new().unwrap();
    let object = c(&format!("-fPIC {flags}"), source);
    let files = write_all(directory.path(), [("it.o", &object)]);
    let mut command = Command::new("gcc");
    command.args(["-shared", "-o"]).arg(directory.path().join("it.so")).args(files);
    let output = command.output().unwrap();
    succeed(&command, &output);
    directory
}

/// Returns the output of the program that the system's linker makes of these objects.
pub(crate) fn system_linked(objects: &[Bytes]) -> String {
    let directory = TempDir::new().unwrap();
    let names: Vec<String> = (0..objects.len()).map(|index| format!("{index}.o")).collect();
    let files = write_all(directory.path(), names.iter().map(String::as_str).zip(objects));
    let program = directory.path().join("program");
    let mut command = Command::new("g++");
    command.arg("-o").arg(&program).args(files);
    let output = command.output().unwrap();
    succeed(&command, &output);
    let output = Command::new(program).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

fn write_all<'a>(
    directory: &Path,
    files: impl IntoIterator<Item = (&'a str, &'a Bytes)>,
) -> Vec<std::path::PathBuf> {
    let write = |(name, bytes): (&str, &Bytes)| {
        let path = directory.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    files.into_iter().map(write).collect()
}

fn succeed(command: &Command, output: &Output) {
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Returns a session with the default settings.
pub(crate) fn session() -> Session {
    // SAFETY: the objects are programs of these tests, which are sound in this process.
    unsafe { Session::new() }.unwrap()
}

/// Returns a library with these objects and the symbols of this process, in a session of its own.
/// Objects are named `0.o`, `1.o` and so on.
pub(crate) fn library(objects: &[Bytes]) -> Library {
    library_of(Session::builder(), objects)
}

/// Returns such a library, in a session with other settings.
pub(crate) fn library_of(session: SessionBuilder, objects: &[Bytes]) -> Library {
    // SAFETY: the objects are programs of these tests, which are sound in this process.
    let session = unsafe { super::executed(session).build() }.unwrap();
    let library = session.create_library("program");
    for (index, object) in objects.iter().enumerate() {
        let _object = library.add_object(&format!("{index}.o"), object.clone()).unwrap();
    }
    library.add_generator(ProcessSymbols);
    library
}

/// Adds the run time library of C++.
pub(crate) fn add_cpp_runtime(library: &Library) {
    // SAFETY: the constructors and destructors of the library run in every C++ program.
    library.add_generator(unsafe { DynamicLibrary::open(Path::new("libstdc++.so.6")) }.unwrap());
}

/// Returns the result of `long NAME(void)`.
pub(crate) fn value(library: &Library, name: &str) -> i64 {
    call(library.lookup(name).unwrap())
}

/// Returns the result of `long (*)(void)` at an address.
pub(crate) fn call(address: u64) -> i64 {
    // SAFETY: the tests' sources define the function with this type.
    let function: extern "C-unwind" fn() -> i64 = unsafe { std::mem::transmute(address as usize) };
    function()
}

/// Returns the result of `long NAME(long)`.
pub(crate) fn value_of(library: &Library, name: &str, argument: i64) -> i64 {
    let address = library.lookup(name).unwrap();
    // SAFETY: the tests' sources define the function with this type.
    let function: extern "C-unwind" fn(i64) -> i64 =
        unsafe { std::mem::transmute(address as usize) };
    function(argument)
}

/// Reads a `long` variable.
pub(crate) fn variable(library: &Library, name: &str) -> i64 {
    // SAFETY: the tests' sources define the variable with this type.
    unsafe { *(library.lookup(name).unwrap() as *const i64) }
}

/// Returns the text of the error; panics without one.
pub(crate) fn failure<T>(result: Result<T, Error>) -> String {
    match result {
        Ok(_) => panic!("there was no error"),
        Err(error) => error.to_string(),
    }
}

thread_local! {
    static TRACE: RefCell<Vec<i32>> = const { RefCell::new(Vec::new()) };
}

/// Implements `void trace(int)` of linked code: records a number, which [`traced`] returns.
extern "C" fn trace(number: c_int) {
    // At the end of a thread the record may be gone.
    let _ = TRACE.try_with(|trace| trace.borrow_mut().push(number));
}

/// The source of `void trace(int)` for programs of the system's linker, which prints the number.
pub(crate) const SYSTEM_TRACE: &str = "
    #include <unistd.h>
    #include <stdio.h>
    void trace(int n) { char text[16]; write(1, text, sprintf(text, \"%d \", n)); }
    int main(void) { trace(0); return 0; }";

/// Defines `trace`.
pub(crate) fn define_trace(library: &Library) {
    library.define_absolute("trace", trace as *const () as u64).unwrap();
}

/// Traces a number as linked code does.
pub(crate) fn note(number: i32) {
    trace(number);
}

/// Returns the numbers that linked code has traced in this thread since the last call, in the
/// format of `SYSTEM_TRACE`.
pub(crate) fn traced() -> String {
    let numbers = TRACE.with(|trace| std::mem::take(&mut *trace.borrow_mut()));
    numbers.into_iter().map(|number| format!("{number} ")).collect()
}

/// Runs a library's constructors.
pub(crate) fn initialize(library: &Library) {
    // SAFETY: the tests' sources are sound to run.
    unsafe { library.initialize(MainArguments::default()) }.unwrap();
}

/// Runs a library's destructors.
pub(crate) fn deinitialize(library: &Library) {
    // SAFETY: the tests' sources are sound to run.
    unsafe { library.deinitialize() }.unwrap();
}

/// Returns the string at an address.
pub(crate) fn string_at(address: i64) -> String {
    // SAFETY: the tests' sources put a string there.
    unsafe { std::ffi::CStr::from_ptr(address as *const c_char) }.to_str().unwrap().to_owned()
}

/// Returns a generator that knows one name.
pub(crate) fn generator_of(
    name: &'static str,
    address: u64,
) -> impl Fn(&[Request<'_>]) -> Result<Vec<Generated>, Error> + Send + Sync + 'static {
    move |requests| {
        let known = requests.iter().enumerate().filter(|(_, request)| request.name == name);
        Ok(known.map(|(index, _)| Generated::Address { index, address }).collect())
    }
}
