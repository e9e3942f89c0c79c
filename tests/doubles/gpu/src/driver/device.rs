//! Devices.

use super::value::Out;
use super::{Answer, Code, Device, broken, driver, machine};

/// How many there are.
pub fn count(count: Out<i32>) -> Answer {
    count.put(machine()?.devices.len() as i32)
}

/// The name of a device.
pub fn name(name: Out<u8>, room: i32, device: i32) -> Answer {
    machine()?.device(device)?;
    name.put_text(usize::try_from(room).unwrap_or(0), driver().vendor.device_name())
}

/// What tells a device from others: these bytes, with the device's number added to the last.
pub fn uuid(uuid: Out<[u8; 16]>, device: i32, mut bytes: [u8; 16]) -> Answer {
    machine()?.device(device)?;
    bytes[15] += device as u8;
    uuid.put(bytes)
}

/// Where a device is.
pub fn bus_id(text: Out<u8>, room: i32, device: i32) -> Answer {
    machine()?.device(device)?;
    let id = format!("0000:{:02X}:00.0", device + 1);
    text.put_text(usize::try_from(room).unwrap_or(0), &id)
}

/// An attribute by its number, which `of` knows if there is such an attribute.
pub fn attribute(
    value: Out<i32>,
    which: u32,
    device: i32,
    of: impl FnOnce(&Device) -> Answer<Option<i32>>,
) -> Answer {
    let found = of(machine()?.device(device)?)?;
    let none = || broken(Code::INVALID_VALUE, format!("{which} is no attribute of devices"));
    value.put(found.ok_or_else(none)?)
}

/// The memory of a device.
pub fn total_memory(bytes: Out<usize>, device: i32) -> Answer {
    bytes.put(memory_of(device)?)
}

/// The same as a number.
///
/// # Errors
/// `INVALID_DEVICE`.
pub fn memory_of(device: i32) -> Answer<usize> {
    let (limit, _) = machine()?.device(device)?.window.usage();
    Ok(limit as usize)
}
