//! The search for candidates: the places, and their order. The search loads no file.

use super::report::Outcome;
use crate::environment::is_set_uid;
use crate::selection::is_backend_name;
use longshore_plugin_api::remote::RemotePlugin;
use longshore_plugin_api::{Error, ErrorCode};
use std::collections::HashSet;
use std::ffi::{CStr, OsStr};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const PREFIX: &[u8] = b"liblongshore_plugin_";
const SUFFIX: &[u8] = b".so";
/// The folder of plugins in an installation's prefix.
pub(super) const PLUGIN_FOLDER: &str = "lib/longshore";

/// A file that may be a plugin, a plugin linked into the program, or a named place without a file.
#[derive(Debug)]
pub(super) struct FoundFile {
    pub(super) path: PathBuf,
    /// The backend in the file's name; empty if the name is not that of a plugin.
    pub(super) backend: String,
    pub(super) origin: Origin,
    /// The outcome, if it is known without reading the file.
    pub(super) verdict: Option<Outcome>,
}

/// The origin of a candidate.
#[derive(Debug)]
pub(super) enum Origin {
    /// A place of the search.
    File,
    /// The program; `None` for a plugin that cannot be used.
    Program(Option<Box<RemotePlugin>>),
}

/// Returns the standard folders, which are searched last. These are the folder of the running
/// executable and the folder of the shared library that contains this code, each followed by
/// `lib/longshore` of its installation. The system's folders come last.
pub(super) fn standard_folders() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = Vec::new();
    let executable = std::env::current_exe().ok();
    for file in [executable, own_library()].into_iter().flatten() {
        let Some(folder) = file.parent() else { continue };
        if !folders.iter().any(|known| known == folder) {
            folders.push(folder.to_owned());
            folders.extend(plugin_folder_of(folder));
        }
    }
    folders.extend(["/usr/local/lib/longshore", "/usr/lib/longshore"].map(PathBuf::from));
    folders
}

/// Returns the folder of plugins in the installation of a file in `folder`. This is
/// `../lib/longshore`, or the folder above if that is `lib/longshore` itself, as for a library in
/// `lib/longshore/openmp`.
fn plugin_folder_of(folder: &Path) -> Option<PathBuf> {
    let above = folder.parent()?;
    Some(match above.ends_with(PLUGIN_FOLDER) {
        true => above.to_owned(),
        false => above.join(PLUGIN_FOLDER),
    })
}

/// Returns all candidates: first the candidates in `named` files and folders, then the `linked`
/// plugins, then the candidates in `standard` folders. Within a folder the candidates are sorted by
/// name. A named place that does not exist is a candidate with the outcome [`Outcome::Missing`]; a
/// standard folder that does not exist is skipped.
pub(super) fn find(
    named: &[PathBuf],
    linked: Vec<FoundFile>,
    standard: &[PathBuf],
) -> Vec<FoundFile> {
    let mut found = Vec::new();
    for path in named {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
        match std::fs::metadata(&path) {
            Ok(place) if place.is_dir() => scan(&path, &mut found),
            Ok(_) => found.push(candidate(path)),
            Err(error) => found.push(unreachable(path, error)),
        }
    }
    found.extend(linked);
    for folder in standard {
        if folder.is_dir() {
            scan(folder, &mut found);
        }
    }
    let mut seen = HashSet::new();
    found.retain(|found| {
        matches!(found.origin, Origin::Program(_)) || seen.insert(found.path.clone())
    });
    found
}

fn scan(folder: &Path, into: &mut Vec<FoundFile>) {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => return into.push(unreachable(folder.to_owned(), error)),
    };
    let names = entries.flatten().map(|entry| entry.file_name());
    let mut names: Vec<_> = names.filter(|name| backend_part(name).is_some()).collect();
    names.sort();
    into.extend(names.into_iter().map(|name| candidate(folder.join(name))));
}

fn candidate(path: PathBuf) -> FoundFile {
    let backend = backend_of(&path);
    if !backend.is_empty() {
        return FoundFile { backend, path, origin: Origin::File, verdict: None };
    }
    let verdict = Outcome::NotAPlugin(
        "its file name is not 'liblongshore_plugin_<backend>.so' with a backend in lower case \
         letters, digits, '-' and '_'"
            .to_owned(),
    );
    FoundFile { path, backend: String::new(), origin: Origin::File, verdict: Some(verdict) }
}

fn unreachable(path: PathBuf, error: std::io::Error) -> FoundFile {
    let (backend, verdict) = (backend_of(&path), Some(missing(&path, error)));
    FoundFile { path, backend, origin: Origin::File, verdict }
}

/// Returns the outcome of a file or folder that cannot be read.
pub(super) fn missing(path: &Path, error: std::io::Error) -> Outcome {
    if error.kind() == ErrorKind::NotFound {
        return Outcome::Missing;
    }
    let message = format!("reading '{}': {error}", path.display());
    Outcome::Failed(Error::new(ErrorCode::HostIo, message).with_source(error))
}

/// Returns the backend in a file's name; empty if the name is not that of a plugin.
pub(super) fn backend_of(path: &Path) -> String {
    let part = path.file_name().and_then(backend_part).unwrap_or_default();
    let part = std::str::from_utf8(part).ok().filter(|name| is_backend_name(name));
    part.unwrap_or_default().to_owned()
}

/// Returns the part of a plugin's file name that names the backend.
fn backend_part(name: &OsStr) -> Option<&[u8]> {
    name.as_bytes().strip_prefix(PREFIX)?.strip_suffix(SUFFIX)
}

