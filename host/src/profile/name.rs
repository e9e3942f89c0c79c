//! The names of profiles: what `%` stands for in `LONGSHORE_PROFILE_FILE`.
//!
//! | written | becomes |
//! | --- | --- |
//! | `%p` | the process's number |
//! | `%h` | the machine's name |
//! | `%t` | the image's target triple, as `x86_64-unknown-linux-gnu` |
//! | `%m` | the image's hash; what other processes wrote to the file stays in it |
//! | `%4m` | the same with one of four numbers behind it, so that processes share four files |
//! | `%b` | the image's hash |
//! | `%c`, `%9x` | nothing: profiles are written when images are unloaded, not all the time or at signals |
//! | `%%` | a percent sign |
//!
//! Whatever else follows a `%` stays as it is written. LLVM's names (`parseFilenamePattern`) are the
//! same but for `%t`, which is `TMPDIR` there, for `%%`, and for `%b`, which is the build's number.

use std::path::PathBuf;

/// What names tell of an image.
pub(crate) struct ImageFacts {
    /// A stable hash of its bytes.
    pub(crate) hash: u64,
    /// Its target triple.
    pub(crate) triple: &'static str,
}

/// A profile's name.
pub(super) struct Name {
    pub(super) path: PathBuf,
    /// What others wrote to it stays.
    pub(super) merges: bool,
}

/// The name that a pattern stands for.
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
            (None, Some('m' | 'b')) => format!("{:016x}", image.hash),
            (Some(files @ 1..), Some('m')) => {
                format!("{:016x}_{}", image.hash, std::process::id() % files)
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
    fn what_is_not_known_stays_and_what_cannot_be_is_left_out() {
        let unknown = "a%q%12z%0m%99999999999m%é%";
        assert_eq!(expanded(unknown), (unknown.to_owned(), false));
        assert_eq!(expanded("a%c%15x.profraw"), ("a.profraw".to_owned(), false));
        assert_eq!(expanded("%%m"), ("%m".to_owned(), false));
    }
}
