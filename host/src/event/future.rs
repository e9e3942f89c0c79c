//! Events as futures, and the threads that wait for them.
//!
//! A plugin has no callback for an event, so threads of the library block in
//! [`Event::synchronize`]. The events of a queue are reached in the order of their records.
//! Therefore a thread that waits for one event serves the queue's later events as well, one after
//! the other. A second thread is needed for an earlier event alone. A thread without events ends
//! after a second.

use super::Event;
use longshore_plugin_api::{Error, ErrorCode, Result};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::{BTreeMap, HashMap};
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Time that a thread without events waits for the next one.
const LINGER: Duration = Duration::from_secs(1);

static WAITERS: LazyLock<Waiters> = LazyLock::new(Waiters::default);

/// A wait for an [`Event`], for any executor. Made by `event.await` or
/// [`Event::into_future`](IntoFuture::into_future). A thread of the library waits for the event and
/// wakes the task. The result is that of [`Event::synchronize`]. Dropping the future ends the wait
/// and nothing else: the work goes on.
///
/// ```
/// # let host = longshore::Host::new()?;
/// # if host.devices().is_empty() { return Ok(()) }
/// # let device = host.default_device()?;
/// async fn zeros(queue: &longshore::Queue) -> longshore::Result<longshore::Buffer<u32>> {
///     let buffer = queue.device().buffer(queue, 1024)?;
///     queue.record()?.await?;
///     Ok(buffer)
/// }
///
/// let queue = device.queue()?;
/// let buffer = pollster::block_on(zeros(&queue))?;
/// assert!(queue.is_idle()?);
/// # Ok::<(), longshore::Error>(())
/// ```
#[must_use = "a future waits only while it is awaited"]
pub struct EventFuture {
    event: Event,
    /// The wait of a thread for this future, from the first poll on.
    wait: Option<Arc<Mutex<Wait>>>,
}

/// The state of a future's wait.
enum Wait {
    Waiting(Waker),
    Done(Result<()>),
}

/// The events that futures wait for, and the threads that wait for the events.
#[derive(Default)]
struct Waiters {
    queues: Mutex<HashMap<u64, Awaiting>>,
    /// Signalled when a queue has a new event for a lingering thread.
    came: Condvar,
}

/// The awaited events of a queue, by the order of their records.
#[derive(Default)]
struct Awaiting {
    events: BTreeMap<u64, Awaited>,
    /// Number of threads that linger for this queue.
    lingering: usize,
}

struct Awaited {
    event: Event,
    waits: Vec<Arc<Mutex<Wait>>>,
    /// Whether a thread waits for this event now.
    attended: bool,
}

impl IntoFuture for Event {
    type Output = Result<()>;
    type IntoFuture = EventFuture;

    fn into_future(self) -> EventFuture {
        EventFuture { event: self, wait: None }
    }
}

impl IntoFuture for &Event {
    type Output = Result<()>;
    type IntoFuture = EventFuture;

    fn into_future(self) -> EventFuture {
        self.clone().into_future()
    }
}

impl EventFuture {
    /// Returns the event.
    pub fn event(&self) -> &Event {
        &self.event
    }
}

impl Drop for EventFuture {
    fn drop(&mut self) {
        if let Some(wait) = &self.wait {
            // Frees the task now, not when the event is reached.
            let before = std::mem::replace(&mut *wait.lock(), Wait::Done(Ok(())));
            drop(before);
        }
    }
}

impl Future for EventFuture {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        if let Some(wait) = &self.wait {
            let mut wait = wait.lock();
            return match &mut *wait {
                Wait::Done(result) => Poll::Ready(result.clone()),
                Wait::Waiting(waker) => {
                    waker.clone_from(context.waker());
                    Poll::Pending
                }
            };
        }
        // A complete event has its result without a wait.
        match self.event.refuse_own_queue().and_then(|()| self.event.is_complete()) {
            Ok(false) => {}
            Ok(true) => return Poll::Ready(self.event.synchronize()),
            Err(error) => return Poll::Ready(Err(error)),
        }
        let wait = Arc::new(Mutex::new(Wait::Waiting(context.waker().clone())));
        if let Err(error) = WAITERS.add(&self.event, Arc::clone(&wait)) {
            return Poll::Ready(Err(error));
        }
        self.wait = Some(wait);
        Poll::Pending
    }
}

