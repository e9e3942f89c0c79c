//! Constants of each binary interface of MPI, which its header `mpi.h` otherwise supplies.

pub mod mpich;
pub mod open_mpi;
pub mod standard;

/// Size in bytes of memory for a string that a call writes, at least the limit of any library.
pub const MAX_STRING: usize = 8192;

/// Binary interface of an MPI library.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Implementation {
    /// Open MPI: handles are pointers, predefined ones are addresses of symbols.
    OpenMpi,
    /// ABI of MPICH, also of Intel MPI, Cray MPICH and MVAPICH: handles are `int`.
    Mpich,
    /// Standard ABI of MPI 5.0: handles are pointers, predefined ones are small numbers.
    Standard,
}

/// Constants of a binary interface. `H` is a predefined handle: its bits, or the name of the symbol
/// whose address it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Constants<H> {
    /// `MPI_COMM_WORLD`.
    pub comm_world: H,
    /// `MPI_COMM_SELF`.
    pub comm_self: H,
    /// `MPI_COMM_NULL`.
    pub comm_null: H,
    /// `MPI_REQUEST_NULL`.
    pub request_null: H,
    /// `MPI_INFO_NULL`.
    pub info_null: H,
    /// `MPI_ERRORS_RETURN`.
    pub errors_return: H,
    /// `MPI_BYTE`.
    pub byte: H,
    /// Types of elements, in the order of [`Element`](crate::Element).
    pub elements: [H; 10],
    /// Reductions, in the order of [`Operation`](crate::Operation).
    pub operations: [H; 7],
    /// Numbers, which all interfaces have.
    pub numbers: Numbers,
    /// Layout of `MPI_Status`.
    pub status: StatusLayout,
}

/// Constants of a binary interface that are numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Numbers {
    /// `MPI_ANY_SOURCE`.
    pub any_source: i32,
    /// `MPI_ANY_TAG`.
    pub any_tag: i32,
    /// Levels of thread support, in the order of [`ThreadLevel`](crate::ThreadLevel).
    pub thread_levels: [i32; 4],
    /// `MPI_TAG_UB`.
    pub tag_ub: i32,
    /// `MPI_STATUS_IGNORE`.
    pub status_ignore: usize,
    /// `MPI_ERR_COUNT`.
    pub err_count: i32,
    /// `MPI_ERR_ARG`.
    pub err_arg: i32,
    /// `MPI_ERR_UNSUPPORTED_OPERATION`.
    pub err_unsupported_operation: i32,
}

/// Layout of `MPI_Status`, in units of `int`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StatusLayout {
    /// Size of the structure.
    pub size: usize,
    /// Index of `MPI_SOURCE`.
    pub source: usize,
    /// Index of `MPI_TAG`.
    pub tag: usize,
    /// Index of `MPI_ERROR`.
    pub error: usize,
}

impl<H: Copy> Constants<H> {
    /// Returns these constants with other handles, or the first failure of `resolve`.
    ///
    /// # Errors
    /// Errors of `resolve`.
    pub fn resolve<R, E>(
        &self,
        mut resolve: impl FnMut(H) -> Result<R, E>,
    ) -> Result<Constants<R>, E> {
        Ok(Constants {
            comm_world: resolve(self.comm_world)?,
            comm_self: resolve(self.comm_self)?,
            comm_null: resolve(self.comm_null)?,
            request_null: resolve(self.request_null)?,
            info_null: resolve(self.info_null)?,
            errors_return: resolve(self.errors_return)?,
            byte: resolve(self.byte)?,
            elements: each(self.elements, &mut resolve)?,
            operations: each(self.operations, &mut resolve)?,
            numbers: self.numbers,
            status: self.status,
        })
    }
}

fn each<H: Copy, R, E, const N: usize>(
    handles: [H; N],
    mut resolve: impl FnMut(H) -> Result<R, E>,
) -> Result<[R; N], E> {
    let resolved: Vec<R> = handles.into_iter().map(&mut resolve).collect::<Result<_, E>>()?;
    Ok(resolved.try_into().unwrap_or_else(|_| unreachable!("the number of handles is kept")))
}