/// Returns the file that this code was loaded from.
fn own_library() -> Option<PathBuf> {
    library_of(own_library as *const libc::c_void)
}

/// Returns the file that the code or data at an address was loaded from, if the loader knows it by
/// an absolute path. `None` in a set-uid process: for code in the executable the loader returns
/// `argv[0]`, which the caller chooses.
pub(super) fn library_of(address: *const libc::c_void) -> Option<PathBuf> {
    if is_set_uid() {
        return None;
    }
    // SAFETY: a structure of pointers and integers, for which zero is a value.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: `dladdr` accepts any address, and writes to `info`.
    if unsafe { libc::dladdr(address, &mut info) } == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: not null, and a string of the loader that lives as long as this code is loaded.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    let path = Path::new(OsStr::from_bytes(name.to_bytes()));
    path.is_absolute().then(|| path.canonicalize().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{create_dir, write};

    fn describe(found: &[FoundFile]) -> Vec<(String, String)> {
        let name =
            |found: &FoundFile| found.path.file_name().unwrap().to_string_lossy().into_owned();
        found.iter().map(|found| (name(found), found.backend.clone())).collect()
    }

    fn pair(name: &str, backend: &str) -> (String, String) {
        (name.to_owned(), backend.to_owned())
    }

    #[test]
    fn candidates_come_in_the_order_of_places_and_within_a_folder_of_names() {
        let folder = tempfile::tempdir().unwrap();
        let (first, second) = (folder.path().join("1"), folder.path().join("2"));
        create_dir(&first).unwrap();
        create_dir(&second).unwrap();
        for name in ["zed", "abc"] {
            write(first.join(format!("liblongshore_plugin_{name}.so")), "").unwrap();
        }
        write(first.join("libother.so"), "").unwrap();
        let single = second.join("liblongshore_plugin_abc.so");
        write(&single, "").unwrap();
        let found = find(&[single], Vec::new(), std::slice::from_ref(&first));
        let abc = pair("liblongshore_plugin_abc.so", "abc");
        assert_eq!(describe(&found), [abc.clone(), abc, pair("liblongshore_plugin_zed.so", "zed")]);
        assert!(found.iter().all(|found| found.path.is_absolute() && found.verdict.is_none()));
    }

    #[test]
    fn a_named_place_that_is_missing_is_reported_and_a_standard_folder_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("liblongshore_plugin_gone.so");
        let found = find(std::slice::from_ref(&missing), Vec::new(), &[folder.path().join("none")]);
        assert_eq!(describe(&found), [pair("liblongshore_plugin_gone.so", "gone")]);
        assert!(matches!(found[0].verdict, Some(Outcome::Missing)));
    }

    #[test]
    fn a_file_whose_name_is_no_plugins_is_no_plugin() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["liblongshore_plugin_.so", "liblongshore_plugin_Cuda.so"] {
            write(folder.path().join(name), "").unwrap();
        }
        let named = folder.path().join("my.so");
        write(&named, "").unwrap();
        let found = find(&[named, folder.path().to_owned()], Vec::new(), &[]);
        assert_eq!(found.len(), 3);
        for found in &found {
            assert!(matches!(found.verdict, Some(Outcome::NotAPlugin(_))), "{found:?}");
        }
    }

    #[test]
    fn a_linked_plugin_comes_after_the_named_places_and_before_the_standard_folders() {
        let folder = tempfile::tempdir().unwrap();
        let named = folder.path().join("liblongshore_plugin_a.so");
        write(&named, "").unwrap();
        let installed = folder.path().join("installed");
        create_dir(&installed).unwrap();
        write(installed.join("liblongshore_plugin_b.so"), "").unwrap();
        // The executable may contain several plugins.
        let linked = |backend: &str| FoundFile {
            path: "/app".into(),
            backend: backend.into(),
            origin: Origin::Program(None),
            verdict: None,
        };
        let linked = ["x", "y"].map(linked).into();
        let found = find(&[named], linked, &[installed]);
        let order: Vec<_> = found.iter().map(|found| found.backend.as_str()).collect();
        assert_eq!(order, ["a", "x", "y", "b"]);
    }

    #[test]
    fn a_library_in_a_folder_of_its_own_finds_the_plugins_above() {
        for (folder, plugins) in [
            ("/opt/l/bin", "/opt/l/lib/longshore"),
            ("/opt/l/lib", "/opt/l/lib/longshore"),
            ("/opt/l/lib/longshore/openmp", "/opt/l/lib/longshore"),
            ("/lib/longshore/openmp", "/lib/longshore"),
            ("/opt/l/mylib/longshore/openmp", "/opt/l/mylib/longshore/lib/longshore"),
            ("/opt/lib/longshore/openmp/more", "/opt/lib/longshore/openmp/lib/longshore"),
            ("/bin", "/lib/longshore"),
        ] {
            assert_eq!(plugin_folder_of(Path::new(folder)), Some(plugins.into()), "{folder}");
        }
        assert_eq!(plugin_folder_of(Path::new("/")), None);
    }

    #[test]
    fn the_executables_folder_is_searched_before_the_systems() {
        let folders = standard_folders();
        let executable = std::env::current_exe().unwrap();
        assert_eq!(folders[0], executable.parent().unwrap());
        assert_eq!(folders.last().unwrap(), Path::new("/usr/lib/longshore"));
    }
}
