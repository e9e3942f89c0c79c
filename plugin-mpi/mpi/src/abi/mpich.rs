//! Constants of the ABI of MPICH (`libmpi.so.12`, on Debian `libmpich.so.12`).

use super::{Constants, Numbers, StatusLayout};

/// The constants; a handle is an `int`.
pub const CONSTANTS: Constants<usize> = Constants {
    comm_world: 0x4400_0000,
    comm_self: 0x4400_0001,
    comm_null: 0x0400_0000,
    request_null: 0x2c00_0000,
    info_null: 0x1c00_0000,
    errors_return: 0x5400_0001,
    byte: 0x4c00_010d,
    elements: [
        0x4c00_0137,
        0x4c00_013b,
        0x4c00_0238,
        0x4c00_023c,
        0x4c00_0439,
        0x4c00_043d,
        0x4c00_083a,
        0x4c00_083e,
        0x4c00_040a,
        0x4c00_080b,
    ],
    operations: [
        0x5800_0003,
        0x5800_0004,
        0x5800_0002,
        0x5800_0001,
        0x5800_0006,
        0x5800_0008,
        0x5800_000a,
    ],
    numbers: Numbers {
        any_source: -2,
        any_tag: -1,
        thread_levels: [0, 1, 2, 3],
        tag_ub: 0x6440_0001,
        status_ignore: 1,
        err_count: 2,
        err_arg: 12,
        err_unsupported_operation: 44,
    },
    status: StatusLayout { size: 5, source: 2, tag: 3, error: 4 },
};
