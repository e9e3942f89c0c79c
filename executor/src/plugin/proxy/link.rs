//! An executor that runs a plugin, and its end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use longshore_plugin_api::{Error, ErrorCode, Result};
use parking_lot::{Condvar, Mutex};
use serde::de::DeserializeOwned;

use super::callbacks::Callbacks;
use super::in_flight::Registry;
use super::scratch::{self, Scratch};
use super::window::{Block, Staging, Unmap, Window};
use crate::arena::Piece;
use crate::controller::Executor;
use crate::plugin::channel::Channel;
use crate::plugin::protocol::{self, CALL, CHUNK, Id, Image, POST, Request, encode, encode_into};
use crate::rpc::{CallError, EndReason};

/// An executor, while a platform or a device uses it. Any thread may use it.
pub(in crate::plugin) struct Link {
    // The order matters: the memory is dropped before the process.
    window: Option<Arc<Window>>,
    unmap: Unmap,
    pub(super) callbacks: Arc<Callbacks>,
    pub(super) registry: Registry,
    backend: String,
    lost: OnceLock<Error>,
    watch: Arc<Watch>,
    is_closing: Arc<AtomicBool>,
    channel: Arc<dyn Channel>,
    /// The executor that serves the plugin; `None` for a process that this one did not start.
    executor: Option<Executor>,
    /// The process in messages, and the advice after its end.
    wording: Wording,
}

/// The words of an error about a lost process.
struct Wording {
    process: String,
    advice: &'static str,
}

/// The signal for the watching thread to end.
#[derive(Default)]
struct Watch {
    is_over: Mutex<bool>,
    ended: Condvar,
}

impl Link {
    /// Takes over an executor and its callbacks.
    ///
    /// # Errors
    /// `OutOfResources` if no thread can be started, and an error if the process is gone.
    pub(super) fn new(
        executor: Executor,
        callbacks: Arc<Callbacks>,
        backend: &str,
    ) -> Result<Arc<Self>> {
        let process = executor.child().id();
        let wording = Wording {
            process: format!("the process {process} of the isolated plugin '{backend}' is gone"),
            advice: "close it, and open it again",
        };
        let channel: Arc<dyn Channel> = Arc::clone(executor.peer()) as _;
        let arena = executor.arena().cloned();
        let mut link = Self::over(channel, Some(executor), callbacks, backend, wording);
        link.start_watching()?;
        if let Some(arena) = arena {
            let window = Window::new(&arena, |address, bytes| {
                link.ask(&Request::Reserve { address, bytes })
            });
            link.window = match window {
                Err(error) if !link.is_alive() => return Err(error),
                Err(error) => {
                    log::warn!("plugin '{backend}' has no host memory: {error}");
                    None
                }
                Ok(window) => Some(window),
            };
        }
        Ok(Arc::new(link))
    }

    /// Creates the link to a plugin in a process that this one did not start. `process` is the
    /// beginning of the error after its end, such as "node 'a' is lost".
    ///
    /// # Errors
    /// `OutOfResources` if no thread can be started.
    pub(super) fn attached(
        channel: Arc<dyn Channel>,
        callbacks: Arc<Callbacks>,
        backend: &str,
        process: String,
    ) -> Result<Arc<Self>> {
        let wording = Wording { process, advice: "close it" };
        let link = Self::over(channel, None, callbacks, backend, wording);
        link.start_watching()?;
        Ok(Arc::new(link))
    }

    fn over(
        channel: Arc<dyn Channel>,
        executor: Option<Executor>,
        callbacks: Arc<Callbacks>,
        backend: &str,
        wording: Wording,
    ) -> Self {
        let is_closing = Arc::default();
        Self {
            window: None,
            unmap: unmap(&channel, &callbacks, &is_closing),
            callbacks,
            registry: Registry::default(),
            backend: backend.to_owned(),
            lost: OnceLock::new(),
            watch: Arc::default(),
            is_closing,
            channel,
            executor,
            wording,
        }
    }

