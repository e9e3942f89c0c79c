//! Rows of the table, run in this process.

use crate::errors::ISOLATED;
use crate::errors::calls::Call;
use crate::errors::functions::{Function, SHOWN_PLACE};
use crate::errors::life;
use crate::errors::mutations;
use crate::errors::table::{Class, Declared, Mode, Row, declared, rows};
use crate::errors::world::{Platforms, World, details, ok};
use longshore_capi::*;
use longshore_tests::device_code::clangs;

/// Optional functions of a device.
const OPTIONAL: [&str; 4] = [
    "olMemRegister",
    "olMemUnregister",
    "olCalculateOptimalOccupancy",
    "olGetKernelMaxCooperativeGroupCount",
];

/// Deviations from the table.
#[derive(Default)]
pub(crate) struct Failures(Vec<String>);

impl Failures {
    pub(crate) fn add(&mut self, row: &Row, why: &str) {
        let argument = row.argument.as_deref().unwrap_or("—");
        self.0.push(format!("{} | {argument} | {}: {why}", row.function, row.made));
    }
}

/// The expectation of a row in a mode.
enum Expected {
    Is(ol_errc_t),
    AnyError,
}

/// Runs the rows of a function, or all rows.
///
/// # Panics
/// If a row fails.
pub(crate) fn run(function: Option<&str>, mode: Mode) {
    let mut failures = Failures::default();
    let mut rows = rows();
    let has_clang = !clangs().is_empty();
    rows.retain(|row| has_clang || row.clang_row().is_none());
    rows.retain(|row| !is_isolated() || !needs_pinned_memory(row));
    rows.retain(|row| function.is_none_or(|name| row.function == name) && !row.is_of_platforms());
    for row in rows.iter().filter(|row| life::is_outside(row)) {
        announce(row);
        life::run(row, mode, &mut failures);
    }
    let world = World::start(Platforms::Host);
    all_inside(&world, &rows, mode, &mut failures);
    life::after(&world, &rows, mode, &mut failures);
    assert!(failures.0.is_empty(), "{}", failures.0.join("\n"));
}

/// Runs the rows about two platforms and, from the side of Vulkan, all rows that apply to it.
///
/// # Panics
/// If a row fails.
pub(crate) fn run_between(platforms: Platforms) {
    let mut failures = Failures::default();
    let mut rows = rows();
    rows.retain(|row| !is_isolated() || !needs_pinned_memory(row));
    rows.retain(|row| match platforms {
        Platforms::VulkanFirst => !life::is_outside(row) && row.is_of_vulkan(),
        _ => row.is_of_platforms(),
    });
    all_inside(&World::start(platforms), &rows, Mode::Plain, &mut failures);
    ok("olShutDown", &[]);
    assert!(failures.0.is_empty(), "{}", failures.0.join("\n"));
}

fn all_inside(world: &World, rows: &[Row], mode: Mode, failures: &mut Failures) {
    let declared = declared();
    for row in rows.iter().filter(|row| !life::is_outside(row)) {
        announce(row);
        let declared = declared.iter().find(|declared| declared.name == row.function);
        inside(world, row, declared.expect("a function"), mode, failures);
    }
}

/// Prints the row, so that the output names the row that ended the process.
fn announce(row: &Row) {
    eprintln!("{row:?}");
}

/// Runs a row of a function in a world.
fn inside(world: &World, row: &Row, declared: &Declared, mode: Mode, failures: &mut Failures) {
    let function = Function::named(&row.function);
    let changes = mutations::for_row(world, row, declared);
    if changes.is_empty() {
        failures.add(row, "nobody knows what that is");
    }
    for change in changes {
        let mut call = Call::valid(world, function);
        let valid = call.words.clone();
        change(world, &mut call);
        world.clear();
        let is_optional =
            (!world.is_on_cpu() || is_isolated()) && OPTIONAL.contains(&function.name);
        let unable = if is_optional { OL_ERRC_UNSUPPORTED } else { OL_ERRC_SUCCESS };
        let succeeded = check(row, mode, &call.words, unable, failures);
        if !succeeded && !world.is_untouched() {
            failures.add(row, "it failed, and wrote an answer");
        }
        call.finish(world, succeeded);
        if succeeded {
            call = Call::valid(world, function);
        } else {
            call.words = valid;
        }
        let after = finished(world, &call, mode);
        if after != OL_ERRC_SUCCESS && after != unable {
            failures.add(row, &format!("afterwards a valid call answers {after:?}"));
        }
    }
}

/// Returns whether devices are in other processes, which do not page-lock memory of the program.
fn is_isolated() -> bool {
    std::env::var_os(ISOLATED).is_some()
}

/// Returns whether a row is about page-locked memory of the program.
fn needs_pinned_memory(row: &Row) -> bool {
    row.function == "olMemUnregister"
        || ["partly registered", "within a registered range"].contains(&&*row.made)
}

/// Makes the call, and undoes its effects.
fn finished(world: &World, call: &Call, mode: Mode) -> ol_errc_t {
    world.clear();
    let result = code(call.function.call(mode, &call.words));
    call.finish(world, result == OL_ERRC_SUCCESS);
    result
}

