//! Constants of the standard ABI of MPI 5.0 (`libmpi_abi.so.1`).
//!
//! The MPI Forum's header had another value for one of them until October 2025. Intel MPI 2021.19
//! still has it, under the same version of the ABI. `MPI_LASTUSEDCODE` is always set, which
//! shows the value of a library.

use super::{Constants, Numbers, StatusLayout};

/// The constants; a handle is a pointer with this small value.
pub const CONSTANTS: Constants<usize> = Constants {
    comm_world: 0x101,
    comm_self: 0x102,
    comm_null: 0x100,
    request_null: 0x180,
    info_null: 0x130,
    errors_return: 0x143,
    byte: 0x247,
    elements: [0x240, 0x241, 0x248, 0x249, 0x250, 0x251, 0x258, 0x259, 0x210, 0x214],
    operations: [0x21, 0x24, 0x22, 0x23, 0x28, 0x29, 0x2a],
    numbers: Numbers {
        any_source: -1,
        any_tag: -2,
        thread_levels: [0, 1024, 2048, 4096],
        tag_ub: 501,
        status_ignore: 0,
        err_count: 2,
        err_arg: 13,
        err_unsupported_operation: 55,
    },
    status: StatusLayout { size: 8, source: 0, tag: 1, error: 2 },
};

/// Earlier value of `MPI_ERRORS_RETURN`.
pub const EARLIER_ERRORS_RETURN: usize = 0x142;
/// `MPI_LASTUSEDCODE`.
pub const LASTUSEDCODE: i32 = 506;
/// `MPI_ERR_LASTCODE`, the least value of that attribute.
pub const ERR_LASTCODE: i32 = 0x3fff;
