//! Files of profiles, shared by several unloads, threads and processes.

use super::name::Name;
use parking_lot::Mutex;
use rustix::fs::{FlockOperation, flock};
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A change of a file's contents.
pub(super) struct Change {
    /// Number of bytes at the beginning of the file that stay.
    pub(super) from: u64,
    /// New contents behind the bytes that stay.
    pub(super) content: Vec<u8>,
}

/// Changes a file under its lock (`flock`), and creates its folder. `change` gets the file if its
/// contents are kept: if this process wrote them before, or the name merges the profiles of other
/// processes. Blocks while another process has the file's lock. A change that fails restores the
/// old contents.
pub(super) fn update(
    name: &Name,
    change: impl FnOnce(Option<&File>) -> io::Result<Change>,
) -> io::Result<()> {
    static WRITTEN: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    let place = std::path::absolute(&name.path)?;
    if let Some(folder) = place.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut written = WRITTEN.lock();
    let mut open = OpenOptions::new();
    open.read(true).write(true).create(true).truncate(false);
    // Links in `/dev`, such as `/dev/stdout`, belong to the system.
    if place.parent() != Some(Path::new("/dev")) {
        open.custom_flags(libc::O_NOFOLLOW);
    }
    let mut file = open.open(&place).map_err(explain)?;
    if !file.metadata()?.is_file() {
        return file.write_all(&change(None)?.content);
    }
    flock(&file, FlockOperation::LockExclusive)?;
    let is_kept = name.merges || written.contains(&place);
    apply(&file, &change(is_kept.then_some(&file))?)?;
    written.insert(place);
    Ok(())
}

/// Explains the error for a symbolic link. Another user may have created the link to redirect the
/// write.
fn explain(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(libc::ELOOP) => io::Error::new(
            error.kind(),
            "it is a symbolic link, which is not followed: name its target",
        ),
        _ => error,
    }
}

/// Returns the error for a file to which no profile can be added.
pub(super) fn refuse<T>(what: impl std::fmt::Display) -> io::Result<T> {
    let message = format!("the file exists and {what}; remove it or choose another name");
    Err(io::Error::new(io::ErrorKind::InvalidData, message))
}

/// Returns the whole contents of a file.
pub(super) fn content(file: &File) -> io::Result<Vec<u8>> {
    behind(file, 0)
}

/// Overwrites the contents from `change.from` on. After an error, writes the old contents back:
/// overwriting keeps their space on the disk, so this works even on a full disk.
fn apply(file: &File, change: &Change) -> io::Result<()> {
    let before = behind(file, change.from)?;
    let put = |content: &[u8]| {
        file.write_all_at(content, change.from)?;
        file.set_len(change.from + content.len() as u64)
    };
    put(&change.content).inspect_err(|_| {
        let _ = put(&before);
    })
}

fn behind(file: &File, from: u64) -> io::Result<Vec<u8>> {
    let mut file = file;
    file.seek(SeekFrom::Start(from))?;
    let mut content = Vec::new();
    file.read_to_end(&mut content)?;
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_link_that_stands_where_a_profile_goes_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (target, path) = (folder.path().join("target"), folder.path().join("x.profraw"));
        std::fs::write(&target, "precious").unwrap();
        symlink(&target, &path).unwrap();
        let name = Name { path: path.clone(), merges: false };
        let change = |_: Option<&File>| Ok(Change { from: 0, content: b"counters".to_vec() });
        let error = update(&name, change).unwrap_err();
        assert!(error.to_string().contains("symbolic link"), "{error}");
        assert_eq!(std::fs::read(&target).unwrap(), b"precious");
        std::fs::remove_file(&path).unwrap();
        update(&name, change).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"counters");
    }
}
