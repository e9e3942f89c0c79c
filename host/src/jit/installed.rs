//! The identity of the installed `libLLVM`, without opening the library: that takes longer than
//! reading a cached result.

use longshore_compiler::LibraryChoice;
use longshore_llvm::{NEWEST, OLDEST, candidates};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Folders of libraries, each also with the folder of the architecture in it.
const FOLDERS: [&str; 4] = ["/usr/local/lib", "/usr/lib", "/usr/lib64", "/lib"];

/// Returns the paths, sizes, inodes and times of change of all files that the choice may stand for;
/// `None` if the usual folders have no such file. The installation of another library or version
/// changes the stamp.
pub(super) fn stamp(choice: &LibraryChoice) -> Option<Vec<u8>> {
    let paths = match choice {
        LibraryChoice::File(path) if path.is_absolute() => vec![path.clone()],
        LibraryChoice::File(_) => Vec::new(),
        LibraryChoice::Major(version) => in_folders(&candidates(*version)),
        LibraryChoice::Newest => {
            in_folders(&(OLDEST..=NEWEST).flat_map(candidates).collect::<Vec<_>>())
        }
    };
    let files: Vec<_> = paths.iter().filter_map(|path| identity(path)).collect();
    (!files.is_empty()).then(|| files.join("\n").into_bytes())
}

fn in_folders(names: &[String]) -> Vec<PathBuf> {
    let folders = FOLDERS.iter().flat_map(|folder| {
        let folder = PathBuf::from(folder);
        [folder.join(architecture_folder()), folder]
    });
    folders.flat_map(|folder| names.iter().map(move |name| folder.join(name))).collect()
}

/// Returns the architecture's folder of Debian: "x86_64-linux-gnu".
fn architecture_folder() -> String {
    format!("{}-linux-gnu", std::env::consts::ARCH)
}

fn identity(path: &Path) -> Option<String> {
    let facts = std::fs::metadata(path).ok()?;
    let (inode, bytes) = (facts.ino(), facts.size());
    let (seconds, nanoseconds) = (facts.mtime(), facts.mtime_nsec());
    Some(format!("{} {inode} {bytes} {seconds}.{nanoseconds}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replaced_library_has_another_stamp() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("libLLVM.so");
        let stamp = || stamp(&LibraryChoice::File(path.clone()));
        assert_eq!(stamp(), None);
        std::fs::write(&path, "one").unwrap();
        let before = stamp();
        assert!(before.is_some());
        std::fs::write(folder.path().join("new"), "other").unwrap();
        std::fs::rename(folder.path().join("new"), &path).unwrap();
        assert_ne!(stamp(), before);
        assert_eq!(super::stamp(&LibraryChoice::File("libLLVM.so".into())), None);
    }
}
