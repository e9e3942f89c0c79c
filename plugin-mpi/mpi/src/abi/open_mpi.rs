//! Constants of Open MPI, of its versions 3 to 5 (`libmpi.so.40`).

use super::{Constants, Numbers, StatusLayout};

/// The constants; a handle is the address of the symbol of this name.
pub const CONSTANTS: Constants<&str> = Constants {
    comm_world: "ompi_mpi_comm_world",
    comm_self: "ompi_mpi_comm_self",
    comm_null: "ompi_mpi_comm_null",
    request_null: "ompi_request_null",
    info_null: "ompi_mpi_info_null",
    errors_return: "ompi_mpi_errors_return",
    byte: "ompi_mpi_byte",
    elements: [
        "ompi_mpi_int8_t",
        "ompi_mpi_uint8_t",
        "ompi_mpi_int16_t",
        "ompi_mpi_uint16_t",
        "ompi_mpi_int32_t",
        "ompi_mpi_uint32_t",
        "ompi_mpi_int64_t",
        "ompi_mpi_uint64_t",
        "ompi_mpi_float",
        "ompi_mpi_double",
    ],
    operations: [
        "ompi_mpi_op_sum",
        "ompi_mpi_op_prod",
        "ompi_mpi_op_min",
        "ompi_mpi_op_max",
        "ompi_mpi_op_band",
        "ompi_mpi_op_bor",
        "ompi_mpi_op_bxor",
    ],
    numbers: Numbers {
        any_source: -1,
        any_tag: -1,
        thread_levels: [0, 1, 2, 3],
        tag_ub: 0,
        status_ignore: 0,
        err_count: 2,
        err_arg: 13,
        err_unsupported_operation: 52,
    },
    status: StatusLayout { size: 6, source: 0, tag: 1, error: 2 },
};
