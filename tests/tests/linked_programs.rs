//! Real programs, linked in memory and by the system's linker, with equal behaviour.
//!
//! One trial for each program, compiler and process: the process of the command, and executors with
//! and without shared memory, also for programs linked at their calls. Trials that take too long
//! for every run are ignored: `cargo test -p longshore-tests --test linked_programs --
//! --include-ignored` runs the whole matrix. `LONGSHORE_TEST_LINKER` is `system` or `llvm-jitlink`
//! to test another linker instead of `longshore link`.

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use longshore_tests::effort;
use longshore_tests::programs::compile::Family;
use longshore_tests::programs::{
    Case, Compiler, Inputs, Linker, Position, SUBJECTS, Subject, Unavailable,
};
use longshore_tests::world;
use std::process::ExitCode;

const FUNCTIONS: &[&str] = &["-ffunction-sections", "-fdata-sections"];
const SMALL: &[&str] = &["-mcmodel=small"];
const LARGE: &[&str] = &["-mcmodel=large"];

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let each = |compiler: Compiler| PLACES.iter().flat_map(move |place| trials_of(compiler, place));
    let trials = matrix().into_iter().flat_map(each).collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Returns every compiler with every combination of its options.
fn matrix() -> Vec<Compiler> {
    let families = [Family::Gcc, Family::Clang(14), Family::Clang(16), Family::Clang(19)];
    let ways: [(Position, &'static [&'static str]); 5] = [
        (Position::Fixed, SMALL),
        (Position::Fixed, LARGE),
        (Position::Independent, &[]),
        (Position::Independent, FUNCTIONS),
        (Position::Executable, &[]),
    ];
    let mut matrix = Vec::new();
    for family in families {
        for optimization in ["-O0", "-O2"] {
            for (position, flags) in ways {
                matrix.push(Compiler { family, optimization, position, flags });
            }
        }
    }
    matrix
}

/// The process that runs the programs.
struct Place {
    /// Suffix of the name of a trial.
    name: &'static str,
    options: &'static [&'static str],
    /// Function that returns whether such a trial belongs to every run.
    is_usual: fn(&Subject, &Compiler) -> bool,
}

const PLACES: &[Place] = &[
    Place { name: "", options: &[], is_usual },
    Place {
        name: " in an executor",
        options: &["--executor"],
        is_usual: |subject, compiler| {
            is_usual(subject, compiler) && compiler.optimization == "-O2" && !is_slow(subject)
        },
    },
    Place {
        name: " in an executor by messages",
        options: &["--executor", "--no-shared-memory"],
        is_usual: |subject, compiler| {
            is_usual(subject, compiler) && compiler.optimization == "-O0" && !is_slow(subject)
        },
    },
    Place {
        name: " lazily",
        options: &["--lazy"],
        is_usual: |subject, compiler| {
            is_usual(subject, compiler) && compiler.optimization == "-O2" && !is_slow(subject)
        },
    },
    Place {
        name: " lazily in an executor",
        options: &["--lazy", "--executor"],
        is_usual: |subject, compiler| {
            is_usual(subject, compiler) && compiler.optimization == "-O0" && !is_slow(subject)
        },
    },
];

fn trials_of(compiler: Compiler, place: &'static Place) -> impl Iterator<Item = Trial> {
    SUBJECTS.iter().map(move |subject| {
        let name = format!("{} by {compiler}{}", subject.name, place.name);
        let is_tried = effort::is_all() || is_chosen(subject, &compiler, place);
        let usual = is_tried && (place.is_usual)(subject, &compiler);
        let trial = Trial::ignorable_test(name, move || run(subject, &compiler, place));
        trial.with_ignored_flag(!usual)
    })
}

/// Returns whether a short test includes a usual trial. It uses two compilers, whose code differs
/// most, and each process. One of the two compiles the programs that take long to compile.
fn is_chosen(subject: &Subject, compiler: &Compiler, place: &Place) -> bool {
    use Family::{Clang, Gcc};
    match (compiler.family, compiler.optimization, compiler.position, compiler.flags) {
        // Callees may be far away, and callers know the registers that callees preserve.
        (Gcc, "-O2", Position::Fixed, LARGE) => {
            subject.name != "lua" && place.name != " in an executor"
        }
        (Clang(19), "-O0", Position::Independent, []) => match subject.name {
            "sqlite3" => true,
            "zstd" => false,
            _ => !place.name.is_empty(),
        },
        _ => false,
    }
}

/// Returns whether the trial belongs to every full run. SQLite at `-O2` and the tests of zstd take
/// longest.
fn is_usual(subject: &Subject, compiler: &Compiler) -> bool {
    use Family::{Clang, Gcc};
    use Position::{Executable, Fixed, Independent};
    let way = (compiler.family, compiler.optimization, compiler.position, compiler.flags);
    let slow = is_slow(subject);
    match way {
        (Gcc, "-O2", Independent, FUNCTIONS) => !subject.name.starts_with("zstd-"),
        (Clang(19), "-O2", Fixed, SMALL) => true,
        (Gcc, "-O0", Fixed, SMALL) | (Clang(19), "-O0", Independent, []) => {
            !subject.name.starts_with("zstd-")
        }
        (Gcc, "-O2", Fixed, LARGE) | (Clang(19), "-O2", Executable, []) => !slow,
        _ => false,
    }
}

fn is_slow(subject: &Subject) -> bool {
    matches!(subject.name, "sqlite3" | "zstd-fuzzer" | "zstd-zstreamtest")
}

fn run(subject: &Subject, compiler: &Compiler, place: &Place) -> Result<Completion, Failed> {
    if !compiler.is_installed() {
        return Ok(Completion::ignored_with(format!("not installed: {compiler}")));
    }
    let made = (subject.inputs)(compiler).and_then(|inputs| Ok((inputs, (subject.cases)()?)));
    match made {
        Ok((inputs, cases)) => compare(&inputs, &cases, place),
        Err(error) if std::env::var_os("CI").is_some() => Err(error.into()),
        Err(error) => Ok(Completion::ignored_with(error.to_string())),
    }
}

fn compare(inputs: &Inputs, cases: &[Case], place: &Place) -> Result<Completion, Failed> {
    let linker = linker(place);
    let mut failures = String::new();
    for case in cases {
        if let Some(difference) = difference(&linker, inputs, case)? {
            failures += &format!("{}:\n{difference}", case.name);
        }
    }
    if failures.is_empty() { Ok(Completion::Completed) } else { Err(failures.into()) }
}

/// Returns the difference between the results of this linker and the system's. The latter must
/// match the known behaviour of the program.
fn difference(
    linker: &Linker,
    inputs: &Inputs,
    case: &Case,
) -> Result<Option<String>, Unavailable> {
    let expected = Linker::System.run(inputs, case)?;
    let exits: Vec<_> = case.steps.iter().map(|step| step.exit).collect();
    if expected.exits() != exits {
        let found = expected.exits();
        return Ok(Some(format!(
            "linked by the system, its steps exit {found:?}, not {exits:?}\n"
        )));
    }
    Ok(expected.difference(&linker.run(inputs, case)?))
}

fn linker(place: &Place) -> Linker {
    match std::env::var("LONGSHORE_TEST_LINKER").as_deref() {
        Ok("system") => Linker::System,
        Ok("llvm-jitlink") => Linker::LlvmJitlink,
        Ok(other) => panic!("LONGSHORE_TEST_LINKER is '{other}', not 'system' or 'llvm-jitlink'"),
        Err(_) => Linker::Longshore(world::command(), place.options),
    }
}
