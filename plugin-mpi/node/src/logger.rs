//! The logger of a node: its records go to the program.

use std::cell::Cell;
use std::sync::{Arc, OnceLock};

use log::{Level, LevelFilter, Log, Metadata, Record};
use longshore_executor::plugin::Channel;
use longshore_mpi_backend::hello::{self, LOG, LogRecord};

/// The logger, which sends records once a program has said hello.
pub(crate) struct Logger {
    program: OnceLock<Arc<dyn Channel>>,
}

pub(crate) static LOGGER: Logger = Logger { program: OnceLock::new() };

/// Greatest number of bytes of a record's text.
const MOST: usize = 8 << 10;

/// Returns the level of records before the program says hello. Plugins ask for it as they connect,
/// and pass no record beyond it on later.
pub(crate) fn first_level() -> LevelFilter {
    let filter = std::env::var("LONGSHORE_LOG").unwrap_or_default();
    match (filter.contains("trace"), filter.contains("debug")) {
        (true, _) => LevelFilter::Trace,
        (_, true) => LevelFilter::Debug,
        _ => LevelFilter::Info,
    }
}

impl Logger {
    /// Begins to send records up to `level` to the program.
    pub(crate) fn send_to(&self, program: Arc<dyn Channel>, level: u32) {
        let _ = self.program.set(program);
        log::set_max_level(longshore_mpi_backend::hello::level_filter(level));
    }
}

thread_local! {
    static IS_SENDING: Cell<bool> = const { Cell::new(false) };
}

impl Log for Logger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &Record<'_>) {
        // Sending a record may log.
        if !self.enabled(record.metadata()) || IS_SENDING.replace(true) {
            return;
        }
        let mut message = record.args().to_string();
        message.truncate(message.floor_char_boundary(MOST));
        let mut target = record.target().to_owned();
        target.truncate(target.floor_char_boundary(MOST));
        let level = record.level() as u32;
        match self.program.get() {
            Some(program) => {
                let record = hello::encode(&LogRecord { level, target, message });
                // If the program is gone, so is the reader of its log.
                let _ = program.post(LOG, &record);
            }
            None if record.level() == Level::Error => eprintln!("longshore-node: {message}"),
            None => {}
        }
        IS_SENDING.set(false);
    }

    fn flush(&self) {}
}
