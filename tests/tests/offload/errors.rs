//! The table of `docs/c-api-errors.md`, row by row, on two devices of the CPU.
//!
//! Each trial is a process of its own, because the library is shared by a process and a row might
//! end it. `functions.rs` has the functions, `calls.rs` a valid call of each. `mutations.rs`
//! changes a call by the words of the table, and `rows.rs` runs rows.
//!
//! With a Vulkan device, the rows about another platform run with it, and all rows that are not
//! only about the CPU run on it. All rows also run with isolated plugins.

mod calls;
mod functions;
mod life;
mod mutations;
mod rows;
mod table;
mod world;

use functions::FUNCTIONS;
use libtest_mimic::{Failed, Trial};
use longshore_tests::suites::Suite;
use longshore_tests::{vulkan, world::executor, world::host_plugin};
use std::process::Command;
use std::time::Duration;
use table::{Class, Mode, declared, rows as rows_of_table};
use world::Platforms;

/// The variables with the work of a trial's process: a function's name, `*` for all, [`PAIRS`], or
/// the first platform; and with the mode.
const CHILD: [&str; 2] = ["LONGSHORE_TEST_ERRORS_OF", "LONGSHORE_TEST_ERRORS_MODE"];
const PAIRS: &str = "pairs";
/// The variable that isolates plugins in processes of their own.
const ISOLATED: &str = "LONGSHORE_ISOLATE";
/// The time limit of a process.
const LIMIT: Duration = Duration::from_secs(240);

/// The isolation of plugins in processes of their own.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Isolation {
    On,
    Off,
}

pub(crate) const SUITE: Suite = Suite { child: is_done, ..Suite::new("errors", trials) };

/// Returns whether this process is for rows of the table. If so, it has run them.
fn is_done() -> bool {
    let [Ok(what), Ok(mode)] = CHILD.map(std::env::var) else { return false };
    child(&what, &mode);
    true
}

fn trials() -> Vec<Trial> {
    let of_all = [
        (Mode::Twin, "every row is true of the function's twin, which names its caller"),
        (Mode::Unchecked, "every row is true without validation, but for null handles"),
        (Mode::Traced, "every row is true of functions that are traced"),
    ];
    let of_each = FUNCTIONS.iter().map(|function| {
        let name = format!("{} answers what the table says", function.name);
        Trial::test(name, || in_a_process(function.name, Mode::Plain, Isolation::Off))
    });
    let of_all = of_all
        .map(|(mode, name)| Trial::test(name, move || in_a_process("*", mode, Isolation::Off)));
    let others = [
        Trial::test("the table has a row for every argument of every function", completeness),
        Trial::test("of two invalid arguments one is reported", || {
            in_a_process(PAIRS, Mode::Plain, Isolation::Off)
        }),
        Trial::test("the functions that are tried are those that are declared", declarations),
    ];
    let has_vulkan = vulkan::plugin().is_some() && vulkan::lavapipe().is_some();
    if !has_vulkan {
        eprintln!("no row is tried on Vulkan: there is no lavapipe, or no plugin");
    }
    let of_platforms = Platforms::OF_TWO
        .into_iter()
        .filter(|_| has_vulkan)
        .flat_map(|(name, first)| [trial(name, first, Isolation::Off), isolated(name, first)]);
    let isolated = [isolated("every row is true", "*")];
    of_each.chain(of_all).chain(of_platforms).chain(isolated).chain(others).collect()
}

fn child(what: &str, mode: &str) {
    std::thread::spawn(|| {
        std::thread::sleep(LIMIT);
        eprintln!("it takes too long");
        std::process::exit(1);
    });
    let mode = Mode::ALL.into_iter().find(|known| format!("{known:?}") == mode);
    let mode = mode.expect("a mode");
    match (what, Platforms::from_name(what)) {
        (_, Some(platforms)) => rows::run_between(platforms),
        (PAIRS, None) => rows::run_pairs(),
        ("*", None) => rows::run(None, mode),
        (function, None) => rows::run(Some(function), mode),
    }
}

