//! The contents of a `.profraw` file: a header of 64-bit words, longer in later versions, then
//! records, counters, bitmap and names, each at a multiple of 8 bytes. LLVM: `lprofWriteData`.

use super::Profile;
use super::file::{self, Change};
use super::name::Name;
use longshore_plugin_api::profile::RawVersion;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The magic number: byte 0xff, "lprofr", byte 0x81.
pub(super) const MAGIC: u64 = 0xff6c_7072_6f66_7281;
/// Size of the identifiers of binaries, which are not written.
const BINARY_IDS_BYTES: u64 = 0;
/// Padding behind records, whose sizes are multiples of 8 bytes.
const NO_PADDING: u64 = 0;

/// Writes a profile to its file. A file may hold several profiles, one after the other, whose
/// counters LLVM's tools add up. So a profile is merged by appending it. LLVM adds the counters in
/// the file (`doProfileMerging`); the tools show the same result.
pub(super) fn write(name: &Name, profile: &Profile<'_>) -> io::Result<()> {
    append(name, profile.version, file(profile))
}

fn append(name: &Name, version: RawVersion, content: Vec<u8>) -> io::Result<()> {
    file::update(name, |there| {
        let from = there.map_or(Ok(0), |file| end_of_profiles(file, version))?;
        Ok(Change { from, content })
    })
}

/// Returns the end of a file's profiles, at which a profile of this version may be appended.
///
/// # Errors
/// A refusal of a file with other data or with profiles of another version.
fn end_of_profiles(file: &File, version: RawVersion) -> io::Result<u64> {
    let bytes = file.metadata()?.len();
    if bytes == 0 {
        return Ok(0);
    }
    let mut start = [0; 16];
    let is_read = file.read_exact_at(&mut start, 0).is_ok();
    let [magic, found] = *start.as_chunks().0 else { unreachable!("two words") };
    let (magic, found) = (u64::from_le_bytes(magic), u64::from_le_bytes(found));
    match () {
        () if !is_read || magic != MAGIC => file::refuse("is no raw profile".to_owned()),
        () if !bytes.is_multiple_of(8) => file::refuse("ends in a truncated profile".to_owned()),
        () if found != version.0 => file::refuse(format!(
            "has profiles of raw version {found:#x}, expected {:#x}, as no tool reads both at once (%m \
             in the name gives every image its own file)",
            version.0
        )),
        () => Ok(bytes),
    }
}

/// Returns the file's contents.
pub(super) fn file(profile: &Profile<'_>) -> Vec<u8> {
    let parts = [&profile.data.contents, &profile.counters.contents, profile.bitmap()];
    let mut file: Vec<u8> = header(profile).iter().flat_map(|word| word.to_le_bytes()).collect();
    for part in parts.into_iter().chain([profile.names()]) {
        file.extend_from_slice(part);
        file.resize(file.len().next_multiple_of(8), 0);
    }
    file
}

/// Returns the header: `INSTR_PROF_RAW_HEADER` in LLVM's `InstrProfData.inc`.
fn header(profile: &Profile<'_>) -> Vec<u64> {
    let Profile { version, layout, counters, data, .. } = profile;
    let has_bitmap = version.number() >= 9;
    let has_vtables = version.number() >= 10;
    let bitmap_bytes = profile.bitmap().len();
    let bitmap_distance =
        profile.bitmap.map_or(0, |bitmap| bitmap.address.wrapping_sub(data.address));
    let mut header = vec![
        MAGIC,
        version.0,
        BINARY_IDS_BYTES,
        (data.contents.len() / layout.bytes) as u64,
        NO_PADDING,
        (counters.contents.len() / layout.counter_bytes) as u64,
        padding(counters.contents.len()),
    ];
    if has_bitmap {
        header.extend([bitmap_bytes as u64, padding(bitmap_bytes)]);
    }
    header.extend([profile.names().len() as u64, counters.address.wrapping_sub(data.address)]);
    if has_bitmap {
        header.push(bitmap_distance);
    }
    header.push(profile.names.map_or(0, |names| names.address));
    if has_vtables {
        // The number of virtual function tables, and the size of their names in bytes.
        header.extend([0, 0]);
    }
    header.push(last_value_kind(version.number()));
    header
}

fn padding(bytes: usize) -> u64 {
    (bytes.next_multiple_of(8) - bytes) as u64
}

/// Returns the highest kind of value of the version: 1, sizes of memory operations, and from
/// version 10 on 2, tables of virtual functions.
fn last_value_kind(version: u64) -> u64 {
    if version >= 10 { 2 } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::super::testing::sections;
    use super::*;

    fn word(file: &[u8], index: usize) -> u64 {
        u64::from_le_bytes(file[index * 8..index * 8 + 8].try_into().unwrap())
    }

    #[test]
    fn a_profile_has_its_versions_header_and_padded_parts() {
        for (version, words, record, names_at) in [(8, 11, 48, 7), (9, 14, 64, 9), (10, 16, 64, 9)]
        {
            let sections = sections(version, b"\x03\0abc");
            let file = file(&Profile::from_sections(&sections).unwrap().unwrap());
            assert_eq!(file.len(), words * 8 + record + 16 + 8, "version {version}");
            assert_eq!((word(&file, 0), word(&file, 1)), (MAGIC, version));
            assert_eq!((word(&file, 3), word(&file, 5)), (1, 2));
            assert_eq!(word(&file, names_at), 5);
            assert_eq!(word(&file, names_at + 1), 0x1000u64.wrapping_sub(0x2000));
            assert_eq!(word(&file, words - 1), last_value_kind(version));
        }
    }

    #[test]
    fn variant_bits_stay_in_the_version() {
        let sections = sections(10 | 1 << 56 | 1 << 63, b"");
        let file = file(&Profile::from_sections(&sections).unwrap().unwrap());
        assert_eq!(word(&file, 1), 10 | 1 << 56 | 1 << 63);
        assert_eq!(file.len(), 128 + 64 + 16);
    }
}

#[cfg(test)]
mod files {
    use super::*;
    use std::collections::BTreeSet;

    fn profile(version: u64, mark: u64) -> Vec<u8> {
        [MAGIC, version, mark].map(u64::to_le_bytes).concat()
    }

    fn written(path: &std::path::Path, merges: bool, version: u64, mark: u64) -> io::Result<()> {
        let name = Name { path: path.to_owned(), merges };
        append(&name, RawVersion(version), profile(version, mark))
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
    fn nothing_is_added_to_a_profile_of_another_version() {
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
    fn devices_and_pipes_are_written_to() {
        written(std::path::Path::new("/dev/null"), true, 10, 1).unwrap();
    }
}
