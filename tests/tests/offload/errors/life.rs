//! Rows about olInit and olShutDown, which there is no world for yet, and about functions that are called without one.

use crate::errors::functions::{FUNCTIONS, Function};
use crate::errors::rows::{Failures, check};
use crate::errors::table::{Mode, Row};
use crate::errors::world::{World, ok};
use longshore_capi::*;
use std::ptr::null;

/// Returns whether a row is about a time at which the library is not in use.
pub(crate) fn is_outside(row: &Row) -> bool {
    row.made == "not initialised" || ["olInit", "olShutDown"].contains(&row.function.as_str())
}

/// Runs such a row, without a world.
pub(crate) fn run(row: &Row, mode: Mode, failures: &mut Failures) {
    match row.function.as_str() {
        "olInit" => initialize(row, mode, failures),
        _ => {
            let function = Function::named(&row.function);
            check(row, mode, &vec![0; function.parameters.len()], OL_ERRC_SUCCESS, failures);
        }
    }
}

/// Calls all functions with what was valid, after the last olShutDown.
pub(crate) fn after(world: &World, rows: &[Row], mode: Mode, failures: &mut Failures) {
    let valid: Vec<_> = FUNCTIONS
        .iter()
        .filter(|function| !["olInit", "olShutDown"].contains(&function.name))
        .filter(|function| rows.iter().any(|row| row.function == function.name))
        .map(|function| crate::errors::calls::Call::valid(world, function))
        .collect();
    ok("olShutDown", &[]);
    world.clear();
    for row in rows.iter().filter(|row| row.made == "not initialised") {
        if let Some(call) = valid.iter().find(|call| call.function.name == row.function) {
            check(row, mode, &call.words, OL_ERRC_SUCCESS, failures);
        }
    }
    assert!(world.is_untouched());
}

fn initialize(row: &Row, mode: Mode, failures: &mut Failures) {
    let size = size_of::<ol_init_args_t>();
    let known = [OL_PLATFORM_BACKEND_HOST, OL_PLATFORM_BACKEND_CUDA];
    let unknown = [ol_platform_backend_t(5), ol_platform_backend_t(0x7fff_ffff)];
    let arguments = |size, count, platforms: *const ol_platform_backend_t| ol_init_args_t {
        Size: size,
        NumPlatforms: count,
        Platforms: platforms,
    };
    let is_nested = row.made.contains("nested");
    let given = match row.made.as_str() {
        "null" => None,
        "Size 0" | "Size 0, nested" => Some(arguments(0, 0, null())),
        "Size one too small" => Some(arguments(size - 1, 0, null())),
        "Size larger than needed" => Some(arguments(size + 8, 0, null())),
        "Platforms null, NumPlatforms 2" => Some(arguments(size, 2, null())),
        "Platforms something, NumPlatforms 0" => Some(arguments(size, 0, unknown.as_ptr())),
        "an element of Platforms that is no enumerator" => {
            Some(arguments(size, 2, unknown.as_ptr()))
        }
        "NumPlatforms UINT32_MAX" => Some(arguments(size, u32::MAX, null())),
        "backends without devices" => Some(arguments(size, 2, known.as_ptr())),
        other => return failures.add(row, &format!("nobody knows what '{other}' is")),
    };
    if is_nested {
        ok("olInit", &[0]);
    }
    let address = given.as_ref().map_or(0, |given| &raw const *given as usize);
    if check(row, mode, &[address], OL_ERRC_SUCCESS, failures) {
        ok("olShutDown", &[]);
    }
    if is_nested {
        ok("olShutDown", &[]);
    }
    let ended = Function::named("olShutDown").call(Mode::Plain, &[]);
    // SAFETY: results are null or live as long as the process.
    let ended = unsafe { ended.as_ref() }.map(|error| error.Code);
    if ended != Some(OL_ERRC_UNINITIALIZED) {
        failures.add(row, "it was counted");
    }
    ok("olInit", &[0]);
    ok("olShutDown", &[]);
}
