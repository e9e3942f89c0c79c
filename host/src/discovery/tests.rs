//! End-to-end tests of discovery, with folders and plugins that the tests create.

use super::testing::{Toy, plugin};
use super::*;
use libloading::os::unix::Library;
use longshore_plugin_api::{ErrorCode, Platform};
use std::fs::{Permissions, create_dir, set_permissions, write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The variable with the plugin's file for the probing process of these tests; see
/// `as_the_probing_process`.
const PROBED_FILE: &str = "DISCOVERY_TEST_PROBED_FILE";

fn config(extra: &[&Path]) -> DiscoveryConfig {
    DiscoveryConfig {
        extra: extra.iter().map(|path| (*path).to_owned()).collect(),
        standard_folders: false,
        ..DiscoveryConfig::new(Environment::empty())
    }
}

/// Runs discovery in a folder with one plugin, and returns the plugin's outcome.
fn outcome_of(toy: Toy, probe: Option<Probe>) -> Outcome {
    let folder = TempDir::new().unwrap();
    plugin(folder.path(), "toy", toy);
    let found = discover(&DiscoveryConfig { probe, ..config(&[folder.path()]) }).unwrap();
    assert_eq!(found.candidates.len(), 1);
    assert_eq!(found.plugins.len(), usize::from(found.candidates[0].outcome == Outcome::Loaded));
    found.candidates.into_iter().next().unwrap().outcome
}

/// Returns the outcome of probing alone, without loading the plugin in this process.
fn probed(toy: Toy) -> Outcome {
    let folder = TempDir::new().unwrap();
    let path = plugin(folder.path(), "toy", toy);
    probe().run(&path, &Environment::empty())
}

/// Returns a probe by this test program, which runs one ignored test as the probing process.
fn probe() -> Probe {
    let program = std::env::current_exe().unwrap();
    let run = format!(
        "{PROBED_FILE}=\"$0\" exec '{}' --ignored --exact --nocapture \
         discovery::tests::as_the_probing_process",
        program.display()
    );
    Probe::new("/bin/sh").with_arguments(["-c", &run])
}

#[test]
#[ignore = "not a test: the other side of `probe`"]
fn as_the_probing_process() {
    let file = std::env::var_os(PROBED_FILE).expect("started by a test");
    std::process::exit(probe_main(Path::new(&file)));
}

#[test]
fn a_good_plugin_is_loaded_and_can_be_asked() {
    let folder = TempDir::new().unwrap();
    let path = plugin(folder.path(), "toy", Toy::Good);
    let found = discover(&config(&[folder.path()])).unwrap();
    assert_eq!(found.candidates[0].outcome, Outcome::Loaded);
    assert_eq!(found.candidates[0].note.as_ref().unwrap().driver, "libtoy.so.1");
    let [plugin] = found.plugins.as_slice() else { panic!("{found:?}") };
    assert_eq!((plugin.backend(), plugin.path()), ("toy", path.as_path()));
    assert_eq!(plugin.description().vendor, "Tests");
    assert_eq!(plugin.platform().device_count(), 1);
}

#[test]
fn ordinary_answers_keep_their_reason() {
    for probe in [None, Some(probe())] {
        let reason = "libtoy.so.1 is\nmissing".to_owned();
        assert_eq!(outcome_of(Toy::NoDriver, probe.clone()), Outcome::NoDriver(reason));
        let reason = "no toy plugged in".to_owned();
        assert_eq!(outcome_of(Toy::NoDevice, probe), Outcome::NoDevice(reason));
    }
}

#[test]
fn other_files_than_plugins_are_not_opened() {
    let folder = TempDir::new().unwrap();
    write(folder.path().join("liblongshore_plugin_text.so"), "no library").unwrap();
    create_dir(folder.path().join("liblongshore_plugin_folder.so")).unwrap();
    for candidate in discover(&config(&[folder.path()])).unwrap().candidates {
        assert!(matches!(candidate.outcome, Outcome::NotALibrary(_)), "{candidate}");
    }
    assert!(matches!(outcome_of(Toy::NoNote, None), Outcome::NotAPlugin(_)));
}

#[test]
fn a_breach_of_the_interface_is_described() {
    let host = (abi::INTERFACE_MAJOR, abi::INTERFACE_MINOR);
    let wrong = |major| Outcome::WrongInterface { plugin: (major, 0), host };
    assert_eq!(outcome_of(Toy::NoteOfInterface2, None), wrong(2));
    for probe in [None, Some(probe())] {
        let outcome = |toy| outcome_of(toy, probe.clone());
        assert_eq!(outcome(Toy::EntryOfInterface9), wrong(9));
        assert!(matches!(outcome(Toy::NoSymbol), Outcome::NotAPlugin(_)));
        assert!(matches!(outcome(Toy::WrongMagic), Outcome::NotAPlugin(_)));
        let Outcome::WrongLayout(why) = outcome(Toy::NullFunction) else { panic!() };
        assert!(why.contains("function 0 of its table \"longshore.platform\""), "{why}");
        let Outcome::WrongLayout(why) = outcome(Toy::MissingTable) else { panic!() };
        assert!(why.contains("\"longshore.queue\""), "{why}");
    }
    assert_eq!(outcome_of(Toy::OtherBackend, None), Outcome::Misnamed { says: "other".into() });
}

#[test]
fn an_error_of_connect_keeps_code_message_and_vendor() {
    for probe in [None, Some(probe())] {
        let Outcome::Failed(error) = outcome_of(Toy::Broken, probe) else { panic!() };
        assert_eq!(error.code(), ErrorCode::BackendFailure);
        assert_eq!(error.message(), "connecting 'toy': the toy driver is broken");
        assert_eq!(error.vendor().unwrap().name, "TOY_BROKEN");
    }
}

#[test]
fn a_plugin_that_ends_its_process_costs_only_the_probing_process() {
    let crashed = |toy| match outcome_of(toy, Some(probe())) {
        Outcome::Crashed(how) => how,
        other => panic!("{other}"),
    };
    let how = crashed(Toy::Abort);
    assert!(how.contains("SIGABRT") && how.contains("toy: cannot"), "{how}");
    assert!(crashed(Toy::Exit).contains("ended the process while connecting"));
    assert!(crashed(Toy::AbortInDestroy).contains("SIGABRT"));
}

#[test]
fn a_plugin_that_hangs_is_given_up_at_the_limit() {
    let begin = Instant::now();
    let outcome = outcome_of(Toy::Hang, Some(probe().with_limit(Duration::from_millis(300))));
    let Outcome::Crashed(how) = outcome else { panic!("{outcome}") };
    assert!(how.contains("did not answer within 300ms"), "{how}");
    assert!(begin.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_good_plugin_passes_the_probe_even_if_it_prints() {
    assert_eq!(outcome_of(Toy::Good, Some(probe())), Outcome::Loaded);
    assert_eq!(outcome_of(Toy::Noisy, Some(probe().with_limit(Duration::MAX))), Outcome::Loaded);
}

#[test]
fn nothing_that_a_plugin_writes_is_taken_for_a_verdict() {
    let outcome = probed(Toy::Forger);
    let Outcome::Crashed(how) = outcome else { panic!("{outcome:?}") };
    assert!(how.contains("ended the process while connecting"), "{how}");
}

#[test]
fn only_the_last_output_of_a_plugin_is_kept() {
    let outcome = probed(Toy::Talker);
    let Outcome::Crashed(how) = outcome else { panic!("{outcome:?}") };
    assert!(how.ends_with("its last words: kept: 0"), "{how}");
}

#[test]
fn processes_that_a_plugin_starts_end_with_the_probe() {
    let short = probe().with_limit(Duration::from_secs(1));
    for (toy, probe, label) in [
        (Toy::Parent, probe(), "loaded"),
        (Toy::AbortingParent, probe(), "crashed"),
        (Toy::StoppingParent, short, "crashed"),
    ] {
        let folder = TempDir::new().unwrap();
        let path = plugin(folder.path(), "toy", toy);
        let outcome = probe.run(&path, &Environment::empty());
        assert_eq!(outcome.label(), label, "{toy:?}: {outcome}");
        assert_eq!(probing(&path), [], "{toy:?} leaves processes behind");
    }
}

#[test]
fn a_probe_ends_with_its_program_even_if_it_is_stopped() {
    for toy in [Toy::Hang, Toy::StoppingParent] {
        let folder = TempDir::new().unwrap();
        let path = plugin(folder.path(), "toy", toy);
        // SAFETY: the child only probes and is killed. The only other thread is the test harness,
        // which waits for this one.
        let program = unsafe { libc::fork() };
        if program == 0 {
            probe().with_limit(Duration::from_secs(1000)).run(&path, &Environment::empty());
            // SAFETY: `_exit` ends the child without running destructors.
            unsafe { libc::_exit(1) };
        }
        let begun = || probing(&path).iter().any(|state| toy == Toy::Hang || *state == 'T');
        wait_until(|| begun() && probing(&path).len() >= 2);
        // SAFETY: kills the child forked above, and waits for it.
        unsafe {
            libc::kill(program, libc::SIGKILL);
            libc::waitpid(program, std::ptr::null_mut(), 0);
        }
        wait_until(|| probing(&path).is_empty());
    }
}

/// Returns the states of the processes that probe the plugin in `path`, and of the processes that
/// the plugin has started.
fn probing(path: &Path) -> Vec<char> {
    let mark = format!("{PROBED_FILE}={}", path.display());
    let is_marked = |process: &Path| {
        let variables = std::fs::read(process.join("environ")).unwrap_or_default();
        variables.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
    };
    let state = |process: &Path| {
        let facts = std::fs::read_to_string(process.join("stat")).ok()?;
        facts.rsplit(')').next()?.trim().chars().next()
    };
    let processes = std::fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    let marked: Vec<PathBuf> = processes.filter(|process| is_marked(process)).collect();
    marked.iter().filter_map(|process| state(process)).filter(|state| *state != 'Z').collect()
}

fn wait_until(holds: impl Fn() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < Duration::from_secs(60), "it takes too long");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn the_settings_of_the_configuration_reach_the_plugin_in_either_process() {
    for probe in [None, Some(probe())] {
        let folder = TempDir::new().unwrap();
        plugin(folder.path(), "moody", Toy::TellSetting);
        let mut config = DiscoveryConfig { probe, ..config(&[folder.path()]) };
        config.environment.set("LONGSHORE_MOODY_MOOD", "fine");
        let outcome = discover(&config).unwrap().candidates[0].outcome.clone();
        assert_eq!(outcome, Outcome::NoDevice("fine".into()));
    }
}

#[test]
fn the_variable_asks_for_the_command_beside_the_executable() {
    let folder = TempDir::new().unwrap();
    plugin(folder.path(), "toy", Toy::Good);
    let mut config = config(&[folder.path()]);
    config.environment.set("LONGSHORE_PROBE", "1");
    let Outcome::Failed(error) = &discover(&config).unwrap().candidates[0].outcome else {
        panic!()
    };
    assert_eq!(error.code(), ErrorCode::HostToolNotFound);
}

#[test]
fn the_first_file_of_a_backend_wins_and_each_file_is_listed_once() {
    let (first, second) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let winner = plugin(first.path(), "toy", Toy::Good);
    let loser = plugin(second.path(), "toy", Toy::Good);
    let again = second.path().join("again");
    symlink(first.path(), &again).unwrap();
    let found = discover(&config(&[first.path(), &again, second.path()])).unwrap();
    let paths: Vec<&Path> = found.candidates.iter().map(|each| each.path.as_path()).collect();
    assert_eq!(paths, [winner.as_path(), loser.as_path()]);
    assert_eq!(found.candidates[1].outcome, Outcome::Shadowed { by: winner });
}

#[test]
fn the_programs_places_come_before_the_users_and_missing_ones_are_listed() {
    let (program, user) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    for folder in [&program, &user] {
        plugin(folder.path(), "toy", Toy::Good);
    }
    let missing = user.path().join("missing");
    let mut config = config(&[program.path()]);
    let path = format!("{}:{}", missing.display(), user.path().display());
    config.environment.set("LONGSHORE_PLUGIN_PATH", path);
    let candidates = list(&config).unwrap();
    let [first, second, third] = candidates.as_slice() else { panic!("{candidates:?}") };
    assert_eq!(first.outcome, Outcome::NotOpened);
    assert_eq!((&second.path, &second.outcome), (&missing, &Outcome::Missing));
    assert_eq!(third.outcome.label(), "shadowed");
}

#[test]
fn a_backend_that_is_ruled_out_is_not_opened_and_the_order_is_the_selections() {
    let folder = TempDir::new().unwrap();
    for (backend, toy) in [("a", Toy::Good), ("b", Toy::Good), ("c", Toy::Abort)] {
        plugin(folder.path(), backend, toy);
    }
    let mut config = config(&[folder.path()]);
    config.environment.set("LONGSHORE_BACKEND", "b,a");
    let found = discover(&config).unwrap();
    let order: Vec<&str> = found.plugins.iter().map(|plugin| plugin.backend()).collect();
    assert_eq!(order, ["b", "a"]);
    assert!(found.backends_ordered);
    assert_eq!(found.candidates[2].outcome, Outcome::RuledOut("b,a".into()));
    config.backends = Some(BackendSelection::parse("a,c").unwrap());
    let found = discover(&config).unwrap();
    let order: Vec<&str> = found.plugins.iter().map(|plugin| plugin.backend()).collect();
    assert_eq!(order, ["a"]);
}

#[test]
fn a_selected_backend_without_a_file_is_an_error_before_anything_is_opened() {
    let folder = TempDir::new().unwrap();
    plugin(folder.path(), "toy", Toy::Abort);
    let mut config = config(&[folder.path()]);
    config.environment.set("LONGSHORE_BACKEND", "cuda");
    let error = discover(&config).unwrap_err();
    assert_eq!(error.code(), ErrorCode::NotFound);
    assert!(error.message().contains("there are: toy"), "{error}");
    config.environment.set("LONGSHORE_BACKEND", "cu da");
    let error = list(&config).unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidValue);
    assert!(error.message().starts_with("LONGSHORE_BACKEND"), "{error}");
}

#[test]
fn a_file_that_other_users_can_write_is_refused_and_not_opened() {
    let folder = TempDir::new().unwrap();
    let path = plugin(folder.path(), "toy", Toy::Abort);
    set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
    let found = discover(&config(&[folder.path()])).unwrap();
    let Outcome::Refused(reason) = &found.candidates[0].outcome else { panic!("{found:?}") };
    assert!(reason.contains("chmod o-w"), "{reason}");
}

#[test]
fn a_list_opens_nothing() {
    let folder = TempDir::new().unwrap();
    plugin(folder.path(), "toy", Toy::Abort);
    let candidates = list(&config(&[folder.path()])).unwrap();
    assert_eq!(candidates[0].outcome, Outcome::NotOpened);
}

#[test]
fn an_unusable_file_still_shadows_the_later_ones() {
    let (first, second) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    write(first.path().join("liblongshore_plugin_toy.so"), "broken").unwrap();
    plugin(second.path(), "toy", Toy::Good);
    let candidates = list(&config(&[first.path(), second.path()])).unwrap();
    assert_eq!(candidates[0].outcome.label(), "no library");
    assert_eq!(candidates[1].outcome.label(), "shadowed");
}

#[test]
fn only_a_library_that_says_so_is_closed() {
    let folder = TempDir::new().unwrap();
    let stays = plugin(folder.path(), "stays", Toy::Good);
    let goes = plugin(folder.path(), "goes", Toy::Unloadable);
    let is_loaded = |path: &Path| {
        let flags = libc::RTLD_NOW | libc::RTLD_NOLOAD;
        // SAFETY: `RTLD_NOLOAD` only checks whether the library is loaded.
        unsafe { Library::open(Some(path), flags) }.is_ok()
    };
    let found = discover(&config(&[folder.path()])).unwrap();
    assert_eq!(found.plugins.len(), 2);
    assert!(is_loaded(&stays));
    drop(found);
    assert!(is_loaded(&stays));
    assert!(!is_loaded(&goes));
}
