//! What the executor asks of this process, and what this process does when the executor is gone.

use std::sync::Arc;

use longshore_plugin_api::{Result, bounds};
use parking_lot::{Condvar, Mutex};
use serde::Serialize;

use super::functions::Functions;
use super::transfers::Transfers;
use super::watchdog::Watchdog;
use super::words::LastWords;
use crate::plugin::protocol::{self, CALL, Callback, POST, encode};
use crate::rpc::{Peer, Service};

/// Something that an isolated plugin logged.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    /// 1 for an error, up to 5.
    pub level: u32,
    /// Which part of the plugin speaks.
    pub target: &'a str,
    /// What it says.
    pub message: &'a str,
}

/// Where records go. Called from any thread; it must not block for long.
pub(super) type Log = Arc<dyn Fn(Record<'_>) + Send + Sync>;

/// The side of a process that its executor can call.
pub(super) struct Callbacks {
    pub(super) functions: Functions,
    pub(super) transfers: Transfers,
    pub(super) words: LastWords,
    pub(super) watchdog: Watchdog,
    log: Log,
    is_settled: (Mutex<bool>, Condvar),
}

impl Callbacks {
    pub(super) fn new(log: Log, watchdog: Watchdog) -> Self {
        Self {
            functions: Functions::default(),
            transfers: Transfers::default(),
            words: LastWords::default(),
            watchdog,
            log,
            is_settled: (Mutex::new(false), Condvar::new()),
        }
    }

    /// The executor is gone: takes the program's memory back, and runs the functions that its queues will not run. Blocks as those
    /// do.
    pub(super) fn settle(&self) {
        self.transfers.take_all_back();
        self.functions.run_all();
        *self.is_settled.0.lock() = true;
        self.is_settled.1.notify_all();
    }

    /// Blocks until nothing of what was queued is run or touched any more, unless this thread runs a part of it.
    pub(super) fn wait_until_settled(&self) {
        if self.functions.is_inside(None) {
            return;
        }
        let mut is_settled = self.is_settled.0.lock();
        while !*is_settled {
            self.is_settled.1.wait(&mut is_settled);
        }
    }

    fn answer(&self, callback: &Callback<'_>) -> Vec<u8> {
        match callback {
            Callback::Run { function } => {
                self.functions.run(*function);
                told(Ok(()))
            }
            Callback::Fetch { transfer, at, bytes } => {
                told(self.transfers.fetch(*transfer, *at, *bytes))
            }
            Callback::Store { transfer, at, bytes, content } => {
                told(self.transfers.store(*transfer, *at, *bytes, content))
            }
            Callback::Done { .. } | Callback::Log { .. } => {
                self.take(callback);
                told(Ok(()))
            }
        }
    }

    fn take(&self, callback: &Callback<'_>) {
        match callback {
            Callback::Done { transfer } => self.transfers.take_back(*transfer),
            Callback::Log { target, message, .. }
                if target.len().max(message.len()) > bounds::MESSAGE_BYTES =>
            {
                log::error!("the executor logs a record that is too long");
            }
            Callback::Log { level, target, message } => {
                self.words.add(message);
                (self.log)(Record { level: *level, target, message });
            }
            other => {
                log::error!("a callback that wants an answer came as one that does not: {other:?}")
            }
        }
    }
}

fn told<T: Serialize>(result: Result<T>) -> Vec<u8> {
    encode(&result)
}

impl Service for Callbacks {
    fn call(&self, _: &Arc<Peer>, method: u32, argument: &[u8]) -> Result<Vec<u8>, String> {
        if method != CALL {
            return Err(format!("the host has no method {method}"));
        }
        let callback = protocol::decode(argument).map_err(|error| error.to_string())?;
        let _busy = self.watchdog.pause();
        Ok(self.answer(&callback))
    }

    fn post(&self, _: &Arc<Peer>, method: u32, argument: &[u8]) {
        match protocol::decode(argument) {
            Ok(callback) if method == POST => self.take(&callback),
            Ok(_) => log::error!("the executor sends a message of method {method}"),
            Err(error) => log::error!("from the executor: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_beyond_its_bound_is_not_passed_on() {
        let passed = Arc::new(Mutex::new(Vec::new()));
        let log = {
            let passed = Arc::clone(&passed);
            move |record: Record<'_>| {
                passed.lock().push((record.target.len(), record.message.len()));
            }
        };
        let callbacks = Callbacks::new(Arc::new(log), Watchdog::new(None));
        let long = "x".repeat(bounds::MESSAGE_BYTES + 1);
        let most = &long[1..];
        for (target, message) in [(most, most), (&*long, "x"), ("x", &*long), ("x", "y")] {
            callbacks.take(&Callback::Log { level: 1, target, message });
        }
        assert_eq!(*passed.lock(), [(most.len(), most.len()), (1, 1)]);
    }
}
