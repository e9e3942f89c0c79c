//! First calls of code in another process. Each sends a request to this process. The other process
//! measures the time.

use crate::compile;
use anyhow::{Context, Result, ensure};
use longshore_benches::report::{Limit, Report};
use longshore_benches::rounds::{Contender, in_rounds};
use longshore_executor::controller::{ExecutorProcess, Spawn};
use longshore_jitlink::Session;
use longshore_jitlink::lazy::{LazyReexports, Reexport};
use longshore_jitlink::process::TargetProcess;
use longshore_jitlink::session::{MainArguments, ProcessSymbols};
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

const CALLS: u32 = 1000;

pub(crate) fn measure(report: &mut Report) -> Result<()> {
    let executor = executor()?;
    let (program, implementations) = (compile(&program()?)?, compile(&implementations()?)?);
    let contender = |shares| {
        let spawn = Spawn::new(&executor).with_shared_memory(shares);
        let (program, implementations) = (&program, &implementations);
        let sample = move || time(&spawn, program, implementations).expect("the program is good");
        Some(Contender { sample: Box::new(sample) })
    };
    let [sharing, stream] = in_rounds([contender(true), contender(false)]);
    let most = CALLS * Duration::from_micros(8);
    let limit = Limit::new("8 us each", most, most);
    let sharing = sharing.expect("it ran");
    report.row("1000 first calls of linked code, in an executor", None, &sharing, limit);
    report.note("the same over a bare stream", &stream.expect("it ran"));
    Ok(())
}

/// Returns the executor beside this executable's folder: target/release/.
pub(crate) fn executor() -> Result<PathBuf> {
    let executable = std::env::current_exe()?;
    let folder = executable.ancestors().nth(2).context("target/release/deps/<executable>")?;
    let executor = folder.join("longshore-executor");
    ensure!(executor.exists(), "cargo build --release -p longshore-executor makes {executor:?}");
    Ok(executor)
}

/// Returns the time of the first calls in a new executor.
fn time(spawn: &Spawn, program: &bytes::Bytes, implementations: &bytes::Bytes) -> Result<Duration> {
    let process: Arc<dyn TargetProcess> = ExecutorProcess::spawn(spawn)?;
    // SAFETY: the objects are this benchmark's.
    let session = unsafe { Session::builder().with_process(process).build() }?;
    let lazy = LazyReexports::for_session(&session)?;
    let (library, inner) = (session.create_library("program"), session.create_library("inner"));
    library.add_generator(ProcessSymbols);
    let _program = library.add_object("program.o", program.clone())?;
    let _implementations = inner.add_object("implementations.o", implementations.clone())?;
    inner.lookup("f0")?;
    let entries = (0..CALLS).map(|n| Reexport::new(format!("e_f{n}"), format!("f{n}")));
    let _entries = lazy.add(&library, &inner, entries)?;
    let main = library.lookup("main")?;
    // SAFETY: the program's main function.
    let nanoseconds = unsafe { library.run_main(main, MainArguments::default()) }?;
    Ok(Duration::from_nanos(nanoseconds.try_into()?))
}

fn implementations() -> Result<String> {
    let mut source = String::new();
    (0..CALLS).try_for_each(|n| writeln!(source, "int f{n}(void) {{ return 1; }}"))?;
    Ok(source)
}

/// Returns a program whose result is the time of all first calls in nanoseconds.
fn program() -> Result<String> {
    let (mut entries, mut calls) = (String::new(), String::new());
    (0..CALLS).try_for_each(|n| writeln!(entries, "int e_f{n}(void);"))?;
    (0..CALLS).try_for_each(|n| write!(calls, " + e_f{n}()"))?;
    Ok(format!(
        "#include <time.h>
         {entries}
         int main(void) {{
             struct timespec start, end;
             clock_gettime(CLOCK_MONOTONIC, &start);
             int sum = 0{calls};
             clock_gettime(CLOCK_MONOTONIC, &end);
             return sum == {CALLS} ? (end.tv_sec - start.tv_sec) * 1000000000 + end.tv_nsec - start.tv_nsec : -1;
         }}"
    ))
}
