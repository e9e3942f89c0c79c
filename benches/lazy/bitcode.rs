//! Functions that are compiled at their first call: the first call of one, and a small program that
//! calls most of its functions, beside `lli`.

use anyhow::{Context, Result, ensure};
use longshore_benches::report::Report;
use longshore_benches::rounds::{Contender, in_rounds};
use longshore_bitcode::{Bitcode, Compiler};
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

pub(crate) fn measure(report: &mut Report) -> Result<()> {
    let Ok(compiler) = Compiler::find(&std::env::var_os("PATH").unwrap_or_default()) else {
        println!("not measured: compiled functions, which need clang and llvm-extract");
        return Ok(());
    };
    let folder = tempfile::tempdir_in("/dev/shm")?;
    let module = folder.path().join("it.bc");
    let bytes = bitcode(&compiler, &module)?;
    let ours = |what: fn(&Compiler, &[u8]) -> Result<Duration>| {
        let (compiler, bytes) = (&compiler, &bytes);
        Some(Contender {
            sample: Box::new(move || what(compiler, bytes).expect("the module is good")),
        })
    };
    let lli = format!("lli-{}", compiler.version());
    let has_lli = Command::new(&lli).arg("--version").stdout(Stdio::null()).status().is_ok();
    let lli = has_lli
        .then(|| Contender { sample: Box::new(|| run(&lli, &module).expect("lli runs it")) });
    let [call, program, lli] = in_rounds([ours(first_call), ours(whole_program), lli]);
    report.note("first call of a function, with its compilation", &call.expect("it ran"));
    report.note("a program of six pieces, compiled lazily", &program.expect("it ran"));
    if let Some(lli) = lli {
        report.note("the same by lli -jit-kind=orc-lazy, with its start", &lli);
    }
    Ok(())
}

fn bitcode(compiler: &Compiler, module: &Path) -> Result<Vec<u8>> {
    let source = module.with_extension("c");
    fs::write(&source, PROGRAM)?;
    let mut clang = Command::new(format!("clang-{}", compiler.version()));
    clang.args(["-O1", "-fPIC", "-c", "-emit-llvm", "-o"]).args([module, &source]);
    ensure!(clang.status()?.success(), "clang does not compile");
    Ok(fs::read(module)?)
}

/// Returns the time of the first call of a function without references.
fn first_call(compiler: &Compiler, bytes: &[u8]) -> Result<Duration> {
    Ok(timed(compiler, bytes, "alone")?.0)
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

fn run(lli: &str, module: &Path) -> Result<Duration> {
    let begin = Instant::now();
    let status = Command::new(lli).arg("-jit-kind=orc-lazy").arg(module).status();
    ensure!(status.context("lli")?.success(), "the program failed");
    Ok(begin.elapsed())
}