impl Waiters {
    /// Adds a wait for an event, and finds a thread for it.
    ///
    /// # Errors
    /// `OutOfResources` if the thread cannot be started.
    fn add(&'static self, event: &Event, wait: Arc<Mutex<Wait>>) -> Result<()> {
        let (queue, place) = (event.shared.queue, event.shared.place);
        let mut queues = self.queues.lock();
        let awaiting = queues.entry(queue).or_default();
        let awaited = awaiting.events.entry(place).or_insert_with(|| {
            let event = event.clone();
            Awaited { event, waits: Vec::new(), attended: false }
        });
        // The waits of dropped futures have one owner.
        awaited.waits.retain(|wait| Arc::strong_count(wait) > 1);
        awaited.waits.push(wait);
        if awaiting.events.range(..=place).any(|(_, awaited)| awaited.attended) {
            return Ok(());
        }
        if awaiting.lingering > 0 {
            self.came.notify_all();
            return Ok(());
        }
        // The new thread has the event from now on, so that a later event finds it attended.
        let awaited = awaiting.events.get_mut(&place).expect("the event was added above");
        awaited.attended = true;
        let first = (place, awaited.event.clone());
        let thread = std::thread::Builder::new().name("longshore-await".to_owned());
        let started = thread.spawn(move || self.attend(queue, first));
        if let Err(error) = started {
            awaited.attended = false;
            // A thread that finishes another event now will find older waits for this one.
            awaited.waits.pop();
            if awaited.waits.is_empty() {
                awaiting.events.remove(&place);
            }
            let message =
                format!("a wait for an event needs a thread, which cannot start: {error}");
            return Err(Error::new(ErrorCode::OutOfResources, message));
        }
        Ok(())
    }

    /// Waits for the awaited events of a queue from `first` on, until none is left.
    fn attend(&self, queue: u64, first: (u64, Event)) {
        let mut queues = self.queues.lock();
        let mut attended = Some(first);
        while let Some((place, event)) = attended {
            let result = MutexGuard::unlocked(&mut queues, || event.synchronize());
            let awaiting = queues.entry(queue).or_default();
            let waits = awaiting.events.remove(&place).map(|awaited| awaited.waits);
            MutexGuard::unlocked(&mut queues, || {
                waits.iter().flatten().for_each(|wait| finish(wait, &result));
                // The last handle of an event may close its device.
                drop((waits, event));
            });
            attended = self.next(&mut queues, queue);
        }
    }

    /// Returns the first event of a queue that no thread waits for. Blocks until there is one;
    /// `None` after a time without.
    fn next(
        &self,
        queues: &mut MutexGuard<'_, HashMap<u64, Awaiting>>,
        queue: u64,
    ) -> Option<(u64, Event)> {
        loop {
            let awaiting = queues.entry(queue).or_default();
            let next = awaiting.events.iter_mut().find(|(_, awaited)| !awaited.attended);
            if let Some((place, awaited)) = next {
                awaited.attended = true;
                return Some((*place, awaited.event.clone()));
            }
            awaiting.lingering += 1;
            let timed_out = self.came.wait_for(queues, LINGER).timed_out();
            let awaiting = queues.entry(queue).or_default();
            awaiting.lingering -= 1;
            let is_idle = awaiting.events.values().all(|awaited| awaited.attended);
            if timed_out && is_idle {
                if awaiting.events.is_empty() && awaiting.lingering == 0 {
                    queues.remove(&queue);
                }
                return None;
            }
        }
    }
}

/// Stores the result of a wait, and wakes its task.
fn finish(wait: &Mutex<Wait>, result: &Result<()>) {
    let before = std::mem::replace(&mut *wait.lock(), Wait::Done(result.clone()));
    if let Wait::Waiting(waker) = before {
        waker.wake();
    }
}
