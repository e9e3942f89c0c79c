//! The contents of a report.

use super::{DIGEST, DeviceAnswers, FileHash, SCHEMA, digest};
use crate::{Behaviour, DeviceName, Outcome};
use jiff::Timestamp;
use longshore::{Candidate, DeviceEntry};
use longshore_plugin_api::abi;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A report on one plugin, before it has a digest.
#[derive(Clone, Debug)]
pub struct Certificate {
    plugin: Value,
    devices: Vec<Value>,
    arguments: Value,
}

/// The outcomes of the behaviours of one device, in order.
pub type DeviceResults = [(&'static Behaviour, Outcome)];

impl Certificate {
    /// Begins a report on the plugin of a device. `isolated` and `filter` are the options of the
    /// run.
    pub fn new(
        candidate: &Candidate,
        entry: &DeviceEntry,
        hash: &FileHash,
        isolated: bool,
        filter: &[String],
    ) -> Certificate {
        let description = entry.plugin();
        let note = candidate.note.as_ref();
        let interface = note.map(|note| (note.interface_major, note.interface_minor));
        let driver = Some(&description.driver).filter(|driver| !driver.is_empty());
        let plugin = json!({
            "file": candidate.path.file_name().unwrap_or_default().to_string_lossy(),
            "bytes": hash.bytes,
            "sha256": hash.sha256,
            "interface": interface.map(|(major, minor)| format!("{major}.{minor}")),
            "backend": description.backend,
            "name": description.name,
            "version": description.version,
            "vendor": description.vendor,
            "image_formats": formats(&description.image_formats),
            "driver": driver,
            "unloadable": description.unloadable,
        });
        let arguments = json!({ "isolated": isolated, "filter": filter });
        Certificate { plugin, devices: Vec::new(), arguments }
    }

    /// Adds the results and the answers of a device.
    pub fn add(&mut self, device: &DeviceName, answers: DeviceAnswers, results: &DeviceResults) {
        self.devices.push(json!({
            "device": format!("{}:{}", device.backend, device.index),
            "name": device.product,
            "facts": answers.facts,
            "images": answers.images,
            "unread": answers.unread,
            "requirements": requirements(results),
            "behaviours": results.iter().map(behaviour).collect::<Vec<_>>(),
        }));
    }

    /// Returns the JSON of the report, with its digest. `time` is its date.
    pub fn into_json(self, time: Timestamp) -> Value {
        let mut report = json!({
            "schema": SCHEMA,
            "longshore": {
                "version": env!("CARGO_PKG_VERSION"),
                "commit": option_env!("LONGSHORE_COMMIT"),
                "interface": format!("{}.{}", abi::INTERFACE_MAJOR, abi::INTERFACE_MINOR),
            },
            "date": time.to_string(),
            "arguments": self.arguments,
            "plugin": self.plugin,
            "devices": self.devices,
        });
        report[DIGEST] = digest(&report).into();
        report
    }
}

fn formats(listed: &str) -> Vec<&str> {
    listed.split(',').map(str::trim).filter(|format| !format.is_empty()).collect()
}

fn behaviour((behaviour, outcome): &(&'static Behaviour, Outcome)) -> Value {
    let (word, reason) = words(outcome);
    json!({
        "group": behaviour.group,
        "name": behaviour.name,
        "requirements": behaviour.requirements,
        "outcome": word,
        "reason": reason,
    })
}

fn words(outcome: &Outcome) -> (&'static str, Option<&str>) {
    match outcome {
        Outcome::Passed => ("passed", None),
        Outcome::Skipped(why) => ("skipped", Some(why)),
        Outcome::Failed(what) => ("failed", Some(what)),
    }
}

/// Returns the outcome of each promise: failed if a behaviour of it failed, else passed if one
/// passed, else skipped. The reasons are from the behaviours with that outcome.
fn requirements(results: &DeviceResults) -> Vec<Value> {
    let mut by_number = BTreeMap::<_, Vec<_>>::new();
    for result in results {
        for number in result.0.requirements {
            by_number.entry((order(number), *number)).or_default().push(result);
        }
    }
    by_number.into_iter().map(|((_, number), of_it)| requirement(number, &of_it)).collect()
}

fn requirement(number: &str, results: &[&(&'static Behaviour, Outcome)]) -> Value {
    let has = |word: &&str| results.iter().any(|(_, outcome)| words(outcome).0 == *word);
    let outcome = ["failed", "passed", "skipped"].into_iter().find(has);
    let with_it =
        results.iter().map(|(_, it)| words(it)).filter(|(word, _)| Some(*word) == outcome);
    let mut reasons: Vec<_> = with_it.filter_map(|(_, reason)| reason).collect();
    reasons.dedup();
    let names: Vec<_> = results.iter().map(|(behaviour, _)| behaviour.to_string()).collect();
    json!({ "number": number, "outcome": outcome, "reasons": reasons, "behaviours": names })
}

/// Returns the place of a number: promises of plugins by their number, then promises of the host.
fn order(number: &str) -> (bool, u32) {
    let digits = number.trim_start_matches(|c: char| !c.is_ascii_digit());
    (number.starts_with('H'), digits.parse().unwrap_or(u32::MAX))
}
