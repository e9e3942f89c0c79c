//! Devices in the output of `longshore devices --json`.

use anyhow::{Context, Result};
use serde_json::Value;
use std::fmt;

/// A device that could be checked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Device {
    /// "vulkan:0".
    pub(super) id: String,
    pub(super) name: String,
    /// Identity of the device, whatever the number of drivers.
    pub(super) uuid: Option<String>,
    /// "gpu", "integrated-gpu", "cpu" or "host".
    pub(super) kind: String,
    /// Further facts on which the results depend.
    pub(super) facts: Vec<(String, String)>,
}

impl Device {
    /// Returns whether the device is a real GPU. A device of a driver's double has "double" in its
    /// name.
    pub(super) fn is_gpu(&self) -> bool {
        self.kind.ends_with("gpu") && !self.name.contains("double")
    }

    /// Returns the value of `LONGSHORE_DEVICES` for this device. Tests may add drivers, which
    /// changes indices.
    pub(super) fn selection(&self) -> String {
        let backend = self.id.split(':').next().unwrap_or_default();
        let uuid = self.uuid.as_ref();
        uuid.map_or_else(|| self.id.clone(), |uuid| format!("{backend}:{uuid}"))
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}, {})", self.id, self.name, self.kind)
    }
}

/// Reads the JSON array.
///
/// # Errors
/// Text that is no array of devices.
pub(super) fn read(text: &str) -> Result<Vec<Device>> {
    let devices: Vec<Value> = serde_json::from_str(text).context("`longshore devices --json`")?;
    devices.iter().map(device).collect()
}

fn device(device: &Value) -> Result<Device> {
    let text = |key: &str| device[key].as_str().map(str::to_owned);
    let id = text("id").context("a device without an id")?;
    let kind = text("type").with_context(|| format!("{id} has no type"))?;
    let name = text("name").unwrap_or_default();
    Ok(Device { id, name, uuid: text("uuid"), kind, facts: facts(device) })
}

/// Returns the version of the driver, and the short texts of the platform and the device.
fn facts(device: &Value) -> Vec<(String, String)> {
    const LONGEST: usize = 80;
    let own = ["type", "vendor", "driver_version", "uuid"].map(|key| (key, &device[key]));
    let entries_of = |group: &'static str| {
        let entries = device[group].as_object().into_iter().flatten();
        entries.map(move |(key, value)| (format!("{group}: {key}"), value))
    };
    let own = own.into_iter().map(|(key, value)| (key.replace('_', " "), value));
    let all = own.chain(entries_of("platform")).chain(entries_of("properties"));
    let texts = all.filter_map(|(key, value)| Some((key, value.as_str()?.to_owned())));
    texts.filter(|(_, value)| !value.is_empty() && value.len() <= LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_have_what_results_depend_on() {
        let long = "x".repeat(200);
        let text = format!(
            r#"[{{"id": "vulkan:1", "name": "A GPU", "type": "gpu", "driver_version": "570.1",
                 "platform": {{"name": "Vulkan", "version": "1.3"}}, "num_compute_units": 4,
                 "properties": {{"driver": "NVIDIA", "extensions": "{long}"}}}}]"#
        );
        let [device] = &read(&text).unwrap()[..] else { panic!() };
        assert_eq!(device.to_string(), "vulkan:1 (A GPU, gpu)");
        assert!(device.is_gpu());
        assert_eq!(device.selection(), "vulkan:1");
        let facts: Vec<_> =
            device.facts.iter().map(|(key, value)| (&key[..], &value[..])).collect();
        let expected = [
            ("type", "gpu"),
            ("driver version", "570.1"),
            ("platform: name", "Vulkan"),
            ("platform: version", "1.3"),
            ("properties: driver", "NVIDIA"),
        ];
        assert_eq!(facts, expected);
    }

    #[test]
    fn a_device_is_chosen_by_its_uuid() {
        let devices = read(r#"[{"id": "vulkan:1", "type": "cpu", "uuid": "12-34"}]"#).unwrap();
        assert_eq!(devices[0].selection(), "vulkan:12-34");
    }

    #[test]
    fn a_double_is_no_gpu() {
        let name = "Longshore double of an NVIDIA GPU";
        let text = format!(r#"[{{"id": "cuda:0", "type": "gpu", "name": "{name}"}}]"#);
        assert!(!read(&text).unwrap()[0].is_gpu());
    }

    #[test]
    fn json_without_an_array_of_devices_is_an_error() {
        for text in ["", "{}", "[1]", r#"[{"id": "x"}]"#] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
