//! Projects of `longshore new-plugin`, built and checked as by a vendor.

use longshore_tests::effort;
use longshore_tests::pages::Reader;
use longshore_tests::world::root;
use std::process::Command;

/// Runs commands, all of which succeed, and returns the output of the last one.
fn type_all(reader: &Reader, commands: &[&str]) -> String {
    let mut output = String::new();
    for typed in commands {
        let (succeeded, printed) = reader.run(typed);
        assert!(succeeded, "{typed}: {printed}");
        output = printed;
    }
    output
}

fn is_missing(program: &str) -> bool {
    let is_missing = Command::new(program).arg("--version").output().is_err();
    if is_missing {
        println!("{program} is not installed; its projects were not tried");
    }
    is_missing
}

/// Parts of the reasons for which a device of memory may skip a behaviour.
const LACKS: [&str; 6] = [
    "accepts none of the images",
    "has no table",
    "this backend has no",
    "the plugin does not",
    "the device says no",
    "has no answer to",
];

/// Checks the plugin with two devices, and that the plugin shows one symbol alone.
fn check(reader: &Reader, file: &str) {
    let check = format!("LONGSHORE_MINE_DEVICES=2 longshore check --device mine:0 --plugin {file}");
    let output = type_all(reader, &[&check]);
    assert!(output.contains(" passed, 0 failed, "), "{output}");
    let skipped: Vec<_> = output.lines().filter(|line| line.contains("(skipped: ")).collect();
    let is_known = |line: &&&str| LACKS.iter().any(|lack| line.contains(lack));
    assert_eq!(skipped.iter().filter(is_known).count(), skipped.len(), "{skipped:#?}");
    assert!(output.lines().filter(|line| line.contains("✓")).count() > 60, "{output}");
    let symbols = type_all(reader, &[&format!("nm -D --defined-only {file}")]);
    let [symbol] = symbols.lines().collect::<Vec<_>>()[..] else { panic!("{symbols}") };
    assert!(symbol.ends_with(" longshore_plugin"), "{symbol}");
}

fn with_cmake(language: &str) {
    if is_missing("cmake") {
        return;
    }
    let reader = Reader::new();
    let new = format!("longshore new-plugin mine --lang {language}");
    type_all(&reader, &[&new, "cd mine"]);
    // Optimization takes longer than it saves here.
    let configure = "cmake -S . -B build -DCMAKE_BUILD_TYPE=Debug";
    let warnings = "-DCMAKE_C_FLAGS=-Werror -DCMAKE_CXX_FLAGS=-Werror";
    type_all(&reader, &[&format!("{configure} {warnings}"), "cmake --build build --parallel 2"]);
    check(&reader, "build/liblongshore_plugin_mine.so");
    if effort::is_all() && !is_missing("dpkg-buildpackage") {
        let package = "LONGSHORE_INCLUDE=$HOME/.local/include dpkg-buildpackage -d -us -uc -b";
        let listed = type_all(&reader, &[package, "dpkg-deb -c ../longshore-plugin-mine_*.deb"]);
        assert!(listed.contains("./usr/lib/longshore/liblongshore_plugin_mine.so"), "{listed}");
    }
}

#[test]
fn a_new_project_in_c_builds_and_passes_the_suite() {
    with_cmake("c");
}

#[test]
fn a_new_project_in_cpp_builds_and_passes_the_suite() {
    with_cmake("cpp");
}

#[test]
fn a_new_project_in_rust_builds_and_passes_the_suite() {
    let reader = Reader::new();
    let clone = root().display();
    let new = format!("longshore new-plugin mine --lang rust --path '{clone}'");
    type_all(&reader, &[&new, "cd mine", &format!("cp '{clone}/Cargo.lock' ."), "cargo build"]);
    check(&reader, "target/debug/liblongshore_plugin_mine.so");
}

#[test]
fn a_project_without_the_header_says_how_to_name_it() {
    if is_missing("cmake") {
        return;
    }
    let reader = Reader::new();
    type_all(&reader, &["longshore new-plugin mine --lang c && cd mine"]);
    type_all(&reader, &["rm -r ~/.local/share/cmake"]);
    let (succeeded, output) = reader.run("cmake -S . -B build");
    assert!(!succeeded && output.contains("-DLONGSHORE_INCLUDE=FOLDER"), "{output}");
    let (succeeded, output) = reader.run("cmake -S . -B build -DLONGSHORE_INCLUDE=/nowhere");
    assert!(!succeeded && output.contains("'/nowhere', which has no"), "{output}");
    type_all(&reader, &["cmake -S . -B build -DLONGSHORE_INCLUDE=$HOME/.local/include"]);
}
