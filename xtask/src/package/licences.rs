//! Licences of the crates in a package's files.

use crate::process;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Beginnings of the names of files with licences.
const FILES: [&str; 6] = ["licen", "copying", "notice", "unlicense", "copyright", "authors"];

/// The dependencies of the workspace for one target.
pub(crate) struct Dependencies {
    metadata: Value,
}

/// A crate of other authors.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Foreign<'a> {
    name: &'a str,
    version: &'a str,
    licence: &'a str,
    manifest: &'a str,
}

impl Dependencies {
    /// Asks cargo for the dependencies for a target of the Rust compiler.
    ///
    /// # Errors
    /// `cargo metadata` that fails.
    pub(crate) fn read(target: &str) -> Result<Dependencies> {
        let mut cargo = process::cargo(["metadata", "--format-version=1", "--locked"]);
        let text = process::printed(cargo.args(["--filter-platform", target]))?;
        Ok(Dependencies { metadata: serde_json::from_str(&text)? })
    }

    /// Returns the names, versions and licences of the crates of other authors in these crates of
    /// the workspace, with the texts of the licences.
    ///
    /// # Errors
    /// A crate without a licence, or whose files cannot be read.
    pub(crate) fn licences(&self, crates: &[&str]) -> Result<String> {
        let foreign = self.foreign(crates)?;
        let mut text = String::from("Crates of other authors in the files of this package\n\n");
        let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for Foreign { name, version, licence, manifest } in &foreign {
            text += &format!("{name} {version}: {licence}\n");
            for licence in files(Path::new(manifest))? {
                texts.entry(licence).or_default().push(format!("{name} {version}"));
            }
        }
        for (licence, crates) in texts {
            let line = "=".repeat(72);
            text += &format!("\n{line}\n{}\n{line}\n\n{licence}\n", crates.join("\n"));
        }
        Ok(text)
    }

    /// Returns the crates of other authors that crates of the workspace contain.
    fn foreign(&self, crates: &[&str]) -> Result<BTreeSet<Foreign<'_>>> {
        let packages = self.metadata["packages"].as_array().context("no packages")?;
        let nodes = self.metadata["resolve"]["nodes"].as_array().context("no dependencies")?;
        let by_id: BTreeMap<&str, &Value> = packages
            .iter()
            .filter_map(|package| Some((package["id"].as_str()?, package)))
            .collect();
        let nodes: BTreeMap<&str, &Value> =
            nodes.iter().filter_map(|node| Some((node["id"].as_str()?, node))).collect();
        for name in crates {
            let is_known = packages.iter().any(|package| package["name"] == **name);
            ensure!(is_known, "no crate '{name}': see xtask/src/package/list.rs");
        }
        let is_wanted = |package: &&Value| crates.iter().any(|name| package["name"] == *name);
        let mut open: Vec<&str> = packages
            .iter()
            .filter(is_wanted)
            .filter_map(|package| package["id"].as_str())
            .collect();
        let mut seen: BTreeSet<&str> = open.iter().copied().collect();
        let mut foreign = BTreeSet::new();
        while let Some(id) = open.pop() {
            let package = by_id.get(id).context("a dependency without package")?;
            if !package["source"].is_null() {
                foreign.insert(Foreign::from_package(package)?);
            }
            let dependencies = nodes.get(id).and_then(|node| node["deps"].as_array());
            for dependency in dependencies.into_iter().flatten().filter(|one| is_linked(one)) {
                let id = dependency["pkg"].as_str().context("a dependency without name")?;
                if seen.insert(id) {
                    open.push(id);
                }
            }
        }
        Ok(foreign)
    }
}

impl<'a> Foreign<'a> {
    fn from_package(package: &'a Value) -> Result<Foreign<'a>> {
        let text = |key: &str| {
            package[key].as_str().with_context(|| format!("{} has no {key}", package["id"]))
        };
        Ok(Foreign {
            name: text("name")?,
            version: text("version")?,
            licence: text("license").or_else(|_| text("license_file"))?,
            manifest: text("manifest_path")?,
        })
    }
}

/// Reports whether the code of a dependency becomes a part of the files.
fn is_linked(dependency: &Value) -> bool {
    let kinds = dependency["dep_kinds"].as_array();
    kinds.is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()))
}

/// Returns the texts of a crate's licences, sorted by name.
fn files(manifest: &Path) -> Result<Vec<String>> {
    let folder = manifest.parent().context("a manifest is in a folder")?;
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_lowercase();
        if FILES.iter().any(|start| name.starts_with(start)) && entry.file_type()?.is_file() {
            paths.push(entry.path());
        }
    }
    paths.sort();
    let texts = paths.iter().map(|path| {
        let bytes = std::fs::read(path).with_context(|| path.display().to_string())?;
        Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned())
    });
    texts.collect()
}
