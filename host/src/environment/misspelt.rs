//! Warnings about variables without effect whose names resemble known ones.

use parking_lot::Mutex;
use std::collections::BTreeSet;
use strsim::osa_distance;

/// The variables of the library, the command, the build and the tests, without the prefix.
const KNOWN: [&str; 43] = [
    "BACKEND",
    "CACHE",
    "CLANG",
    "COMMIT",
    "DEVICES",
    "EXECUTOR",
    "FLIPPED_BITS",
    "ISOLATE",
    "ISOLATE_CONNECT_TIME_LIMIT",
    "ISOLATE_LIMITS",
    "ISOLATE_SANDBOX",
    "ISOLATE_TIME_LIMIT",
    "JIT_CACHE",
    "JIT_CACHE_BYTES",
    "JIT_LLVM",
    "JIT_OPT_LEVEL",
    "JIT_POST_OPT_IR_MODULE",
    "JIT_PRE_OPT_IR_MODULE",
    "JIT_PROCESS",
    "JIT_REPLACEMENT_MODULE",
    "JIT_REPLACEMENT_OBJECT",
    "JIT_SKIP_OPT",
    "JIT_TIME_LIMIT",
    "LOG",
    "MPI_CONNECT_TIME_LIMIT",
    "MPI_JOINED_FILE",
    "MPI_LIBRARY",
    "MPI_NODE",
    "MPI_PROGRAMS",
    "MPI_SPAWN",
    "MPI_SPIN",
    "MPI_TIME_LIMIT",
    "NODE_BACKEND",
    "NODE_DEVICES",
    "PLUGIN_PATH",
    "PROBE",
    "PROFILE_DUMP",
    "PROFILE_FILE",
    "ROUNDS",
    "SMALL",
    "STRESS_SECONDS",
    "STRESS_SEED",
    "TRACK",
];
/// The prefix of the tests' settings.
const TEST_PREFIX: &str = "TEST_";

/// Returns the known names that an unknown variable resembles, without the prefix. `settings` are
/// further known names, such as "HOST_THREADS". A setting of a backend that is not in `settings`
/// counts as known, unless it resembles a known name.
pub(super) fn resembled<'a>(name: &str, settings: &'a BTreeSet<String>) -> Vec<&'a str> {
    let all = || KNOWN.into_iter().chain(settings.iter().map(String::as_str));
    if name.starts_with(TEST_PREFIX) || all().any(|known| known == name) {
        return Vec::new();
    }
    let near = all().filter_map(|known| Some((distance(name, known)?, known)));
    let near: Vec<_> = near.collect();
    let least = near.iter().map(|(distance, _)| *distance).min();
    near.into_iter()
        .filter(|(distance, _)| Some(*distance) == least)
        .map(|(_, name)| name)
        .collect()
}

/// Returns the distance of a name from a known one; `None` if the two are too far apart for a
/// misspelling.
fn distance(name: &str, known: &str) -> Option<usize> {
    let is_begun = known.strip_prefix(name).is_some_and(|rest| rest.starts_with('_'));
    if is_begun && KNOWN.contains(&known) {
        return Some(1);
    }
    let most = if known.len() < 8 { 1 } else { 2 };
    let is_inflected = name.strip_prefix(known).is_some_and(|rest| matches!(rest, "ED" | "ING"));
    Some(osa_distance(name, known)).filter(|distance| *distance <= most || is_inflected)
}

/// Logs a warning about a variable, once in the life of the process.
pub(super) fn warn(prefix: &str, name: &str, resembled: &[&str]) {
    static WARNED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    if resembled.is_empty() || !WARNED.lock().insert(name.to_owned()) {
        return;
    }
    let meant: Vec<_> = resembled.iter().map(|known| format!("{prefix}{known}")).collect();
    let meant = meant.join(" or ");
    log::warn!("the variable {prefix}{name} has no effect; did you mean {meant}?");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suggestions(name: &str) -> Vec<String> {
        let settings = ["HOST_THREADS", "HOST_PIN", "HOST_CACHE"].map(str::to_owned).into();
        resembled(name, &settings).into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn a_misspelt_name_resembles_the_right_one() {
        for (name, meant) in [
            ("BACKENDS", &["BACKEND"][..]),
            ("DEVICE", &["DEVICES"]),
            ("DEIVCES", &["DEVICES"]),
            ("PLUGINS_PATH", &["PLUGIN_PATH"]),
            ("PLUGIN", &["PLUGIN_PATH"]),
            ("PROFILE", &["PROFILE_DUMP", "PROFILE_FILE"]),
            ("TRACKING", &["TRACK"]),
            ("ISOLATE_LIMIT", &["ISOLATE_LIMITS"]),
            ("ISOLATE_CONECT_TIME_LIMIT", &["ISOLATE_CONNECT_TIME_LIMIT"]),
            ("JIT_OPT_LEVLE", &["JIT_OPT_LEVEL"]),
            ("HOST_THREAD", &["HOST_THREADS"]),
            ("HSOT_PIN", &["HOST_PIN"]),
        ] {
            assert_eq!(suggestions(name), meant, "{name}");
        }
    }

    #[test]
    fn the_variables_that_the_documentation_lists_are_known() {
        let page = include_str!("../environment.rs");
        let rows = page.lines().filter_map(|line| line.strip_prefix("//! | `LONGSHORE_"));
        let names: Vec<&str> = rows.filter_map(|row| row.split('`').next()).collect();
        assert!(names.len() > 10, "{names:?}");
        for name in names.into_iter().filter(|name| !name.starts_with('<')) {
            assert!(KNOWN.contains(&name), "{name}");
        }
    }

    #[test]
    fn known_names_and_settings_of_others_resemble_nothing() {
        let settings = ["HOST_THREADS", "TOY_THREADS", "TOY_CACHE", "MY_GPU_STACK", "HOST_WORDS"];
        for name in KNOWN.into_iter().chain(settings).chain(["TEST_CASE", "TEST_TRACK"]) {
            assert_eq!(suggestions(name), [""; 0], "{name}");
        }
    }
}
