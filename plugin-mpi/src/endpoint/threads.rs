//! The threads that receive messages and handle calls.
//!
//! One thread at a time has the role of the receiver. It handles posts in order. It gives up the
//! role to handle a call, and takes the role again afterwards. Another thread watches, and takes
//! the role if a call lasts. So short calls need no change of threads, and long calls block no
//! message.
//!
//! Each call of MPI makes progress for all. So a thread that polls for its own reply or transfer
//! also receives messages, for the others to handle, and the receiver rests meanwhile. With few
//! processors, each further polling thread delays the others.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use longshore_executor::rpc::EndReason;
use parking_lot::{Condvar, Mutex};

use super::Endpoint;
use super::backoff::{sharpen_sleeps, yields_to_others};
use super::frame::{Header, Kind};
use super::received::Call;
use super::receiver::{Message, Receiver};
use crate::bells::{For, Listening};

/// The role of the receiver and the threads without it.
#[derive(Default)]
pub(super) struct Threads {
    has_receiver: AtomicBool,
    /// Number of times that the role was given up.
    given_up: AtomicU64,
    /// Whether a thread watches for a role that no thread takes again.
    is_watched: AtomicBool,
    /// The value of `given_up` when the last such thread had nothing to watch any more.
    calm: AtomicU64,
    /// Threads that neither receive, nor watch, nor handle a call.
    resting: AtomicUsize,
    rest: (Mutex<()>, Condvar),
    /// Messages that a thread has received while it waited for something else. They come before the
    /// messages of the receiver, under whose lock they are added and taken.
    handed_over: Mutex<VecDeque<Message>>,
    /// Threads that run.
    running: AtomicUsize,
    /// Whether the receiver looks often enough for posts to wait for it.
    is_attentive: AtomicBool,
}

/// Time between looks of the watching thread.
const WATCH: Duration = Duration::from_micros(250);
/// The same, if senders ring when there is no receiver.
const LONG_WATCH: Duration = Duration::from_millis(1);
/// Time without a call after which no thread watches.
const CALM: Duration = Duration::from_millis(5);
/// Time for which a resting thread sleeps.
const REST: Duration = Duration::from_millis(100);
/// Greatest number of resting threads that are kept.
const MOST_RESTING: usize = 8;
/// Time after the last message for which the receiver expects others.
const ATTENTIVE: Duration = Duration::from_millis(20);
/// Time after a sent message for which posts may wait for the receiver.
const SENDING: Duration = Duration::from_millis(1);
/// Least and greatest sleep of a receiver that expects messages.
const NAP: Duration = Duration::from_micros(50);
const LONG_NAP: Duration = Duration::from_micros(500);
/// Greatest sleep of a receiver that has heard nothing but signs of life for ten seconds.
const LONGEST_NAP: Duration = Duration::from_millis(10);
/// Sleep of a thread that leaves the receiver's work to threads that poll; if all processes ring.
const POLLED_NAP: Duration = Duration::from_micros(200);
const LONG_POLLED_NAP: Duration = Duration::from_millis(2);

/// The content of a message whose posts are handled.
pub(super) enum Taken {
    /// Signs of life alone.
    Beats,
    Posts,
    /// Perhaps posts, and then a call.
    Call(Call),
}

/// The pauses of the receiver since the last message.
#[derive(Default)]
struct Pauses<'a> {
    turns: u32,
    /// Whether other threads need the processor.
    are_crowded: bool,
    /// Set for the last look before a sleep of some time.
    listening: Option<(Listening<'a>, Duration)>,
}

/// The reason for the end of a thread's work as the receiver.
enum Received {
    Call(Call),
    /// Other threads poll, and receive messages too.
    Polled,
    Over,
}

impl Threads {
    /// Starts the first threads.
    pub(super) fn start(&self, endpoint: &Arc<Endpoint>) -> std::io::Result<()> {
        (0..2).try_for_each(|_| self.spawn(endpoint))
    }

    pub(super) fn is_attentive(&self) -> bool {
        self.is_attentive.load(Ordering::Relaxed)
    }

    /// Has all threads end, and waits for their end for at most `limit`. Returns whether all have
    /// ended.
    pub(super) fn end(&self, endpoint: &Endpoint, limit: Duration) -> bool {
        let started = Instant::now();
        while self.running.load(Ordering::Acquire) > 0 && started.elapsed() < limit {
            self.wake(endpoint);
            std::thread::sleep(Duration::from_micros(200));
        }
        self.running.load(Ordering::Acquire) == 0
    }

    /// Ends the sleep of all threads.
    pub(super) fn wake(&self, endpoint: &Endpoint) {
        drop(self.rest.0.lock());
        self.rest.1.notify_all();
        endpoint.bells.ring_own(For::Receiver);
    }

    fn spawn(&self, endpoint: &Arc<Endpoint>) -> std::io::Result<()> {
        self.running.fetch_add(1, Ordering::Relaxed);
        let endpoint = Arc::clone(endpoint);
        // Functions of the program run on these threads, and expect the stack of a main thread.
        let thread = std::thread::Builder::new().name("longshore-mpi".to_owned());
        let spawned = thread.stack_size(8 << 20).spawn(move || {
            sharpen_sleeps();
            endpoint.threads.work(&endpoint);
            endpoint.threads.running.fetch_sub(1, Ordering::Release);
        });
        if spawned.is_err() {
            self.running.fetch_sub(1, Ordering::Relaxed);
        }
        spawned.map(drop)
    }

