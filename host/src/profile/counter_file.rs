//! Counters without records or names of functions, as JSON. A file has a line for each image: an
//! object, to which later unloads of the image add their counts.

use super::file::{self, Change};
use super::name::Name;
use super::{ImageFacts, section};
use longshore_plugin_api::profile::RawVersion;
use longshore_plugin_api::{Error, ErrorCode, ProfileSection, ProfileSectionKind, Result};
use serde::{Deserialize, Serialize};
use std::io;

/// The version of the JSON format.
const VERSION: u32 = 1;
const COUNTER_BYTES: usize = 8;

/// The counters of an image: a line of the file.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Counts {
    version: u32,
    /// The image's hash in the format of file names: 16 hexadecimal digits.
    image: String,
    triple: String,
    /// The raw version with its variant bits; `null` if the image does not declare it.
    raw_version: Option<u64>,
    counters: Vec<u64>,
}

impl Counts {
    /// Reads the counters of an image; `None` if there are no counters.
    ///
    /// # Errors
    /// As for [`counters`].
    pub(super) fn read(image: &ImageFacts, sections: &[ProfileSection]) -> Result<Option<Counts>> {
        let counters = counters(sections)?;
        let (image, triple) = (image.as_text(), image.triple.to_owned());
        let raw_version = raw_version(sections);
        let counts = Counts { version: VERSION, image, triple, raw_version, counters };
        Ok((!counts.counters.is_empty()).then_some(counts))
    }

    /// Writes the line, or adds the counts to the image's line in a file whose contents are kept.
    pub(super) fn write(self, name: &Name) -> io::Result<()> {
        file::update(name, |there| {
            let mut lines = match there {
                Some(there) => lines(&file::content(there)?)?,
                None => Vec::new(),
            };
            match lines.iter_mut().find(|line| line.is_of(&self)) {
                Some(line) => line.add(&self),
                None => lines.push(self),
            }
            let mut content = Vec::new();
            for line in &lines {
                serde_json::to_writer(&mut content, line)?;
                content.push(b'\n');
            }
            Ok(Change { from: 0, content })
        })
    }

    /// Returns whether both counters belong to the same image.
    fn is_of(&self, other: &Counts) -> bool {
        self.image == other.image
            && self.raw_version == other.raw_version
            && self.counters.len() == other.counters.len()
    }

    fn add(&mut self, other: &Counts) {
        for (sum, count) in self.counters.iter_mut().zip(&other.counters) {
            *sum = sum.saturating_add(*count);
        }
    }
}

/// Returns an image's counters in their order. A one-byte counter only records whether a part ran,
/// and counts 1 if it did.
///
/// # Errors
/// `InvalidBinary` for an incomplete counter.
pub(super) fn counters(sections: &[ProfileSection]) -> Result<Vec<u64>> {
    let counters = section(sections, ProfileSectionKind::Counters);
    let counters = counters.map_or(&[][..], |counters| &counters.contents);
    let layout = raw_version(sections).and_then(|version| RawVersion(version).layout().ok());
    if layout.is_some_and(|layout| layout.counter_bytes == 1) {
        return Ok(counters.iter().map(|byte| u64::from(*byte == 0)).collect());
    }
    let (numbers, rest) = counters.as_chunks::<COUNTER_BYTES>();
    if !rest.is_empty() {
        let bytes = counters.len();
        let message = format!(
            "the image's profile has {bytes} bytes of counters, expected a multiple of {COUNTER_BYTES}"
        );
        return Err(Error::new(ErrorCode::InvalidBinary, message));
    }
    Ok(numbers.iter().map(|number| u64::from_le_bytes(*number)).collect())
}

fn raw_version(sections: &[ProfileSection]) -> Option<u64> {
    let declared = section(sections, ProfileSectionKind::RawVersion)?;
    declared.contents.first_chunk().map(|word| u64::from_le_bytes(*word))
}