/// Runs all pairs of rows about two invalid arguments of a function. One error of a pair does not
/// depend on the other arguments: two arguments of another device may fit each other.
///
/// # Panics
/// If the result of a pair is not one of its two codes.
pub(crate) fn run_pairs() {
    let mut failures = Failures::default();
    let rows = rows();
    let is_error = |row: &&Row| {
        let outside = life::is_outside(row)
            || row.is_of_platforms()
            || row.argument.is_none()
            || row.clang_row().is_some();
        // The valid size depends on the other arguments.
        !outside && row.result != OL_ERRC_SUCCESS && row.made != "one too small"
    };
    let world = World::start(Platforms::Host);
    for declared in declared() {
        let of_it = || rows.iter().filter(is_error).filter(|row| row.function == declared.name);
        for one in of_it() {
            announce(one);
            let others = of_it().filter(|other| other.argument != one.argument);
            let others =
                others.filter(|other| is_alone(one, &declared) || is_alone(other, &declared));
            others.for_each(|other| pair(&world, one, other, &declared, &mut failures));
        }
    }
    ok("olShutDown", &[]);
    assert!(failures.0.is_empty(), "{}", failures.0.join("\n"));
}

/// Returns whether an argument is invalid for all values of the other arguments.
fn is_alone(row: &Row, declared: &Declared) -> bool {
    let mut parameters = declared.parameters.iter();
    let found = parameters.find(|(name, _)| Some(name) == row.argument.as_ref());
    found.is_some_and(|(_, kind)| {
        row.made != "0" && Class::from_kind(kind).ways().contains(&&*row.made)
    })
}

fn pair(world: &World, one: &Row, other: &Row, declared: &Declared, failures: &mut Failures) {
    let mut call = Call::valid(world, Function::named(&one.function));
    let valid = call.words.clone();
    for row in [one, other] {
        mutations::for_row(world, row, declared)[0](world, &mut call);
    }
    world.clear();
    let got = code(call.function.call(Mode::Plain, &call.words));
    let also = other.argument.as_deref().unwrap_or_default();
    if got != one.result && got != other.result {
        failures.add(one, &format!("with {also} {}: {got:?}", other.made));
    }
    if !world.is_untouched() {
        failures.add(one, &format!("with {also} {}: it wrote an answer", other.made));
    }
    call.finish(world, got == OL_ERRC_SUCCESS);
    call.words = valid;
    let after = finished(world, &call, Mode::Plain);
    if after != OL_ERRC_SUCCESS {
        failures.add(one, &format!("after it with {also} {}: {after:?}", other.made));
    }
}

/// Makes a row's call, compares its result, and returns whether the call succeeded. `unable`
/// contains the codes of devices that lack the feature.
pub(crate) fn check(
    row: &Row,
    mode: Mode,
    words: &[usize],
    unable: ol_errc_t,
    failures: &mut Failures,
) -> bool {
    let function = Function::named(&row.function);
    let result = function.call(mode, words);
    let got = code(result);
    let is_right = match expected(row, mode) {
        Expected::Is(OL_ERRC_SUCCESS) => got == OL_ERRC_SUCCESS || got == unable,
        Expected::Is(code) => got == code,
        Expected::AnyError => got != OL_ERRC_SUCCESS,
    };
    // SAFETY: results are null or live until the end of the process.
    let said = unsafe { result.as_ref() }.map(details).unwrap_or_default();
    if !is_right {
        failures.add(row, &format!("{words:x?} {mode:?} answers {got:?} {said}"));
    }
    let place = if mode == Mode::Twin { format!(" {SHOWN_PLACE}") } else { String::new() };
    if got != OL_ERRC_SUCCESS && !said.starts_with(&format!("{}{place}: ", function.name)) {
        failures.add(row, &format!("it says '{said}'"));
    }
    if mode == Mode::Twin && got != OL_ERRC_SUCCESS {
        let nowhere = code(function.call_from_nowhere(words));
        if nowhere != got {
            failures.add(row, &format!("called from nowhere it answers {nowhere:?}"));
        }
    }
    got == OL_ERRC_SUCCESS
}

/// Returns the expected result. Without validation a null handle counts as an invalid one, and
/// another one of several errors may be the first.
fn expected(row: &Row, mode: Mode) -> Expected {
    if mode != Mode::Unchecked {
        return Expected::Is(row.result);
    }
    if row.made.starts_with("all null") {
        return Expected::AnyError;
    }
    let declared = declared().into_iter().find(|declared| declared.name == row.function);
    let parameters = declared.map(|declared| declared.parameters).unwrap_or_default();
    let parameter = parameters.iter().find(|(name, _)| Some(name) == row.argument.as_ref());
    let class = parameter.map(|(_, kind)| Class::from_kind(kind));
    let is_checked = row.made == "null" && row.result == OL_ERRC_INVALID_NULL_HANDLE;
    Expected::Is(match class {
        Some(Class::Handle(kind)) if is_checked => match kind {
            "ol_platform_handle_t" => OL_ERRC_INVALID_PLATFORM,
            "ol_device_handle_t" => OL_ERRC_INVALID_DEVICE,
            "ol_queue_handle_t" => OL_ERRC_INVALID_QUEUE,
            "ol_event_handle_t" => OL_ERRC_INVALID_EVENT,
            _ => OL_ERRC_INVALID_ARGUMENT,
        },
        _ => row.result,
    })
}

fn code(result: ol_result_t) -> ol_errc_t {
    // SAFETY: results are null or live until the end of the process.
    unsafe { result.as_ref() }.map_or(OL_ERRC_SUCCESS, |error| error.Code)
}
