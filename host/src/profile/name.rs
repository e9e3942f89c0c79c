//! The names of profiles: expansion of `%` in `LONGSHORE_PROFILE_FILE`.
//!
//! | pattern | expansion |
//! | --- | --- |
//! | `%p` | the process's number |
//! | `%h` | the machine's name |
//! | `%t` | the image's target triple, as `x86_64-unknown-linux-gnu` |
//! | `%m` | the image's hash; profiles of other processes stay in the file |
//! | `%4m` | `%m` followed by one of four numbers, so that processes share four files |
//! | `%b` | the image's hash |
//! | `%c`, `%9x` | nothing: profiles are written at unloading, not continuously or at signals |
//! | `%%` | a percent sign |
//!
//! A `%` before other characters stays unchanged. LLVM's patterns (`parseFilenamePattern`) differ
//! in three ways: `%t` is `TMPDIR`, `%b` is the build's number, and `%%` does not exist.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// The facts of an image that names of profiles contain.
pub(crate) struct ImageFacts {
    /// A stable hash of the image's bytes.
    pub(crate) hash: u64,
    /// The image's target triple.
    pub(crate) triple: &'static str,
}

impl ImageFacts {
    /// Returns the image's hash as 16 hexadecimal digits: "558f97f788d5dd3c".
    pub(super) fn as_text(&self) -> String {
        format!("{:016x}", self.hash)
    }
}

/// A profile's name.
pub(super) struct Name {
    pub(super) path: PathBuf,
    /// Whether the profiles of other processes stay in the file.
    pub(super) merges: bool,
}

impl Name {
    /// Returns the name of a JSON profile in place of a `.profraw`. A path to an existing special
    /// file, such as `/dev/null`, is unchanged.
    pub(super) fn into_json(self) -> Name {
        if self.path.metadata().is_ok_and(|known| !known.is_file() && !known.is_dir()) {
            return self;
        }
        let mut path = self.path.into_os_string();
        if let Some(stem) = path.as_bytes().strip_suffix(b".profraw") {
            path = OsStr::from_bytes(stem).to_owned();
        }
        if !path.as_bytes().ends_with(b".json") {
            path.push(".json");
        }
        Name { path: path.into(), ..self }
    }
}

/// Expands a pattern to a name.
pub(super) fn expand(pattern: &str, image: &ImageFacts) -> Name {
    let (mut path, mut merges) = (String::new(), false);
    let mut rest = pattern;
    while let Some((before, behind)) = rest.split_once('%') {
        path.push_str(before);
        rest = behind;
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let number = (digits > 0).then(|| rest[..digits].parse::<u32>().unwrap_or(0));
        let letter = rest[digits..].chars().next();
        let text = match (number, letter) {
            (None, Some('p')) => std::process::id().to_string(),
            (None, Some('h')) => rustix::system::uname().nodename().to_string_lossy().into_owned(),
            (None, Some('t')) => image.triple.to_owned(),
            (None, Some('m' | 'b')) => image.as_text(),
            (Some(files @ 1..), Some('m')) => {
                format!("{}_{}", image.as_text(), std::process::id() % files)
            }
            (None, Some('c')) | (Some(1..100), Some('x')) => String::new(),
            (None, Some('%')) => "%".to_owned(),
            _ => {
                path.push('%');
                continue;
            }
        };
        merges |= letter == Some('m');
        path.push_str(&text);
        rest = &rest[digits + 1..];
    }
    path.push_str(rest);
    Name { path: path.into(), merges }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(pattern: &str) -> (String, bool) {
        let image = ImageFacts { hash: 0xabc, triple: "x86_64-unknown-linux-gnu" };
        let name = expand(pattern, &image);
        (name.path.to_str().unwrap().to_owned(), name.merges)
    }

    #[test]
    fn a_pattern_names_process_machine_and_image() {
        let id = std::process::id();
        let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let all = expanded("a_%p_%h_%t_%b%%.profraw");
        let expected =
            format!("a_{id}_{machine}_x86_64-unknown-linux-gnu_0000000000000abc%.profraw");
        assert_eq!(all, (expected, false));
        assert_eq!(expanded("%m.profraw"), ("0000000000000abc.profraw".to_owned(), true));
        assert_eq!(expanded("%4m"), (format!("0000000000000abc_{}", id % 4), true));
    }

    #[test]
    fn unknown_patterns_stay_and_impossible_ones_are_left_out() {
        let unknown = "a%q%12z%0m%99999999999m%é%";
        assert_eq!(expanded(unknown), (unknown.to_owned(), false));
        assert_eq!(expanded("a%c%15x.profraw"), ("a.profraw".to_owned(), false));
        assert_eq!(expanded("%%m"), ("%m".to_owned(), false));
    }

    #[test]
    fn json_has_an_ending_of_its_own() {
        let image = ImageFacts { hash: 0xabc, triple: "unknown" };
        for (pattern, expected) in [
            ("a/b.profraw", "a/b.json"),
            ("a.json", "a.json"),
            ("a.raw", "a.raw.json"),
            ("a", "a.json"),
            ("/dev/null", "/dev/null"),
        ] {
            let name = expand(pattern, &image).into_json();
            assert_eq!(name.path.to_str(), Some(expected));
        }
        assert!(expand("%m.profraw", &image).into_json().merges);
    }
}
