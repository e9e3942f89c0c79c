//! Files of profiles. A file may hold several, one behind the other, which LLVM's tools add up: so
//! profiles are merged by writing them behind those that are there, under the file's lock (`flock`).
//! LLVM adds the counters up in the file (`doProfileMerging`), which the tools cannot tell apart.

use super::name::Name;
use super::raw::MAGIC;
use longshore_plugin_api::profile::RawVersion;
use parking_lot::Mutex;
use rustix::fs::{FlockOperation, flock};
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// Writes a profile anew, or behind what this process wrote to the file before and, if the name
/// merges, behind what others wrote. Makes the folder. Blocks while another has the file's lock. A
/// write that fails leaves what was there.
pub(super) fn write(name: &Name, version: RawVersion, profile: &[u8]) -> io::Result<()> {
    static WRITTEN: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    let place = std::path::absolute(&name.path)?;
    if let Some(folder) = place.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut written = WRITTEN.lock();
    let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&place);
    let mut file = open?;
    if !file.metadata()?.is_file() {
        return file.write_all(profile);
    }
    flock(&file, FlockOperation::LockExclusive)?;
    let is_kept = name.merges || written.contains(&place);
    let end = if is_kept { end_of_profiles(&file, version)? } else { 0 };
    file.set_len(end)?;
    file.seek(SeekFrom::Start(end))?;
    if let Err(error) = file.write_all(profile) {
        file.set_len(end)?;
        return Err(error);
    }
    written.insert(place);
    Ok(())
}

/// Where a file's profiles end, behind which one of this version may be written.
fn end_of_profiles(file: &File, version: RawVersion) -> io::Result<u64> {
    let bytes = file.metadata()?.len();
    if bytes == 0 {
        return Ok(0);
    }
    let mut start = [0; 16];
    let is_read = file.read_exact_at(&mut start, 0).is_ok();
    let [magic, found] = *start.as_chunks().0 else { unreachable!("two words") };
    let (magic, found) = (u64::from_le_bytes(magic), u64::from_le_bytes(found));
    let refuse = |what: String| {
        Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("the file is there and {what}; remove it or choose another name"),
        ))
    };
    match () {
        () if !is_read || magic != MAGIC => refuse("is no raw profile".to_owned()),
        () if !bytes.is_multiple_of(8) => refuse("its last profile is cut off".to_owned()),
        () if found != version.0 => refuse(format!(
            "has profiles of raw version {found:#x}, this one has {:#x}, and no tool reads both at \
             once (%m in the name gives every image its own file)",
            version.0
        )),
        () => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(version: u64, mark: u64) -> Vec<u8> {
        [MAGIC, version, mark].map(u64::to_le_bytes).concat()
    }

    fn written(path: &std::path::Path, merges: bool, version: u64, mark: u64) -> io::Result<()> {
        let name = Name { path: path.to_owned(), merges };
        write(&name, RawVersion(version), &profile(version, mark))
    }

    #[test]
    fn the_files_of_earlier_processes_are_replaced_or_added_to() {
        let folder = tempfile::tempdir().unwrap();
        for (merges, expected) in [
            (false, [profile(10, 2), profile(10, 3)].concat()),
            (true, [profile(10, 1), profile(10, 2), profile(10, 3)].concat()),
        ] {
            let path = folder.path().join(format!("new/folder/{merges}"));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, profile(10, 1)).unwrap();
            written(&path, merges, 10, 2).unwrap();
            written(&path, merges, 10, 3).unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), expected, "merges: {merges}");
        }
    }

    #[test]
    fn a_missing_folder_is_made() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/c.profraw");
        written(&path, false, 8, 1).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), profile(8, 1));
    }

    #[test]
    fn nothing_is_added_to_what_is_no_profile_of_this_version() {
        let folder = tempfile::tempdir().unwrap();
        let cut_off = &profile(10, 1)[..20];
        for (index, content) in
            [b"a letter".as_slice(), b"x", cut_off, &profile(8, 1)].into_iter().enumerate()
        {
            let path = folder.path().join(index.to_string());
            std::fs::write(&path, content).unwrap();
            let error = written(&path, true, 10, 2).unwrap_err();
            assert!(error.to_string().contains("choose another name"), "{error}");
            assert_eq!(std::fs::read(&path).unwrap(), content);
        }
    }

    #[test]
    fn threads_lose_nothing_of_each_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shared");
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let path = &path;
                scope.spawn(move || {
                    (0..8).for_each(|i| written(path, false, 10, thread * 8 + i).unwrap())
                });
            }
        });
        let content = std::fs::read(&path).unwrap();
        let marks = content.as_chunks::<24>().0.iter().map(|profile| profile[16]);
        assert_eq!(marks.collect::<BTreeSet<_>>(), (0..64).collect());
    }

    #[test]
    fn what_is_no_file_is_written_to() {
        written(std::path::Path::new("/dev/null"), true, 10, 1).unwrap();
    }
}