fn in_a_process(what: &str, mode: Mode, isolation: Isolation) -> Result<(), Failed> {
    let mut child = Command::new(std::env::current_exe()?);
    child.env(CHILD[0], what).env(CHILD[1], format!("{mode:?}"));
    let mut plugins = host_plugin().into_os_string();
    let mut backends = "host";
    if Platforms::from_name(what).is_some() {
        let plugin = vulkan::plugin().expect("it was there");
        child.env("LONGSHORE_CACHE", plugin.with_file_name("vulkan-cache"));
        plugins.push(":");
        plugins.push(plugin);
        backends = "host,vulkan";
    }
    child.env("LONGSHORE_PLUGIN_PATH", plugins).env("LONGSHORE_BACKEND", backends);
    child.env("LONGSHORE_HOST_DEVICES", "2");
    if isolation == Isolation::On {
        child.env(ISOLATED, "all").env("LONGSHORE_EXECUTOR", executor());
    }
    match mode {
        Mode::Unchecked => child.env("OFFLOAD_DISABLE_VALIDATION", "1"),
        Mode::Traced => child.env("OFFLOAD_TRACE", "1"),
        Mode::Plain | Mode::Twin => &mut child,
    };
    let output = child.output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    let last: Vec<_> = said.lines().rev().take(60).collect();
    let last: Vec<_> = last.into_iter().rev().collect();
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{}:\n{}", output.status, last.join("\n")).into()),
    }
}

fn trial(name: impl Into<String>, what: &'static str, isolation: Isolation) -> Trial {
    Trial::test(name, move || in_a_process(what, Mode::Plain, isolation))
}

/// Returns a trial with every plugin in a process of its own.
fn isolated(name: &str, what: &'static str) -> Trial {
    trial(format!("isolated: {name}"), what, Isolation::On)
}

/// Asserts that every function has a row for each way in which each of its arguments can be
/// invalid, and that no row is repeated.
fn completeness() -> Result<(), Failed> {
    let rows = rows_of_table();
    let has = |function: &str, argument: Option<&str>, made: &str| {
        let found = rows.iter().filter(|row| {
            row.function == function && row.argument.as_deref() == argument && row.made == made
        });
        found.count()
    };
    let mut missing = Vec::new();
    for function in declared() {
        for (parameter, kind) in &function.parameters {
            let ways =
                if function.name == "olInit" { &["null"] } else { Class::from_kind(kind).ways() };
            for way in ways.iter().filter(|way| has(&function.name, Some(parameter), way) == 0) {
                missing.push(format!("{} | {parameter} | {way}", function.name));
            }
        }
        let all = ["not initialised", "all null and 0"];
        let of_all = if function.name == "olInit" { &[][..] } else { &all };
        let of_all = of_all.iter().filter(|way| {
            has(&function.name, None, way) == 0
                && !(function.parameters.is_empty() && **way == "all null and 0")
        });
        missing.extend(of_all.map(|way| format!("{} | — | {way}", function.name)));
    }
    for row in &rows {
        if has(&row.function, row.argument.as_deref(), &row.made) != 1 {
            missing.push(format!("{row:?} more than once"));
        }
    }
    match missing.is_empty() {
        true => Ok(()),
        false => Err(missing.join("\n").into()),
    }
}

fn declarations() -> Result<(), Failed> {
    let tried = FUNCTIONS.iter().map(|function| {
        let parameters = function.parameters.iter().map(|name| (*name).to_owned());
        (function.name.to_owned(), parameters.collect::<Vec<_>>())
    });
    let declared = declared().into_iter().map(|function| {
        (function.name, function.parameters.into_iter().map(|(name, _)| name).collect::<Vec<_>>())
    });
    assert_eq!(tried.collect::<Vec<_>>(), declared.collect::<Vec<_>>());
    Ok(())
}