    /// Returns the backend that the plugin provides.
    pub(in crate::plugin) fn backend(&self) -> &str {
        &self.backend
    }

    /// Returns the process's number; 0 for a process that this one did not start.
    pub(super) fn process(&self) -> u32 {
        self.executor.as_ref().map_or(0, |executor| executor.child().id())
    }

    /// Returns whether the executor is usable, as far as is known.
    pub(super) fn is_alive(&self) -> bool {
        self.lost.get().is_none() && self.channel.ended().is_none()
    }

    /// Returns whether the executor's process is gone, or belongs to another process.
    pub(in crate::plugin) fn is_gone(&self) -> bool {
        !self.is_here() || !self.is_alive()
    }

    /// Returns whether this process started the executor.
    pub(super) fn is_here(&self) -> bool {
        self.channel.is_here()
    }

    /// Returns the memory shared by both processes, if there is any.
    pub(super) fn window(&self) -> Option<&Arc<Window>> {
        self.window.as_ref()
    }

    /// Sends a request and waits for the reply. Blocks.
    ///
    /// # Errors
    /// The plugin's errors, and an error if the process is gone.
    pub(in crate::plugin) fn ask<T: DeserializeOwned>(&self, request: &Request<'_>) -> Result<T> {
        let _watched = self.watched()?;
        let reply = self.channel.call(None, CALL, &encode(request));
        self.read(reply)
    }

    /// Sends a request that touches the program's memory or runs its functions, and waits for the
    /// reply. On return such work has ended, even on an error.
    ///
    /// # Errors
    /// As for [`Link::ask`].
    pub(in crate::plugin) fn ask_and_finish<T: DeserializeOwned>(
        &self,
        request: &Request<'_>,
    ) -> Result<T> {
        let reply = self.ask(request);
        if reply.is_err() && self.is_here() && !self.is_alive() {
            self.callbacks.wait_until_finished();
        }
        reply
    }

    /// Sends a request and waits for the reply for at most `limit`. Kills the process if there is
    /// no reply by then.
    ///
    /// # Errors
    /// As for [`Link::ask`].
    pub(super) fn ask_within<T: DeserializeOwned>(
        &self,
        limit: Duration,
        request: &Request<'_>,
    ) -> Result<T> {
        let _watched = self.watched()?;
        let reply = self.channel.call(Some(limit), CALL, &encode(request));
        if matches!(reply, Err(CallError::Ended(EndReason::Silent { .. })))
            && let Some(executor) = &self.executor
        {
            executor.child().kill();
        }
        self.read(reply)
    }

    /// Returns the time limit within which the process did not reply, if it was given up for that.
    pub(super) fn silence(&self) -> Option<Duration> {
        match self.channel.ended()? {
            EndReason::Silent { limit } => Some(limit),
            _ => None,
        }
    }

    /// Sends a request, runs `meanwhile`, and then waits for the reply.
    ///
    /// # Errors
    /// As for [`Link::ask`].
    pub(super) fn ask_while<T: DeserializeOwned>(
        &self,
        request: &Request<'_>,
        meanwhile: impl FnOnce(),
    ) -> Result<T> {
        let _watched = self.watched()?;
        let mut meanwhile = Some(meanwhile);
        let mut once = || {
            if let Some(meanwhile) = meanwhile.take() {
                meanwhile();
            }
        };
        let reply = self.channel.call_while(CALL, &encode(request), &mut once);
        self.read(reply)
    }

    /// Sends a message without a reply. The next call that waits for the queue reports its error.
    ///
    /// # Errors
    /// An error if the process is gone.
    pub(in crate::plugin) fn post(&self, request: &Request<'_>) -> Result<()> {
        thread_local! {
            static BYTES: Scratch = const { Scratch::new(Vec::new()) };
        }
        let _watched = self.watched()?;
        let bytes = encode_into(request, scratch::take(&BYTES));
        let posted = match bytes.len() <= self.channel.most_in_post() {
            true => self.channel.post(POST, &bytes).map_err(|error| self.failed(error)),
            false => self.ask(request),
        };
        scratch::keep(&BYTES, bytes);
        posted
    }

