//! Devices.

use crate::attributes;
use crate::code::{Answer, Code};
use crate::driver::{broken, machine};
use crate::value::Out;

/// So that nobody takes it for a device.
const NAME: &str = "Longshore double of an NVIDIA GPU";

pub(crate) fn count(count: Out<i32>) -> Answer {
    count.put(machine()?.devices.len() as i32)
}

pub(crate) fn get(device: Out<i32>, ordinal: i32) -> Answer {
    machine()?.device(ordinal)?;
    device.put(ordinal)
}

pub(crate) fn name(name: Out<u8>, room: i32, device: i32) -> Answer {
    machine()?.device(device)?;
    name.put_text(usize::try_from(room).unwrap_or(0), NAME)
}

pub(crate) fn uuid(uuid: Out<[u8; 16]>, device: i32) -> Answer {
    machine()?.device(device)?;
    let mut bytes = *b"longshore-double";
    bytes[15] = device as u8;
    uuid.put(bytes)
}

pub(crate) fn bus_id(text: Out<u8>, room: i32, device: i32) -> Answer {
    machine()?.device(device)?;
    let id = format!("0000:{:02X}:00.0", device + 1);
    text.put_text(usize::try_from(room).unwrap_or(0), &id)
}

pub(crate) fn total_memory(bytes: Out<usize>, device: i32) -> Answer {
    let (limit, _) = machine()?.device(device)?.window.usage();
    bytes.put(limit as usize)
}

pub(crate) fn attribute(value: Out<i32>, which: u32, device: i32) -> Answer {
    let machine = machine()?;
    machine.device(device)?;
    let found = attributes::value(machine, device as usize, which).ok_or_else(|| {
        broken(Code::INVALID_VALUE, format!("{which} is no attribute of devices"))
    })?;
    value.put(found)
}
