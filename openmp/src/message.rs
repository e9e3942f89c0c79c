//! Texts for users on standard error, with the prefixes of LLVM's library, which tools match
//! literally.

use crate::settings;
use std::ffi::CString;
use std::fmt::{Arguments, Display};
use std::io::Write;

fn write(text: Arguments<'_>) {
    // One write per message, so that messages of several threads do not mix.
    let text = text.to_string();
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// Prints information about a device; a debug line if these are wanted.
pub(crate) fn info(device: impl Display, text: Arguments<'_>) {
    match settings::debugs() {
        true => write(format_args!("omptarget --> {text}\n")),
        false => write(format_args!("omptarget device {device} info: {text}\n")),
    }
}

/// Prints information about a device to the standard output.
pub(crate) fn info_to_output(device: usize, text: Arguments<'_>) {
    to_output(format_args!("omptarget device {device} info: {text}"));
}

/// Prints a line to the standard output of C, in order with the program's own output.
pub(crate) fn to_output(text: Arguments<'_>) {
    if let Ok(text) = CString::new(text.to_string()) {
        // SAFETY: the text ends with a zero byte.
        unsafe { libc::puts(text.as_ptr()) };
    }
}

/// Prints information about a device, with the prefix of LLVM's plugins.
pub(crate) fn plugin_info(device: usize, text: Arguments<'_>) {
    match settings::debugs() {
        true => write(format_args!("PluginInterface --> {text}\n")),
        false => write(format_args!("\"PluginInterface\" device {device} info: {text}\n")),
    }
}

/// Prints a debug line.
#[cold]
pub(crate) fn debug(text: Arguments<'_>) {
    write(format_args!("omptarget --> {text}\n"));
}

/// Prints a message.
pub(crate) fn message(text: Arguments<'_>) {
    write(format_args!("omptarget message: {text}\n"));
}

/// Prints an error.
pub(crate) fn error(text: Arguments<'_>) {
    write(format_args!("omptarget error: {text}\n"));
}

/// Prints a line without a prefix.
pub(crate) fn plain(text: Arguments<'_>) {
    write(format_args!("{text}"));
}

/// Prints an error and aborts the process.
pub(crate) fn fatal(number: i64, text: Arguments<'_>) -> ! {
    write(format_args!("omptarget fatal error {number}: {text}\n"));
    std::process::abort()
}