    fn work(&self, endpoint: &Arc<Endpoint>) {
        while !endpoint.is_over() {
            if self.take_role(endpoint) {
                match self.receive(endpoint) {
                    Received::Call(call) => {
                        self.give_up_role(endpoint);
                        endpoint.handle(call);
                    }
                    Received::Polled => {
                        self.has_receiver.store(false, Ordering::Release);
                        self.rest_for(POLLED_NAP);
                    }
                    Received::Over => break,
                }
            } else if !self.rest_or_watch(endpoint) {
                return;
            }
        }
    }

    fn take_role(&self, endpoint: &Endpoint) -> bool {
        let is_taken = !self.has_receiver.load(Ordering::Relaxed)
            && !self.has_receiver.swap(true, Ordering::Acquire);
        if is_taken {
            endpoint.bells.set_vacant(false);
        }
        is_taken
    }

    /// Gives the role up for a call, and ensures that a thread watches.
    fn give_up_role(&self, endpoint: &Arc<Endpoint>) {
        endpoint.bells.set_vacant(true);
        self.has_receiver.store(false, Ordering::Release);
        self.given_up.fetch_add(1, Ordering::Relaxed);
        if !self.is_watched.load(Ordering::Acquire) {
            self.call_thread(endpoint);
        }
    }

    /// Receives a message, if one is there, for another thread. A thread that waits for something
    /// else may hold locks that the handlers need.
    ///
    /// # Errors
    /// A failure of MPI.
    pub(super) fn receive_for_others(
        &self,
        endpoint: &Arc<Endpoint>,
        receiver: &mut Receiver,
    ) -> Result<(), EndReason> {
        if let Some(message) = receiver.take(endpoint)? {
            self.handed_over.lock().push_back(message);
            match self.has_receiver.load(Ordering::Relaxed) {
                // The receiver itself may sleep.
                true if endpoint.bells.has_own() => endpoint.bells.ring_own(For::Receiver),
                true => self.wake(endpoint),
                false => self.call_thread(endpoint),
            }
        }
        Ok(())
    }

    /// Has a thread look for work.
    fn call_thread(&self, endpoint: &Arc<Endpoint>) {
        if self.resting.load(Ordering::Acquire) > 0 {
            drop(self.rest.0.lock());
            self.rest.1.notify_one();
        } else if let Err(error) = self.spawn(endpoint) {
            log::warn!("no further thread can be started: {error}");
        }
    }

    /// Receives messages until one is a call, or other threads do so.
    fn receive(&self, endpoint: &Arc<Endpoint>) -> Received {
        let mut pauses = Pauses::default();
        while !endpoint.is_over() {
            if endpoint.is_resting() {
                pauses = Pauses::default();
                self.sleep_until_woken(endpoint);
                endpoint.note(&endpoint.heard);
                continue;
            }
            // The lock is free during pauses, for threads that poll.
            let received = self.receive_one(endpoint, &mut endpoint.receiver.lock());
            match received {
                Ok(Some(Taken::Call(call))) => return Received::Call(call),
                Ok(Some(Taken::Posts)) => pauses = Pauses::default(),
                Ok(Some(Taken::Beats)) => {}
                Ok(None) => {
                    let is_polled = endpoint.polling.load(Ordering::Relaxed) > 0;
                    if is_polled && !endpoint.bells.has_own() {
                        endpoint.flush_waiting();
                        return Received::Polled;
                    }
                    self.pause(endpoint, &mut pauses);
                }
                Err(error) => {
                    endpoint.failed(&error);
                    std::thread::sleep(LONG_NAP);
                }
            }
        }
        Received::Over
    }

    /// Receives a message, if one is there, and handles its posts.
    ///
    /// # Errors
    /// A failure of MPI.
    pub(super) fn receive_one(
        &self,
        endpoint: &Arc<Endpoint>,
        receiver: &mut Receiver,
    ) -> Result<Option<Taken>, EndReason> {
        let handed_over = self.handed_over.lock().pop_front();
        let message = match handed_over {
            Some(message) => Some(message),
            None => receiver.take(endpoint)?,
        };
        Ok(message.map(|message| self.take_frames(endpoint, message, receiver)))
    }

    fn sleep_until_woken(&self, endpoint: &Endpoint) {
        let mut guard = self.rest.0.lock();
        if endpoint.is_resting() {
            self.rest.1.wait_for(&mut guard, REST);
        }
    }

