//! The text of the mapping table.

use crate::abi::SourceLocation;
use crate::device::OmpDevice;
use crate::entries::{self as offload, EntryKind};
use crate::mapping::table::Entry;
use crate::message;

/// Prints the mapping tables of all devices, after the construct at `place`.
#[cold]
pub(crate) fn tables(devices: &[&OmpDevice], place: &SourceLocation) {
    devices.iter().for_each(|device| table(device, place));
}

/// Prints the mapping tables of all devices when the last library is unregistered, last device
/// first.
#[cold]
pub(crate) fn tables_at_end(devices: &[&OmpDevice]) {
    let place = SourceLocation::for_library();
    devices.iter().rev().for_each(|device| table(device, &place));
}

/// Prints the mapping table of a device, after the construct at `place`.
pub(crate) fn table(device: &OmpDevice, place: &SourceLocation) {
    lines(device, place)
        .iter()
        .for_each(|line| message::info(device.number, format_args!("{line}")));
}

/// Returns the lines of the mapping table of a device.
pub(crate) fn lines(device: &OmpDevice, place: &SourceLocation) -> Vec<String> {
    let mut lines = Vec::new();
    let locked = device.table.lock();
    locked.for_each(|range| {
        let entry = locked.get(range.entry as u32);
        // SAFETY: names are C strings of the program.
        let name = unsafe { SourceLocation::for_variable(entry.name) };
        lines.push(format!(
            "{:#018x} {:#018x} {:<8} {:<11} {:<12} {} at {}:{}:{}",
            entry.begin,
            entry.target,
            entry.end - entry.begin,
            Entry::count_text(entry.dynamic),
            Entry::count_text(entry.hold),
            name.name,
            name.file,
            name.line,
            name.column
        ));
    });
    drop(locked);
    if lines.is_empty() {
        return vec!["OpenMP Host-Device pointer mappings table empty".to_owned()];
    }
    let title = format!(
        "OpenMP Host-Device pointer mappings after block at {}:{}:{}:",
        place.file, place.line, place.column
    );
    let header = format!(
        "{:<18} {:<18} {} {} {} {}",
        "Host Ptr", "Target Ptr", "Size (B)", "DynRefCount", "HoldRefCount", "Declaration"
    );
    [title, header].into_iter().chain(lines).collect()
}

/// Prints the entries of a library that a device has loaded. LLVM: `dumpOffloadEntries`.
#[cold]
pub(crate) fn entries(device: usize, entries: &[offload::Entry]) {
    let mut text = format!("Device {device} offload entries:\n");
    for entry in entries {
        let kind = match entry.kind {
            EntryKind::Kernel => "kernel",
            EntryKind::Link => "link",
            EntryKind::Variable => "global var.",
            _ => continue,
        };
        text += &format!("  {kind:>11}: {}\n", entry.name);
    }
    message::plain(format_args!("{text}"));
}
