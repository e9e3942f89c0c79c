//! All programs, by clang of each version, on our library.

use super::compile::Compiler;
use super::programs::{PROGRAMS, Program};
use super::run::{Library, Outcome, TrialResult, not_tried};
use libtest_mimic::{Completion, Trial};
use longshore_tests::effort;
use longshore_tests::suites::Suite;

pub(crate) const SUITE: Suite = Suite::new("matrix", trials);

/// The compilers of a short test. The forms of entries, arguments and debug information differ.
pub(crate) const COMPILERS: [Compiler; 4] = [
    Compiler { version: 14, options: &["-O0"] },
    Compiler { version: 16, options: &["-O1"] },
    Compiler { version: 19, options: &["-O0", "-g"] },
    Compiler { version: 22, options: &["-O2", "-g"] },
];
/// Further options that a long test tries with each version.
const FURTHER: [&[&str]; 2] = [&["-O0"], &["-O3", "-g"]];

/// Compilers whose programs have bitcode for the device, which the library compiles.
const BITCODE: [Compiler; 3] = [
    Compiler { version: 16, options: &["-O1", "-g", "-foffload-lto", EMBED[0], EMBED[1]] },
    Compiler { version: 19, options: &["-O0", "-foffload-lto", EMBED[0], EMBED[1]] },
    // The wrapper of clang 22 passes the device's linker an option of LLD.
    Compiler {
        version: 22,
        options: &[
            "-O2",
            "-foffload-lto",
            EMBED[0],
            EMBED[1],
            "-Xlinker",
            "--device-compiler=-fuse-ld=lld",
        ],
    },
];
const EMBED: [&str; 2] = ["-Xlinker", "--embed-bitcode"];
/// Interval of the programs that a short test tries with bitcode.
const BITCODE_INTERVAL: usize = 6;
/// Programs whose regions end the process, which is no function of relocatable images.
const ENDING: [&str; 2] = ["ending.c", "late_regions.c"];

/// Returns a trial for each program and compiler. A program that a compiler lacks something for is
/// an ignored trial with the reason.
fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for (index, program) in PROGRAMS.iter().enumerate() {
        for compiler in COMPILERS.into_iter().filter(|compiler| is_chosen(index, compiler)) {
            trials.push(trial(program, compiler));
        }
        for (number, compiler) in BITCODE.into_iter().enumerate() {
            if effort::is_all() || index % BITCODE_INTERVAL == 2 * number {
                trials.push(trial(program, compiler));
            }
        }
        if !effort::is_all() {
            continue;
        }
        for (compiler, options) in COMPILERS.into_iter().flat_map(|c| FURTHER.map(|o| (c, o))) {
            trials.push(trial(program, Compiler { options, ..compiler }));
        }
    }
    trials
}

/// Returns whether a short test tries a program with a compiler. The old form of entries and the
/// new one are in every run; clang 16 and 19 share the programs, as each compilation takes long.
pub(crate) fn is_chosen(index: usize, compiler: &Compiler) -> bool {
    match compiler.version {
        16 => effort::is_all() || index.is_multiple_of(2),
        19 => effort::is_all() || !index.is_multiple_of(2),
        _ => true,
    }
}

fn trial(program: &'static Program, compiler: Compiler) -> Trial {
    let name = format!("{} by {compiler}", program.file);
    Trial::ignorable_test(name, move || run(program, compiler))
}

fn run(program: &Program, compiler: Compiler) -> TrialResult {
    if let Some(reason) = program.obstacle(compiler) {
        return not_tried(format!("clang-{}: {reason}", compiler.version));
    }
    if compiler.options.contains(&EMBED[1]) && ENDING.contains(&program.file) {
        return not_tried("compiled bitcode cannot end the process");
    }
    if let Some(missing) = compiler.missing() {
        return not_tried(missing);
    }
    let compiled = compiler.compile(program)?;
    Outcome::from_command(&mut Library::Ours.command(&compiled, &[])?)?.check()?;
    Ok(Completion::Completed)
}
