//! Files and printed messages of profiles, in processes of their own.

use super::compilers::{COMPILERS, Form, Instrumentation, output};
use super::{ProfiledImage, RARE, SOURCE, STEPS, counts, run_in_a_process};
use std::path::{Path, PathBuf};

/// Returns an image of the first installed compiler.
fn image() -> Option<ProfiledImage> {
    let compiler = COMPILERS.iter().rev().find(|compiler| compiler.is_there())?;
    Some(ProfiledImage::new(compiler, Instrumentation::FrontEnd, Form::Object, SOURCE))
}

/// Returns the number of rare steps in all profiles of a file.
fn rare_steps(counted: &ProfiledImage, profile: &Path) -> u64 {
    let merged = counted.world.path().join("merged.profdata");
    output(counted.compiler.profdata().arg("merge").arg(profile).arg("-o").arg(&merged));
    let mut show = counted.compiler.profdata();
    let shown = output(show.args(["show", "--counts", "--all-functions"]).arg(merged));
    counts(&shown)["rare"][0]
}

/// Returns the only profile in a folder.
fn only_profile(folder: &Path) -> PathBuf {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let profiles: Vec<_> = files.collect();
    let [profile] = &profiles[..] else { panic!("{profiles:?}") };
    profile.clone()
}

#[test]
fn processes_add_to_a_file_that_is_named_after_the_image_and_replace_others() {
    let Some(counted) = image() else { return };
    for (pattern, expected) in [("merged/%m.profraw", 3 * RARE), ("replaced/a.profraw", RARE)] {
        for _ in 0..3 {
            let variables = [("LONGSHORE_PROFILE_FILE", pattern)];
            run_in_a_process(&counted.world, &counted.image, &variables);
        }
        let folder = counted.world.path().join(pattern).parent().unwrap().to_owned();
        assert_eq!(rare_steps(&counted, &only_profile(&folder)), expected, "{pattern}");
    }
}

#[test]
fn processes_that_write_to_one_file_at_once_lose_nothing() {
    const PROCESSES: u64 = 6;
    let Some(counted) = image() else { return };
    std::thread::scope(|scope| {
        for _ in 0..PROCESSES {
            scope.spawn(|| {
                let variables = [("LONGSHORE_PROFILE_FILE", "shared/%1m.profraw")];
                run_in_a_process(&counted.world, &counted.image, &variables);
            });
        }
    });
    let profile = only_profile(&counted.world.path().join("shared"));
    assert_eq!(rare_steps(&counted, &profile), PROCESSES * RARE);
}

#[test]
fn a_files_name_says_what_the_image_is_for() {
    let Some(counted) = image() else { return };
    let variables = [("LONGSHORE_PROFILE_FILE", "named/%t%%.profraw")];
    run_in_a_process(&counted.world, &counted.image, &variables);
    let profile = only_profile(&counted.world.path().join("named"));
    let expected = format!("{}-unknown-linux-gnu%.profraw", std::env::consts::ARCH);
    assert_eq!(profile.file_name().unwrap().to_str().unwrap(), expected);
}

#[test]
fn the_totals_of_memory_pools_are_printed_for_each_device() {
    const TRACKED: &str = "unsigned long __omp_rtl_device_memory_pool_tracker[4] = {2, 48, 16, 32};
        void count(void **args) {}";
    let Some(compiler) = COMPILERS.iter().rev().find(|compiler| compiler.is_there()) else {
        return;
    };
    let counted = ProfiledImage::plain(compiler, Form::Object, TRACKED);
    let silent = run_in_a_process(&counted.world, &counted.image, &[]);
    assert!(!silent.contains("tracker"), "{silent}");
    let said = run_in_a_process(&counted.world, &counted.image, &[("LONGSHORE_TRACK", "1")]);
    for row in [
        "| Device memory tracker: host:0",
        "| #Allocations: 2\n",
        "| Bytes allocated: 48\n",
        "| Minimal allocation: 16\n",
        "| Maximal allocation: 32\n",
    ] {
        assert!(said.contains(row), "{row}: {said}");
    }
}

#[test]
fn counters_are_printed_when_asked_for() {
    let Some(counted) = image() else { return };
    let silent = run_in_a_process(&counted.world, &counted.image, &[]);
    assert!(!silent.contains("counters"), "{silent}");
    let said = run_in_a_process(&counted.world, &counted.image, &[("LONGSHORE_PROFILE_DUMP", "1")]);
    assert!(said.contains(": 4 functions\n"), "{said}");
    let line = |name: &str| {
        let head = format!("  {name}: hash 0x");
        said.lines().find(|line| line.starts_with(&head)).unwrap_or_else(|| panic!("{said}"))
    };
    assert!(line("rare").ends_with(&format!(", counters {RARE}")), "{said}");
    assert!(line("step").ends_with(&format!(", counters {}", STEPS - RARE + 1)), "{said}");
}
