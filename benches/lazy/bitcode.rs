//! Functions that are compiled at their first call: the first call of one, and a small program that
//! calls most of its functions, beside `lli`.

use crate::executors::executor;
use anyhow::{Context, Error, Result, ensure};
use longshore_benches::report::{Limit, Report};
use longshore_benches::rounds::{Contender, in_rounds};
use longshore_bitcode::{Bitcode, Compiler};
use longshore_compiler::{Compile, Compiler as InProcess, Level, LibraryChoice};
use longshore_executor::compiler::CompilerProcess;
use longshore_executor::controller::Spawn;
use longshore_jitlink::Session;
use longshore_jitlink::lazy::LazyReexports;
use longshore_jitlink::session::ProcessSymbols;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A program with six pieces that are called or used, and one that is not.
const PROGRAM: &str = "
    static int table[] = { 1, 2, 3, 4 };
    __attribute__((noinline)) static int one(int n) { return table[n & 3]; }
    __attribute__((noinline)) static int two(int n) { return one(n) + one(n + 1); }
    __attribute__((noinline)) static int three(int n) { return two(n) * 2; }
    int alone(int n) { return n - 1; }
    __attribute__((noinline)) int four(int n) { return three(n) + two(n); }
    int main(int argc, char **argv) { return four(1) - 15; }";

/// Number of functions of the larger program.
const FUNCTIONS: usize = 100;

pub(crate) fn measure(report: &mut Report) -> Result<()> {
    let Some(version) = version() else {
        println!("not measured: compiled functions, which need a libLLVM with its clang");
        return Ok(());
    };
    let process: Arc<dyn Compile> = Arc::new(CompilerProcess::new(Spawn::new(executor()?)));
    // SAFETY: the system's libLLVM is LLVM's, and clang makes the modules.
    let llvm: Arc<dyn Compile> = Arc::new(unsafe { InProcess::in_process([]) });
    let folder = tempfile::tempdir_in("/dev/shm")?;
    let [small, large] = ["small.bc", "large.bc"].map(|name| folder.path().join(name));
    let bytes = bitcode(version, &small, PROGRAM)?;
    let many = bitcode(version, &large, &program(FUNCTIONS))?;
    for (level, name) in [(Level::None, "-O0"), (Level::Default, "-O2")] {
        let compiler = |by: &Arc<dyn Compile>| {
            let library = LibraryChoice::Major(version);
            Ok::<_, Error>(Compiler::new(Arc::clone(by), library)?.with_level(level))
        };
        let (apart, here) = (compiler(&process)?, compiler(&llvm)?);
        let [call, alone, whole, in_process] = in_rounds([
            sample(|| first_call(&apart, &bytes)),
            sample(|| first_call(&here, &bytes)),
            sample(|| whole_program(&apart, &many)),
            sample(|| whole_program(&here, &many)),
        ]);
        let most = Duration::from_millis(2);
        let limit = Limit::new("2 ms", most, most);
        let call = call.expect("it ran");
        match level {
            Level::None => {
                let name = "first call of a function, with its compilation at -O0";
                report.row(name, alone.as_ref(), &call, limit);
            }
            _ => report.note("first call of a function, with its compilation at -O2", &call),
        }
        let name = |what: &str| format!("{FUNCTIONS} functions compiled at {name}, {what}");
        report.note(&name("in another process"), &whole.expect("it ran"));
        report.note(&name("in this process"), &in_process.expect("it ran"));
    }
    let lli = format!("lli-{version}");
    if Command::new(&lli).arg("--version").stdout(Stdio::null()).status().is_ok() {
        for level in ["-O0", "-O2"] {
            let [lli] = in_rounds([sample(|| run(&lli, level, &large))]);
            let name = format!("{FUNCTIONS} functions by lli -jit-kind=orc-lazy {level}");
            report.note(&name, &lli.expect("it ran"));
        }
    }
    Ok(())
}

