//! Buffers in which a thread encodes its messages, kept for the next message.

use std::cell::Cell;
use std::thread::LocalKey;

/// A thread's buffer for one purpose.
pub(super) type Scratch = Cell<Vec<u8>>;

/// Takes the buffer. It is new where the thread's variables are destroyed already, as in
/// destructors of static variables.
pub(super) fn take(of: &'static LocalKey<Scratch>) -> Vec<u8> {
    let mut bytes = of.try_with(Cell::take).unwrap_or_default();
    bytes.clear();
    bytes
}

/// Keeps the buffer for the next [`take`], unless the thread's variables are destroyed.
pub(super) fn keep(of: &'static LocalKey<Scratch>, bytes: Vec<u8>) {
    let _ = of.try_with(|kept| kept.set(bytes));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Sender, channel};

    thread_local! {
        static BYTES: Scratch = const { Cell::new(Vec::new()) };
        static LAST: Cell<Option<ExitNotifier>> = const { Cell::new(None) };
    }

    struct ExitNotifier(Sender<bool>);

    impl Drop for ExitNotifier {
        fn drop(&mut self) {
            let is_gone = BYTES.try_with(|_| ()).is_err();
            keep(&BYTES, take(&BYTES));
            let _ = self.0.send(is_gone);
        }
    }

    #[test]
    fn memory_is_used_again_and_after_the_threads_own_has_gone_it_is_new() {
        let (send, gone) = channel();
        std::thread::spawn(move || {
            // Destructors run in the reverse order of first uses, so the destructor of `LAST` runs
            // last.
            LAST.set(Some(ExitNotifier(send)));
            keep(&BYTES, Vec::with_capacity(100));
            let again = take(&BYTES);
            assert!(again.capacity() >= 100 && again.is_empty());
            keep(&BYTES, again);
        });
        assert!(gone.recv().unwrap(), "the destructor that was to be last was not");
    }
}
