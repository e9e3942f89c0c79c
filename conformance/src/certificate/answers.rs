//! The answers of a device for a report. A process of its own asks the device, so that a plugin
//! that dies or hangs costs its answers alone.

use crate::{DeviceName, Setup, endings};
use longshore::{DeviceEntry, DeviceInfo, InfoValue};
use serde_json::{Map, Value, json};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitStatus;

const FACTS: &str = "facts";
const IMAGES: &str = "images";
const UNREAD: &str = "unread";

/// The answers of a device, as far as they are known.
#[derive(Clone, Debug)]
pub struct DeviceAnswers {
    /// Answers to queries, by name.
    pub(super) facts: Value,
    /// Formats of the images that the device accepts.
    pub(super) images: Value,
    /// The reason for missing answers.
    pub(super) unread: Option<String>,
}

impl DeviceAnswers {
    /// Asks a device, and writes each answer into an existing file, for [`DeviceAnswers::read`].
    /// Blocks.
    ///
    /// # Errors
    /// Errors of opening the file and of writing to it.
    pub fn write(setup: &Setup, device: &DeviceName, file: &Path) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).open(file)?;
        let mut add = |key: &str, value: Value| writeln!(file, "{}", json!({ key: value }));
        let asked = setup.with_subject(device, |_, entry| {
            add(FACTS, device_facts(entry).into())?;
            match entry.open().and_then(|device| setup.formats(&device)) {
                Ok(formats) => add(IMAGES, formats.into()),
                Err(error) => add(UNREAD, error.to_string().into()),
            }
        });
        asked.unwrap_or_else(|error| add(UNREAD, error.to_string().into()))
    }

    /// Returns the answers that a process has written before its end. `status` is its exit status,
    /// or `None` if it had to be killed. Blocks.
    pub fn read(file: &Path, status: Option<ExitStatus>) -> DeviceAnswers {
        let text = std::fs::read(file).unwrap_or_default();
        // The last line is incomplete if the process died while writing it.
        let lines = text.split(|byte| *byte == b'\n');
        let lines: Vec<Value> =
            lines.filter_map(|line| serde_json::from_slice(line).ok()).collect();
        let answer = |key| lines.iter().find_map(|line| line.get(key)).cloned();
        let (facts, images) = (answer(FACTS), answer(IMAGES));
        let refusal = answer(UNREAD).and_then(|why| why.as_str().map(str::to_owned));
        let end = endings::end(status).map(|end| format!("{}{end}", endings::DIED));
        let is_cut_short = images.is_none() && refusal.is_none();
        let silent = is_cut_short.then(|| format!("{}gave no answer", endings::DIED));
        DeviceAnswers {
            facts: facts.unwrap_or_else(|| json!({})),
            images: images.unwrap_or_else(|| json!([])),
            unread: end.or(refusal).or(silent),
        }
    }

    /// Returns no answers, for this reason.
    pub fn unknown(why: String) -> DeviceAnswers {
        DeviceAnswers { facts: json!({}), images: json!([]), unread: Some(why) }
    }
}

/// Returns the answers of a device by the names of the queries. Answers that change have no place
/// in a report.
fn device_facts(entry: &DeviceEntry) -> Map<String, Value> {
    let fact = |query: &DeviceInfo| {
        let answer = entry.info(*query).ok()?;
        let value = match answer {
            InfoValue::Text(text) => text.into(),
            InfoValue::Bool(yes) => yes.into(),
            InfoValue::U32(number) => number.into(),
            InfoValue::U64(number) => number.into(),
            InfoValue::Dimensions(xyz) => json!(xyz),
            // Types of later versions of the interface too.
            other => json!(other.to_bytes()),
        };
        Some((format!("{query:?}"), value))
    };
    let lasting = DeviceInfo::ALL.iter().filter(|query| **query != DeviceInfo::FreeMemory);
    lasting.filter_map(fact).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn answers_are_known_up_to_the_end_of_the_process() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let read = |text: &str, status: Option<i32>| {
            std::fs::write(file.path(), text).unwrap();
            DeviceAnswers::read(file.path(), status.map(ExitStatus::from_raw))
        };
        let (facts, images) = ("{\"facts\":{\"Name\":\"x\"}}\n", "{\"images\":[\"ptx\"]}\n");
        let whole = read(&format!("{facts}{images}"), Some(0));
        assert_eq!((whole.images, whole.unread), (json!(["ptx"]), None));
        let died = read(&format!("{facts}{{\"ima"), Some(11));
        assert_eq!((died.facts, died.images), (json!({ "Name": "x" }), json!([])));
        assert_eq!(died.unread.as_deref(), Some("its process died of SIGSEGV"));
        let killed = read("", None);
        assert_eq!(killed.unread.as_deref(), Some("its process did not end, and was killed"));
        let silent = read(facts, Some(0));
        assert_eq!(silent.unread.as_deref(), Some("its process gave no answer"));
        let refused = read(&format!("{facts}{{\"unread\":\"no memory\"}}\n"), Some(0));
        assert_eq!(refused.unread.as_deref(), Some("no memory"));
    }
}
