//! Bitcode whose functions are compiled at their first call in an executor.

use longshore_bitcode::{Bitcode, Compiler};
use longshore_compiler::LibraryChoice;
use longshore_executor::compiler::CompilerProcess;
use longshore_executor::controller::{ExecutorProcess, Spawn};
use longshore_jitlink::lazy::{LazyReexports, Source};
use longshore_jitlink::process::TargetProcess;
use longshore_jitlink::session::{DynamicLibrary, MainArguments, ProcessSymbols};
use longshore_jitlink::{Library, Session};
use longshore_tests::world;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use tempfile::tempdir;

/// A program whose `main` returns the number of successful checks.
const PROGRAM: &str = r#"
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>
namespace {
long constructed, unwound;
struct Global { Global() { constructed++; } } global;
thread_local long own = 5;
struct Local { ~Local() { unwound++; } };
__attribute__((noinline)) void thrower(long n) { Local local; if (n) throw std::runtime_error("thrown " + std::to_string(n)); }
__attribute__((noinline)) long caught(long n) {
    try { thrower(n); } catch (const std::exception &error) { return std::string(error.what()) == "thrown 3"; }
    return 0;
}
__attribute__((noinline)) long counted(long n) { return own += n; }
}
extern "C" long never(long n) { return caught(n) + counted(n); }
int main() {
    std::vector<std::thread> threads;
    long results[8] = {};
    for (long n = 0; n < 8; n++) threads.emplace_back([n, &results] { results[n] = counted(n); });
    for (std::thread &thread : threads) thread.join();
    int held = 0;
    for (long n = 0; n < 8; n++) held += results[n] == 5 + n;
    held += own == 5;
    held += caught(3) == 1;
    held += unwound == 1;
    held += constructed == 1;
    return held;
}
"#;

/// Returns a compiler in a process of its own, of the version of `clang-19`. Without one, prints
/// that and returns `None`.
fn compiler() -> Option<Compiler> {
    let path = world::command().with_file_name("longshore-executor");
    let process = Arc::new(CompilerProcess::new(Spawn::new(path)));
    match Compiler::new(process, LibraryChoice::Major(19)) {
        Ok(compiler) => Some(compiler),
        Err(error) => {
            assert!(std::env::var_os("CI").is_none(), "{error}");
            eprintln!("skipped: {error}");
            None
        }
    }
}

fn bitcode(compiler: &Compiler) -> Vec<u8> {
    let folder = tempdir().unwrap();
    let [source, module] = ["it.cc", "it.bc"].map(|name| folder.path().join(name));
    fs::write(&source, PROGRAM).unwrap();
    let mut clang = Command::new(format!("clang-{}", compiler.version()));
    clang.args(["-O1", "-c", "-emit-llvm", "-fPIC", "-o"]).arg(&module).arg(source);
    assert!(clang.status().unwrap().success());
    fs::read(module).unwrap()
}

/// Adds a module to a program of a session lazily, runs it there, and returns the result of its
/// `main`.
fn run(session: &Session, process: Arc<dyn TargetProcess>, module: &Bitcode) -> i32 {
    let library: Library = session.create_library("program");
    library.add_generator(ProcessSymbols);
    // SAFETY: the standard library is safe to open.
    let standard = unsafe { DynamicLibrary::open_in(process, Path::new("libstdc++.so.6")) };
    library.add_generator(standard.unwrap());
    let lazy = LazyReexports::for_session(session).unwrap();
    let addition = lazy.lazily(&library, "program").source(Arc::new(module.clone()));
    let files = addition.add().unwrap();
    // SAFETY: the program is sound to run.
    unsafe { files.initialize(MainArguments::default()) }.unwrap();
    let main = library.lookup("main").unwrap();
    // SAFETY: `main` is the main function of the program.
    unsafe { library.run_main(main, MainArguments::default()) }.unwrap()
}

#[test]
fn a_program_is_compiled_as_an_executor_calls_it() {
    let Some(compiler) = compiler() else { return };
    let bytes = bitcode(&compiler);
    for shares_memory in [true, false] {
        let path = world::command().with_file_name("longshore-executor");
        let spawn = Spawn::new(path).with_shared_memory(shares_memory);
        let process: Arc<dyn TargetProcess> = ExecutorProcess::spawn(&spawn).unwrap();
        let session = Session::builder().with_process(Arc::clone(&process));
        // SAFETY: the program is sound to load in the executor.
        let session = unsafe { session.build() }.unwrap();
        let module = Bitcode::for_session(&session, &compiler, "it.bc", &bytes).unwrap();
        assert_eq!(run(&session, process, &module), 12, "{shares_memory}");
        let compiled = module.compiled();
        assert!(compiled > 4, "{compiled}");
        // The program never calls this function.
        module.prepare("never").unwrap();
        assert_eq!(module.compiled(), compiled + 1);
    }
}
