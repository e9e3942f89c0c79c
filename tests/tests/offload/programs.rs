//! C and C++ programs that use the C API (`tests/fixtures/offload/`), with the shared library and
//! on each device. They run alone, and under valgrind, which must find no invalid access and no
//! leak. A program prints its failures. Programs that outlive their driver run on doubles of
//! drivers. Each program also runs with isolated plugins.
//!
//! `compile.rs` compiles the programs, `run.rs` runs them, `library.rs` checks the library itself.

mod compile;
mod library;
mod run;

use compile::Linked;
use libtest_mimic::{Completion, Failed, Trial};
use longshore_tests::doubled;
use longshore_tests::effort;
use longshore_tests::suites::Suite;
use run::{On, Under};
use std::fmt::Display;

/// The result of a trial.
type TrialResult = Result<Completion, Failed>;

/// A test program.
#[derive(Clone, Copy)]
struct Program {
    /// The subject, and the name of the file.
    name: &'static str,
    file: &'static str,
    /// An additional argument after the images.
    how: Option<&'static str>,
    /// Whether the program runs different code on other devices; if not, valgrind checks it on the
    /// CPU only.
    is_of_devices: bool,
}

const PROGRAMS: [Program; 20] = [
    program("lifetime", "lifetime.c"),
    library_program("platforms", "platforms.c"),
    program("devices", "devices.cpp"),
    program("memory", "memory.c"),
    program("copies", "copies.c"),
    program("queues", "queues.cpp"),
    program("events", "events.c"),
    program("programs", "programs.c"),
    program("symbols", "symbols.cpp"),
    program("launches", "launches.c"),
    library_program("locations", "locations.cpp"),
    library_program("results", "results.cpp"),
    library_program("trace", "trace.cpp"),
    library_program("validation", "validation.c"),
    program("statics", "statics.cpp"),
    unfinished("an end without olShutDown", "idle"),
    unfinished("an end with work that waits", "queued"),
    unfinished("an end with work that never ends", "running"),
    unfinished("an end while a thread waits", "waiting"),
    unfinished("an end by another thread", "from a thread"),
];

const fn program(name: &'static str, file: &'static str) -> Program {
    Program { name, file, how: None, is_of_devices: true }
}

const fn library_program(name: &'static str, file: &'static str) -> Program {
    Program { is_of_devices: false, ..program(name, file) }
}

/// Programs that valgrind, which is slow, checks in a short test: on the CPU, and on Vulkan.
const WATCHED: [&str; 7] = [
    "lifetime",
    "memory",
    "queues",
    "programs",
    "launches",
    "results",
    "an end while a thread waits",
];
/// Programs for Vulkan that compile no shader: the driver does that, and it takes most of the time.
const WATCHED_ON_VULKAN: [&str; 1] = ["memory"];

impl Program {
    /// Returns whether valgrind checks the program on a device.
    fn is_watched(&self, on: On) -> bool {
        match on {
            On::Vulkan if !self.is_of_devices => false,
            _ if effort::is_all() => true,
            On::Vulkan => WATCHED_ON_VULKAN.contains(&self.name),
            _ => WATCHED.contains(&self.name),
        }
    }
}

/// Sanitizers of clang, and the programs that run with each. ThreadSanitizer does not see that a
/// queue orders the program's own functions on it.
const SANITIZERS: [(&str, &[&str]); 3] = [
    ("undefined", &["lifetime", "programs", "launches", "queues"]),
    ("address", &["lifetime", "programs", "launches", "queues"]),
    ("thread", &["lifetime", "programs", "launches"]),
];

/// Programs whose driver ends before they do.
const LATE: [Program; 2] = [
    Program { how: Some("shuts down"), ..program("olShutDown after the driver's end", "late.cpp") },
    Program {
        how: Some("just ends"),
        ..program("no olShutDown after the driver's end", "late.cpp")
    },
];

/// Returns a program that ends without olShutDown.
const fn unfinished(name: &'static str, how: &'static str) -> Program {
    Program { how: Some(how), ..program(name, "unfinished.cpp") }
}

pub(crate) const SUITE: Suite =
    Suite { prepare: run::take_drivers, ..Suite::new("programs", trials) };

fn trials() -> Vec<Trial> {
    let mut trials = library::trials();
    for program in PROGRAMS {
        for on in [On::Host, On::Vulkan] {
            trials.push(trial(format!("{on}: {}", program.name), move || {
                run::run(&program, Linked::Shared, on, Under::Nothing)
            }));
            trials.push(trial(format!("{on}, isolated: {}", program.name), move || {
                run::run(&program, Linked::Shared, on, Under::Isolation)
            }));
            if !program.is_watched(on) {
                continue;
            }
            trials.push(trial(format!("{on} under valgrind: {}", program.name), move || {
                run::run(&program, Linked::Shared, on, Under::Valgrind)
            }));
        }
        if program.how.is_none() {
            trials.push(trial(format!("clang takes the program: {}", program.name), move || {
                compile::check(program.file)
            }));
        }
    }
    // One program in each language.
    for program in [program("memory", "memory.c"), program("queues", "queues.cpp")] {
        trials.push(trial(format!("host, linked statically: {}", program.name), move || {
            run::run(&program, Linked::Statically, On::Host, Under::Nothing)
        }));
    }
    let sanitized = SANITIZERS.into_iter();
    for (sanitizer, &name) in sanitized.flat_map(|(one, names)| names.iter().map(move |n| (one, n)))
    {
        let program = PROGRAMS.into_iter().find(|program| program.name == name);
        let program = program.expect("it is one of the programs");
        trials.push(trial(format!("host, with -fsanitize={sanitizer}: {name}"), move || {
            if let Some(missing) = compile::missing_clang() {
                return not_tried(format!("not installed: {missing}"));
            }
            run::run(&program, Linked::Sanitized(sanitizer), On::Host, Under::Nothing)
        }));
    }
    for (program, of) in LATE.into_iter().flat_map(|late| doubled::ALL.map(|of| (late, of))) {
        trials.push(trial(format!("double of {}: {}", of.backend, program.name), move || {
            run::run(&program, Linked::Shared, On::Double(of), Under::Nothing)
        }));
    }
    trials
}

fn trial(name: String, run: impl FnOnce() -> TrialResult + Send + 'static) -> Trial {
    Trial::ignorable_test(name, run)
}

/// Returns the result of a skipped trial.
fn not_tried(why: impl Display) -> TrialResult {
    Ok(Completion::ignored_with(why))
}