/// Returns the newest version of LLVM for which both the library and clang are installed.
pub(crate) fn version() -> Option<u32> {
    // SAFETY: the system's libLLVM is LLVM's.
    let llvm = unsafe { InProcess::in_process([]) };
    let is_there = |version: &u32| {
        let mut clang = Command::new(format!("clang-{version}"));
        let clang = clang.arg("--version").stdout(Stdio::null()).status();
        clang.is_ok() && llvm.version(&LibraryChoice::Major(*version)).is_ok()
    };
    (14..=22).rev().find(is_there)
}

fn sample<'a>(sample: impl Fn() -> Result<Duration> + 'a) -> Option<Contender<'a>> {
    Some(Contender { sample: Box::new(move || sample().expect("the module is good")) })
}

/// Returns a program whose `main` calls this many functions, one after the other.
fn program(functions: usize) -> String {
    let one = |number: usize| {
        format!(
            "static int table{number}[] = {{ 1, 2, {number} }};
             __attribute__((noinline)) int f{number}(int n) {{ int sum = 0;
                 for (int i = 0; i < n; i++) sum += table{number}[(i + n) % 3] ^ i; return sum; }}"
        )
    };
    let calls: String = (0..functions).map(|number| format!("r |= f{number}(r & 1);")).collect();
    let all: String = (0..functions).map(one).collect();
    format!("{all} int main(void) {{ int r = 0; {calls} return r; }}")
}

pub(crate) fn bitcode(version: u32, module: &Path, program: &str) -> Result<Vec<u8>> {
    let source = module.with_extension("c");
    fs::write(&source, program)?;
    let mut clang = Command::new(format!("clang-{version}"));
    clang.args(["-O1", "-fPIC", "-c", "-emit-llvm", "-o"]).args([module, &source]);
    ensure!(clang.status()?.success(), "clang does not compile");
    Ok(fs::read(module)?)
}

/// Number of modules in one sample of first calls. The other contender compiles between two
/// samples, on another processor or this one, so the first module finds cold caches.
const MODULES: u32 = 8;

/// Returns the average time of the first calls of a function without references, of several
/// modules.
fn first_call(compiler: &Compiler, bytes: &[u8]) -> Result<Duration> {
    let times = (0..MODULES).map(|_| Ok(timed(compiler, bytes, "alone")?.0));
    Ok(times.sum::<Result<Duration>>()? / MODULES)
}

/// Returns the time of a program, from the module's bytes to the end of `main`.
fn whole_program(compiler: &Compiler, bytes: &[u8]) -> Result<Duration> {
    Ok(timed(compiler, bytes, "main")?.1)
}

/// Returns the time of a function's call, and the same including all preparations.
fn timed(compiler: &Compiler, bytes: &[u8], name: &str) -> Result<(Duration, Duration)> {
    let begin = Instant::now();
    // SAFETY: the module is this benchmark's.
    let session = unsafe { Session::new() }?;
    let module = Bitcode::for_session(&session, compiler, "it.bc", bytes)?;
    let (lazy, library) = (LazyReexports::for_session(&session)?, session.create_library("it"));
    let _files = lazy.lazily(&library, "it").source(Arc::new(module)).add()?;
    library.add_generator(ProcessSymbols);
    let address = library.lookup(name)?;
    // SAFETY: a function of this type.
    let function: extern "C" fn(i32) -> i32 = unsafe { std::mem::transmute(address as usize) };
    let called = Instant::now();
    ensure!(function(1) == 0, "{name} did not return 0");
    Ok((called.elapsed(), begin.elapsed()))
}

fn run(lli: &str, level: &str, module: &Path) -> Result<Duration> {
    let begin = Instant::now();
    let status = Command::new(lli).args(["-jit-kind=orc-lazy", level]).arg(module).status();
    ensure!(status.context("lli")?.success(), "the program failed");
    Ok(begin.elapsed())
}
