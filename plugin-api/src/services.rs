//! Services of the host for a plugin.

use crate::abi;
use crate::raw::{collect, text};
use log::{Level, LevelFilter, Log, Metadata, Record};
use std::sync::OnceLock;

/// A handle of the host's services. Valid while the plugin is loaded, on any thread.
#[derive(Clone, Copy)]
pub struct Services {
    raw: &'static abi::Services,
}

// SAFETY: the interface promises that services may be used from any thread.
unsafe impl Send for Services {}
// SAFETY: as above.
unsafe impl Sync for Services {}

impl Services {
    /// Creates a handle from the argument of `connect`.
    ///
    /// # Safety
    /// `raw` stays valid until the library is closed.
    pub unsafe fn from_raw(raw: *const abi::Services) -> Services {
        // SAFETY: promised by the caller.
        Services { raw: unsafe { &*raw } }
    }

    /// Returns the user's setting `name` for this backend (`LONGSHORE_<BACKEND>_<NAME>`); `None`
    /// for an unset one.
    pub fn setting(&self, name: &str) -> Option<String> {
        let mut found = 0;
        let value = collect(usize::MAX, |sink| {
            // SAFETY: the host's function, with a sink that lives during the call.
            found = unsafe { (self.raw.setting)(self.raw.context, text(name), sink) };
        });
        (found != 0).then(|| String::from_utf8_lossy(&value.into_host_bytes()).into_owned())
    }

    /// Sends this library's `log` records to the host, so that one filter governs all records. The
    /// glue calls this function before [`Plugin::connect`](crate::Plugin::connect).
    pub fn forward_log(&self) {
        static FORWARD: OnceLock<Services> = OnceLock::new();
        let services = FORWARD.get_or_init(|| *self);
        // A library that is connected again has its logger already.
        let _ = log::set_logger(services);
        // SAFETY: the host's function.
        let level = unsafe { (self.raw.log_level)(self.raw.context) };
        log::set_max_level(level_filter(level));
    }
}

impl Log for Services {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &Record<'_>) {
        let message = record.args().to_string();
        let (level, target) = (record.level() as u32, text(record.target()));
        // SAFETY: the host's function, with strings that live during the call.
        unsafe { (self.raw.log)(self.raw.context, level, target, text(&message)) }
    }

    fn flush(&self) {}
}

/// Returns the filter with this number: 0 off, 1 error, 2 warn, 3 info, 4 debug, else trace.
pub fn level_filter(value: u32) -> LevelFilter {
    level(value).map_or(LevelFilter::Off, |level| level.to_level_filter())
}

/// Returns the level with this number, as for [`level_filter`]; `None` for 0.
pub fn level(value: u32) -> Option<Level> {
    match value {
        0 => None,
        1 => Some(Level::Error),
        2 => Some(Level::Warn),
        3 => Some(Level::Info),
        4 => Some(Level::Debug),
        _ => Some(Level::Trace),
    }
}
