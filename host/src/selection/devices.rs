//! Selections of devices, the values of `LONGSHORE_DEVICES`.

use super::backends::is_backend_name;
use globset::{GlobBuilder, GlobMatcher};
use longshore_plugin_api::{DeviceType, Error, ErrorCode, Result};
use std::fmt::Write;

const GRAMMAR: &str = "expected terms separated by ';', each \"backend:list\" or \"!backend:list\", \
                       the list being device indices, name patterns (with *, ? and [..]) or UUIDs \
                       separated by ',', such as \"cuda:0,2;vulkan:*;!vulkan:*llvmpipe*\"";

/// The properties of a device that selections match.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceFacts {
    /// The device's backend.
    pub backend: String,
    /// The device's index among the devices of its backend, from 0.
    pub index: u32,
    /// The device's name; empty if the plugin reports no name.
    pub name: String,
    /// The device's UUID, if it has one.
    pub uuid: Option<[u8; 16]>,
    /// The device's type; `None` if the plugin reports no type, or one that this version does not
    /// know.
    pub kind: Option<DeviceType>,
}

impl DeviceFacts {
    /// Creates the facts of a device without UUID and of unknown type, to test a selection with.
    pub fn new(backend: impl Into<String>, index: u32, name: impl Into<String>) -> DeviceFacts {
        let (backend, name) = (backend.into(), name.into());
        DeviceFacts { backend, index, name, uuid: None, kind: None }
    }
}

/// Formats the backend, the index and the name: "cuda:0 (NVIDIA H200)".
impl std::fmt::Display for DeviceFacts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.backend, self.index)?;
        if self.name.is_empty() { Ok(()) } else { write!(f, " ({})", self.name) }
    }
}

/// A selection of devices, in order of preference: "cuda:0,2;vulkan:*;!vulkan:*llvmpipe*".
///
/// A term names a backend and, after `:`, a list of indices, name patterns and UUIDs. A pattern
/// with `*`, `?` and `[..]` must match the whole name, regardless of case; a `?` matches a `,` or
/// `;` of a name. A `!` before a term excludes the term's devices, at any place in the selection.
/// Devices have the order in which the other terms name them first. If all terms exclude, devices
/// have the order of the default selection.
///
/// The default selects every device: GPUs, then integrated GPUs, then the host, then CPUs behind a
/// GPU interface, then devices of unknown type. Devices of one type keep their order.
#[derive(Clone, Debug, Default)]
pub struct DeviceSelection {
    wanted: Vec<Item>,
    excluded: Vec<Item>,
    backends_first: bool,
}

/// One entry of a term's list.
#[derive(Clone, Debug)]
struct Item {
    backend: String,
    /// The entry as the user wrote it, for messages.
    text: String,
    by: DeviceCriterion,
}

#[derive(Clone, Debug)]
enum DeviceCriterion {
    Index(u32),
    Uuid([u8; 16]),
    Name(GlobMatcher),
}

impl DeviceSelection {
    /// Parses a selection. Spaces around terms and entries do not matter.
    ///
    /// # Errors
    /// `InvalidValue` for text outside the grammar; the message has the term and the grammar.
    pub fn parse(text: &str) -> Result<DeviceSelection> {
        let mut selection = DeviceSelection::default();
        for term in text.split(';').map(str::trim) {
            let (list, rest) = match term.strip_prefix('!') {
                Some(rest) => (&mut selection.excluded, rest),
                None => (&mut selection.wanted, term),
            };
            let items = parse_term(rest).map_err(|why| {
                let message = format!("device term '{term}' in \"{text}\": {why}: {GRAMMAR}");
                Error::new(ErrorCode::InvalidValue, message)
            })?;
            list.extend(items);
        }
        Ok(selection)
    }

    /// Returns the selection with the default order grouped by backend, or not. The groups have the
    /// order in which the backends first occur among the devices. Used when the user named backends
    /// in order of preference.
    #[must_use]
    pub fn with_backends_first(mut self, yes: bool) -> DeviceSelection {
        self.backends_first = yes;
        self
    }

    /// Returns the positions in `devices` of the selected devices, in order of preference, each at
    /// most once.
    ///
    /// # Errors
    /// `NotFound` if an entry, also one that excludes, matches no device; the message lists the
    /// devices.
    pub fn select(&self, devices: &[DeviceFacts]) -> Result<Vec<usize>> {
        let excluded = all_matches(&self.excluded, devices)?;
        let mut chosen = if self.wanted.is_empty() {
            self.default_order(devices)
        } else {
            all_matches(&self.wanted, devices)?
        };
        chosen.retain(|position| !excluded.contains(position));
        Ok(chosen)
    }

