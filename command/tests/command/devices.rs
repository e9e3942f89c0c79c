//! `longshore devices`, and the behaviour of all subcommands.

use crate::support::{
    alone, command, isolating_command, longshore, on_terminal, outcome, toy_plugin,
};
use std::process::{Command, Stdio};

#[test]
fn the_table_is_plain_where_there_is_no_terminal() {
    let listed = longshore(&["devices"]);
    listed.assert_succeeds();
    let lines: Vec<&str> = listed.stdout.lines().collect();
    assert!(lines[0].starts_with("DEVICE"), "{}", listed.stdout);
    assert!(lines.iter().any(|line| line.starts_with("host:0 ")), "{}", listed.stdout);
    assert!(listed.stdout.is_ascii(), "{}", listed.stdout);
}

/// Returns the list of devices on a terminal with this number of columns.
fn on_terminal_of(columns: u16, locale: &str) -> String {
    let mut listing = command();
    listing.args(["devices", "--backend", "host"]).env_remove("LC_CTYPE").env("LANG", "C.UTF-8");
    on_terminal(listing.env("LC_ALL", locale), columns)
}

#[test]
fn the_frame_of_a_table_is_ascii_where_the_locale_is() {
    assert!(on_terminal_of(120, "C.UTF-8").starts_with('\u{250c}'));
    assert!(on_terminal_of(120, "").starts_with('\u{250c}'));
    let listed = on_terminal_of(120, "C");
    assert!(listed.starts_with("+--") && listed.is_ascii(), "{listed}");
    assert!(listed.contains("| host:0 "), "{listed}");
}

#[test]
fn a_table_that_is_too_wide_for_the_terminal_is_a_list() {
    for columns in [60, 80] {
        let listed = on_terminal_of(columns, "C");
        let header =
            if columns == 60 { "DEVICE         host:0\nNAME           " } else { "| DEVICE " };
        assert!(listed.contains(header), "{listed}");
        let framed = listed.lines().filter(|line| line.starts_with(['+', '|']));
        assert!(framed.map(str::len).all(|length| length <= columns.into()), "{listed}");
    }
}

#[test]
fn json_holds_every_answer_under_a_name_with_its_unit() {
    let listed = longshore(&["--backend", "host", "devices", "--json"]);
    listed.assert_succeeds();
    let json = listed.json();
    let [device] = json.as_array().unwrap().as_slice() else { panic!("{json}") };
    assert_eq!(device["id"], "host:0");
    assert_eq!(device["type"], "host");
    assert_eq!(device["architecture"], std::env::consts::ARCH);
    assert!(device["num_compute_units"].as_u64().unwrap() > 0);
    assert!(device["global_mem_size_bytes"].as_u64().unwrap() > 1 << 20);
    assert!(device["platform"]["name"].is_string());
}

#[test]
fn a_missing_backend_fails_with_the_list_of_backends() {
    let by_variable = outcome(command().arg("devices").env("LONGSHORE_BACKEND", "nosuch"));
    let by_option = longshore(&["devices", "--backend", "nosuch"]);
    for failed in [by_variable, by_option] {
        failed.assert_fails(3, &["error: ", "'nosuch'", "there are: ", "host", "\nhint: "]);
        assert_eq!(failed.stdout, "");
    }
}

#[test]
fn a_missing_device_fails_with_the_list_of_devices() {
    let failed = longshore(&["devices", "--devices", "host:7"]);
    failed.assert_fails(3, &["error: no device matches 'host:7'", "host:0 \""]);
}

#[test]
fn a_selection_that_cannot_be_read_is_bad_usage() {
    let failed = longshore(&["devices", "--backend", "cuda;host"]);
    failed.assert_fails(2, &["error: ", "separated by commas"]);
    let failed = longshore(&["devices", "--devices", "host"]);
    failed.assert_fails(2, &["error: ", "\"backend:list\""]);
    let failed = outcome(command().arg("devices").env("LONGSHORE_DEVICES", "host"));
    failed.assert_fails(2, &["error: ", "\"backend:list\""]);
}

#[test]
fn an_option_replaces_the_variable() {
    let mut listing = command();
    listing.args(["devices", "--backend", "host", "--devices", "host:0"]);
    listing.env("LONGSHORE_BACKEND", "nosuch").env("LONGSHORE_DEVICES", "nosuch:0");
    outcome(&mut listing).assert_succeeds();
}

#[test]
fn no_device_at_all_is_reported_with_how_to_get_one() {
    let (_folder, mut listing) = alone();
    let failed = outcome(listing.arg("devices"));
    failed.assert_fails(3, &["error: there is no device", "hint: put a plugin", "--plugin"]);
    let (_folder, mut listing) = alone();
    let failed = outcome(listing.args(["devices", "--json"]));
    failed.assert_fails(3, &["error: there is no device"]);
    assert_eq!(failed.json(), serde_json::json!([]));
}

#[test]
fn a_selection_that_leaves_out_all_is_reported_with_what_there_is() {
    let mut listing = command();
    listing.args(["devices", "--backend", "host"]).env("LONGSHORE_DEVICES", "!host:*");
    let failed = outcome(&mut listing);
    failed.assert_fails(3, &["LONGSHORE_DEVICES \"!host:*\" excludes all", "\n  host:0 ("]);
    assert!(!failed.stderr.contains("put a plugin"), "{}", failed.stderr);
    let failed = longshore(&["devices", "--backend", "host", "--devices", "!host:0"]);
    failed.assert_fails(3, &["the selection \"!host:0\" excludes all", "hint: select one"]);
}

