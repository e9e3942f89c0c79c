//! `longshore plugins`.

use crate::support::{
    alone, command, isolating_command, longshore, outcome, toy_plugin, toy_plugin_with,
};

#[test]
fn a_plugin_is_listed_with_the_facts_of_its_note() {
    let listed = longshore(&["plugins"]);
    listed.assert_succeeds();
    let host = "liblongshore_plugin_host.so";
    let row = listed.stdout.lines().find(|line| line.contains(host)).unwrap();
    assert!(row.starts_with("host"), "{row}");
    for text in [" loaded ", " 1.", "elf-so"] {
        assert!(row.contains(text), "no '{text}' in: {row}");
    }
}

#[test]
fn json_holds_the_same() {
    let listed = longshore(&["plugins", "--json"]);
    listed.assert_succeeds();
    let json = listed.json();
    let all = json.as_array().unwrap();
    let host = all.iter().find(|plugin| plugin["backend"] == "host").unwrap();
    assert_eq!(host["outcome"], "loaded");
    assert_eq!(host["fault"], false);
    assert!(host["interface"].as_str().unwrap().starts_with("1."));
    assert!(host["image_formats"].as_array().unwrap().contains(&"elf-so".into()));
}

#[test]
fn a_wrong_setting_of_a_backend_is_the_reason_in_its_row() {
    for option in [&[][..], &["--no-probe"]] {
        let mut listing = command();
        listing.arg("plugins").args(option).env("LONGSHORE_HOST_THREADS", "0");
        let listed = outcome(&mut listing);
        listed.assert_succeeds();
        let row = listed.stdout.lines().find(|line| line.starts_with("host")).unwrap();
        assert!(row.contains(" failed ") && row.contains("LONGSHORE_HOST_THREADS is '0'"), "{row}");
    }
}

#[test]
fn a_plugin_that_aborts_is_a_row_and_costs_only_the_process_that_tried_it() {
    let folder = tempfile::tempdir().unwrap();
    toy_plugin(folder.path(), "bad", "abort();");
    toy_plugin(folder.path(), "none", "*outcome = 2; SAY(\"no toy plugged in\"); return 0;");
    let place = folder.path().to_str().unwrap();
    let listed = longshore(&["plugins", "--plugin", place]);
    listed.assert_succeeds();
    let row = |backend: &str| {
        let found = listed.stdout.lines().find(|line| line.starts_with(backend));
        found.unwrap_or_else(|| panic!("{}", listed.stdout))
    };
    assert!(row("bad").contains("crashed"), "{}", listed.stdout);
    assert!(row("none").contains("no device"), "{}", listed.stdout);
    assert!(row("none").contains("no toy plugged in"), "{}", listed.stdout);
    assert!(row("host").contains("loaded"), "{}", listed.stdout);
}

/// P-70 to P-72.
#[test]
fn a_plugin_with_an_impossible_value_is_a_row_that_names_the_value() {
    // A loop that writes 16 GiB, which stands for endless output.
    const ENDLESS: &str = "static char page[1 << 20]; for (int i = 0; i < 1 << 14; i++) SINK.write(SINK.context, page, sizeof page);";
    let name = format!("DEVICE_INFO=if (query == 3) {{ {} }}", ENDLESS.replace("SINK", "value"));
    let reason = ENDLESS.replace("SINK", "reason");
    let reason = format!("CONNECT={reason} *outcome = 1; return 0;");
    let platform = "longshore.platform, ";
    for (definition, place, value, bound) in [
        ("DEVICES=0xffffffff", &*format!("{platform}device_count"), "4294967295 devices", "1024"),
        ("DEVICES=1025", &format!("{platform}device_count"), "1025 devices", "1024"),
        ("NAME={ BACKEND, 0xffffffff }", "describe, name", "4294967295 bytes", "4096"),
        ("NAME={ 0, 5 }", "describe, name", "null with 5 bytes", "a pointer to them"),
        (
            &name,
            &format!("{platform}device_info ProductName of device 0"),
            "17179869184 bytes",
            "65536",
        ),
        (&reason, "connect, reason", "17179869184 bytes", "65536"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let toy = toy_plugin_with(folder.path(), "toy", definition);
        let toy = toy.to_str().unwrap();
        let said = format!("plugin 'toy': {place}: {value}, expected ");
        for (mut command, options) in
            [(command(), &[][..]), (command(), &["--no-probe"]), (isolating_command(), &[])]
        {
            let arguments = [&["plugins", "--json", "--plugin", toy], options].concat();
            let listed = outcome(command.args(arguments));
            assert_eq!(listed.code, 0, "{}", listed.stderr);
            let json = listed.json();
            let rows = json.as_array().unwrap();
            let row = |backend| rows.iter().find(|row| row["backend"] == backend).unwrap();
            let reason = row("toy")["reason"].as_str().unwrap();
            assert_eq!(row("toy")["outcome"], "failed", "{reason}");
            assert!(reason.contains(&said) && reason.ends_with(bound), "{reason}");
            assert_ne!(row("host")["fault"], true, "{}", row("host"));
        }
    }
}

#[test]
fn without_probing_plugins_are_loaded_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let connect = "*outcome = 1; SAY(\"libtoy.so.1 is missing\"); return 0;";
    let toy = toy_plugin(folder.path(), "toy", connect);
    let listed = longshore(&["plugins", "--no-probe", "--plugin", toy.to_str().unwrap()]);
    listed.assert_succeeds();
    assert!(listed.stdout.contains("libtoy.so.1 is missing"), "{}", listed.stdout);
}

