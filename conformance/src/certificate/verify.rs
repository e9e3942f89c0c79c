//! The verification of a report.

use super::{DIGEST, FileHash, SCHEMA, digest};
use serde_json::Value;
use std::fmt;
use std::io;
use std::path::Path;

/// The reason for a report that does not count.
#[derive(Debug)]
#[non_exhaustive]
pub enum Unverified {
    /// A file that cannot be read.
    Unreadable(io::Error),
    /// A file that is no report, or one of a later schema, with the reason.
    NoReport(String),
    /// A report whose digest is not that of its contents.
    Edited {
        /// The digest in the report.
        says: String,
        /// The digest of the contents.
        has: String,
    },
    /// A plugin file that cannot be read.
    UnreadablePlugin(io::Error),
    /// A report on another plugin file.
    OtherPlugin {
        /// The SHA-256 in the report.
        says: String,
        /// The SHA-256 of the file.
        has: String,
    },
}

impl fmt::Display for Unverified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unverified::Unreadable(error) => write!(f, "the report cannot be read: {error}"),
            Unverified::NoReport(why) => write!(f, "the file is no report: {why}"),
            Unverified::Edited { says, has } => {
                write!(f, "the report was edited: its digest is {says}, that of its contents {has}")
            }
            Unverified::UnreadablePlugin(error) => write!(f, "the plugin cannot be read: {error}"),
            Unverified::OtherPlugin { says, has } => write!(
                f,
                "the report is on another plugin: its SHA-256 is {says}, that of the file {has}"
            ),
        }
    }
}

impl std::error::Error for Unverified {}

/// Checks that a report is unchanged, and that it is on this plugin file, if there is one. Returns
/// its contents. Blocks.
///
/// # Errors
/// The first reason against the report.
pub fn verify(report: &Path, plugin: Option<&Path>) -> Result<Value, Unverified> {
    let text = std::fs::read_to_string(report).map_err(Unverified::Unreadable)?;
    let report: Value =
        serde_json::from_str(&text).map_err(|error| Unverified::NoReport(error.to_string()))?;
    let schema = report["schema"].as_u64();
    if schema != Some(SCHEMA) {
        let why = format!("its schema is {}, expected {SCHEMA}", report["schema"]);
        return Err(Unverified::NoReport(why));
    }
    let has = digest(&report);
    let says = report[DIGEST].as_str().unwrap_or("missing").to_owned();
    if says != has {
        return Err(Unverified::Edited { says, has });
    }
    if let Some(plugin) = plugin {
        let has = FileHash::read(plugin).map_err(Unverified::UnreadablePlugin)?.sha256;
        let says = report["plugin"]["sha256"].as_str().unwrap_or("missing").to_owned();
        if says != has {
            return Err(Unverified::OtherPlugin { says, has });
        }
    }
    Ok(report)
}
