//! What devices are: an H100's numbers, but for those that depend on the compute capability and for the number of
//! multiprocessors, which is as small as what stands in for them.

use crate::machine::Machine;

/// The most items of a group.
pub(crate) const MOST_ITEMS: u32 = 1024;
/// The same in each dimension.
pub(crate) const MOST_ITEMS_BY_DIMENSION: [u32; 3] = [1024, 1024, 64];
/// Items that a multiprocessor runs at a time.
pub(crate) const ITEMS_OF_MULTIPROCESSOR: u32 = 2048;
/// Registers of a multiprocessor, and of a group.
pub(crate) const REGISTERS_OF_MULTIPROCESSOR: u32 = 65536;

/// What twins can have, as they run on a CPU: less than GPUs have since sm_80.
const TWINS_SHARED_BYTES: u32 = 65536;

/// The most shared memory of a group that asks for it.
pub(crate) fn shared_bytes_optin(capability: (u32, u32)) -> u32 {
    match capability {
        (major, _) if major >= 7 => TWINS_SHARED_BYTES,
        _ => 49152,
    }
}

/// Shared memory of a multiprocessor.
pub(crate) fn shared_bytes_of_multiprocessor(capability: (u32, u32)) -> u32 {
    match capability {
        (7, 0 | 2) => 98304,
        (7, _) => 65536,
        (8, 0 | 7) => 167_936,
        (8, _) | (12, _) => 102_400,
        (major, _) if major >= 9 => 233_472,
        _ => 65536,
    }
}

/// The most groups that a multiprocessor runs at a time.
pub(crate) fn most_groups_of_multiprocessor(capability: (u32, u32)) -> u32 {
    match capability {
        (7, 5) | (8, 6 | 7) => 16,
        (8, 9) | (12, _) => 24,
        _ => 32,
    }
}

/// Whether there are clusters of groups.
pub(crate) fn has_clusters(capability: (u32, u32)) -> bool {
    capability.0 >= 9
}

/// An attribute of a device by its number; `None` if there is no such attribute.
pub(crate) fn value(machine: &Machine, device: usize, which: u32) -> Option<i32> {
    let capability = machine.capability;
    let yes = |condition: bool| i32::from(condition);
    Some(match which {
        // What a launch can be.
        1 => MOST_ITEMS as i32,
        2 => MOST_ITEMS_BY_DIMENSION[0] as i32,
        3 => MOST_ITEMS_BY_DIMENSION[1] as i32,
        4 => MOST_ITEMS_BY_DIMENSION[2] as i32,
        5 => i32::MAX,
        6 | 7 => 65535,
        8 => 49152,
        10 => 32,
        12 | 82 => REGISTERS_OF_MULTIPROCESSOR as i32,
        16 => machine.multiprocessors as i32,
        39 => ITEMS_OF_MULTIPROCESSOR as i32,
        81 => shared_bytes_of_multiprocessor(capability) as i32,
        95 => 1,
        97 => shared_bytes_optin(capability) as i32,
        106 => most_groups_of_multiprocessor(capability) as i32,
        111 => yes(capability.0 >= 8) * 1024,
        120 => yes(has_clusters(capability)),
        // Identity.
        33 => device as i32 + 1,
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
        // What there is.
        15 | 19 | 31 | 41 | 43 | 78 | 79 | 80 | 90 | 99 => 1,
        17 | 18 | 20 | 32 | 35 | 84 | 85 | 86 | 88 | 91..=94 | 96 | 98 | 100 | 101 => 0,
        83 | 89 => yes(machine.has_managed),
        115 => yes(machine.has_pools),
        119 => 0,
        102..=105 | 107 | 110 | 112..=114 | 116..=118 | 121..=162 => 0,
        // Textures, which there are none of.
        21..=30 | 42 | 44..=49 | 52..=74 | 77 => 0,
        _ => return None,
    })
}
