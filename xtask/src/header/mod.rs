//! `cargo xtask header`: the C header of the plugin interface, and the frozen copies of it.

mod source;

use crate::root;
use anyhow::{Context, Result, bail};
use longshore_plugin_api::abi::{INTERFACE_MAJOR, INTERFACE_MINOR};
use longshore_plugin_api::describe_layouts;
use std::path::{Path, PathBuf};

/// The command that writes the header, as failing checks name it.
pub const COMMAND: &str = "cargo xtask header";

/// Where the header lies.
pub fn header_path() -> PathBuf {
    root().join("plugin-api/include/longshore_plugin.h")
}

/// Where the frozen files of this version of the interface lie.
pub fn frozen_folder() -> PathBuf {
    root().join(format!("plugin-api/abi/{INTERFACE_MAJOR}.{INTERFACE_MINOR}"))
}

/// Generates the header from `plugin-api/src`.
///
/// # Errors
/// Source that cannot be read, parsed or said in C.
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

/// Writes the header. The frozen copies are only compared, unless `bless` says to write them.
///
/// # Errors
/// Those of [`generate`]; files that cannot be written; frozen files that differ.
pub fn run(bless: bool) -> Result<()> {
    let header = generate()?;
    write(&header_path(), &header)?;
    if bless {
        write(&frozen_folder().join("longshore_plugin.h"), &header)?;
        return write(&frozen_folder().join("layout.txt"), &describe_layouts());
    }
    check_frozen(&header)
}

/// Checks that the header on disk is up to date and declares what is frozen.
///
/// # Errors
/// Those of [`generate`] and [`check_frozen`]; a header that is out of date.
pub fn check() -> Result<()> {
    let header = generate()?;
    if read(&header_path())? != header {
        bail!("{} is out of date: run `{COMMAND}`", header_path().display());
    }
    check_frozen(&header)
}

/// Checks that neither the layouts nor the header's declarations differ from the frozen ones.
///
/// # Errors
/// What differs.
pub fn check_frozen(header: &str) -> Result<()> {
    let frozen_header = read(&frozen_folder().join("longshore_plugin.h"))?;
    let frozen_layout = read(&frozen_folder().join("layout.txt"))?;
    let same_header = declarations(&frozen_header).eq(declarations(header));
    if same_header && frozen_layout == describe_layouts() {
        return Ok(());
    }
    bail!(
        "the interface differs from its frozen copy in {}. What is published never changes: add a \
         table or a version instead. Before the first release `{COMMAND} --bless` rewrites the copy",
        frozen_folder().display()
    )
}

/// The lines of a header that are no comments.
fn declarations(header: &str) -> impl Iterator<Item = &str> {
    header.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//"))
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| path.display().to_string())
}

fn write(path: &Path, text: &str) -> Result<()> {
    if read(path).is_ok_and(|there| there == text) {
        println!("unchanged: {}", path.display());
        return Ok(());
    }
    let folder = path.parent().expect("a file in a folder");
    std::fs::create_dir_all(folder)?;
    std::fs::write(path, text).with_context(|| path.display().to_string())?;
    println!("written: {}", path.display());
    Ok(())
}
