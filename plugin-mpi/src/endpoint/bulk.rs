//! Transfers of bulk data, beside the messages.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use longshore_executor::plugin::{Bulk, BulkTransfer, PIECE};
use longshore_executor::rpc::CallError;
use longshore_mpi::{Request, Source, Tag};

use super::Endpoint;
use super::backoff::Backoff;
use super::channel::MpiChannel;
use crate::bells::For;

/// A transfer under way.
struct Pieces<'a> {
    endpoint: &'a Endpoint,
    rank: i32,
    /// The pieces that are not known to be done, in order.
    under_way: VecDeque<Request>,
    is_receive: bool,
}

impl Bulk for MpiChannel {
    fn number(&self) -> u64 {
        self.endpoint.number(self.rank)
    }

    unsafe fn send(
        &self,
        number: u64,
        from: *const u8,
        bytes: usize,
    ) -> Result<Box<dyn BulkTransfer + '_>, CallError> {
        self.endpoint.check(self.rank)?;
        let (endpoint, tag) = (&*self.endpoint, self.endpoint.tag(number));
        let mut pieces = Pieces::new(endpoint, self.rank, false);
        for at in (0..bytes).step_by(PIECE) {
            let size = (bytes - at).min(PIECE);
            // SAFETY: guaranteed by the caller, until the transfer is dropped.
            let request = endpoint.with(|mpi| unsafe {
                mpi.isend(from.add(at), size, self.rank, tag, endpoint.data)
            })?;
            pieces.under_way.push_back(request);
        }
        endpoint.bells.ring(self.rank, For::Callers);
        Ok(Box::new(pieces))
    }

    fn send_copy(&self, number: u64, content: Vec<u8>) -> Result<(), CallError> {
        self.endpoint.check(self.rank)?;
        let (endpoint, tag) = (&*self.endpoint, self.endpoint.tag(number));
        let mut outbox = endpoint.peers[self.rank as usize].outbox.lock();
        outbox.send(endpoint, self.rank, (endpoint.data, tag), content).map(drop)
    }

    unsafe fn receive(
        &self,
        number: u64,
        to: *mut u8,
        bytes: usize,
    ) -> Result<Box<dyn BulkTransfer + '_>, CallError> {
        self.endpoint.check(self.rank)?;
        let (endpoint, tag) = (&*self.endpoint, Tag::Number(self.endpoint.tag(number)));
        let mut pieces = Pieces::new(endpoint, self.rank, true);
        for at in (0..bytes).step_by(PIECE) {
            let size = (bytes - at).min(PIECE);
            // SAFETY: guaranteed by the caller, until the transfer is dropped.
            let request = endpoint.with(|mpi| unsafe {
                mpi.irecv(to.add(at), size, Source::Rank(self.rank), tag, endpoint.data)
            })?;
            pieces.under_way.push_back(request);
        }
        Ok(Box::new(pieces))
    }
}

impl<'a> Pieces<'a> {
    fn new(endpoint: &'a Endpoint, rank: i32, is_receive: bool) -> Self {
        endpoint.transfers.fetch_add(1, Ordering::Relaxed);
        Self { endpoint, rank, under_way: VecDeque::new(), is_receive }
    }

    /// Forgets the pieces that are done, and returns whether all are.
    fn test(&mut self) -> Result<bool, CallError> {
        while let Some(request) = self.under_way.front_mut() {
            if !self.endpoint.with(|mpi| mpi.test_completion(request))? {
                return Ok(false);
            }
            self.under_way.pop_front();
        }
        Ok(true)
    }
}

impl BulkTransfer for Pieces<'_> {
    fn is_done(&mut self) -> Result<bool, CallError> {
        if self.test()? {
            return Ok(true);
        }
        self.endpoint.check(self.rank)?;
        Ok(false)
    }

    fn wait_unless(&mut self, is_over: &mut dyn FnMut() -> bool) -> Result<bool, CallError> {
        let endpoint = self.endpoint;
        endpoint.awaiting_posts.fetch_add(1, Ordering::SeqCst);
        let mut backoff = Backoff::until_data(endpoint, self.rank);
        let result = loop {
            match self.test() {
                Ok(true) => break Ok(true),
                Ok(false) if is_over() => break Ok(false),
                Ok(false) => {}
                Err(error) => break Err(error),
            }
            if backoff.looks_around() {
                if let Err(why) = endpoint.check(self.rank) {
                    break Err(why.into());
                }
                endpoint.assist();
            }
            backoff.pause();
        };
        endpoint.awaiting_posts.fetch_sub(1, Ordering::SeqCst);
        result
    }

    fn wait(&mut self) -> Result<(), CallError> {
        let mut backoff = Backoff::new(self.endpoint);
        while !self.test()? {
            if backoff.looks_around() {
                self.endpoint.check(self.rank)?;
                self.endpoint.assist();
            }
            backoff.pause();
        }
        Ok(())
    }
}

/// Time for which a transfer that is given up is waited for.
const GIVING_UP: Duration = Duration::from_secs(1);

impl Drop for Pieces<'_> {
    fn drop(&mut self) {
        let is_lost = self.endpoint.check(self.rank).is_err();
        for mut request in self.under_way.drain(..) {
            if self.is_receive {
                let _ = self.endpoint.with(|mpi| mpi.cancel(&mut request));
            }
            // A send is received or dropped by a process that lives. The wait for a lost process
            // has a limit: it sends nothing any more.
            let (mut backoff, started) = (Backoff::new(self.endpoint), Instant::now());
            while let Ok(false) = self.endpoint.with(|mpi| mpi.test_completion(&mut request)) {
                let gives_up = is_lost || self.endpoint.check(self.rank).is_err();
                if gives_up && started.elapsed() > GIVING_UP {
                    log::debug!("a transfer with process {} is abandoned", self.rank);
                    break;
                }
                backoff.pause();
            }
        }
        self.endpoint.transfers.fetch_sub(1, Ordering::Relaxed);
    }
}
