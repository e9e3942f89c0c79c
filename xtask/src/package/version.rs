//! The version of packages, and the time of their files.

use crate::process::printed;
use crate::root;
use anyhow::{Context, Result};
use std::process::Command;

/// A version, the same in all formats. `~` sorts before everything.
#[derive(Debug, Clone)]
pub struct Version {
    /// The upstream version, such as `0.1.0` or `0.1.0~git20260102.1a2b3c4d`.
    pub upstream: String,
    /// The time of all files, in seconds since the epoch of Unix.
    pub time: u64,
}

impl Version {
    /// Returns the version of the checked-out commit, with its time or that of the variable
    /// `SOURCE_DATE_EPOCH`. A commit whose tag is `v` with the version of the workspace is a
    /// release, if no file was changed since.
    ///
    /// # Errors
    /// A checkout without commits.
    pub fn from_checkout() -> Result<Version> {
        let time = match std::env::var("SOURCE_DATE_EPOCH") {
            Ok(time) => time.parse().with_context(|| format!("SOURCE_DATE_EPOCH is '{time}'"))?,
            Err(_) => git(&["log", "-1", "--format=%ct"])?.parse()?,
        };
        let version = env!("CARGO_PKG_VERSION");
        let is_release = git(&["tag", "--points-at", "HEAD"])?
            .lines()
            .any(|tag| tag.strip_prefix('v') == Some(version));
        if is_release && git(&["status", "--porcelain", "--untracked-files=no"])?.is_empty() {
            return Ok(Version { upstream: version.to_owned(), time });
        }
        let commit = git(&["log", "-1", "--format=%cd.%h", "--date=format:%Y%m%d", "--abbrev=8"])?;
        Ok(Version { upstream: format!("{version}~git{commit}"), time })
    }

    /// Returns the version with Debian's revision.
    pub(crate) fn debian(&self) -> String {
        format!("{}-1", self.upstream)
    }

    /// Returns the time in the form of RFC 5322, for Debian's changelog.
    ///
    /// # Errors
    /// `date` that fails.
    pub(crate) fn date(&self) -> Result<String> {
        self.date_as("+%a, %d %b %Y %H:%M:%S +0000")
    }

    /// Returns the time in a format of `date`.
    ///
    /// # Errors
    /// `date` that fails.
    pub(crate) fn date_as(&self, format: &str) -> Result<String> {
        let time = format!("--date=@{}", self.time);
        let mut date = Command::new("date");
        let text = printed(date.args(["--utc", &time, format]).env("LC_ALL", "C"))?;
        Ok(text.trim_end().to_owned())
    }
}

fn git(arguments: &[&str]) -> Result<String> {
    let text = printed(Command::new("git").args(arguments).current_dir(root()))?;
    Ok(text.trim_end().to_owned())
}