    /// Pauses after a look that found no message.
    fn pause<'a>(&self, endpoint: &'a Endpoint, pauses: &mut Pauses<'a>) {
        endpoint.flush_waiting();
        if let Some((listening, nap)) = pauses.listening.take() {
            listening.sleep(nap);
            return;
        }
        let is_polled = endpoint.polling.load(Ordering::Relaxed) > 0;
        pauses.turns += 1;
        if pauses.turns < 16 && !is_polled {
            std::hint::spin_loop();
            return;
        }
        let quiet = endpoint.since(&endpoint.heard);
        if !is_polled && quiet < endpoint.options.spin && !pauses.are_crowded {
            self.is_attentive.store(true, Ordering::Relaxed);
            pauses.are_crowded = yields_to_others();
            return;
        }
        // A nap costs some microseconds of a processor that may have other work.
        let sent = endpoint.since(&endpoint.activity);
        let nap = match quiet.min(sent) {
            _ if is_polled && endpoint.bells.all_ring() => LONG_POLLED_NAP,
            _ if is_polled => POLLED_NAP,
            _ if sent < SENDING && endpoint.options.collects_posts => NAP,
            calm if endpoint.bells.all_ring() => (calm / 4).clamp(NAP, LONGEST_NAP),
            calm if calm < ATTENTIVE => (calm / 4).clamp(NAP, LONG_NAP),
            calm => (calm / 1000).clamp(LONG_NAP, LONGEST_NAP),
        };
        self.is_attentive.store(nap == NAP, Ordering::SeqCst);
        pauses.listening = endpoint.bells.listen(For::Receiver).map(|listening| (listening, nap));
        if pauses.listening.is_none() {
            self.rest_for(nap);
        }
    }

    /// Handles the posts of a message, and returns the call at its end.
    fn take_frames(
        &self,
        endpoint: &Arc<Endpoint>,
        message: Message,
        receiver: &mut Receiver,
    ) -> Taken {
        let (from, mut rest) = (message.from, &message.buffer[..message.bytes]);
        endpoint.hear(from);
        let (mut call, mut has_posts) = (None, false);
        while !rest.is_empty() {
            let Some((header, content)) = Header::take(&mut rest) else {
                endpoint.broken(from, message.bytes);
                break;
            };
            match header.kind {
                Kind::Post => {
                    has_posts = true;
                    endpoint.take_post(from, header, content);
                }
                Kind::Call | Kind::LongCall => {
                    let at = content.as_ptr() as usize - message.buffer.as_ptr() as usize;
                    call = Some((header, at));
                    break;
                }
                Kind::Beat => {}
                Kind::Bye => endpoint.take_bye(from),
            }
        }
        if has_posts && endpoint.awaiting_posts.load(Ordering::SeqCst) > 0 {
            endpoint.bells.ring_own(For::Callers);
        }
        match call {
            Some((header, at)) => {
                endpoint.note(&endpoint.heard);
                Taken::Call(Call { from, header, at, buffer: message.buffer })
            }
            None => {
                receiver.give_back(message.buffer);
                if !has_posts {
                    return Taken::Beats;
                }
                endpoint.note(&endpoint.heard);
                Taken::Posts
            }
        }
    }

    /// Rests, or watches for a role that no thread takes again. Returns false if the thread is not
    /// needed any more.
    fn rest_or_watch(&self, endpoint: &Arc<Endpoint>) -> bool {
        let is_calm = self.calm.load(Ordering::Relaxed) == self.given_up.load(Ordering::Relaxed);
        if !is_calm && !self.is_watched.swap(true, Ordering::AcqRel) {
            self.watch(endpoint);
            self.is_watched.store(false, Ordering::Release);
            return true;
        }
        if self.resting.fetch_add(1, Ordering::AcqRel) >= MOST_RESTING {
            self.resting.fetch_sub(1, Ordering::AcqRel);
            return false;
        }
        self.wait_for_work(REST);
        self.resting.fetch_sub(1, Ordering::AcqRel);
        true
    }

    /// Rests for a moment, unless a message is to be handled.
    fn rest_for(&self, time: Duration) {
        self.resting.fetch_add(1, Ordering::AcqRel);
        self.wait_for_work(time);
        self.resting.fetch_sub(1, Ordering::AcqRel);
    }

    fn wait_for_work(&self, limit: Duration) {
        let mut guard = self.rest.0.lock();
        if self.handed_over.lock().is_empty() {
            self.rest.1.wait_for(&mut guard, limit);
        }
    }

    /// Returns when the role should be taken, or when there are no calls to watch.
    fn watch(&self, endpoint: &Arc<Endpoint>) {
        let (mut seen, mut calm) = (self.given_up.load(Ordering::Relaxed), Instant::now());
        while !endpoint.is_over() {
            let is_late = match endpoint.bells.listen_as_deputy() {
                Some(listening) => listening.sleep(LONG_WATCH),
                None => {
                    std::thread::sleep(WATCH);
                    true
                }
            };
            let now = self.given_up.load(Ordering::Relaxed);
            let is_vacant = !self.has_receiver.load(Ordering::Relaxed)
                && endpoint.polling.load(Ordering::Relaxed) == 0;
            // A message has come, or the call that was handled at the last look lasts.
            if is_vacant && (now == seen || !is_late) {
                return;
            }
            match now == seen {
                false => (seen, calm) = (now, Instant::now()),
                true if calm.elapsed() > CALM => {
                    self.calm.store(seen, Ordering::Relaxed);
                    return;
                }
                true => {}
            }
        }
    }
}
