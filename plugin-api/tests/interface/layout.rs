//! Tests that published layouts never change.

use longshore_plugin_api::abi::{INTERFACE_MAJOR, INTERFACE_MINOR};
use longshore_plugin_api::describe_layouts;

#[test]
fn the_layouts_match_the_published_ones() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/abi");
    let path = format!("{folder}/{INTERFACE_MAJOR}.{INTERFACE_MINOR}/layout.txt");
    let golden = std::fs::read_to_string(&path).expect(&path);
    let now = describe_layouts();
    for (golden, now) in golden.lines().zip(now.lines()) {
        assert_eq!(golden, now, "what is published never changes: add a table or a version");
    }
    assert_eq!(golden, now, "what is published never changes: add a table or a version");
}

#[test]
fn every_layout_of_an_earlier_version_is_still_there() {
    let now = describe_layouts();
    let now: Vec<_> = types(&now).collect();
    let versions = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/abi")).unwrap();
    for version in versions.map(|entry| entry.unwrap().path()) {
        let earlier = std::fs::read_to_string(version.join("layout.txt")).unwrap();
        for published in types(&earlier) {
            assert!(now.contains(&published), "{}: {published:?}", version.display());
        }
    }
}

/// Returns the types of a layout file: a line for each type, and an indented line for each field.
fn types(text: &str) -> impl Iterator<Item = Vec<&str>> {
    let lines: Vec<_> = text.lines().collect();
    let starts_type = |line: &str| line.contains(" size ") && line.contains(" align ");
    let same_type = move |_: &&str, next: &&str| !starts_type(next);
    let groups: Vec<_> = lines.chunk_by(same_type).map(<[_]>::to_vec).collect();
    groups.into_iter()
}
