//! Messages between two processes. They consist of bytes, at most `i32::MAX` in one call.

use super::call;
use crate::handle::{Comm, Datatype, Request};
use crate::table::RawStatus;
use crate::{Mpi, MpiError};
use std::ffi::c_int;

/// Sender of a message to receive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// The process of this rank.
    Rank(i32),
    /// Any process.
    Any,
}

/// Tag of a message to receive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tag {
    /// The tag of this number.
    Number(i32),
    /// Any tag.
    Any,
}

/// A message that arrived. After a send, after a cancelled receive and for a null request its
/// fields have no meaning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Status {
    /// Rank of the sender.
    pub source: i32,
    /// Tag of the message.
    pub tag: i32,
    /// Size of the message in bytes.
    pub bytes: usize,
}

impl Mpi {
    /// Begins to send a message.
    ///
    /// # Errors
    /// Errors of the library, or too many bytes.
    ///
    /// # Safety
    /// The bytes are readable and unchanged until the request completes, or until a cancelled
    /// request does.
    #[inline]
    pub unsafe fn isend(
        &self,
        data: *const u8,
        bytes: usize,
        to: i32,
        tag: i32,
        comm: Comm,
    ) -> Result<Request, MpiError> {
        let count = self.count("MPI_Isend", bytes)?;
        let mut request = Request::UNSET;
        let (data, byte) = (data.cast(), self.byte());
        // SAFETY: promised by the caller; the output is a zeroed local variable.
        unsafe { call!(self.MPI_Isend(data, count, byte, to, tag, comm, &mut request)) }?;
        Ok(request)
    }

    /// Begins to receive a message of at most `bytes` bytes.
    ///
    /// # Errors
    /// Errors of the library, or too many bytes.
    ///
    /// # Safety
    /// The bytes are writable, and not accessed until the request completes.
    #[inline]
    pub unsafe fn irecv(
        &self,
        data: *mut u8,
        bytes: usize,
        from: Source,
        tag: Tag,
        comm: Comm,
    ) -> Result<Request, MpiError> {
        let count = self.count("MPI_Irecv", bytes)?;
        let mut request = Request::UNSET;
        let (data, byte, from, tag) = (data.cast(), self.byte(), self.source(from), self.tag(tag));
        // SAFETY: promised by the caller; the output is a zeroed local variable.
        unsafe { call!(self.MPI_Irecv(data, count, byte, from, tag, comm, &mut request)) }?;
        Ok(request)
    }

    /// Sends a message. May block until it is received.
    ///
    /// # Errors
    /// Errors of the library, or too many bytes.
    pub fn send(&self, data: &[u8], to: i32, tag: i32, comm: Comm) -> Result<(), MpiError> {
        let count = self.count("MPI_Send", data.len())?;
        // SAFETY: the call does not keep the bytes.
        unsafe { call!(self.MPI_Send(data.as_ptr().cast(), count, self.byte(), to, tag, comm)) }
    }

    /// Receives a message that fits into `data`. Blocks.
    ///
    /// # Errors
    /// Errors of the library, or too many bytes.
    pub fn recv(
        &self,
        data: &mut [u8],
        from: Source,
        tag: Tag,
        comm: Comm,
    ) -> Result<Status, MpiError> {
        let count = self.count("MPI_Recv", data.len())?;
        let (from, tag) = (self.source(from), self.tag(tag));
        let mut raw = RawStatus::UNSET;
        let data = data.as_mut_ptr().cast();
        // SAFETY: the call does not keep the bytes, and the status has room for any layout.
        unsafe { call!(self.MPI_Recv(data, count, self.byte(), from, tag, comm, &mut raw)) }?;
        let bytes = self.bytes(&raw)?;
        Ok(self.message(&raw, bytes))
    }

    /// Returns the message of a request if it has completed; then the request becomes
    /// [null](Self::null_request). A null request has completed.
    ///
    /// # Errors
    /// Errors of the operation and of the library.
    #[inline]
    pub fn test(&self, request: &mut Request) -> Result<Option<Status>, MpiError> {
        let (mut flag, mut raw) = (0, RawStatus::UNSET);
        // SAFETY: the outputs are local variables, and the status has room for any layout.
        unsafe { call!(self.MPI_Test(request, &mut flag, &mut raw)) }?;
        if flag == 0 {
            return Ok(None);
        }
        let bytes = self.bytes(&raw)?;
        Ok(Some(self.message(&raw, bytes)))
    }

