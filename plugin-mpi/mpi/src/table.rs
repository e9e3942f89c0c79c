//! The table of functions of a library. Their documentation is the MPI standard.

use crate::handle::{Comm, Datatype, Errhandler, Group, Info, Op, Request};
use crate::library::Symbols;
use std::ffi::{c_char, c_int, c_void};

#[cfg(test)]
mod tests;

/// Memory for an `MPI_Status` of any library.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(crate) struct RawStatus(pub(crate) [c_int; 8]);

/// Function that copies an attribute of a communicator.
pub(crate) type CopyFunction =
    unsafe extern "C" fn(Comm, c_int, *mut c_void, *mut c_void, *mut c_void, *mut c_int) -> c_int;

/// Function that deletes an attribute of a communicator.
pub(crate) type DeleteFunction =
    unsafe extern "C" fn(Comm, c_int, *mut c_void, *mut c_void) -> c_int;

impl RawStatus {
    /// Zeroed memory, as a call need not write all of it.
    pub(crate) const UNSET: RawStatus = RawStatus([0; 8]);
}

macro_rules! functions {
    (
        required { $($name:ident($($parameter:ty),* $(,)?) $(-> $result:ty)?;)* }
        optional { $($extra:ident($($extra_parameter:ty),* $(,)?) $(-> $extra_result:ty)?;)* }
    ) => {
        /// Functions of a library, under their names in C.
        #[allow(non_snake_case, reason = "the names are C's")]
        pub(crate) struct Functions {
            $(pub(crate) $name: unsafe extern "C" fn($($parameter),*) $(-> $result)?,)*
            $(pub(crate) $extra:
                Option<unsafe extern "C" fn($($extra_parameter),*) $(-> $extra_result)?>,)*
        }

        /// Required functions, each with its parameters and its result, in Rust.
        #[cfg(test)]
        const SIGNATURES: &[(&str, &[&str], &str)] = &[
            $((stringify!($name), &[$(stringify!($parameter)),*], stringify!($($result)?)),)*
        ];

        impl Functions {
            /// Finds the functions, or returns the name of a missing one.
            ///
            /// # Safety
            /// The symbols are from an MPI library.
            pub(crate) unsafe fn find(symbols: &Symbols) -> Result<Functions, &'static str> {
                Ok(Functions {
                    $($name: {
                        // SAFETY: by the MPI standard, the function has these parameters.
                        let found = unsafe { symbols.function(stringify!($name)) };
                        found.ok_or(stringify!($name))?
                    },)*
                    $($extra: {
                        // SAFETY: the libraries with this extension declare these parameters.
                        unsafe { symbols.function(stringify!($extra)) }
                    },)*
                })
            }
        }
    };
}

functions! {
    required {
        MPI_Abort(Comm, c_int) -> c_int;
        MPI_Barrier(Comm) -> c_int;
        MPI_Bcast(*mut c_void, c_int, Datatype, c_int, Comm) -> c_int;
        MPI_Cancel(*mut Request) -> c_int;
        MPI_Comm_create_keyval(
            CopyFunction, DeleteFunction, *mut c_int, *mut c_void,
        ) -> c_int;
        MPI_Comm_set_attr(Comm, c_int, *mut c_void) -> c_int;
        MPI_Comm_create_group(Comm, Group, c_int, *mut Comm) -> c_int;
        MPI_Comm_dup(Comm, *mut Comm) -> c_int;
        MPI_Comm_free(*mut Comm) -> c_int;
        MPI_Comm_get_attr(Comm, c_int, *mut c_void, *mut c_int) -> c_int;
        MPI_Comm_get_parent(*mut Comm) -> c_int;
        MPI_Comm_group(Comm, *mut Group) -> c_int;
        MPI_Comm_rank(Comm, *mut c_int) -> c_int;
        MPI_Comm_set_errhandler(Comm, Errhandler) -> c_int;
        MPI_Comm_size(Comm, *mut c_int) -> c_int;
        MPI_Comm_spawn(
            *const c_char, *mut *mut c_char, c_int, Info, c_int, Comm, *mut Comm, *mut c_int,
        ) -> c_int;
        MPI_Error_class(c_int, *mut c_int) -> c_int;
        MPI_Error_string(c_int, *mut c_char, *mut c_int) -> c_int;
        MPI_Finalize() -> c_int;
        MPI_Finalized(*mut c_int) -> c_int;
        MPI_Get_count(*const RawStatus, Datatype, *mut c_int) -> c_int;
        MPI_Get_library_version(*mut c_char, *mut c_int) -> c_int;
        MPI_Get_processor_name(*mut c_char, *mut c_int) -> c_int;
        MPI_Group_free(*mut Group) -> c_int;
        MPI_Group_incl(Group, c_int, *const c_int, *mut Group) -> c_int;
        MPI_Group_size(Group, *mut c_int) -> c_int;
        MPI_Group_translate_ranks(Group, c_int, *const c_int, Group, *mut c_int) -> c_int;
        MPI_Iallgather(
            *const c_void, c_int, Datatype, *mut c_void, c_int, Datatype, Comm, *mut Request,
        ) -> c_int;
        MPI_Iallreduce(
            *const c_void, *mut c_void, c_int, Datatype, Op, Comm, *mut Request,
        ) -> c_int;
        MPI_Ibcast(*mut c_void, c_int, Datatype, c_int, Comm, *mut Request) -> c_int;
        MPI_Igather(
            *const c_void, c_int, Datatype, *mut c_void, c_int, Datatype, c_int, Comm,
            *mut Request,
        ) -> c_int;
        MPI_Init_thread(*mut c_int, *mut *mut *mut c_char, c_int, *mut c_int) -> c_int;
        MPI_Initialized(*mut c_int) -> c_int;
        MPI_Intercomm_merge(Comm, c_int, *mut Comm) -> c_int;
        MPI_Iprobe(c_int, c_int, Comm, *mut c_int, *mut RawStatus) -> c_int;
        MPI_Irecv(*mut c_void, c_int, Datatype, c_int, c_int, Comm, *mut Request) -> c_int;
        MPI_Ireduce(
            *const c_void, *mut c_void, c_int, Datatype, Op, c_int, Comm, *mut Request,
        ) -> c_int;
        MPI_Is_thread_main(*mut c_int) -> c_int;
        MPI_Isend(*const c_void, c_int, Datatype, c_int, c_int, Comm, *mut Request) -> c_int;
        MPI_Query_thread(*mut c_int) -> c_int;
        MPI_Recv(*mut c_void, c_int, Datatype, c_int, c_int, Comm, *mut RawStatus) -> c_int;
        MPI_Send(*const c_void, c_int, Datatype, c_int, c_int, Comm) -> c_int;
        MPI_Test(*mut Request, *mut c_int, *mut RawStatus) -> c_int;
        MPI_Wait(*mut Request, *mut RawStatus) -> c_int;
    }
    optional {
        MPIX_Comm_get_failed(Comm, *mut Group) -> c_int;
        MPIX_Comm_revoke(Comm) -> c_int;
        MPIX_Query_cuda_support() -> c_int;
        MPIX_Query_hip_support() -> c_int;
        MPIX_Query_rocm_support() -> c_int;
        MPIX_Query_ze_support() -> c_int;
    }
}
