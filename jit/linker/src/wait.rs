//! Blocking on futures.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use parking_lot::{Condvar, Mutex};

/// Blocks until a future is ready. A future that is ready at its first poll costs nothing.
///
/// The function works after the thread-local variables of its thread are gone, unlike common
/// executors: sessions are used when a process ends.
pub fn wait<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        return output;
    }
    let signal = Arc::new(Signal::default());
    let waker = Waker::from(Arc::clone(&signal));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => signal.wait(),
        }
    }
}

/// A flag that says whether a future wants to be polled again.
#[derive(Default)]
struct Signal {
    is_set: Mutex<bool>,
    changed: Condvar,
}

impl Signal {
    fn wait(&self) {
        let mut is_set = self.is_set.lock();
        while !std::mem::take(&mut *is_set) {
            self.changed.wait(&mut is_set);
        }
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        *self.is_set.lock() = true;
        self.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    /// Returns a future that another thread makes ready, after it was polled a few times.
    fn answered_elsewhere() -> impl Future<Output = u32> {
        let mut polls = 0;
        poll_fn(move |context| {
            polls += 1;
            if polls == 4 {
                return Poll::Ready(polls);
            }
            let waker = context.waker().clone();
            thread::spawn(move || waker.wake());
            Poll::Pending
        })
    }

    #[test]
    fn an_answer_of_another_thread_is_waited_for() {
        // The waker of the first poll does nothing, so the first wake is lost.
        assert_eq!(wait(answered_elsewhere()), 4);
        assert_eq!(wait(async { 5 }), 5);
    }

    #[test]
    fn it_works_while_a_threads_variables_go() {
        struct Late(mpsc::Sender<u32>);

        impl Drop for Late {
            fn drop(&mut self) {
                self.0.send(wait(answered_elsewhere())).unwrap();
            }
        }

        thread_local!(static LATE: std::cell::RefCell<Option<Late>> = const { std::cell::RefCell::new(None) });
        let (send, receive) = mpsc::channel();
        let ends = thread::spawn(move || {
            LATE.set(Some(Late(send)));
            // Variables that this call sets up are destroyed before `LATE`.
            wait(answered_elsewhere())
        });
        assert_eq!(ends.join().unwrap(), 4);
        assert_eq!(receive.recv(), Ok(4));
    }
}
