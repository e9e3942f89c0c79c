//! Profiles: what becomes of the sections that a plugin read. They are written to a [`file`], as a
//! `.profraw` ([`raw`]) or, if there are counters alone, as JSON ([`bare`]); and counters of functions
//! are for who asks ([`counters`]).

mod bare;
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

/// Writes the profile of an image, if it has one, and answers where. The file's name is the
/// environment's `LONGSHORE_PROFILE_FILE`, in which `%` stands for something ([`name`]); by default
/// `default_%p_%m.profraw` in the current folder. Counters without records or names of functions are
/// written as JSON, to a name that ends in `.json` instead. What this process wrote to the same file
/// before stays in it, and so does what others wrote if the name has `%m`. Blocks while another
/// process writes to it.
///
/// # Errors
/// `Unsupported` for a raw version or variant that is not known, `InvalidBinary` for sections that
/// do not fit together, `HostIo` if the file cannot be written or already holds something else.
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
                let Some(counts) = bare::Counts::read(image, sections)? else { return Ok(None) };
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

/// The sections of a profile of functions. There are whole records and whole counters.
struct Profile<'a> {
    version: RawVersion,
    layout: RecordLayout,
    counters: &'a ProfileSection,
    data: &'a ProfileSection,
    names: Option<&'a ProfileSection>,
    bitmap: Option<&'a ProfileSection>,
}

impl<'a> Profile<'a> {
    /// `None` if there are no counters, or no records of them.
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
                "the image's profile has {records} bytes of records of {} and {counts} of counters \
                 of {}",
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

/// What the image says, else what its records tell; 10, which LLVM has had longest, if that is
/// nothing.
fn version(
    reported: Option<&ProfileSection>,
    counters: &ProfileSection,
    data: &ProfileSection,
) -> RawVersion {
    if let Some(reported) = reported {
        let word = reported.contents.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
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
