//! Profiles: from the sections that a plugin read to a `.profraw` file.

use crate::environment::Environment;
use longshore_plugin_api::{Error, ErrorCode, ProfileSection, ProfileSectionKind, Result};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The raw version whose files are written; LLVM 19 to 22 write and read it.
const RAW_VERSION: u64 = 10;
/// The upper byte of the version holds variant bits: front-end or IR instrumentation and so on.
const VERSION_MASK: u64 = 0x00ff_ffff_ffff_ffff;
const MAGIC: u64 = 0xff6c_7072_6f66_7281;
const DATA_RECORD_BYTES: usize = 64;
const VALUE_KIND_LAST: u64 = 2;

/// Writes the profile of an image, if it has one, and answers where. The file's name is the
/// environment's `LONGSHORE_PROFILE_FILE`, in which `%p` is the process, `%m` the image's hash and
/// `%h` the machine's name; by default `default_%p_%m.profraw` in the current folder. What this
/// process wrote to the same file before stays in it.
///
/// # Errors
/// `Unsupported` for a raw version other than 10, `InvalidBinary` for sections that do not fit
/// together, `HostIo` if the file cannot be written.
pub(crate) fn write(
    environment: &Environment,
    image_hash: u64,
    sections: &[ProfileSection],
) -> Result<Option<PathBuf>> {
    let Some(profile) = raw_profile(sections)? else {
        return Ok(None);
    };
    let pattern = environment.profile_file();
    let pattern = pattern.as_deref().unwrap_or("default_%p_%m.profraw");
    let path = PathBuf::from(expand(pattern, image_hash));
    write_file(&path, &profile).map_err(|error| {
        let message = format!("cannot write the profile '{}': {error}", path.display());
        Error::new(ErrorCode::HostIo, message)
    })?;
    Ok(Some(path))
}

/// Writes a file anew, or behind what this process wrote to it before: a file may hold several raw
/// profiles, which LLVM's tools add up.
fn write_file(path: &Path, profile: &[u8]) -> std::io::Result<()> {
    static WRITTEN: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    let place = std::path::absolute(path)?;
    let mut written = WRITTEN.lock();
    let again = written.contains(&place);
    let mut options = OpenOptions::new();
    options.create(true).write(true).append(again).truncate(!again);
    options.open(path)?.write_all(profile)?;
    written.insert(place);
    Ok(())
}

/// A stable 64-bit hash of an image (FNV-1a).
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// The content of a `.profraw` file, or `None` if there are no counters.
fn raw_profile(sections: &[ProfileSection]) -> Result<Option<Vec<u8>>> {
    let section = |kind| sections.iter().find(|section| section.kind == kind);
    let (Some(counters), Some(data)) =
        (section(ProfileSectionKind::Counters), section(ProfileSectionKind::Data))
    else {
        return Ok(None);
    };
    let names = section(ProfileSectionKind::Names).map_or(&[][..], |names| &names.contents);
    let bitmap = section(ProfileSectionKind::Bitmap);
    let bits = bitmap.map_or(&[][..], |bitmap| &bitmap.contents);
    let version = raw_version(section(ProfileSectionKind::RawVersion))?;
    if data.contents.len() % DATA_RECORD_BYTES != 0 || counters.contents.len() % 8 != 0 {
        let message = format!(
            "the image's profile has {} bytes of records of 64 and {} of counters of 8",
            data.contents.len(),
            counters.contents.len()
        );
        return Err(Error::new(ErrorCode::InvalidBinary, message));
    }
    let padding = |bytes: usize| (bytes.next_multiple_of(8) - bytes) as u64;
    let header = [
        MAGIC,
        version,
        0,
        (data.contents.len() / DATA_RECORD_BYTES) as u64,
        0,
        (counters.contents.len() / 8) as u64,
        0,
        bits.len() as u64,
        padding(bits.len()),
        names.len() as u64,
        counters.address.wrapping_sub(data.address),
        bitmap.map_or(0, |bitmap| bitmap.address.wrapping_sub(data.address)),
        section(ProfileSectionKind::Names).map_or(0, |names| names.address),
        0,
        0,
        VALUE_KIND_LAST,
    ];
    let mut file: Vec<u8> = header.iter().flat_map(|word| word.to_le_bytes()).collect();
    for part in [&data.contents, &counters.contents, bits, names] {
        file.extend_from_slice(part);
        file.resize(file.len().next_multiple_of(8), 0);
    }
    Ok(Some(file))
}

fn raw_version(section: Option<&ProfileSection>) -> Result<u64> {
    let Some(section) = section else {
        return Ok(RAW_VERSION);
    };
    let version = section.contents.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
    if version & VERSION_MASK == RAW_VERSION {
        return Ok(version);
    }
    let message = format!(
        "the image's profile has raw version {}, only {RAW_VERSION} can be written",
        version & VERSION_MASK
    );
    Err(Error::new(ErrorCode::Unsupported, message))
}

fn expand(pattern: &str, image_hash: u64) -> String {
    let machine = rustix::system::uname();
    pattern
        .replace("%p", &std::process::id().to_string())
        .replace("%m", &format!("{image_hash:016x}"))
        .replace("%h", &machine.nodename().to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(kind: ProfileSectionKind, address: u64, bytes: usize) -> ProfileSection {
        ProfileSection { kind, address, contents: vec![1; bytes] }
    }

    #[test]
    fn a_profile_has_a_header_and_padded_parts() {
        let sections = [
            section(ProfileSectionKind::Counters, 0x1000, 16),
            section(ProfileSectionKind::Data, 0x2000, 64),
            section(ProfileSectionKind::Names, 0x3000, 5),
        ];
        let file = raw_profile(&sections).unwrap().unwrap();
        assert_eq!(file.len(), 128 + 64 + 16 + 8);
        let word = |i: usize| u64::from_le_bytes(file[i * 8..i * 8 + 8].try_into().unwrap());
        assert_eq!((word(0), word(1)), (MAGIC, 10));
        assert_eq!((word(3), word(5), word(9)), (1, 2, 5));
        assert_eq!(word(10), 0x1000u64.wrapping_sub(0x2000));
    }

    #[test]
    fn an_image_without_counters_has_no_profile() {
        assert_eq!(raw_profile(&[]), Ok(None));
    }

    #[test]
    fn sections_that_do_not_fit_are_refused() {
        let sections = [
            section(ProfileSectionKind::Counters, 0, 16),
            section(ProfileSectionKind::Data, 0, 63),
        ];
        assert_eq!(raw_profile(&sections).unwrap_err().code(), ErrorCode::InvalidBinary);
    }

    #[test]
    fn a_pattern_names_process_and_image() {
        let name = expand("a_%p_%m.profraw", 0xabc);
        assert_eq!(name, format!("a_{}_0000000000000abc.profraw", std::process::id()));
    }
}
