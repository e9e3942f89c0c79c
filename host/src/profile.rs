//! Profiles: use of the profile sections that a plugin has read from an image. Profiles are written
//! to a [`file`](mod@file), as a `.profraw` ([`raw`]) or, for counters without records, as JSON
//! ([`counter_file`]). The program can also read the counters of functions ([`counters`]).

mod counter_file;
mod counters;
mod file;
mod name;
mod raw;

pub use counters::FunctionCounters;
pub(crate) use counters::{functions, print};
pub(crate) use name::ImageFacts;

use crate::environment::{Environment, is_set_uid};
use longshore_plugin_api::profile::{RawVersion, RecordLayout, infer_version};
use longshore_plugin_api::{Error, ErrorCode, ProfileSection, ProfileSectionKind, Result};
use std::path::PathBuf;

/// Writes the profile of an image, if it has one, and returns the file's path. The environment's
/// `LONGSHORE_PROFILE_FILE` is the pattern of the file's name ([`name`]); the default is
/// `default_%p_%m.profraw` in the current folder. Counters without records or names of functions
/// are written as JSON, to a name that ends in `.json` instead.
///
/// Earlier profiles of this process stay in the file. Profiles of other processes stay if the
/// pattern has `%m`. Blocks while another process has the file's lock.
///
/// # Errors
/// `Unsupported` for an unknown raw version or variant, `InvalidBinary` for sections that do not
/// match each other, `HostIo` if the file cannot be written or holds other data.
pub(crate) fn write(
    environment: &Environment,
    image: &ImageFacts,
    sections: &[ProfileSection],
) -> Result<Option<PathBuf>> {
    if is_set_uid() {
        log::info!("no profile is written: this program has more rights than its caller");
        return Ok(None);
    }
    let pattern = environment.profile_file();
    let name = name::expand(pattern.as_deref().unwrap_or("default_%p_%m.profraw"), image);
    let (written, name) =
        match Profile::from_sections(sections)?.filter(|profile| profile.names.is_some()) {
            Some(profile) => (raw::write(&name, &profile), name),
            None => {
                let Some(counts) = counter_file::Counts::read(image, sections)? else {
                    return Ok(None);
                };
                let name = name.into_json();
                (counts.write(&name), name)
            }
        };
    written.map_err(|error| {
        let message = format!("cannot write the profile '{}': {error}", name.path.display());
        Error::new(ErrorCode::HostIo, message).with_source(error)
    })?;
    Ok(Some(name.path))
}

/// Returns a stable 64-bit hash of an image (FNV-1a).
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

fn section(sections: &[ProfileSection], kind: ProfileSectionKind) -> Option<&ProfileSection> {
    sections.iter().find(|section| section.kind == kind)
}

/// The sections of a profile of functions. The sizes of records and counters are checked.
struct Profile<'a> {
    version: RawVersion,
    layout: RecordLayout,
    counters: &'a ProfileSection,
    data: &'a ProfileSection,
    names: Option<&'a ProfileSection>,
    bitmap: Option<&'a ProfileSection>,
}

impl<'a> Profile<'a> {
    /// Returns the profile in an image's sections; `None` without counters or without their
    /// records.
    fn from_sections(sections: &'a [ProfileSection]) -> Result<Option<Profile<'a>>> {
        let section = |kind| section(sections, kind);
        let (Some(counters), Some(data)) =
            (section(ProfileSectionKind::Counters), section(ProfileSectionKind::Data))
        else {
            return Ok(None);
        };
        let version = version(section(ProfileSectionKind::RawVersion), counters, data);
        let layout = version.layout()?;
        let (records, counts) = (data.contents.len(), counters.contents.len());
        if !records.is_multiple_of(layout.bytes) || !counts.is_multiple_of(layout.counter_bytes) {
            let message = format!(
                "the image's profile has {records} bytes of records and {counts} bytes of counters; \
                 expected multiples of {} and {}",
                layout.bytes, layout.counter_bytes
            );
            return Err(Error::new(ErrorCode::InvalidBinary, message));
        }
        let (names, bitmap) =
            (section(ProfileSectionKind::Names), section(ProfileSectionKind::Bitmap));
        Ok(Some(Profile { version, layout, counters, data, names, bitmap }))
    }

    fn names(&self) -> &'a [u8] {
        self.names.map_or(&[], |names| &names.contents)
    }

    fn bitmap(&self) -> &'a [u8] {
        self.bitmap.map_or(&[], |bitmap| &bitmap.contents)
    }
}

/// Returns the raw version: the image's own, else the one inferred from its records, else 10,
/// LLVM's version for the longest time.
fn version(
    declared: Option<&ProfileSection>,
    counters: &ProfileSection,
    data: &ProfileSection,
) -> RawVersion {
    if let Some(declared) = declared {
        let word = declared.contents.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        return RawVersion(word);
    }
    let end = counters.address.saturating_add(counters.contents.len() as u64);
    let range = counters.address..end;
    let inferred =
        infer_version(&[(data.address, &data.contents)], std::slice::from_ref(&range), None);
    inferred.unwrap_or(RawVersion(10))
}

#[cfg(test)]
mod testing;
