//! `--verify`.

use crate::failure::{Exit, Failure};
use crate::print;
use longshore_conformance::certificate::{self, Unverified};
use longshore_plugin_api::printable;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Verifies a report, and prints a summary.
pub(super) fn verify(report: &Path, plugins: &[PathBuf]) -> Result<(), Failure> {
    let plugin = match plugins {
        [] => None,
        [plugin] => Some(&**plugin),
        _ => {
            let count = plugins.len();
            let message = format!("--verify compares one file of --plugin, {count} were named");
            return Err(Failure::new(Exit::Usage, message));
        }
    };
    let contents = certificate::verify(report, plugin).map_err(|error| {
        let is_verdict =
            matches!(error, Unverified::Edited { .. } | Unverified::OtherPlugin { .. });
        let exit = if is_verdict { Exit::Failed } else { Exit::Usage };
        Failure::new(exit, format!("'{}': {error}", report.display()))
    })?;
    let mut lines = vec![summary(&contents)];
    lines.extend(restriction(&contents));
    if plugin.is_none() {
        lines.push("the plugin was not compared: name its file by --plugin".to_owned());
    }
    // Texts of the report must not look like further lines.
    let lines = lines.iter().map(|line| printable(line).replace('\n', "\\n") + "\n");
    print::text(&lines.collect::<String>())
}

/// Returns the plugin and the numbers of promises by outcome.
fn summary(report: &Value) -> String {
    let requirements = report["devices"].as_array().into_iter().flatten();
    let requirements: Vec<_> = requirements
        .filter_map(|device| device["requirements"].as_array())
        .flatten()
        .map(|requirement| requirement["outcome"].as_str().unwrap_or_default())
        .collect();
    let count = |word: &str| requirements.iter().filter(|outcome| **outcome == word).count();
    let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    format!(
        "unchanged: {}, version {}, SHA-256 {}: {} promises passed, {} failed, {} skipped on {}",
        text(&report["plugin"]["file"]),
        text(&report["plugin"]["version"]),
        text(&report["plugin"]["sha256"]),
        count("passed"),
        count("failed"),
        count("skipped"),
        text(&report["date"]),
    )
}

/// Returns the filter of the run, if it had one.
fn restriction(report: &Value) -> Option<String> {
    let texts = report["arguments"]["filter"].as_array().into_iter().flatten();
    let texts: Vec<_> = texts.map(|text| format!("'{}'", text.as_str().unwrap_or("?"))).collect();
    (!texts.is_empty()).then(|| {
        let texts = texts.join(" or ");
        format!("not the whole suite: only behaviours with {texts} in their names ran")
    })
}