    /// Returns whether a request has completed, as [`test`](Self::test) without the message. It is
    /// the faster one for sends.
    ///
    /// # Errors
    /// Errors of the operation and of the library.
    #[inline]
    pub fn test_completion(&self, request: &mut Request) -> Result<bool, MpiError> {
        let mut flag = 0;
        let ignored = self.constants.numbers.status_ignore as *mut RawStatus;
        // SAFETY: the output is a local variable, and the status is ignored.
        unsafe { call!(self.MPI_Test(request, &mut flag, ignored)) }?;
        Ok(flag != 0)
    }

    /// Waits for a request, which becomes null, and returns its message. Blocks.
    ///
    /// # Errors
    /// Errors of the operation and of the library.
    pub fn wait(&self, request: &mut Request) -> Result<Status, MpiError> {
        let mut raw = RawStatus::UNSET;
        // SAFETY: the status has room for any layout.
        unsafe { call!(self.MPI_Wait(request, &mut raw)) }?;
        let bytes = self.bytes(&raw)?;
        Ok(self.message(&raw, bytes))
    }

    /// Begins to cancel a request, which must still be tested or waited for. It then completes,
    /// cancelled or not.
    ///
    /// # Errors
    /// Errors of the library.
    pub fn cancel(&self, request: &mut Request) -> Result<(), MpiError> {
        // SAFETY: the request is valid by the rules of the crate.
        unsafe { call!(self.MPI_Cancel(request)) }
    }

    /// Returns a message that a receive would match now, without receiving it.
    ///
    /// # Errors
    /// Errors of the library, or a message of more than `i32::MAX` bytes.
    #[inline]
    pub fn iprobe(&self, from: Source, tag: Tag, comm: Comm) -> Result<Option<Status>, MpiError> {
        let (from, tag) = (self.source(from), self.tag(tag));
        let (mut flag, mut raw) = (0, RawStatus::UNSET);
        // SAFETY: the outputs are local variables, and the status has room for any layout.
        unsafe { call!(self.MPI_Iprobe(from, tag, comm, &mut flag, &mut raw)) }?;
        if flag == 0 {
            return Ok(None);
        }
        let bytes = usize::try_from(self.byte_count(&raw)?);
        let bytes = bytes.map_err(|_| self.probed_too_large())?;
        Ok(Some(self.message(&raw, bytes)))
    }

    /// Returns the type of bytes.
    #[inline]
    pub(super) fn byte(&self) -> Datatype {
        Datatype(self.constants.byte)
    }

    #[inline]
    fn source(&self, source: Source) -> c_int {
        match source {
            Source::Rank(rank) => rank,
            Source::Any => self.constants.numbers.any_source,
        }
    }

    #[inline]
    fn tag(&self, tag: Tag) -> c_int {
        match tag {
            Tag::Number(number) => number,
            Tag::Any => self.constants.numbers.any_tag,
        }
    }

    /// Returns the size of a received message. Without meaning after a send: then MPI may have no
    /// count, which becomes 0.
    #[inline]
    fn bytes(&self, raw: &RawStatus) -> Result<usize, MpiError> {
        Ok(usize::try_from(self.byte_count(raw)?).unwrap_or(0))
    }

    /// Returns the size of a message as MPI counts it: negative where no `int` can express it.
    #[inline]
    fn byte_count(&self, raw: &RawStatus) -> Result<c_int, MpiError> {
        let mut count = 0;
        // SAFETY: the output is a local variable, and a call has written the status.
        unsafe { call!(self.MPI_Get_count(raw, self.byte(), &mut count)) }?;
        Ok(count)
    }

    /// Describes a message that no call of this crate can receive.
    #[cold]
    fn probed_too_large(&self) -> MpiError {
        let class = self.constants.numbers.err_count;
        let text = format!("a message of more than {} bytes, the limit of one call", c_int::MAX);
        MpiError { function: "MPI_Iprobe", code: class, class, text }
    }

    /// Returns the message with this status.
    #[inline]
    fn message(&self, raw: &RawStatus, bytes: usize) -> Status {
        const MASK: usize = RawStatus::UNSET.0.len() - 1;
        let layout = &self.constants.status;
        Status { source: raw.0[layout.source & MASK], tag: raw.0[layout.tag & MASK], bytes }
    }
}
