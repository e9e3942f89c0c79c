//! Calls on communicators and groups.

use super::call;
use crate::abi::standard;
use crate::handle::{Comm, Errhandler, Group, Request};
use crate::{Mpi, MpiError};

impl Mpi {
    /// Returns the communicator of all processes.
    pub fn world(&self) -> Comm {
        Comm(self.constants.comm_world)
    }

    /// Returns the communicator of this process alone.
    pub fn self_comm(&self) -> Comm {
        Comm(self.constants.comm_self)
    }

    /// Returns the handle of no communicator.
    pub fn null_comm(&self) -> Comm {
        Comm(self.constants.comm_null)
    }

    /// Returns the handle of no request.
    #[inline]
    pub fn null_request(&self) -> Request {
        Request(self.constants.request_null)
    }

    /// Returns the rank of this process.
    ///
    /// # Errors
    /// Errors of the library.
    pub fn rank(&self, comm: Comm) -> Result<i32, MpiError> {
        let mut rank = 0;
        // SAFETY: the output is a local variable.
        unsafe { call!(self.MPI_Comm_rank(comm, &mut rank)) }?;
        Ok(rank)
    }

    /// Returns the number of processes.
    ///
    /// # Errors
    /// Errors of the library.
    pub fn size(&self, comm: Comm) -> Result<i32, MpiError> {
        let mut size = 0;
        // SAFETY: the output is a local variable.
        unsafe { call!(self.MPI_Comm_size(comm, &mut size)) }?;
        Ok(size)
    }

    /// Duplicates a communicator, in a call of all its processes. Blocks.
    ///
    /// # Errors
    /// Errors of the library.
    pub fn dup(&self, comm: Comm) -> Result<Comm, MpiError> {
        let mut made = Comm::UNSET;
        // SAFETY: the output is a zeroed local variable.
        unsafe { call!(self.MPI_Comm_dup(comm, &mut made)) }?;
        Ok(made)
    }

    /// Frees a communicator, in a call of all its processes.
    ///
    /// # Errors
    /// Errors of the library.
    pub fn free_comm(&self, mut comm: Comm) -> Result<(), MpiError> {
        // SAFETY: the handle is a local variable.
        unsafe { call!(self.MPI_Comm_free(&mut comm)) }
    }

    /// Makes calls on a communicator, and on communicators made from it, return their errors.
    ///
    /// # Errors
    /// Errors of the library.
    pub fn return_errors(&self, comm: Comm) -> Result<(), MpiError> {
        let handler = Errhandler(match self.has_earlier_constants()? {
            true => standard::EARLIER_ERRORS_RETURN,
            false => self.constants.errors_return,
        });
        // SAFETY: the error handler is a predefined one.
        unsafe { call!(self.MPI_Comm_set_errhandler(comm, handler)) }
    }

    /// Returns the group of a communicator's processes.
    ///
    /// # Errors
    /// Errors of the library.
    pub fn group_of(&self, comm: Comm) -> Result<Group, MpiError> {
        let mut group = Group::UNSET;
        // SAFETY: the output is a zeroed local variable.
        unsafe { call!(self.MPI_Comm_group(comm, &mut group)) }?;
        Ok(group)
    }

    /// Returns the group of these ranks of a group, in this order.
    ///
    /// # Errors
    /// Errors of the library.
    pub fn group_include(&self, group: Group, ranks: &[i32]) -> Result<Group, MpiError> {
        let count = self.count("MPI_Group_incl", ranks.len())?;
        let mut made = Group::UNSET;
        // SAFETY: there are `count` ranks, and the output is a zeroed local variable.
        unsafe { call!(self.MPI_Group_incl(group, count, ranks.as_ptr(), &mut made)) }?;
        Ok(made)
    }

    /// Frees a group.
    ///
    /// # Errors
    /// Errors of the library.
    pub fn free_group(&self, mut group: Group) -> Result<(), MpiError> {
        // SAFETY: the handle is a local variable.
        unsafe { call!(self.MPI_Group_free(&mut group)) }
    }

    /// Makes the communicator of a group of processes of `comm`, in a call of the group's processes
    /// with one tag. Blocks.
    ///
    /// # Errors
    /// Errors of the library.
    pub fn create_group(&self, comm: Comm, group: Group, tag: i32) -> Result<Comm, MpiError> {
        let mut made = Comm::UNSET;
        // SAFETY: the output is a zeroed local variable.
        unsafe { call!(self.MPI_Comm_create_group(comm, group, tag, &mut made)) }?;
        Ok(made)
    }
}
