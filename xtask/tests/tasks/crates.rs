//! The manifests and packages of the crates for crates.io. `cargo xtask crates` also builds them.

use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::read_to_string;
use xtask::crates::{FOR_USERS, Package, published};
use xtask::{process, root};

/// Most keywords, and most characters of a keyword, that crates.io takes.
const MOST_KEYWORDS: usize = 5;
const LONGEST_KEYWORD: usize = 20;
/// The categories of crates.io in use.
const CATEGORIES: [&str; 7] = [
    "api-bindings",
    "command-line-utilities",
    "compilers",
    "concurrency",
    "development-tools",
    "development-tools::build-utils",
    "hardware-support",
];

fn list<'a>(manifest: &'a Value, name: &str) -> Vec<&'a str> {
    let texts = manifest[name].as_array().into_iter().flatten();
    texts.filter_map(Value::as_str).collect()
}

#[test]
fn each_crate_has_the_facts_of_its_page() {
    let packages = published().unwrap();
    for name in FOR_USERS {
        assert!(packages.iter().any(|package| package.name == name), "{name} is not published");
    }
    for Package { name, folder, manifest, .. } in &packages {
        for field in
            ["description", "license", "repository", "documentation", "readme", "rust_version"]
        {
            assert!(
                manifest[field].as_str().is_some_and(|text| !text.is_empty()),
                "{name}: {field}"
            );
        }
        assert_eq!(manifest["documentation"], format!("https://docs.rs/{name}"));
        let keywords = list(manifest, "keywords");
        assert!((1..=MOST_KEYWORDS).contains(&keywords.len()), "{name}: {keywords:?}");
        assert!(keywords.iter().all(|word| word.len() <= LONGEST_KEYWORD), "{name}: {keywords:?}");
        let categories = list(manifest, "categories");
        let is_known = |category: &&str| CATEGORIES.contains(category);
        assert!(
            !categories.is_empty() && categories.iter().all(is_known),
            "{name}: {categories:?}"
        );
        let docs = &manifest["metadata"]["docs"]["rs"];
        assert_eq!(docs["all-features"], true, "{name}");
        assert_eq!(list(docs, "rustdoc-args"), ["--cfg", "docsrs"], "{name}");
        let readme = read_to_string(folder.join("README.md")).unwrap();
        assert!(readme.starts_with(&format!("# {name}\n")), "{name}");
        assert!(
            !readme.contains("](../") && !readme.contains("](docs/"),
            "{name} has relative links"
        );
    }
}

#[test]
fn a_crate_needs_no_crate_that_is_not_published() {
    let packages = published().unwrap();
    let versions: Vec<_> = packages.iter().map(|it| (it.name.as_str(), &it.version)).collect();
    for Package { name, manifest, .. } in &packages {
        for dependency in manifest["dependencies"].as_array().unwrap() {
            let needed = dependency["name"].as_str().unwrap();
            let is_for_tests = dependency["kind"] == "dev";
            if is_for_tests || dependency["path"].is_null() {
                continue;
            }
            let known = versions.iter().find(|(name, _)| *name == needed);
            let (_, version) = known.unwrap_or_else(|| panic!("{name} needs {needed}"));
            let required = dependency["req"].as_str().unwrap();
            assert_eq!(required.trim_start_matches(['^', '=']), **version, "{name} needs {needed}");
        }
    }
}

#[test]
fn packages_contain_sources_and_licences_alone() {
    for package in published().unwrap() {
        let name = &package.name;
        let list = ["package", "--list", "--offline", "--allow-dirty", "--package", name];
        let output = process::cargo(list).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let files = String::from_utf8(output.stdout).unwrap();
        let files: BTreeSet<&str> = files.lines().collect();
        for needed in ["Cargo.toml", "LICENSE-APACHE", "LICENSE-MIT", "README.md"] {
            assert!(files.contains(needed), "{name} lacks {needed}");
        }
        let made = ["Cargo.toml.orig", "Cargo.lock", ".cargo_vcs_info.json"];
        let is_header = |file: &str| file.starts_with("include/") && file.ends_with(".h");
        let is_template =
            |file: &str| name == "longshore-command" && file.starts_with("templates/");
        let is_expected = |file: &&&str| {
            file.starts_with("src/")
                || is_template(file)
                || is_header(file)
                || made.contains(file)
                || ["Cargo.toml", "README.md"].contains(file)
                || file.starts_with("LICENSE-")
        };
        let others: Vec<_> = files.iter().filter(|file| !is_expected(file)).collect();
        assert!(others.is_empty(), "{name} contains {others:?}");
        let headers = files.iter().filter(|file| is_header(file)).count();
        match name.as_str() {
            "longshore-cc" => assert!(headers > 30, "{headers} headers for kernels"),
            "longshore-command" => {
                let templates = files.iter().filter(|file| is_template(file)).count();
                assert!(templates > 40, "{templates} templates of plugins");
            }
            "longshore-plugin-api" => assert!(files.contains("include/longshore_plugin.h")),
            _ => assert_eq!(headers, 0, "{name}"),
        }
    }
}

#[test]
fn the_task_runs_the_programs_on_pages() {
    let file = |name: &str| read_to_string(root().join(name)).unwrap();
    let fixture = |name: &str| file(&format!("tests/fixtures/crates/{name}"));
    let program = fixture("program/src/main.rs");
    for page in ["host/README.md", "docs/rust-programs.md"] {
        assert!(file(page).contains(&program), "{page} has another program");
    }
    let page = file("build/src/lib.rs");
    let page = page.lines().filter_map(|line| line.strip_prefix("//!"));
    let page = page.map(|line| format!("{}\n", line.strip_prefix(' ').unwrap_or(line)));
    for page in [page.collect(), file("docs/rust-programs.md")] {
        for name in ["kernels/saxpy.c", "build.rs", "src/main.rs"] {
            assert!(page.contains(&fixture(&format!("kernels/{name}"))), "no {name} in:\n{page}");
        }
    }
}

#[test]
fn dependencies_of_the_plugin_interface_run_with_its_oldest_rust() {
    // Crates for other systems are not downloaded.
    let system = format!("--filter-platform={}-unknown-linux-gnu", std::env::consts::ARCH);
    let metadata = ["metadata", "--offline", "--format-version=1", &system];
    let output = process::cargo(metadata).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let nodes = metadata["resolve"]["nodes"].as_array().unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let package = |id: &Value| packages.iter().find(|package| package["id"] == *id).unwrap();
    let version = |text: &str| -> Vec<u32> {
        text.split('.').take(2).map(|part| part.parse().unwrap()).collect()
    };
    let own = packages.iter().find(|package| package["name"] == "longshore-plugin-api").unwrap();
    let oldest = version(own["rust_version"].as_str().unwrap());
    let mut open = vec![&own["id"]];
    let mut seen: Vec<&Value> = Vec::new();
    while let Some(id) = open.pop() {
        if seen.contains(&id) {
            continue;
        }
        seen.push(id);
        let package = package(id);
        let needed = package["rust_version"].as_str().map(version).unwrap_or_default();
        assert!(needed <= oldest, "{} needs Rust {needed:?}", package["name"]);
        let node = nodes.iter().find(|node| node["id"] == *id).unwrap();
        let is_used = |kinds: &Value| {
            kinds.as_array().into_iter().flatten().any(|kind| kind["kind"] != "dev")
        };
        let dependencies = node["deps"].as_array().unwrap().iter();
        open.extend(dependencies.filter(|it| is_used(&it["dep_kinds"])).map(|it| &it["pkg"]));
    }
    assert!(seen.len() > 5, "{seen:?}");
}
