//! Attributes of devices: an H100's values, except for the values that depend on the compute
//! capability. The number of multiprocessors is small, as a CPU runs the kernels.

use longshore_double_gpu::Settings;
use longshore_double_gpu::driver::{
    Device, DriverResult, Limits, Machine, Out, device, driver, machine,
};

/// Maximum of a group's shared memory in bytes for twins, which run on a CPU: less than on GPUs
/// since sm_80.
const TWINS_SHARED_BYTES: u32 = 65536;

/// Stores the handle of a device, which is its number.
pub(crate) fn device(device: Out<i32>, ordinal: i32) -> DriverResult {
    machine()?.device(ordinal)?;
    device.put(ordinal)
}

/// Stores an attribute of a device.
pub(crate) fn attribute(value: Out<i32>, which: u32, device: i32) -> DriverResult {
    device::attribute(value, which, device, |found| value_of(machine()?, found, device, which))
}

/// Returns the maximum of a group's shared memory in bytes, with a raised attribute.
pub(crate) fn shared_bytes_optin(capability: (u32, u32)) -> u32 {
    match capability {
        (major, _) if major >= 7 => TWINS_SHARED_BYTES,
        _ => 49152,
    }
}

/// Returns the compute capability.
pub(crate) fn capability(settings: &Settings) -> (u32, u32) {
    settings.version("capability", (9, 0))
}

/// Returns the limits of a device.
pub(crate) fn limits(capability: (u32, u32)) -> Limits {
    Limits {
        items: 1024,
        items_by_dimension: [1024, 1024, 64],
        groups: [i32::MAX as u32, 65535, 65535],
        sub_group: 32,
        shared_bytes: 48 << 10,
        items_of_multiprocessor: 2048,
        groups_of_multiprocessor: most_groups_of_multiprocessor(capability),
        registers_of_multiprocessor: 65536,
        shared_bytes_of_multiprocessor: shared_bytes_of_multiprocessor(capability),
    }
}

/// Returns the shared memory of a multiprocessor in bytes.
fn shared_bytes_of_multiprocessor(capability: (u32, u32)) -> u32 {
    match capability {
        (7, 0 | 2) => 98304,
        (7, _) => 65536,
        (8, 0 | 7) => 167_936,
        (8, _) | (12, _) => 102_400,
        (major, _) if major >= 9 => 233_472,
        _ => 65536,
    }
}

/// Returns the maximum number of groups that run on a multiprocessor at a time.
fn most_groups_of_multiprocessor(capability: (u32, u32)) -> u32 {
    match capability {
        (7, 5) | (8, 6 | 7) => 16,
        (8, 9) | (12, _) => 24,
        _ => 32,
    }
}

/// Returns whether the device has clusters of groups.
pub(crate) fn has_clusters(capability: (u32, u32)) -> bool {
    capability.0 >= 9
}

/// Returns an attribute by its number; `None` if there is no such attribute.
fn value_of(
    machine: &Machine,
    found: &Device,
    device: i32,
    which: u32,
) -> DriverResult<Option<i32>> {
    let (capability, limits) = (capability(&driver().settings), &found.limits);
    let yes = |condition: bool| i32::from(condition);
    Ok(Some(match which {
        // Limits of launches.
        1 => limits.items as i32,
        2..=4 => limits.items_by_dimension[which as usize - 2] as i32,
        5..=7 => limits.groups[which as usize - 5] as i32,
        8 => limits.shared_bytes as i32,
        10 => limits.sub_group as i32,
        12 | 82 => limits.registers_of_multiprocessor as i32,
        16 => machine.multiprocessors as i32,
        39 => limits.items_of_multiprocessor as i32,
        81 => limits.shared_bytes_of_multiprocessor as i32,
        95 => 1,
        97 => shared_bytes_optin(capability) as i32,
        106 => limits.groups_of_multiprocessor as i32,
        111 => yes(capability.0 >= 8) * 1024,
        120 => yes(has_clusters(capability)),
        // Identity.
        33 => device + 1,
        34 | 50 => 0,
        75 => capability.0 as i32,
        76 => capability.1 as i32,
        // Rates, sizes and widths.
        9 => 65536,
        11 => i32::MAX,
        13 => 1_980_000,
        14 => 512,
        36 => 2_619_000,
        37 => 5120,
        38 => 50 << 20,
        40 => 3,
        51 => 32,
        87 => 2,
        108 => 32 << 20,
        109 => 128 << 20,
        // Features.
        15 | 19 | 31 | 41 | 43 | 78 | 79 | 80 | 90 | 99 => 1,
        17 | 18 | 20 | 32 | 35 | 84 | 85 | 86 | 91..=94 | 96 | 98 | 100 | 101 => 0,
        83 | 89 => yes(machine.has_managed),
        88 => yes(machine.has_pageable),
        115 => yes(machine.has_pools),
        119 => 0,
        102..=105 | 107 | 110 | 112..=114 | 116..=118 | 121..=162 => 0,
        // Textures, which the double lacks.
        21..=30 | 42 | 44..=49 | 52..=74 | 77 => 0,
        _ => return Ok(None),
    }))
}
