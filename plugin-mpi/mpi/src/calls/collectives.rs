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

    /// Returns the address that stands for "the input is in the output's memory" as the input of a
    /// reduction or gather.
    pub fn in_place(&self) -> *const u8 {
        self.constants.numbers.in_place as *const u8
    }

    /// Waits until all processes have entered a barrier. Blocks.
    ///
    /// # Errors
    /// Errors of the library.
    pub fn barrier(&self, comm: Comm) -> Result<(), MpiError> {
        // SAFETY: the communicator is valid by the rules of the crate.
        unsafe { call!(self.MPI_Barrier(comm)) }
    }

    /// Enters a barrier; the request completes when all processes have entered it.
    ///
    /// # Errors
    /// Errors of the library.
    pub fn ibarrier(&self, comm: Comm) -> Result<Request, MpiError> {
        let mut request = Request::UNSET;
        // SAFETY: the output is a zeroed local variable.
        unsafe { call!(self.MPI_Ibarrier(comm, &mut request)) }?;
        Ok(request)
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

    /// Copies `bytes` bytes of each process to `root`, in the order of ranks. Blocks.
    ///
    /// # Errors
    /// Errors of the library, or too many elements or bytes.
    ///
    /// # Safety
    /// `send` has `bytes` readable bytes. At process `root`, `recv` has as many writable bytes for
    /// each process; elsewhere it is ignored.
    pub unsafe fn gather(
        &self,
        send: *const u8,
        bytes: usize,
        recv: *mut u8,
        root: i32,
        comm: Comm,
    ) -> Result<(), MpiError> {
        let (send, recv, byte) = (send.cast(), recv.cast(), self.byte());
        let count = self.count("MPI_Gather", bytes)?;
        // SAFETY: promised by the caller.
        unsafe { call!(self.MPI_Gather(send, count, byte, recv, count, byte, root, comm)) }
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

    /// Copies `bytes` bytes of each process to all, in the order of ranks. Blocks.
    ///
    /// # Errors
    /// Errors of the library, or too many elements or bytes.
    ///
    /// # Safety
    /// `send` has `bytes` readable bytes, and `recv` as many writable bytes for each process.
    pub unsafe fn allgather(
        &self,
        send: *const u8,
        bytes: usize,
        recv: *mut u8,
        comm: Comm,
    ) -> Result<(), MpiError> {
        let (send, recv, byte) = (send.cast(), recv.cast(), self.byte());
        let count = self.count("MPI_Allgather", bytes)?;
        // SAFETY: promised by the caller.
        unsafe { call!(self.MPI_Allgather(send, count, byte, recv, count, byte, comm)) }
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

    /// Reduces each of `count` elements over all processes, to `root`. Blocks.
    ///
    /// # Errors
    /// Errors of the library, or too many elements or bytes.
    ///
    /// # Safety
    /// `send` has `count` readable elements. At process `root`, `recv` has as many writable ones;
    /// elsewhere it is ignored.
    #[expect(clippy::too_many_arguments, reason = "the parameters are C's")]
    pub unsafe fn reduce(
        &self,
        send: *const u8,
        recv: *mut u8,
        count: usize,
        datatype: Datatype,
        op: Op,
        root: i32,
        comm: Comm,
    ) -> Result<(), MpiError> {
        let (send, recv) = (send.cast(), recv.cast());
        let count = self.count("MPI_Reduce", count)?;
        // SAFETY: promised by the caller.
        unsafe { call!(self.MPI_Reduce(send, recv, count, datatype, op, root, comm)) }
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

    /// Reduces each of `count` elements over all processes, to all. Blocks.
    ///
    /// # Errors
    /// Errors of the library, or too many elements or bytes.
    ///
    /// # Safety
    /// `send` has `count` readable elements, and `recv` as many writable ones.
    pub unsafe fn allreduce(
        &self,
        send: *const u8,
        recv: *mut u8,
        count: usize,
        datatype: Datatype,
        op: Op,
        comm: Comm,
    ) -> Result<(), MpiError> {
        let (send, recv) = (send.cast(), recv.cast());
        let count = self.count("MPI_Allreduce", count)?;
        // SAFETY: promised by the caller.
        unsafe { call!(self.MPI_Allreduce(send, recv, count, datatype, op, comm)) }
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