    fn default_order(&self, devices: &[DeviceFacts]) -> Vec<usize> {
        let backend_rank = |position: usize| {
            let backend = &devices[position].backend;
            let first = devices.iter().position(|device| device.backend == *backend);
            first.filter(|_| self.backends_first)
        };
        let mut order: Vec<usize> = (0..devices.len()).collect();
        order.sort_by_key(|&position| (backend_rank(position), kind_rank(devices[position].kind)));
        order
    }
}

impl Item {
    fn matches(&self, device: &DeviceFacts) -> bool {
        self.backend == device.backend
            && match &self.by {
                DeviceCriterion::Index(index) => *index == device.index,
                DeviceCriterion::Uuid(uuid) => Some(*uuid) == device.uuid,
                DeviceCriterion::Name(pattern) => pattern.is_match(&device.name),
            }
    }
}

fn parse_term(term: &str) -> Result<Vec<Item>, String> {
    let (backend, list) = term.split_once(':').ok_or("it has no ':'")?;
    let backend = backend.trim().to_ascii_lowercase();
    if !is_backend_name(&backend) {
        return Err(format!("'{backend}' is no backend's name"));
    }
    let parse = |text: &str| {
        let text = text.trim();
        let by = parse_entry(text)?;
        Ok(Item { backend: backend.clone(), text: text.to_owned(), by })
    };
    list.split(',').map(parse).collect()
}

fn parse_entry(text: &str) -> Result<DeviceCriterion, String> {
    if text.is_empty() {
        return Err("an entry of its list is empty".to_owned());
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        let index = text.parse().map_err(|_| format!("index {text} is too large"))?;
        return Ok(DeviceCriterion::Index(index));
    }
    if let Some(uuid) = parse_uuid(text) {
        return Ok(DeviceCriterion::Uuid(uuid));
    }
    let mut pattern = GlobBuilder::new(text);
    pattern.case_insensitive(true).literal_separator(false).backslash_escape(true);
    let pattern = pattern.build().map_err(|error| format!("bad pattern: {}", error.kind()))?;
    Ok(DeviceCriterion::Name(pattern.compile_matcher()))
}

/// Parses a UUID in its canonical form: 32 hexadecimal digits in groups of 8, 4, 4, 4 and 12.
fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let groups: Vec<&str> = text.split('-').collect();
    if !groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12]) {
        return None;
    }
    let digits = groups.concat();
    if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    u128::from_str_radix(&digits, 16).ok().map(u128::to_be_bytes)
}

/// Returns the positions of the devices that the entries match, each once, in the order of the
/// entries.
fn all_matches(items: &[Item], devices: &[DeviceFacts]) -> Result<Vec<usize>> {
    let mut found = Vec::new();
    for item in items {
        let mut matches = (0..devices.len()).filter(|at| item.matches(&devices[*at])).peekable();
        if matches.peek().is_none() {
            return Err(nothing_matches(item, devices));
        }
        for position in matches {
            if !found.contains(&position) {
                found.push(position);
            }
        }
    }
    Ok(found)
}

fn nothing_matches(item: &Item, devices: &[DeviceFacts]) -> Error {
    let mut message = format!("no device matches '{}:{}'; there are:", item.backend, item.text);
    if devices.is_empty() {
        message.push_str(" none");
    }
    for device in devices {
        let DeviceFacts { backend, index, name, .. } = device;
        let _ = write!(message, "\n  {backend}:{index} \"{name}\"");
        if let Some(uuid) = device.uuid {
            let _ = write!(message, " {}", uuid_text(uuid));
        }
    }
    Error::new(ErrorCode::NotFound, message)
}

fn uuid_text(uuid: [u8; 16]) -> String {
    let digits = format!("{:032x}", u128::from_be_bytes(uuid));
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
}

