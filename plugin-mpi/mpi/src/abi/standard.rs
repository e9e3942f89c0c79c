//! Constants of the standard ABI of MPI 5.0 (`libmpi_abi.so.1`).

use super::{Constants, Numbers, StatusLayout};

/// The constants; a handle is a pointer with this small value.
pub const CONSTANTS: Constants<usize> = Constants {
    comm_world: 0x101,
    comm_self: 0x102,
    comm_null: 0x100,
    request_null: 0x180,
    info_null: 0x130,
    errors_return: 0x142,
    byte: 0x247,
    elements: [0x240, 0x241, 0x248, 0x249, 0x250, 0x251, 0x258, 0x259, 0x210, 0x214],
    operations: [0x21, 0x24, 0x22, 0x23, 0x28, 0x29, 0x2a],
    numbers: Numbers {
        any_source: -1,
        any_tag: -2,
        undefined: -32766,
        thread_levels: [0, 1024, 2048, 4096],
        tag_ub: 501,
        appnum: 505,
        status_ignore: 0,
        in_place: 1,
        err_count: 2,
        err_arg: 13,
        err_unsupported_operation: 55,
    },
    status: StatusLayout { size: 8, source: 0, tag: 1, error: 2 },
};