#[test]
fn a_plugin_that_was_named_and_is_missing_is_a_row() {
    let listed = longshore(&["plugins", "--plugin", "/nonexistent/toys"]);
    listed.assert_succeeds();
    let mut lines = listed.stdout.lines();
    let row = lines.find(|line| line.contains("/nonexistent/toys")).unwrap();
    assert!(row.contains("missing"), "{row}");
}

#[test]
fn a_wrong_selection_fails_after_the_list_of_what_there_is() {
    let wrong = [
        ("LONGSHORE_BACKEND", "nosuch", 3),
        ("LONGSHORE_DEVICES", "host:77", 3),
        ("LONGSHORE_BACKEND", "a;b", 2),
        ("LONGSHORE_DEVICES", "host", 2),
    ];
    for (variable, value, code) in wrong {
        let failed = outcome(command().arg("plugins").env(variable, value));
        failed.assert_fails(code, &["error: ", value]);
        assert!(failed.stdout.contains("liblongshore_plugin_host.so"), "{}", failed.stdout);
    }
    let failed = longshore(&["plugins", "--backend", "nosuch", "--devices", "host:77"]);
    failed.assert_fails(3, &["error: ", "'nosuch'"]);
    assert!(failed.stdout.contains("liblongshore_plugin_host.so"), "{}", failed.stdout);
}

#[test]
fn a_backend_that_is_ruled_out_is_not_opened() {
    let folder = tempfile::tempdir().unwrap();
    toy_plugin(folder.path(), "bad", "abort();");
    let place = folder.path().to_str().unwrap();
    let listed = longshore(&["plugins", "--no-probe", "--plugin", place, "--backend", "host"]);
    listed.assert_succeeds();
    assert!(listed.stdout.contains("ruled out"), "{}", listed.stdout);
}

#[test]
fn no_plugin_at_all_is_reported_with_where_it_was_looked_for() {
    let (_folder, mut listing) = alone();
    let failed = outcome(listing.arg("plugins"));
    failed.assert_fails(3, &["error: there is no plugin in", "lib/longshore", "hint: "]);
    assert_eq!(failed.stdout, "");
}

/// Vulkan's loader finds no driver at the path in these variables.
#[test]
fn a_backend_without_a_driver_is_a_row_with_its_reason_and_others_work() {
    let mut listing = command();
    listing.args(["plugins", "--json"]).env("VK_DRIVER_FILES", "/nowhere.json");
    let listed = outcome(listing.env("VK_ICD_FILENAMES", "/nowhere.json"));
    listed.assert_succeeds();
    let json = listed.json();
    let row = |backend: &str| json.as_array()?.iter().find(|row| row["backend"] == backend);
    let Some(vulkan) = row("vulkan") else {
        return println!("the Vulkan plugin is not built: nothing is tried");
    };
    assert_eq!(vulkan["outcome"], "no driver", "{vulkan}");
    assert_eq!(vulkan["fault"], false);
    assert!(vulkan["reason"].as_str().unwrap().contains("Vulkan"), "{vulkan}");
    assert_eq!(row("host").unwrap()["outcome"], "loaded");
}
