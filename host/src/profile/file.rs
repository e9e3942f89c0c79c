//! Files of profiles, which several unloads, threads and processes may share.

use super::name::Name;
use parking_lot::Mutex;
use rustix::fs::{FlockOperation, flock};
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// What a file becomes.
pub(super) struct Change {
    /// How many bytes of it stay.
    pub(super) from: u64,
    /// What is behind them then.
    pub(super) content: Vec<u8>,
}

/// Changes a file under its lock (`flock`). `change` is given the file if what is in it is to be
/// kept: what this process wrote before or, if the name merges, what others wrote. Makes the
/// folder. Blocks while another has the file's lock. A change that fails leaves what was there.
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
    let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&place);
    let mut file = open?;
    if !file.metadata()?.is_file() {
        return file.write_all(&change(None)?.content);
    }
    flock(&file, FlockOperation::LockExclusive)?;
    let is_kept = name.merges || written.contains(&place);
    apply(&file, &change(is_kept.then_some(&file))?)?;
    written.insert(place);
    Ok(())
}

/// Why nothing is added to a file.
pub(super) fn refuse<T>(what: impl std::fmt::Display) -> io::Result<T> {
    let message = format!("the file is there and {what}; remove it or choose another name");
    Err(io::Error::new(io::ErrorKind::InvalidData, message))
}

/// All of a file.
pub(super) fn content(file: &File) -> io::Result<Vec<u8>> {
    behind(file, 0)
}

/// Writes over what was there, whose place on the disk it still has if there is no more.
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
