//! A shortcut for `cargo build` and `cargo run`: the compiler, with the crates of the workspace's
//! build. A package outside the workspace enables other features of many crates, so cargo would
//! build them again, which takes about a minute.

use crate::effort;
use crate::world::host_plugin;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Crates of the workspace that the packages of pages depend on.
const LIBRARIES: [&str; 2] = ["longshore", "longshore_plugin_api"];

/// Returns a shell script in the place of `cargo`, for packages with one program or one plugin.
/// Returns `None` if cargo itself must run: the tests try everything, or the workspace's crates are
/// missing or older than their sources.
pub(super) fn shortcut() -> Option<String> {
    let plugin = host_plugin();
    let built = plugin.parent().expect("plugins lie in a folder");
    if effort::is_all() || !LIBRARIES.iter().all(|name| is_fresh(built, name)) {
        return None;
    }
    let externs: Vec<_> = LIBRARIES
        .iter()
        .map(|name| format!("--extern {name}='{}'", library(built, name).display()))
        .collect();
    Some(format!(
        r#"#!/bin/sh -e
cargo='{cargo}'
case "$1" in build|run) ;; *) exec "$cargo" "$@" ;; esac
# Checks the manifest. Crates for other systems may be missing from the registry.
system={architecture}-unknown-linux-gnu
"$cargo" metadata --format-version 1 --filter-platform $system > /dev/null
mkdir -p target/debug
export CARGO_PKG_VERSION=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
compile() {{ rustc --edition=2024 --color=never {externs} -Ldependency='{deps}' "$@"; }}
if [ -f src/lib.rs ]; then
  name=$(sed -n '/^\[lib\]/,$s/^name = "\(.*\)"/\1/p' Cargo.toml)
  compile --crate-type=cdylib --crate-name="$name" src/lib.rs -o "target/debug/lib$name.so"
else
  name=$(sed -n 's/^name = "\(.*\)"/\1/p' Cargo.toml)
  compile --crate-name="$name" src/main.rs -o "target/debug/$name"
fi
[ "$1" = build ] || exec "target/debug/$name"
"#,
        cargo = env!("CARGO"),
        architecture = std::env::consts::ARCH,
        externs = externs.join(" "),
        deps = built.join("deps").display(),
    ))
}

fn library(built: &Path, name: &str) -> PathBuf {
    built.join(format!("lib{name}.rlib"))
}

/// Returns whether a library exists and is newer than its sources, which cargo lists in a file
/// beside the library.
fn is_fresh(built: &Path, name: &str) -> bool {
    let library = library(built, name);
    let Ok(list) = std::fs::read_to_string(library.with_extension("d")) else { return false };
    let Some(built_at) = changed_at(&library) else { return false };
    let sources = list.lines().next().and_then(|line| line.split_once(": "));
    sources.is_some_and(|(_, sources)| {
        sources
            .split(' ')
            .all(|source| changed_at(source.as_ref()).is_some_and(|at| at <= built_at))
    })
}

fn changed_at(path: &Path) -> Option<SystemTime> {
    path.metadata().and_then(|file| file.modified()).ok()
}
