//! Facts that a device reports, as JSON.

use longshore::{DeviceEntry, DeviceInfo, DeviceType, ErrorCode, InfoValue, PlatformInfo};
use longshore_plugin_api::FpCapability;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// A device and its reply to each query that it supports. The key is the query's name in snake
/// case, with the unit at its end if it has one.
#[derive(Serialize)]
pub(crate) struct DeviceFacts {
    id: String,
    backend: String,
    index: u32,
    platform: Map<String, Value>,
    #[serde(flatten)]
    replies: Map<String, Value>,
}

impl DeviceFacts {
    pub(crate) fn new(device: &DeviceEntry) -> DeviceFacts {
        let facts = device.facts();
        DeviceFacts {
            id: id(device),
            backend: facts.backend.clone(),
            index: facts.index,
            platform: platform(device),
            replies: replies(device),
        }
    }
}

/// Returns the value of `--device` for a device, such as "cuda:0".
pub(crate) fn id(device: &DeviceEntry) -> String {
    let facts = device.facts();
    format!("{}:{}", facts.backend, facts.index)
}

/// Returns the name of a device's kind.
pub(crate) fn kind_name(kind: Option<DeviceType>) -> &'static str {
    match kind {
        Some(DeviceType::Gpu) => "gpu",
        Some(DeviceType::IntegratedGpu) => "integrated-gpu",
        Some(DeviceType::Cpu) => "cpu",
        Some(DeviceType::Host) => "host",
        _ => "unknown",
    }
}

fn platform(device: &DeviceEntry) -> Map<String, Value> {
    let reply = |query: &PlatformInfo| {
        let text = if_supported(device.platform_info(*query), device, query)?;
        Some((snake_case(query), Value::from(text)))
    };
    PlatformInfo::ALL.iter().filter_map(reply).collect()
}

fn replies(device: &DeviceEntry) -> Map<String, Value> {
    let reply = |query: &DeviceInfo| {
        let reply = if_supported(device.info(*query), device, query)?;
        Some((key(*query), value(*query, &reply)))
    };
    DeviceInfo::ALL.iter().filter_map(reply).collect()
}

/// Returns the device's reply, or `None` for an error. An error is logged unless it says that the
/// device does not support the query.
fn if_supported<T>(
    reply: longshore::Result<T>,
    device: &DeviceEntry,
    query: impl std::fmt::Debug,
) -> Option<T> {
    let unsupported = [ErrorCode::Unimplemented, ErrorCode::Unsupported];
    reply
        .inspect_err(|error| {
            if !unsupported.contains(&error.code()) {
                log::warn!("{}, {query:?}: {error}", device.name());
            }
        })
        .ok()
}

fn key(query: DeviceInfo) -> String {
    let unit = match query {
        DeviceInfo::MaxClockFrequency | DeviceInfo::MemoryClockRate => "_mhz",
        DeviceInfo::MaxMemAllocSize
        | DeviceInfo::GlobalMemSize
        | DeviceInfo::WorkGroupLocalMemSize
        | DeviceInfo::FreeMemory => "_bytes",
        _ => "",
    };
    snake_case(query) + unit
}

fn value(query: DeviceInfo, reply: &InfoValue) -> Value {
    match (query, reply) {
        (DeviceInfo::Type, InfoValue::U32(kind)) => kind_name(DeviceType::from_raw(*kind)).into(),
        (
            DeviceInfo::SingleFpConfig | DeviceInfo::DoubleFpConfig | DeviceInfo::HalfFpConfig,
            InfoValue::U32(bits),
        ) => capabilities(*bits).into(),
        (DeviceInfo::Properties, InfoValue::Text(lines)) => properties(lines).into(),
        (_, InfoValue::Text(text)) => text.as_str().into(),
        (_, InfoValue::Bool(yes)) => (*yes).into(),
        (_, InfoValue::U32(number)) => (*number).into(),
        (_, InfoValue::U64(number)) => (*number).into(),
        (_, InfoValue::Dimensions(xyz)) => json!(xyz),
        (_, InfoValue::Uuid(uuid)) => uuid_text(*uuid).into(),
        // Types of later interface versions are shown as their bytes.
        (_, other) => json!(other.to_bytes()),
    }
}

fn capabilities(bits: u32) -> Vec<String> {
    const ALL: [FpCapability; 8] = [
        FpCapability::CorrectlyRoundedDivideSqrt,
        FpCapability::RoundToNearest,
        FpCapability::RoundToZero,
        FpCapability::RoundToInf,
        FpCapability::InfNan,
        FpCapability::Denorm,
        FpCapability::Fma,
        FpCapability::SoftFloat,
    ];
    ALL.into_iter().filter(|bit| bits & *bit as u32 != 0).map(snake_case).collect()
}

/// Parses lines of `name=value`; a line without `=` is a name without a value.
fn properties(lines: &str) -> Map<String, Value> {
    let lines = lines.lines().filter(|line| !line.is_empty());
    lines
        .map(|line| match line.split_once('=') {
            Some((name, value)) => (name.to_owned(), value.into()),
            None => (line.to_owned(), Value::Null),
        })
        .collect()
}

fn uuid_text(uuid: [u8; 16]) -> String {
    let digits = format!("{:032x}", u128::from_be_bytes(uuid));
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
}

/// Returns an enumerator's name in snake case.
fn snake_case(enumerator: impl std::fmt::Debug) -> String {
    let mut snake = String::new();
    for letter in format!("{enumerator:?}").chars() {
        if letter.is_ascii_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_snake_case_with_units() {
        assert_eq!(key(DeviceInfo::Name), "name");
        assert_eq!(key(DeviceInfo::GlobalMemSize), "global_mem_size_bytes");
        assert_eq!(key(DeviceInfo::MaxClockFrequency), "max_clock_frequency_mhz");
        assert_eq!(
            key(DeviceInfo::MaxWorkGroupSizePerDimension),
            "max_work_group_size_per_dimension"
        );
    }

    #[test]
    fn replies_become_json_by_their_meaning() {
        let value = |query, reply| value(query, &reply);
        assert_eq!(value(DeviceInfo::Type, InfoValue::U32(4)), json!("host"));
        let bits = FpCapability::Fma as u32 | FpCapability::InfNan as u32;
        let config = value(DeviceInfo::SingleFpConfig, InfoValue::U32(bits));
        assert_eq!(config, json!(["inf_nan", "fma"]));
        let lines = InfoValue::Text("a=1\nb=x=y\nflag\n".into());
        let expected = json!({"a": "1", "b": "x=y", "flag": null});
        assert_eq!(value(DeviceInfo::Properties, lines), expected);
        let uuid = InfoValue::Uuid(*b"\0\x01\x02\x03456789abcdef");
        let expected = json!("00010203-3435-3637-3839-616263646566");
        assert_eq!(value(DeviceInfo::Uuid, uuid), expected);
    }
}