    /// Allocates shared memory: see [`Window::block`].
    ///
    /// # Errors
    /// `Unsupported` if no memory is shared, and every error of the system.
    pub(super) fn block(&self, bytes: u64, alignment: u64) -> Result<Block> {
        let window = self.window.as_ref().ok_or_else(nothing_shared)?;
        window.block(bytes, alignment, |a, o, b| self.map(a, o, b), &self.unmap)
    }

    /// Returns staging memory, if memory is shared.
    ///
    /// # Errors
    /// Every error of the system.
    pub(super) fn staging(&self) -> Result<Option<Staging>> {
        let staging =
            |window: &Arc<Window>| window.staging(|a, o, b| self.map(a, o, b), &self.unmap);
        self.window.as_ref().map(staging).transpose()
    }

    /// Calls `ask` with an image in the form that suits its size. An image in shared memory is
    /// returned as a piece too: the executor can use the image until the piece is dropped.
    ///
    /// # Errors
    /// Every error of `ask` and of uploading.
    pub(super) fn with_image<T>(
        &self,
        image: &[u8],
        ask: impl Fn(Image<'_>) -> Result<T>,
    ) -> Result<(T, Option<Arc<Piece>>)> {
        if image.len() <= CHUNK {
            return ask(Image::Here(image)).map(|reply| (reply, None));
        }
        if let Some(digest) = self.channel.keep_image(image, false) {
            let reply = ask(Image::Kept(digest.map_err(|error| self.failed(error))?));
            let is_gone = |error: &Error| error.code() == ErrorCode::NotFound;
            if !reply.as_ref().is_err_and(is_gone) || self.is_gone() {
                return reply.map(|reply| (reply, None));
            }
            // The process has dropped the image since.
            let digest = self.channel.keep_image(image, true).unwrap_or(Ok([0; 32]));
            let digest = digest.map_err(|error| self.failed(error))?;
            return ask(Image::Kept(digest)).map(|reply| (reply, None));
        }
        if let Some(piece) = self.window.as_ref().and_then(|window| window.put(image).ok()) {
            let image = Image::Shared { offset: piece.offset(), bytes: image.len() as u64 };
            return ask(image).map(|reply| (reply, Some(piece)));
        }
        ask(Image::Uploaded(self.upload(image)?)).map(|reply| (reply, None))
    }

    /// Sends an image in pieces.
    ///
    /// # Errors
    /// Every error of the connection.
    fn upload(&self, image: &[u8]) -> Result<Id> {
        let upload = self.ask(&Request::Upload { bytes: image.len() as u64 })?;
        let size = if self.channel.memory().is_some() { CHUNK } else { 1 << 20 };
        for content in image.chunks(size) {
            self.ask::<()>(&Request::Chunk { upload, content })?;
        }
        Ok(upload)
    }

    fn map(&self, address: u64, offset: u64, bytes: u64) -> Result<()> {
        self.ask(&Request::Map { address, offset, bytes })
    }

    /// Returns the messages and transfers to the process.
    pub(super) fn channel(&self) -> &Arc<dyn Channel> {
        &self.channel
    }

    fn watched(&self) -> Result<super::watchdog::CallGuard<'_>> {
        match self.is_here() {
            true => Ok(self.callbacks.watchdog.call()),
            false => Err(forked()),
        }
    }

    fn read<T: DeserializeOwned>(&self, reply: Result<Vec<u8>, CallError>) -> Result<T> {
        let reply = reply.map_err(|error| self.failed(error))?;
        protocol::decode::<Result<T>>(&reply)?
    }

    /// Returns the error of a failed message or transfer.
    pub(super) fn failed(&self, error: CallError) -> Error {
        match error {
            CallError::Ended(EndReason::Forked) => forked(),
            CallError::Ended(ended) => self.loss(&ended),
            CallError::Failed(text) => Error::new(ErrorCode::BackendFailure, text),
            CallError::TooMany { .. } => Error::new(ErrorCode::OutOfResources, error.to_string()),
            CallError::TooLarge { .. } => Error::new(ErrorCode::InvalidSize, error.to_string()),
        }
    }

