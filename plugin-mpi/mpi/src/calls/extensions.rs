//! Extensions that only some libraries have.

use super::call;
use crate::handle::{Comm, Group};
use crate::{Implementation, Mpi, MpiError};
use std::ffi::c_int;

/// Extension function that tells of support for a kind of GPU.
type Query = Option<unsafe extern "C" fn() -> c_int>;

impl Mpi {
    /// Returns whether messages may lie in memory of CUDA, `None` where the library does not tell.
    /// MPI is initialized.
    pub fn query_cuda_support(&self) -> Option<bool> {
        query(self.functions.MPIX_Query_cuda_support)
    }

    /// Returns whether messages may lie in memory of HIP, `None` where the library does not tell.
    /// MPI is initialized.
    pub fn query_rocm_support(&self) -> Option<bool> {
        let functions = &self.functions;
        query(functions.MPIX_Query_rocm_support.or(functions.MPIX_Query_hip_support))
    }

    /// Returns whether messages may lie in memory of Level Zero, `None` where the library does not
    /// tell. MPI is initialized.
    pub fn query_ze_support(&self) -> Option<bool> {
        query(self.functions.MPIX_Query_ze_support)
    }

    /// Returns whether the library has User-Level Failure Mitigation. A launch may still disable
    /// it. `false` for MPICH, whose functions for it end the process.
    pub fn has_ulfm(&self) -> bool {
        let functions = &self.functions;
        let is_complete =
            functions.MPIX_Comm_revoke.is_some() && functions.MPIX_Comm_get_failed.is_some();
        is_complete && self.implementation() != Implementation::Mpich
    }

    /// Returns the ranks of processes of a communicator that are known to have failed. MPICH has
    /// this function since its version 4.1.
    ///
    /// # Errors
    /// Errors of the library, also where it has no such function.
    pub fn comm_get_failed(&self, comm: Comm) -> Result<Vec<i32>, MpiError> {
        const FUNCTION: &str = "MPIX_Comm_get_failed";
        let get_failed = self.functions.MPIX_Comm_get_failed;
        let get_failed = get_failed.ok_or_else(|| self.unsupported(FUNCTION))?;
        let mut failed = Group::UNSET;
        // SAFETY: the output is a zeroed local variable.
        self.check(FUNCTION, unsafe { get_failed(comm, &mut failed) })?;
        let ranks = self.ranks_in(comm, failed);
        self.free_group(failed)?;
        ranks
    }

    /// Returns the ranks in a communicator of all members of a group.
    fn ranks_in(&self, comm: Comm, group: Group) -> Result<Vec<i32>, MpiError> {
        let mut size = 0;
        // SAFETY: the output is a local variable.
        unsafe { call!(self.MPI_Group_size(group, &mut size)) }?;
        let members: Vec<i32> = (0..size).collect();
        let mut ranks = vec![0; members.len()];
        let all = self.group_of(comm)?;
        let (from, to) = (members.as_ptr(), ranks.as_mut_ptr());
        // SAFETY: both lists have `size` elements.
        let result = unsafe { call!(self.MPI_Group_translate_ranks(group, size, from, all, to)) };
        self.free_group(all)?;
        result.map(|()| ranks)
    }

    /// Describes the lack of an extension.
    #[cold]
    fn unsupported(&self, function: &'static str) -> MpiError {
        let class = self.constants.numbers.err_unsupported_operation;
        let text = format!("'{}' lacks this function", self.path().display());
        MpiError { function, code: class, class, text }
    }
}

fn query(function: Query) -> Option<bool> {
    // SAFETY: the function has no parameter.
    function.map(|function| unsafe { function() } != 0)
}
