//! Receives of messages, posted before they come.

use std::collections::VecDeque;

use longshore_executor::rpc::EndReason;
use longshore_mpi::{Request, Source, Tag};

use super::{Endpoint, MESSAGES, MOST_IN_MESSAGE};

/// Number of receives that wait for messages.
const POSTED: usize = 16;

/// The posted receives, in order. Messages of one process arrive in the order of these receives.
#[derive(Default)]
pub(super) struct Receiver {
    posted: VecDeque<(Request, Box<[u8]>)>,
    spare: Vec<Box<[u8]>>,
}

/// A message.
pub(super) struct Message {
    pub(super) from: i32,
    pub(super) bytes: usize,
    pub(super) buffer: Box<[u8]>,
}

impl Receiver {
    /// Posts receives until [`POSTED`] wait.
    ///
    /// # Errors
    /// A failure of MPI.
    pub(super) fn post(&mut self, endpoint: &Endpoint) -> Result<(), EndReason> {
        while self.posted.len() < POSTED {
            let buffer = self.spare.pop();
            let mut buffer = buffer.unwrap_or_else(|| vec![0; MOST_IN_MESSAGE].into_boxed_slice());
            let (to, bytes) = (buffer.as_mut_ptr(), buffer.len());
            // SAFETY: the buffer stays in place until the receive is complete, or for ever.
            let request = endpoint.with(|mpi| unsafe {
                mpi.irecv(to, bytes, Source::Any, Tag::Number(MESSAGES), endpoint.messages)
            })?;
            self.posted.push_back((request, buffer));
        }
        Ok(())
    }

    /// Takes the next message, if one has come.
    ///
    /// # Errors
    /// A failure of MPI.
    pub(super) fn take(&mut self, endpoint: &Endpoint) -> Result<Option<Message>, EndReason> {
        if self.posted.is_empty() {
            self.post(endpoint)?;
        }
        let Some((request, _)) = self.posted.front_mut() else { return Ok(None) };
        let status = match endpoint.with(|mpi| mpi.test(request)) {
            // While this endpoint rests, the receive stays.
            Ok(None) | Err(EndReason::Here) => return Ok(None),
            Ok(Some(status)) => status,
            Err(error) => {
                // The receive is over. Another takes its place.
                self.posted.pop_front();
                self.post(endpoint)?;
                return Err(error);
            }
        };
        let (_, buffer) = self.posted.pop_front().expect("it was looked at");
        if let Err(error) = self.post(endpoint) {
            // The next message tries again.
            log::debug!("posting a receive: {error}");
        }
        Ok(Some(Message { from: status.source, bytes: status.bytes, buffer }))
    }

    pub(super) fn give_back(&mut self, buffer: Box<[u8]>) {
        if self.spare.len() < POSTED {
            self.spare.push(buffer);
        }
    }

    /// Cancels all receives, so that MPI can be finalized.
    pub(super) fn end(&mut self, endpoint: &Endpoint) {
        for (mut request, buffer) in self.posted.drain(..) {
            let cancelled = endpoint.with(|mpi| {
                mpi.cancel(&mut request)?;
                mpi.wait(&mut request)
            });
            if cancelled.is_err() {
                std::mem::forget(buffer);
            }
        }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        // MPI may still write to the buffers.
        self.posted.drain(..).for_each(|(_, buffer)| std::mem::forget(buffer));
    }
}