fn kind_rank(kind: Option<DeviceType>) -> u32 {
    match kind {
        Some(DeviceType::Gpu) => 0,
        Some(DeviceType::IntegratedGpu) => 1,
        Some(DeviceType::Host) => 2,
        // The host's processor behind a GPU interface, slower than as the host.
        Some(DeviceType::Cpu) => 3,
        // Last: no program gets a device of unknown type by default while there is another device.
        _ => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(
        backend: &str,
        index: u32,
        name: &str,
        kind: impl Into<Option<DeviceType>>,
    ) -> DeviceFacts {
        let kind = kind.into();
        DeviceFacts { backend: backend.into(), index, name: name.into(), uuid: None, kind }
    }

    fn machine() -> Vec<DeviceFacts> {
        let mut devices = vec![
            device("host", 0, "x86_64", DeviceType::Host),
            device("cuda", 0, "Big GPU", DeviceType::Gpu),
            device("cuda", 1, "Small GPU", DeviceType::Gpu),
            device("vulkan", 0, "llvmpipe (LLVM 15.0.6, 256 bits)", DeviceType::Cpu),
            device("vulkan", 1, "Tiny Graphics", DeviceType::IntegratedGpu),
            device("vulkan", 2, "Big GPU", DeviceType::Gpu),
        ];
        devices[2].uuid = Some(*b"\0\x01\x02\x03456789abcdef");
        devices
    }

    fn select(text: &str) -> Result<Vec<usize>> {
        DeviceSelection::parse(text)?.select(&machine())
    }

    #[test]
    fn unset_means_gpu_before_integrated_before_host_before_cpu_and_else_as_given() {
        let selection = DeviceSelection::default();
        assert_eq!(selection.select(&machine()), Ok(vec![1, 2, 5, 4, 0, 3]));
        assert_eq!(selection.select(&[]), Ok(vec![]));
    }

    #[test]
    fn a_device_of_unknown_kind_comes_last() {
        let mut devices = machine();
        devices.insert(0, device("mine", 0, "Prototype", None));
        let chosen = DeviceSelection::default().select(&devices).unwrap();
        assert_eq!(chosen, [2, 3, 6, 5, 1, 4, 0]);
    }

    #[test]
    fn preferred_backends_stay_together() {
        let selection = DeviceSelection::default().with_backends_first(true);
        assert_eq!(selection.select(&machine()), Ok(vec![0, 1, 2, 5, 4, 3]));
    }

    #[test]
    fn terms_and_entries_give_the_order_of_preference() {
        assert_eq!(select("vulkan:2,1;cuda:*;cuda:0"), Ok(vec![5, 4, 1, 2]));
        assert_eq!(select(" host : 0 ; CUDA:small* "), Ok(vec![0, 2]));
    }

    #[test]
    fn an_exclusion_holds_wherever_it_stands() {
        assert_eq!(select("!vulkan:*llvmpipe*;cuda:0;vulkan:*"), Ok(vec![1, 4, 5]));
        assert_eq!(select("cuda:0,1;vulkan:*;!vulkan:*LLVMpipe*"), Ok(vec![1, 2, 4, 5]));
    }

    #[test]
    fn exclusions_alone_mean_all_but_these_in_the_default_order() {
        assert_eq!(select("!cuda:*;!host:0"), Ok(vec![5, 4, 3]));
        assert_eq!(select("!cuda:*;!host:*;!vulkan:*"), Ok(vec![]));
    }

    #[test]
    fn a_uuid_selects_in_its_canonical_form() {
        assert_eq!(select("cuda:00010203-3435-3637-3839-616263646566"), Ok(vec![2]));
        assert_eq!(
            select("cuda:00010203-3435-3637-3839-61626364656F").unwrap_err().code(),
            ErrorCode::NotFound
        );
    }

    #[test]
    fn a_pattern_matches_the_whole_name() {
        assert_eq!(select("cuda:gpu").unwrap_err().code(), ErrorCode::NotFound);
        assert_eq!(select("vulkan:llvmpipe (LLVM 15.0.6? 256 bits)"), Ok(vec![3]));
    }

    #[test]
    fn a_term_without_match_is_an_error_that_lists_the_devices() {
        for text in ["cuda:7", "amdgpu:*", "cuda:0;!vulkan:*radv*", "cuda:0,nothing"] {
            let error = select(text).unwrap_err();
            assert_eq!(error.code(), ErrorCode::NotFound, "{text}");
            assert!(error.message().contains("cuda:0 \"Big GPU\""), "{error}");
        }
        let error = select("cuda:7").unwrap_err();
        assert!(error.message().contains("'cuda:7'"), "{error}");
        assert!(error.message().contains("00010203-3435-3637-3839-616263646566"), "{error}");
    }

    #[test]
    fn a_malformed_term_is_refused_with_term_and_grammar() {
        let bad = [
            "",
            ";",
            "cuda",
            "cuda:",
            "cuda:0,",
            ":0",
            "cuda:0;;",
            "!",
            "!!cuda:0",
            "cuda:99999999999",
            "cuda:[",
            "cuda 1:0",
        ];
        for text in bad {
            let error = DeviceSelection::parse(text).unwrap_err();
            assert_eq!(error.code(), ErrorCode::InvalidValue, "{text}");
            assert!(error.message().contains("\"backend:list\""), "{error}");
        }
        assert!(
            DeviceSelection::parse("cuda:0;vulkan").unwrap_err().message().contains("'vulkan'")
        );
    }
}
