use super::*;
use serde_json::json;
use std::path::PathBuf;
use tempfile::TempDir;

/// Returns a folder with a plugin and a report on it.
fn made() -> (TempDir, PathBuf, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let (plugin, file) = (folder.path().join("plugin.so"), folder.path().join("report.json"));
    std::fs::write(&plugin, "abc").unwrap();
    let sha256 = FileHash::read(&plugin).unwrap().sha256;
    let mut report =
        json!({ "schema": SCHEMA, "plugin": { "sha256": sha256, "b": [1, {"a": 2}] } });
    report[DIGEST] = digest(&report).into();
    std::fs::write(&file, serde_json::to_string_pretty(&report).unwrap()).unwrap();
    (folder, plugin, file)
}

#[test]
fn a_file_has_its_size_and_the_published_hash() {
    let (_folder, plugin, _) = made();
    let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(FileHash::read(&plugin).unwrap(), FileHash { bytes: 3, sha256: expected.into() });
}

#[test]
fn the_canonical_form_has_no_blanks_and_ordered_keys() {
    let mut canonical = String::new();
    let value = json!({ "b": [1, "\n", null], "a": { "d": true, "c": "é" }, "digest": "x" });
    write_canonical(&value, true, &mut canonical);
    assert_eq!(canonical, r#"{"a":{"c":"é","d":true},"b":[1,"\n",null]}"#);
}

#[test]
fn an_unchanged_report_is_verified_whatever_its_blanks() {
    let (_folder, plugin, file) = made();
    assert!(verify(&file, None).is_ok());
    assert!(verify(&file, Some(&plugin)).is_ok());
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace('\n', " ")).unwrap();
    assert!(verify(&file, Some(&plugin)).is_ok());
}

#[test]
fn an_edited_report_and_another_plugin_are_found() {
    let (folder, plugin, file) = made();
    std::fs::write(&plugin, "abd").unwrap();
    assert!(matches!(verify(&file, Some(&plugin)), Err(Unverified::OtherPlugin { .. })));
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("\"a\": 2", "\"a\": 3")).unwrap();
    assert!(matches!(verify(&file, None), Err(Unverified::Edited { .. })));
    for (text, expected) in [("{", "EOF"), ("{}", "its schema is null"), ("[]", "its schema")] {
        std::fs::write(&file, text).unwrap();
        let Err(Unverified::NoReport(why)) = verify(&file, None) else { panic!("{text}") };
        assert!(why.contains(expected), "{why}");
    }
    let missing = folder.path().join("missing");
    assert!(matches!(verify(&missing, None), Err(Unverified::Unreadable(_))));
}
