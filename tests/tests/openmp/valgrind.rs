//! Programs under valgrind, which must find no invalid access and no leak of our library.

use super::compile::Compiler;
use super::matrix::COMPILERS;
use super::programs::{PROGRAMS, Program};
use super::run::{Library, Outcome, TrialResult, not_tried};
use libtest_mimic::{Completion, Trial};
use longshore_tests::effort;
use longshore_tests::suites::Suite;
use longshore_tests::world::root;
use std::process::Command;

pub(crate) const SUITE: Suite = Suite::new("valgrind", trials);

/// Valgrind, which reports errors by its exit code. Memory with a pointer to it is not a leak:
/// threads may run until the end of the process.
const VALGRIND: [&str; 8] = [
    "valgrind",
    "--quiet",
    "--error-exitcode=99",
    "--num-callers=30",
    // Threads that wait for one another spin; without it, one of them can run alone for minutes.
    "--fair-sched=yes",
    "--leak-check=full",
    "--errors-for-leak-kinds=definite",
    "--show-leak-kinds=definite",
];
/// The programs of a short test, which cover mapping, mappers, attached pointers, tasks and shared
/// objects.
const USUAL: [&str; 3] = ["structs.c", "mappers.c", "nowait.c"];
/// Programs that take minutes, that depend on time, on memory or on the address space, or whose
/// threads still run at the end.
const LEFT_OUT: [&str; 7] = [
    "growth.c",
    "late_regions.c",
    "many_ranges.c",
    "no_region.c",
    "shared_object.cpp",
    "threads.cpp",
    "shared_copies.c",
];

fn trials() -> Vec<Trial> {
    let is_watched = |program: &&Program| match effort::is_all() {
        true => !LEFT_OUT.contains(&program.file),
        false => USUAL.contains(&program.file),
    };
    let trial = |program: &'static Program| {
        Trial::ignorable_test(program.file.to_owned(), move || run(program))
    };
    PROGRAMS.iter().filter(is_watched).map(trial).collect()
}

fn run(program: &Program) -> TrialResult {
    if Command::new(VALGRIND[0]).arg("--version").output().is_err() {
        return not_tried("valgrind is not installed");
    }
    let [.., compiler] = COMPILERS;
    // Valgrind 3.19 reads the debug information of DWARF 5 only in part.
    let compiler = Compiler { options: &["-O2", "-gdwarf-4"], ..compiler };
    if let Some(missing) = compiler.missing() {
        return not_tried(missing);
    }
    let compiled = compiler.compile(program)?;
    let known = root().join("tests/tests/openmp/valgrind.supp");
    let suppressions = format!("--suppressions={}", known.display());
    let wrapper = [&VALGRIND[..], &[&suppressions]].concat();
    Outcome::from_command(&mut Library::Ours.command(&compiled, &wrapper)?)?.check()?;
    Ok(Completion::Completed)
}
