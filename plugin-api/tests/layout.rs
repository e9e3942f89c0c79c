//! Holds that the interface is frozen.

use longshore_plugin_api::abi::{INTERFACE_MAJOR, INTERFACE_MINOR};
use longshore_plugin_api::describe_layouts;

#[test]
fn the_layouts_are_those_that_were_published() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/abi");
    let path = format!("{folder}/{INTERFACE_MAJOR}.{INTERFACE_MINOR}/layout.txt");
    let golden = std::fs::read_to_string(&path).expect(&path);
    let now = describe_layouts();
    for (golden, now) in golden.lines().zip(now.lines()) {
        assert_eq!(golden, now, "what is published never changes: add a table or a version");
    }
    assert_eq!(golden, now, "what is published never changes: add a table or a version");
}
