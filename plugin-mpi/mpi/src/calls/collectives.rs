//! Collective operations, which all processes of a communicator call in the same order.
//!
//! Calls with the prefix `i` return a request; their memory is valid, and that for output not
//! accessed, until the request completes. The others block.

use super::call;
use crate::handle::{Comm, Datatype, Op, Request};
use crate::{Mpi, MpiError};

/// Type of an element of a reduction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Element {
    /// `i8`.
    I8,
    /// `u8`.
    U8,
    /// `i16`.
    I16,
    /// `u16`.
    U16,
    /// `i32`.
    I32,
    /// `u32`.
    U32,
    /// `i64`.
    I64,
    /// `u64`.
    U64,
    /// `f32`.
    F32,
    /// `f64`.
    F64,
}

/// Reduction of two elements to one. The logical ones are bitwise, and for integers only.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Operation {
    /// Sum.
    Sum,
    /// Product.
    Product,
    /// Smaller element.
    Min,
    /// Greater element.
    Max,
    /// Bitwise and.
    And,
    /// Bitwise or.
    Or,
    /// Bitwise exclusive or.
    Xor,
}

impl Mpi {
    /// Returns the type of elements.
    pub fn datatype(&self, element: Element) -> Datatype {
        Datatype(self.constants.elements[element as usize])
    }

    /// Returns the reduction.
    pub fn op(&self, operation: Operation) -> Op {
        Op(self.constants.operations[operation as usize])
    }

    /// Waits until all processes have entered a barrier. Blocks.
    ///
    /// # Errors
    /// Errors of the library.
    pub fn barrier(&self, comm: Comm) -> Result<(), MpiError> {
        // SAFETY: the communicator is valid by the rules of the crate.
        unsafe { call!(self.MPI_Barrier(comm)) }
    }

    /// Copies the bytes of process `root` to all others. Blocks.
    ///
    /// # Errors
    /// Errors of the library, or too many elements or bytes.
    ///
    /// # Safety
    /// The bytes are readable at process `root`, and writable at the others.
    pub unsafe fn bcast(
        &self,
        data: *mut u8,
        bytes: usize,
        root: i32,
        comm: Comm,
    ) -> Result<(), MpiError> {
        let (data, count) = (data.cast(), self.count("MPI_Bcast", bytes)?);
        // SAFETY: promised by the caller.
        unsafe { call!(self.MPI_Bcast(data, count, self.byte(), root, comm)) }
    }

    /// Begins to copy the bytes of process `root` to all others.
    ///
    /// # Errors
    /// As for [`bcast`](Self::bcast).
    ///
    /// # Safety
    /// As for [`bcast`](Self::bcast), until the request completes.
    pub unsafe fn ibcast(
        &self,
        data: *mut u8,
        bytes: usize,
        root: i32,
        comm: Comm,
    ) -> Result<Request, MpiError> {
        let (data, count) = (data.cast(), self.count("MPI_Ibcast", bytes)?);
        let mut request = Request::UNSET;
        // SAFETY: promised by the caller; the output is a zeroed local variable.
        unsafe { call!(self.MPI_Ibcast(data, count, self.byte(), root, comm, &mut request)) }?;
        Ok(request)
    }

    /// Begins to copy `bytes` bytes of each process to `root`, in the order of ranks.
    ///
    /// # Errors
    /// As for [`gather`](Self::gather).
    ///
    /// # Safety
    /// As for [`gather`](Self::gather), until the request completes.
    pub unsafe fn igather(
        &self,
        send: *const u8,
        bytes: usize,
        recv: *mut u8,
        root: i32,
        comm: Comm,
    ) -> Result<Request, MpiError> {
        let (send, recv, byte) = (send.cast(), recv.cast(), self.byte());
        let count = self.count("MPI_Igather", bytes)?;
        let mut request = Request::UNSET;
        // SAFETY: promised by the caller; the output is a zeroed local variable.
        unsafe {
            call!(self.MPI_Igather(send, count, byte, recv, count, byte, root, comm, &mut request))
        }?;
        Ok(request)
    }

    /// Begins to copy `bytes` bytes of each process to all, in the order of ranks.
    ///
    /// # Errors
    /// As for [`allgather`](Self::allgather).
    ///
    /// # Safety
    /// As for [`allgather`](Self::allgather), until the request completes.
    pub unsafe fn iallgather(
        &self,
        send: *const u8,
        bytes: usize,
        recv: *mut u8,
        comm: Comm,
    ) -> Result<Request, MpiError> {
        let (send, recv, byte) = (send.cast(), recv.cast(), self.byte());
        let count = self.count("MPI_Iallgather", bytes)?;
        let mut request = Request::UNSET;
        // SAFETY: promised by the caller; the output is a zeroed local variable.
        unsafe {
            call!(self.MPI_Iallgather(send, count, byte, recv, count, byte, comm, &mut request))
        }?;
        Ok(request)
    }

    /// Begins to reduce each of `count` elements over all processes, to `root`.
    ///
    /// # Errors
    /// As for [`reduce`](Self::reduce).
    ///
    /// # Safety
    /// As for [`reduce`](Self::reduce), until the request completes.
    #[expect(clippy::too_many_arguments, reason = "the parameters are C's")]
    pub unsafe fn ireduce(
        &self,
        send: *const u8,
        recv: *mut u8,
        count: usize,
        datatype: Datatype,
        op: Op,
        root: i32,
        comm: Comm,
    ) -> Result<Request, MpiError> {
        let (send, recv) = (send.cast(), recv.cast());
        let count = self.count("MPI_Ireduce", count)?;
        let mut request = Request::UNSET;
        // SAFETY: promised by the caller; the output is a zeroed local variable.
        unsafe {
            call!(self.MPI_Ireduce(send, recv, count, datatype, op, root, comm, &mut request))
        }?;
        Ok(request)
    }

    /// Begins to reduce each of `count` elements over all processes, to all.
    ///
    /// # Errors
    /// As for [`allreduce`](Self::allreduce).
    ///
    /// # Safety
    /// As for [`allreduce`](Self::allreduce), until the request completes.
    pub unsafe fn iallreduce(
        &self,
        send: *const u8,
        recv: *mut u8,
        count: usize,
        datatype: Datatype,
        op: Op,
        comm: Comm,
    ) -> Result<Request, MpiError> {
        let (send, recv) = (send.cast(), recv.cast());
        let count = self.count("MPI_Iallreduce", count)?;
        let mut request = Request::UNSET;
        // SAFETY: promised by the caller; the output is a zeroed local variable.
        unsafe { call!(self.MPI_Iallreduce(send, recv, count, datatype, op, comm, &mut request)) }?;
        Ok(request)
    }
}
