//! Requests of the executor to this process, and this process's actions at the end of the executor.

use std::sync::{Arc, OnceLock, Weak};

use longshore_plugin_api::{Error, ErrorCode, Result, bounds};
use parking_lot::{Condvar, Mutex};
use serde::Serialize;

use super::functions::Functions;
use super::last_records::LastRecords;
use super::transfers::Transfers;
use super::watchdog::Watchdog;
use crate::plugin::channel::{Bulk, Channel, Handler};
use crate::plugin::protocol::{self, CALL, Callback, POST, encode};
use crate::rpc::{Peer, Service};

/// A log record of an isolated plugin.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    /// The severity, from 1 for an error to 5.
    pub level: u32,
    /// The part of the plugin that logs.
    pub target: &'a str,
    /// The text of the record.
    pub message: &'a str,
}

/// The receiver of records. Called from any thread; it must not block for long.
pub(super) type Log = Arc<dyn Fn(Record<'_>) + Send + Sync>;

/// The functions and state of this process that its executor can reach.
pub(super) struct Callbacks {
    pub(super) functions: Functions,
    pub(super) transfers: Transfers,
    pub(super) last_records: LastRecords,
    pub(super) watchdog: Watchdog,
    /// The channel of these callbacks, if it has transfers.
    channel: OnceLock<Weak<dyn Channel>>,
    log: Log,
    is_finished: (Mutex<bool>, Condvar),
}

impl Callbacks {
    pub(super) fn new(log: Log, watchdog: Watchdog) -> Self {
        Self {
            functions: Functions::default(),
            transfers: Transfers::default(),
            last_records: LastRecords::default(),
            watchdog,
            channel: OnceLock::new(),
            log,
            is_finished: (Mutex::new(false), Condvar::new()),
        }
    }

    /// Sets the channel for transfers.
    pub(super) fn set_channel(&self, channel: &Arc<dyn Channel>) {
        let _ = self.channel.set(Arc::downgrade(channel));
    }

    /// Handles the end of the executor: takes the program's memory back, and runs the functions
    /// that the executor's queues will not run. Blocks as the functions do.
    pub(super) fn finish(&self) {
        self.transfers.take_all_back();
        self.functions.run_all();
        *self.is_finished.0.lock() = true;
        self.is_finished.1.notify_all();
    }

    /// Blocks until no queued function runs and no queued memory is touched any more, unless the
    /// calling thread runs such a function.
    pub(super) fn wait_until_finished(&self) {
        if self.functions.is_inside(None) {
            return;
        }
        let mut is_finished = self.is_finished.0.lock();
        while !*is_finished {
            self.is_finished.1.wait(&mut is_finished);
        }
    }

    fn reply(&self, callback: &Callback<'_>) -> Vec<u8> {
        match callback {
            Callback::Run { function } => {
                self.functions.run(*function);
                encode_reply(Ok(()))
            }
            Callback::Fetch { transfer, at, bytes, bulk: None } => {
                let content = self.transfers.fetch(*transfer, *at, *bytes);
                encode_reply(content.map(serde_bytes::ByteBuf::from))
            }
            Callback::Fetch { transfer, at, bytes, bulk: Some(number) } => {
                encode_reply(self.with_bulk(|bulk| {
                    let sent = self.transfers.send(*transfer, *at, *bytes, (bulk, *number));
                    sent.map(|()| Vec::<u8>::new())
                }))
            }
            Callback::Store { transfer, at, bytes, content, bulk: None } => {
                encode_reply(self.transfers.store(*transfer, *at, *bytes, content))
            }
            Callback::Store { transfer, at, bytes, bulk: Some(number), .. } => {
                encode_reply(self.with_bulk(|bulk| {
                    self.transfers.receive(*transfer, *at, *bytes, (bulk, *number))
                }))
            }
            Callback::Done { .. } | Callback::Log { .. } => {
                self.take(callback);
                encode_reply(Ok(()))
            }
        }
    }

    fn with_bulk<T>(&self, run: impl FnOnce(&dyn Bulk) -> Result<T>) -> Result<T> {
        let channel = self.channel.get().and_then(Weak::upgrade);
        match channel.as_ref().and_then(|channel| channel.bulk()) {
            Some(bulk) => run(bulk),
            None => Err(Error::new(ErrorCode::InvalidArgument, "the channel has no transfers")),
        }
    }

    fn take(&self, callback: &Callback<'_>) {
        match callback {
            Callback::Done { transfer } => self.transfers.take_back(*transfer),
            Callback::Log { target, message, .. }
                if target.len().max(message.len()) > bounds::MESSAGE_BYTES =>
            {
                log::error!(
                    "a log record of the executor is longer than a plugin's message may be and is dropped"
                );
            }
            Callback::Log { level, target, message } => {
                self.last_records.add(message);
                (self.log)(Record { level: *level, target, message });
            }
            other => {
                log::error!(
                    "a callback that needs a reply came as a message without one: {other:?}"
                )
            }
        }
    }
}

fn encode_reply<T: Serialize>(result: Result<T>) -> Vec<u8> {
    encode(&result)
}

impl Service for Callbacks {
    fn call(&self, _: &Arc<Peer>, method: u32, argument: &[u8]) -> Result<Vec<u8>, String> {
        Handler::call(self, method, argument)
    }

    fn post(&self, _: &Arc<Peer>, method: u32, argument: &[u8]) {
        Handler::post(self, method, argument);
    }
}

impl Handler for Callbacks {
    fn call(&self, method: u32, argument: &[u8]) -> Result<Vec<u8>, String> {
        if method != CALL {
            return Err(format!("the host has no method {method}"));
        }
        let callback = protocol::decode(argument).map_err(|error| error.to_string())?;
        let _busy = self.watchdog.pause();
        Ok(self.reply(&callback))
    }

    fn post(&self, method: u32, argument: &[u8]) {
        match protocol::decode(argument) {
            Ok(callback) if method == POST => self.take(&callback),
            Ok(_) => log::error!("the executor sent a message of the unknown method {method}"),
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
