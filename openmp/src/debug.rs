//! Debug lines, which `LIBOMPTARGET_DEBUG` turns on: lines with LLVM's words where tools match
//! them, and the records of the log.

use crate::message;
use crate::settings;
use log::{Level, LevelFilter, Log, Metadata, Record};

/// Prints a debug line if these are wanted.
macro_rules! debug {
    ($($text:tt)*) => {
        if $crate::settings::debugs() {
            $crate::message::debug(format_args!($($text)*));
        }
    };
}
pub(crate) use debug;

/// The targets of this crate's records.
const OWN: &str = "longshore_openmp";

/// A logger that prints records as debug lines.
struct Lines;

/// Has the records of the log printed as debug lines, if these are wanted: down to the level
/// `debug`, from `LIBOMPTARGET_DEBUG=2` on down to `trace`. A logger of the program stays.
#[cold]
pub(crate) fn log_records() {
    if settings::debugs() && log::set_logger(&Lines).is_ok() {
        let level = settings::number("LIBOMPTARGET_DEBUG").unwrap_or(1);
        log::set_max_level(if level > 1 { LevelFilter::Trace } else { LevelFilter::Debug });
    }
}

impl Log for Lines {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        if record.level() > log::max_level() {
            return;
        }
        let origin = if record.target().starts_with(OWN) { "omptarget" } else { "Longshore" };
        let kind = match record.level() {
            Level::Error => "error: ",
            Level::Warn => "warning: ",
            Level::Info | Level::Debug | Level::Trace => "",
        };
        message::plain(format_args!("{origin} --> {kind}{}\n", record.args()));
    }

    fn flush(&self) {}
}