#[test]
fn a_missing_driver_is_not_reported_as_a_missing_plugin() {
    let (folder, mut listing) = alone();
    toy_plugin(folder.path(), "toy", "*outcome = 1; SAY(\"libtoy.so.1 is missing\"); return 0;");
    let failed = outcome(listing.arg("devices"));
    failed.assert_fails(3, &["no driver: libtoy.so.1 is missing", "hint: install the driver"]);
    assert!(!failed.stderr.contains("put a plugin"), "{}", failed.stderr);
}

#[test]
fn a_wrong_setting_of_a_backend_is_the_only_error() {
    let kinds = "expected all, or memory, races, initialized and barriers separated by commas";
    let receivers = "expected a list of gdb, perf, jitdump and jitdump=FOLDER";
    let threads = "expected a number from 1 to 1024";
    let cases = [
        ("CHECK", "foo", kinds),
        ("DEBUG", "foo", receivers),
        ("THREADS", "0", threads),
        ("THREADS", "abc", threads),
    ];
    for (setting, value, expected) in cases {
        for mut listing in [command(), isolating_command()] {
            let (folder, variable) =
                (tempfile::tempdir().unwrap(), format!("LONGSHORE_HOST_{setting}"));
            // Another backend with a device does not replace the one with the wrong setting.
            toy_plugin(folder.path(), "toy", "*outcome = 0; *platform = &device_count; return 0;");
            listing.args(["devices", "--plugin"]).arg(folder.path()).env(&variable, value);
            let failed = outcome(&mut listing);
            failed.assert_fails(2, &[&variable, &format!("'{value}', {expected}")]);
            assert_eq!(failed.stdout, "");
            assert_eq!(failed.stderr.matches("error").count(), 1, "{}", failed.stderr);
            assert!(!failed.stderr.contains("toy"), "{}", failed.stderr);
        }
    }
}

#[test]
fn a_misspelt_variable_is_reported_once_with_the_right_one() {
    let warned = |listing: &mut Command, texts: &[&str]| {
        let listed = outcome(listing);
        assert_eq!(listed.code, 0, "{}", listed.stderr);
        for text in texts {
            assert_eq!(listed.stderr.matches(text).count(), 1, "{}", listed.stderr);
        }
        assert_eq!(listed.stderr.lines().count(), texts.len(), "{}", listed.stderr);
    };
    let backends = "LONGSHORE_BACKENDS has no effect; did you mean LONGSHORE_BACKEND?";
    let threads = "LONGSHORE_HOST_THREAD has no effect; did you mean LONGSHORE_HOST_THREADS?";
    for mut listing in [command(), isolating_command()] {
        listing.arg("devices").env("LONGSHORE_BACKENDS", "host").env("LONGSHORE_HOST_THREAD", "1");
        // A variable of a backend is accepted, since any backend may be installed.
        listing.env("LONGSHORE_TOY_THREADS", "1").env("LONGSHORE_HOST_COLOUR", "1");
        warned(&mut listing, &[backends, threads]);
    }
    let mut listing = command();
    warned(listing.arg("plugins").env("LONGSHORE_BACKENDS", "host"), &[backends]);
    let mut completing = command();
    warned(completing.args(["completions", "bash"]).env("LONGSHORE_BACKENDS", "x"), &[backends]);
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    for arguments in [&["devices"][..], &["devices", "--json"], &["plugins"]] {
        let mut listing = command();
        listing.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = listing.spawn().unwrap();
        drop(child.stdout.take());
        let ended = child.wait_with_output().unwrap();
        let stderr = String::from_utf8(ended.stderr).unwrap();
        assert_eq!((ended.status.code(), stderr.as_str()), (Some(0), ""));
    }
}

#[test]
fn the_log_says_more_when_asked() {
    let quiet = longshore(&["devices"]);
    assert_eq!(quiet.stderr, "");
    let loud = longshore(&["devices", "-vv"]);
    assert!(loud.stderr.contains("liblongshore_plugin_host.so: loaded"), "{}", loud.stderr);
    let loud = outcome(command().arg("devices").env("LONGSHORE_LOG", "debug"));
    assert!(loud.stderr.contains("liblongshore_plugin_host.so: loaded"), "{}", loud.stderr);
}

#[test]
fn completions_and_version_show_what_the_help_does() {
    for shell in ["bash", "zsh", "fish"] {
        let script = longshore(&["completions", shell]);
        script.assert_succeeds();
        for name in ["inspect", "no-probe", "plugin"] {
            assert!(script.stdout.contains(name), "{shell}: no {name}");
        }
        for hidden in ["__probe", "__manual"] {
            assert!(!script.stdout.contains(hidden), "{shell}: {hidden}");
        }
    }
    let version = longshore(&["--version"]);
    assert!(version.stdout.starts_with("longshore "), "{}", version.stdout);
    assert!(version.stdout.contains(" (commit "), "{}", version.stdout);
}

#[test]
fn the_help_lists_the_exit_codes_and_hides_internal_commands() {
    let help = longshore(&["--help"]);
    help.assert_succeeds();
    for text in ["Exit codes:", "LONGSHORE_BACKEND", "devices", "plugins", "run", "check"] {
        assert!(help.stdout.contains(text), "{}", help.stdout);
    }
    assert!(!help.stdout.contains("__probe"), "{}", help.stdout);
    longshore(&["nosuch"]).assert_fails(2, &["unrecognized subcommand 'nosuch'"]);
}
