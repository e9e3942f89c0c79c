//! Fortran programs, by flang, on our library.
//!
//! Images of flang for the CPU call functions of LLVM's device runtime, which only our library has,
//! so the programs are linked with it.

use super::compile::{self, Compiled, Kept};
use super::run::{self, Library, Outcome, TrialResult, not_tried};
use libtest_mimic::{Completion, Failed, Trial};
use longshore_tests::effort;
use longshore_tests::suites::Suite;
use longshore_tests::world::root;
use std::hash::Hash;
use std::path::PathBuf;
use std::process::Command;
use xtask::openmp_libraries;

pub(crate) const SUITE: Suite = Suite::new("fortran", trials);

/// A version of flang.
#[derive(Debug, Hash)]
struct Flang {
    version: u32,
    command: &'static str,
    flags: &'static [&'static str],
    /// The options of a short test.
    options: &'static [&'static str],
}

const FLANGS: [Flang; 2] = [
    Flang { version: 19, command: "flang-new-19", flags: &[], options: &["-O0", "-g"] },
    Flang { version: 22, command: "flang-22", flags: &["-fopenmp-version=52"], options: &["-O2"] },
];
/// Further options that a long test tries with each version.
const FURTHER: [&[&str]; 2] = [&["-O0"], &["-O3", "-g"]];
const FLAGS: [&str; 2] = ["-fopenmp", "-fopenmp-targets=x86_64-pc-linux-gnu"];

/// The programs, each with the first version of flang that compiles it.
const PROGRAMS: [(&str, u32); 6] =
    [("arrays", 19), ("globals", 19), ("loops", 19), ("nowait", 22), ("teams", 22), ("types", 19)];
/// The module of all programs, which is compiled first.
const MODULE: &str = "regions";

fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for flang in &FLANGS {
        let further = FURTHER.into_iter().filter(|_| effort::is_all());
        for options in [flang.options].into_iter().chain(further) {
            for (program, _) in PROGRAMS.iter().filter(|(_, since)| *since <= flang.version) {
                let name =
                    format!("{program}.f90 by flang-{} {}", flang.version, options.join(" "));
                trials.push(Trial::ignorable_test(name, move || run(program, flang, options)));
            }
        }
    }
    trials
}

fn run(program: &str, flang: &Flang, options: &[&str]) -> TrialResult {
    if !openmp_libraries::are_installed() {
        return not_tried("LLVM's OpenMP libraries are not installed");
    }
    if Command::new(flang.command).arg("--version").output().is_err() {
        return not_tried(format!("not installed: {}", flang.command));
    }
    let compiled = Compiled { program: compile(program, flang, options)?, argument: None };
    Outcome::from_command(&mut Library::Ours.command(&compiled, &[])?)?.check()?;
    Ok(Completion::Completed)
}

fn compile(program: &str, flang: &Flang, options: &[&str]) -> Result<PathBuf, Failed> {
    let folder = root().join("tests/fixtures/openmp/fortran");
    let sources = [MODULE, program].map(|name| folder.join(format!("{name}.f90")));
    let mut kept = Kept::new(format!("{program}_f90.{}", flang.version));
    (flang, options, FLAGS).hash(&mut kept.hasher);
    for source in &sources {
        std::fs::read(source)?.hash(&mut kept.hasher);
    }
    let folders = [run::ours()?, openmp_libraries::runtime(), compile::libraries(flang.version)];
    kept.program(|folder| {
        let mut command = Command::new(flang.command);
        command.args(options).args(FLAGS).args(flang.flags);
        command.arg("-module-dir").arg(folder).args(&sources);
        command.args(folders.iter().flat_map(|folder| ["-L".as_ref(), folder.as_os_str()]));
        command
    })
}