/// Returns the lines of a file, to add counts to them.
///
/// # Errors
/// A refusal of a file that is no such JSON, or of another version of the format.
fn lines(content: &[u8]) -> io::Result<Vec<Counts>> {
    let lines = content.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let lines = lines.map(serde_json::from_slice).collect::<serde_json::Result<Vec<Counts>>>();
    match lines {
        Ok(lines) if lines.iter().all(|line| line.version == VERSION) => Ok(lines),
        Ok(_) => file::refuse(format!("has counters of a version other than {VERSION}")),
        Err(error) => file::refuse(format!("has no counters in a known format ({error})")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::write;
    use super::*;
    use crate::environment::Environment;
    use serde_json::{Value, json};
    use std::path::Path;

    const BYTE_COVERAGE: u64 = 1 << 60;

    fn sections(counters: &[u64], raw_version: Option<u64>) -> Vec<ProfileSection> {
        let section = |kind, contents| ProfileSection::new(kind, 0, contents);
        let counters = counters.iter().flat_map(|count| count.to_le_bytes()).collect();
        let version = raw_version.map(|version| version.to_le_bytes().to_vec());
        let version = version.map(|word| section(ProfileSectionKind::RawVersion, word));
        [section(ProfileSectionKind::Counters, counters)].into_iter().chain(version).collect()
    }

    fn unload(pattern: &Path, hash: u64, sections: &[ProfileSection]) -> Result<()> {
        let environment = Environment::empty().with("LONGSHORE_PROFILE_FILE", pattern);
        let image = ImageFacts { hash, triple: "spirv-unknown-vulkan" };
        write(&environment, &image, sections).map(drop)
    }

    fn read(path: &Path) -> Vec<Value> {
        let text = std::fs::read_to_string(path).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn counters_alone_become_json_to_which_each_unload_adds() {
        let folder = tempfile::tempdir().unwrap();
        let pattern = folder.path().join("new/%b.profraw");
        let path = folder.path().join("new/0000000000000abc.json");
        unload(&pattern, 0xabc, &sections(&[7, 0, u64::MAX - 1], Some(10))).unwrap();
        let expected = json!({
            "version": 1,
            "image": "0000000000000abc",
            "triple": "spirv-unknown-vulkan",
            "raw_version": 10,
            "counters": [7, 0, u64::MAX - 1],
        });
        assert_eq!(read(&path), [expected]);
        unload(&pattern, 0xabc, &sections(&[1, 2, 3], Some(10))).unwrap();
        assert_eq!(read(&path)[0]["counters"], json!([8, 2, u64::MAX]));
    }

    #[test]
    fn images_that_share_a_file_have_lines_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shared.json");
        for (hash, counters) in [(1, &[1u64][..]), (2, &[10, 20]), (1, &[2]), (2, &[1, 1])] {
            unload(&path, hash, &sections(counters, None)).unwrap();
        }
        let lines = read(&path);
        let counters: Vec<_> = lines.iter().map(|line| &line["counters"]).collect();
        assert_eq!(counters, [&json!([3]), &json!([11, 21])]);
        assert_eq!(lines[0]["raw_version"], Value::Null);
    }

    #[test]
    fn records_or_names_alone_do_not_make_a_raw_profile() {
        let folder = tempfile::tempdir().unwrap();
        for (index, left_out) in
            [ProfileSectionKind::Data, ProfileSectionKind::Names].into_iter().enumerate()
        {
            let mut sections = super::super::testing::sections(10, b"");
            sections.retain(|section| section.kind != left_out);
            let pattern = folder.path().join(format!("{index}.profraw"));
            unload(&pattern, 1, &sections).unwrap();
            assert_eq!(read(&pattern.with_extension("json"))[0]["counters"], json!([7, 41]));
            assert!(!pattern.exists());
        }
    }

    #[test]
    fn counters_of_earlier_processes_are_replaced_or_added_to() {
        let folder = tempfile::tempdir().unwrap();
        let earlier = Counts {
            version: VERSION,
            image: "0000000000000001".into(),
            triple: "t".into(),
            raw_version: None,
            counters: vec![40],
        };
        let earlier = serde_json::to_vec(&earlier).unwrap();
        for (pattern, expected) in [("%b.json", 2), ("%m_kept.json", 42)] {
            let path = folder.path().join(pattern.replace("%b", "0000000000000001"));
            let path = path.to_str().unwrap().replace("%m", "0000000000000001");
            std::fs::write(&path, &earlier).unwrap();
            unload(&folder.path().join(pattern), 1, &sections(&[2], None)).unwrap();
            assert_eq!(read(Path::new(&path))[0]["counters"], json!([expected]), "{pattern}");
        }
    }

    #[test]
    fn nothing_is_added_to_a_file_without_counters() {
        let folder = tempfile::tempdir().unwrap();
        for content in [
            "a letter",
            "[1]",
            r#"{"version":2,"image":"1","triple":"","raw_version":1,"counters":[]}"#,
        ] {
            let path = folder.path().join("0000000000000001.json");
            std::fs::write(&path, content).unwrap();
            let pattern = folder.path().join("%m.json");
            let error = unload(&pattern, 1, &sections(&[2], None)).unwrap_err();
            assert_eq!(error.code(), ErrorCode::HostIo);
            assert!(error.to_string().contains("choose another name"), "{error}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
        }
    }

    #[test]
    fn counters_of_a_byte_say_whether_their_parts_ran() {
        let image = ImageFacts { hash: 0, triple: "" };
        let mut sections = sections(&[], Some(10 | BYTE_COVERAGE));
        sections[0].contents = vec![0, 255, 0];
        let counts = Counts::read(&image, &sections).unwrap().unwrap();
        assert_eq!(counts.counters, [1, 0, 1]);
    }

    #[test]
    fn a_part_of_a_counter_is_refused_and_no_counter_is_no_profile() {
        let image = ImageFacts { hash: 0, triple: "" };
        let mut sections = sections(&[1], None);
        sections[0].contents.pop();
        let error = Counts::read(&image, &sections).unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidBinary);
        sections[0].contents.clear();
        assert!(Counts::read(&image, &sections).unwrap().is_none());
    }
}
