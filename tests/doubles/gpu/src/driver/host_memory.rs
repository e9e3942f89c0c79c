//! Memory of the host that devices reach: allocated by the driver, or registered.

use super::blocks::Kind;
use super::context::{current, current_or_failed};
use super::memory::{allocate_shared, release, show_to_all};
use super::registration::Registration;
use super::{Code, DriverResult, Out, broken, machine};
use std::sync::Arc;

/// A flag of registered memory: devices reach it.
pub const REGISTER_DEVICE_MAP: u32 = 2;

const PAGE: usize = 4096;

/// Allocates page-locked memory. `known` has the valid flags.
pub fn allocate(address: Out<u64>, bytes: usize, flags: u32, known: u32) -> DriverResult {
    let context = current()?;
    if bytes == 0 || address.is_null() || flags & !known != 0 {
        let what = format!("host memory of {bytes} bytes with flags {flags:#x}");
        return Err(broken(Code::INVALID_VALUE, what));
    }
    let block = allocate_shared(&context, Kind::Pinned, bytes as u64, flags.into())?;
    address.put(block.address)
}

/// Frees page-locked memory. Waits for the devices.
pub fn free(address: u64) -> DriverResult {
    let context = current_or_failed()?;
    if address == 0 {
        return context.check();
    }
    let machine = machine()?;
    let block = machine.blocks.to_free(address, |kind| matches!(kind, Kind::Pinned))?;
    for device in 0..machine.devices.len() {
        machine.wait_for_device(device);
    }
    release(machine, &block);
    context.check()
}

/// Returns whether the driver has memory at this address.
///
/// # Errors
/// If it is not initialised.
pub fn is_known(address: u64) -> DriverResult<bool> {
    Ok(machine()?.blocks.find(address).is_some())
}

/// Registers memory of the program, for which the devices get an address of their own. `known` has
/// the valid flags.
pub fn register(address: usize, bytes: usize, flags: u32, known: u32) -> DriverResult {
    let context = current()?;
    if address == 0 || bytes == 0 || flags & !known != 0 || address.checked_add(bytes).is_none() {
        let what = format!("{bytes} bytes at {address:#x} are registered with flags {flags:#x}");
        return Err(broken(Code::INVALID_VALUE, what));
    }
    let machine = machine()?;
    if let Some(block) = machine.blocks.overlapping(address as u64, bytes as u64) {
        return match block.kind {
            Kind::Registered(_) | Kind::Pinned => Err(Code::HOST_MEMORY_ALREADY_REGISTERED),
            _ => Err(broken(Code::INVALID_VALUE, format!("{} is registered", block.describe()))),
        };
    }
    let offset = (address % PAGE) as u64;
    let shadow = machine.shared.allocate(bytes as u64, Some(offset)).ok_or(Code::OUT_OF_MEMORY)?;
    let alias = machine.shared.alias_of(shadow);
    let registration = Arc::new(Registration::new(address, bytes, alias, shadow));
    let (blocks, bytes, flags) = (&machine.blocks, bytes as u64, flags.into());
    let kind = Kind::Registered(Arc::clone(&registration));
    blocks.add(&context, kind, address as u64, bytes, flags);
    let block = blocks.add(&context, Kind::Shadow(registration), shadow, bytes, flags);
    show_to_all(machine, &block, true)
}

/// Ends a registration. Waits for the devices.
pub fn unregister(address: u64) -> DriverResult {
    let context = current_or_failed()?;
    let machine = machine()?;
    let found = machine.blocks.find(address).filter(|block| block.address == address);
    let registration = match found.as_ref().map(|block| &block.kind) {
        Some(Kind::Registered(registration)) => Arc::clone(registration),
        _ => {
            let what = format!("{} is unregistered", machine.blocks.describe(address));
            return Err(broken(Code::HOST_MEMORY_NOT_REGISTERED, what));
        }
    };
    for device in 0..machine.devices.len() {
        machine.wait_for_device(device);
    }
    for block in [found, machine.blocks.find(registration.address)].into_iter().flatten() {
        release(machine, &block);
    }
    context.check()
}

/// Stores the devices' address for an address of the host.
pub fn device_pointer(device: Out<u64>, address: u64, flags: u32) -> DriverResult {
    current()?;
    if flags != 0 {
        return Err(broken(Code::INVALID_VALUE, format!("flags are {flags:#x}, expected 0")));
    }
    let blocks = &machine()?.blocks;
    let block = blocks.find(address);
    match block.as_ref().map(|block| (&block.kind, block)) {
        Some((Kind::Pinned, _)) => device.put(address),
        Some((Kind::Registered(registration), block)) => {
            if block.flags & u64::from(REGISTER_DEVICE_MAP) == 0 {
                let what = "the device's address of memory registered without a mapping";
                return Err(broken(Code::INVALID_VALUE, what));
            }
            device.put(registration.address + (address - block.address))
        }
        _ => {
            let what = format!("{} is no host memory of the driver", blocks.describe(address));
            Err(broken(Code::INVALID_VALUE, what))
        }
    }
}

/// Stores the flags with which host memory was allocated or registered.
pub fn flags(flags: Out<u32>, address: u64) -> DriverResult {
    current()?;
    match machine()?.blocks.find(address) {
        Some(block) if matches!(block.kind, Kind::Pinned | Kind::Registered(_)) => {
            flags.put(block.flags as u32)
        }
        _ => Err(Code::INVALID_VALUE),
    }
}