    /// Returns the error of every call after the end of the process; the first call fixes its text.
    fn loss(&self, ended: &EndReason) -> Error {
        let reported = self.lost.get_or_init(|| {
            let Wording { process, advice } = &self.wording;
            let (running, words) = (self.registry.description(), self.callbacks.last_records.description());
            let message = format!(
                "{process}: {ended}; {running}{words}; the device is lost, nothing works on it any more: {advice}"
            );
            Error::new(ErrorCode::BackendFailure, message)
        });
        reported.clone()
    }

    fn start_watching(&self) -> Result<()> {
        let failed = |error: std::io::Error| {
            let message = format!("the thread that watches an executor cannot be started: {error}");
            Error::new(ErrorCode::OutOfResources, message)
        };
        let callbacks = Arc::downgrade(&self.callbacks);
        Arc::clone(&self.channel)
            .when_ended(Box::new(move || {
                if let Some(callbacks) = callbacks.upgrade() {
                    callbacks.finish();
                }
            }))
            .map_err(failed)?;
        let Some(limit) = self.callbacks.watchdog.limit() else { return Ok(()) };
        let Some(executor) = &self.executor else { return Ok(()) };
        let (peer, callbacks) = (Arc::clone(&self.channel), Arc::clone(&self.callbacks));
        let (watch, kill) = (Arc::clone(&self.watch), executor.killer());
        let limiting = thread::Builder::new().name("longshore-limit".to_owned());
        let pause = (limit / 8).clamp(Duration::from_millis(1), Duration::from_secs(1));
        let look = move || {
            let mut is_over = watch.is_over.lock();
            while !*is_over && peer.ended().is_none() {
                if callbacks.watchdog.is_over() {
                    peer.end(EndReason::Silent { limit });
                    kill();
                    return;
                }
                watch.ended.wait_for(&mut is_over, pause);
            }
        };
        limiting.spawn(look).map_err(failed)?;
        Ok(())
    }
}

/// Returns a function that has the executor unmap memory, unless the link is being dropped.
fn unmap(
    channel: &Arc<dyn Channel>,
    callbacks: &Arc<Callbacks>,
    is_closing: &Arc<AtomicBool>,
) -> Unmap {
    let (peer, callbacks) = (Arc::downgrade(channel), Arc::clone(callbacks));
    let is_closing = Arc::clone(is_closing);
    Arc::new(move |address, bytes| {
        let peer = peer.upgrade().filter(|peer| peer.is_here());
        if let Some(peer) = peer.filter(|_| !is_closing.load(Ordering::Relaxed)) {
            let _watched = callbacks.watchdog.call();
            // If the call fails the executor is gone, and its mapping with it.
            let _ = peer.call(None, CALL, &encode(&Request::Unmap { address, bytes }));
        }
    })
}

/// Time allowed for a plugin to end its platform.
const ENDING: Duration = Duration::from_secs(2);

impl Drop for Link {
    fn drop(&mut self) {
        if !self.is_here() {
            return;
        }
        self.is_closing.store(true, Ordering::Relaxed);
        self.callbacks.transfers.take_all_back();
        if let Some(window) = &self.window {
            window.drop_staging();
        }
        if self.is_alive() && self.executor.is_some() {
            // If the call fails or takes too long, the end of the process ends the platform.
            let _ = self.channel.call(Some(ENDING), CALL, &encode(&Request::Disconnect));
        }
        *self.watch.is_over.lock() = true;
        self.watch.ended.notify_all();
    }
}

/// Returns the error of a call that needs shared memory on a link without any.
pub(super) fn nothing_shared() -> Error {
    let problem = "the isolated device shares no memory with this process, so it has no host or managed memory";
    Error::new(ErrorCode::Unsupported, problem)
}

fn forked() -> Error {
    let problem =
        "the isolated device belongs to the process from which this one was forked; open it here";
    Error::new(ErrorCode::BackendFailure, problem)
}
