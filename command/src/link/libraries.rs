//! Libraries by their names, with `-l` and `-L`.

use super::inputs::read;
use super::kind::Kind;
use crate::failure::{Exit, Failure};
use longshore_jitlink::Architecture;
use std::path::{Path, PathBuf};

/// The files found for names of libraries.
#[derive(Default)]
pub(super) struct FoundLibraries {
    /// Shared libraries to open.
    pub(super) shared: Vec<PathBuf>,
    pub(super) archives: Vec<PathBuf>,
}

/// Limit of the nesting of linker scripts.
const MOST_SCRIPTS: usize = 8;

/// Finds `libNAME.so` or `libNAME.a`, or the file of `:FILE`, in the first folder that has one. The
/// folders are the given ones, then the system's and gcc's own. If no folder has either,
/// `libNAME.so.N` with the highest N is taken. A linker script stands for the libraries that it
/// names.
///
/// # Errors
/// A name without a file, or an unreadable file.
pub(super) fn find(names: &[String], given: &[PathBuf]) -> Result<FoundLibraries, Failure> {
    let mut found = FoundLibraries::default();
    if names.is_empty() {
        return Ok(found);
    }
    let folders: Vec<PathBuf> = given.iter().cloned().chain(standard()).collect();
    for name in names {
        let Some(file) = file_of(name, &folders) else { return Err(missing(name, given)) };
        add(&mut found, &file, &folders, MOST_SCRIPTS)?;
    }
    Ok(found)
}

fn add(
    found: &mut FoundLibraries,
    file: &Path,
    folders: &[PathBuf],
    depth: usize,
) -> Result<(), Failure> {
    let is_named = |kept: &[PathBuf]| kept.iter().any(|kept| kept == file);
    if is_named(&found.shared) || is_named(&found.archives) {
        return Ok(());
    }
    match Kind::detect(&read(file)?) {
        Kind::LinkerScript(names) if depth > 0 => {
            for name in names {
                let of_script = match name.strip_prefix("-l") {
                    Some(name) => file_of(name, folders),
                    None if name.starts_with('/') => Some(PathBuf::from(&name)),
                    None => file_of(&format!(":{name}"), folders),
                };
                // Missing files are skipped: a system linker needs some that a process with the C
                // library does not.
                if let Some(file) = of_script.filter(|file| file.is_file()) {
                    add(found, &file, folders, depth - 1)?;
                }
            }
        }
        Kind::Archive | Kind::ThinArchive => found.archives.push(file.to_owned()),
        _ => found.shared.push(file.to_owned()),
    }
    Ok(())
}

/// Returns the file for a name given with `-l`.
fn file_of(name: &str, folders: &[PathBuf]) -> Option<PathBuf> {
    let names = match name.strip_prefix(':') {
        Some(file) => vec![file.to_owned()],
        None => vec![format!("lib{name}.so"), format!("lib{name}.a")],
    };
    let in_folder = |folder: &PathBuf| {
        // The path needs a '/', without which the dynamic linker would search its own folders.
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder.as_path() };
        let folder =
            if folder.is_absolute() { folder.to_owned() } else { Path::new(".").join(folder) };
        names.iter().map(|name| folder.join(name)).find(|file| file.is_file())
    };
    folders.iter().find_map(in_folder).or_else(|| {
        let start = format!("lib{name}.so.");
        folders.iter().find_map(|folder| versioned(folder, &start))
    })
}

/// Returns the file of the highest version whose name is `start` and one number: "libz.so.1", not
/// "libz.so.1.3".
fn versioned(folder: &Path, start: &str) -> Option<PathBuf> {
    let version = |entry: std::fs::DirEntry| {
        let version = entry.file_name().to_str()?.strip_prefix(start)?.parse::<u32>().ok()?;
        Some((version, entry.path()))
    };
    let entries = folder.read_dir().ok()?.flatten();
    entries.filter_map(version).max().map(|(_, path)| path)
}

/// Returns the folders that system linkers search, and the folder of the newest gcc.
fn standard() -> Vec<PathBuf> {
    let triple = match Architecture::native() {
        Some(Architecture::Aarch64) => "aarch64-linux-gnu",
        _ => "x86_64-linux-gnu",
    };
    let [of_lib, of_usr] = ["/lib", "/usr/lib"].map(|folder| Path::new(folder).join(triple));
    let plain = ["/lib64", "/usr/lib64", "/lib", "/usr/lib"].map(PathBuf::from);
    let folders = [PathBuf::from("/usr/local/lib"), of_lib, of_usr].into_iter().chain(plain);
    let version = |entry: std::fs::DirEntry| {
        Some((entry.file_name().to_str()?.parse::<u32>().ok()?, entry.path()))
    };
    let compilers = Path::new("/usr/lib/gcc").join(triple).read_dir().into_iter().flatten();
    let newest = compilers.flatten().filter_map(version).max().map(|(_, path)| path);
    folders.chain(newest).collect()
}

fn missing(name: &str, given: &[PathBuf]) -> Failure {
    let wanted = match name.strip_prefix(':') {
        Some(file) => format!("'{file}'"),
        None => format!("'lib{name}.so' and 'lib{name}.a'"),
    };
    let given: Vec<String> = given.iter().map(|folder| format!("'{}'", folder.display())).collect();
    let places = match given.as_slice() {
        [] => "the system's folders".to_owned(),
        given => format!("{} and the system's folders", given.join(", ")),
    };
    let message = format!("cannot find -l{name}: looked for {wanted} in {places}");
    let hint = "add its folder with -L, or give the file with --dylib or --archive";
    Failure::new(Exit::Runtime, message).or_hint(hint)
}
