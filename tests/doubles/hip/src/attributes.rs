//! Attributes of devices: an MI210's values, except for the values that depend on the target. The
//! number of compute units is small, as a CPU runs the kernels.

use crate::version;
use longshore_double_gpu::driver::device::{self, memory_of};
use longshore_double_gpu::driver::{Code, Device, DriverResult, Limits, Machine, Out, machine};
use longshore_format_amdgpu::Target;

/// First number of AMD's own attributes.
const OWN: u32 = 10_000;
/// Numbers of attributes that HIP 5 lacks.
const LATER: [std::ops::RangeInclusive<u32>; 2] = [90..=99, OWN + 17..=OWN + 22];

/// Returns the limits of a device. Since gfx10, wavefronts have 32 items.
pub(crate) fn limits(target: &Target) -> Limits {
    let is_narrow = target.processor.starts_with("gfx1");
    Limits {
        items: 1024,
        items_by_dimension: [1024; 3],
        groups: [i32::MAX as u32, 65536, 65536],
        sub_group: if is_narrow { 32 } else { 64 },
        shared_bytes: 65536,
        items_of_multiprocessor: 2048,
        groups_of_multiprocessor: 32,
        registers_of_multiprocessor: 131_072,
        shared_bytes_of_multiprocessor: 65536,
    }
}

/// Stores an attribute of a device. An attribute of a later version is an ordinary error, not a
/// violation.
pub(crate) fn attribute(value: Out<i32>, which: u32, device: i32) -> DriverResult {
    if version::major() < 6 && LATER.iter().any(|numbers| numbers.contains(&which)) {
        return Err(Code::INVALID_VALUE);
    }
    device::attribute(value, which, device, |found| value_of(machine()?, found, device, which))
}

/// Returns an attribute by its number; `None` if there is no such attribute.
fn value_of(
    machine: &Machine,
    found: &Device,
    device: i32,
    which: u32,
) -> DriverResult<Option<i32>> {
    let limits = &found.limits;
    let yes = |condition: bool| i32::from(condition);
    Ok(Some(match which {
        // Limits of launches.
        26..=28 => limits.items_by_dimension[which as usize - 26] as i32,
        29..=31 => limits.groups[which as usize - 29] as i32,
        55 => limits.items_by_dimension[0] as i32,
        56 => limits.items as i32,
        57 => limits.items_of_multiprocessor as i32,
        25 => (limits.items_of_multiprocessor / limits.items) as i32,
        63 => machine.multiprocessors as i32,
        71 | 72 => limits.registers_of_multiprocessor as i32,
        74 => limits.shared_bytes as i32,
        76 => limits.shared_bytes_of_multiprocessor as i32,
        87 => limits.sub_group as i32,
        10 => 1,
        // Identity.
        67 => device + 1,
        23 => 9,
        61 | 68 | 69 => 0,
        // Rates, sizes and widths.
        5 => 1_700_000,
        19 => 8 << 20,
        58 | 83 => i32::MAX,
        59 => 4096,
        60 => 1_600_000,
        81 => 256,
        84 => i32::try_from(memory_of(device)?).unwrap_or(i32::MAX),
        // Features.
        0 | 2 | 3 | 8 | 12 | 14 | 20 | 78 | 85 | 90 => 1,
        9 | 24 => yes(machine.has_managed),
        65 => yes(machine.has_pageable),
        88 => yes(machine.has_pools),
        // Missing features, and textures.
        1 | 4 | 6 | 7 | 11 | 13 | 15..=18 | 21 | 22 | 32..=54 | 62 | 64 | 66 => 0,
        70 | 73 | 75 | 77 | 79 | 80 | 82 | 86 | 89 | 91..=99 => 0,
        OWN | 10_017 => 100_000,
        10_002 => limits.shared_bytes_of_multiprocessor as i32,
        10_013 | 10_016 | 10_018 => 1,
        10_015 => machine.multiprocessors as i32,
        10_001..=10_022 => 0,
        _ => return Ok(None),
    }))
}
