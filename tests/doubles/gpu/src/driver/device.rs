//! Devices.

use super::value::Out;
use super::{Code, Device, DriverResult, broken, driver, machine};

/// Stores the number of devices.
pub fn count(count: Out<i32>) -> DriverResult {
    count.put(machine()?.devices.len() as i32)
}

/// Stores the name of a device.
pub fn name(name: Out<u8>, room: i32, device: i32) -> DriverResult {
    machine()?.device(device)?;
    name.put_text(usize::try_from(room).unwrap_or(0), driver().vendor.device_name())
}

/// Stores a device's UUID: `bytes`, with the device's number added to the last byte.
pub fn uuid(uuid: Out<[u8; 16]>, device: i32, mut bytes: [u8; 16]) -> DriverResult {
    machine()?.device(device)?;
    bytes[15] += device as u8;
    uuid.put(bytes)
}

/// Stores a device's PCI address.
pub fn bus_id(text: Out<u8>, room: i32, device: i32) -> DriverResult {
    machine()?.device(device)?;
    let id = format!("0000:{:02X}:00.0", device + 1);
    text.put_text(usize::try_from(room).unwrap_or(0), &id)
}

/// Stores the value of an attribute by its number; `value_of` returns `None` for an unknown number.
pub fn attribute(
    value: Out<i32>,
    which: u32,
    device: i32,
    value_of: impl FnOnce(&Device) -> DriverResult<Option<i32>>,
) -> DriverResult {
    let found = value_of(machine()?.device(device)?)?;
    let none = || broken(Code::INVALID_VALUE, format!("unknown attribute of a device: {which}"));
    value.put(found.ok_or_else(none)?)
}

/// Stores the size of a device's memory.
pub fn total_memory(bytes: Out<usize>, device: i32) -> DriverResult {
    bytes.put(memory_of(device)?)
}

/// Returns the size of a device's memory in bytes, as a number.
///
/// # Errors
/// `INVALID_DEVICE`.
pub fn memory_of(device: i32) -> DriverResult<usize> {
    let (limit, _) = machine()?.device(device)?.window.usage();
    Ok(limit as usize)
}
