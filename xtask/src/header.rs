//! `cargo xtask header`: the generated C headers of the plugin interface and of the C API, and the
//! frozen copies of the plugin interface.

mod declarations;
pub mod offload;
pub mod plugin;
mod source;

use anyhow::{Context, Result, bail};
use std::path::Path;
use syn::{Attribute, Expr, ExprLit, Lit, Meta};

/// The command that writes the headers, for the messages of failed checks.
pub const COMMAND: &str = "cargo xtask header";

/// Writes the headers. Compares them with the frozen copies, or with `bless` writes these too.
///
/// # Errors
/// Headers that cannot be generated; files that cannot be written; frozen files that differ.
pub fn run(bless: bool) -> Result<()> {
    write(&offload::path(), &offload::generate()?)?;
    let header = plugin::generate()?;
    write(&plugin::path(), &header)?;
    if bless { plugin::freeze(&header) } else { plugin::check_frozen(&header) }
}

/// Checks that the headers on disk are up to date, and that the plugin interface matches its frozen
/// copy.
///
/// # Errors
/// Headers that cannot be generated or are out of date, and the errors of [`plugin::check_frozen`].
pub fn check() -> Result<()> {
    let header = plugin::generate()?;
    for (path, header) in [(offload::path(), &offload::generate()?), (plugin::path(), &header)] {
        if read(&path)? != *header {
            bail!("{} is out of date: run `{COMMAND}`", path.display());
        }
    }
    plugin::check_frozen(&header)
}

/// Returns the text of a `///` line, without the space before it.
fn comment_line(attribute: &Attribute) -> Option<String> {
    let Meta::NameValue(pair) = &attribute.meta else { return None };
    match &pair.value {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) if pair.path.is_ident("doc") => {
            Some(text.value().trim().to_owned())
        }
        _ => None,
    }
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
