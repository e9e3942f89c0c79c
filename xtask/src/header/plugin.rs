//! The header of the plugin interface, which cbindgen generates, and the frozen part of the
//! interface.

use super::{COMMAND, read, source, write};
use crate::root;
use anyhow::{Context, Result, bail};
use longshore_plugin_api::abi::{INTERFACE_MAJOR, INTERFACE_MINOR};
use longshore_plugin_api::describe_layouts;
use std::path::PathBuf;

/// Returns the path of the header.
pub fn path() -> PathBuf {
    root().join("plugin-api/include/longshore_plugin.h")
}

/// Generates the header from `plugin-api/src`.
///
/// # Errors
/// Source that cannot be read, parsed or expressed in C.
pub fn generate() -> Result<String> {
    let crate_folder = root().join("plugin-api");
    let source = source::gather(&crate_folder.join("src"))?;
    let work = tempfile::tempdir().context("a folder for cbindgen's source")?;
    let source_file = work.path().join("interface.rs");
    std::fs::write(&source_file, source.text)?;
    let mut config = cbindgen::Config::from_file(crate_folder.join("cbindgen.toml"))
        .map_err(anyhow::Error::msg)?;
    config.export.include = source.types;
    let bindings = cbindgen::Builder::new()
        .with_config(config)
        .with_src(source_file)
        .generate()
        .context("cbindgen")?;
    let mut text = Vec::new();
    bindings.write(&mut text);
    Ok(String::from_utf8(text)?)
}

/// Checks that neither the layouts nor the header's declarations differ from the frozen ones.
///
/// # Errors
/// A difference; the message names the folder of the frozen copy.
pub fn check_frozen(header: &str) -> Result<()> {
    let frozen_header = read(&frozen_folder().join("longshore_plugin.h"))?;
    let frozen_layout = read(&frozen_folder().join("layout.txt"))?;
    let same_header = declarations(&frozen_header).eq(declarations(header));
    if same_header && frozen_layout == describe_layouts() {
        return Ok(());
    }
    bail!(
        "the interface differs from its frozen copy in {}. A published interface never changes: \
         add a table or a version instead. Before the first release `{COMMAND} --bless` rewrites \
         the copy",
        frozen_folder().display()
    )
}

/// Writes the frozen copies.
pub(super) fn freeze(header: &str) -> Result<()> {
    write(&frozen_folder().join("longshore_plugin.h"), header)?;
    write(&frozen_folder().join("layout.txt"), &describe_layouts())
}

/// Returns the folder of the frozen files of this version of the interface.
fn frozen_folder() -> PathBuf {
    root().join(format!("plugin-api/abi/{INTERFACE_MAJOR}.{INTERFACE_MINOR}"))
}

/// Returns the lines of a header without comments.
fn declarations(header: &str) -> impl Iterator<Item = &str> {
    header.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//"))
}
