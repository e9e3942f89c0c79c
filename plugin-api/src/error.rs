//! Errors: a code of LLVM's `ol_errc_t` and a message.

use crate::text::printable;
use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The kind of an error. The values equal LLVM's `ol_errc_t`.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum ErrorCode {
    /// An error without a code of its own, or a code unknown to this version.
    Unknown = 1,
    /// A file, pipe or process of the host could not be used.
    HostIo = 2,
    /// The image is malformed, truncated, or of a format or architecture that the device lacks.
    InvalidBinary = 3,
    /// A pointer was null where null is not allowed.
    InvalidNullPointer = 4,
    /// An argument does not fit the call.
    InvalidArgument = 5,
    /// A name, file, device or allocation does not exist.
    NotFound = 6,
    /// Memory, descriptors or another resource ran out.
    OutOfResources = 7,
    /// A size is zero, too large, or not a multiple of the required size.
    InvalidSize = 8,
    /// A number is not a value of its enumeration.
    InvalidEnumeration = 9,
    /// A tool of the host (`ptxas`, `ld.lld`) is not installed.
    HostToolNotFound = 10,
    /// A value is out of range or cannot be parsed.
    InvalidValue = 11,
    /// A valid request that is not implemented yet, or a query without an answer from the device.
    Unimplemented = 12,
    /// A valid request beyond this device or plugin, or a call in a host function, where it would
    /// deadlock.
    Unsupported = 13,
    /// The device assembler failed.
    AssembleFailure = 14,
    /// The device compiler failed.
    CompileFailure = 15,
    /// The image could not be linked: undefined or duplicate symbols.
    LinkFailure = 16,
    /// The plugin, the driver or the device failed.
    BackendFailure = 17,
    /// The runtime is not initialised, or the object was closed before.
    Uninitialized = 18,
    /// A handle was null where null is not allowed.
    InvalidNullHandle = 19,
    /// The platform does not exist or is the wrong one.
    InvalidPlatform = 20,
    /// The device does not exist or is the wrong one.
    InvalidDevice = 21,
    /// The queue does not exist or is the wrong one.
    InvalidQueue = 22,
    /// The event does not exist, is the wrong one, or is in the wrong state.
    InvalidEvent = 23,
    /// The symbol is of the other kind: a kernel instead of a global, or a global instead of a
    /// kernel.
    SymbolKind = 24,
}

impl ErrorCode {
    /// All codes, in order of their values.
    pub const ALL: &[ErrorCode] = &[
        ErrorCode::Unknown,
        ErrorCode::HostIo,
        ErrorCode::InvalidBinary,
        ErrorCode::InvalidNullPointer,
        ErrorCode::InvalidArgument,
        ErrorCode::NotFound,
        ErrorCode::OutOfResources,
        ErrorCode::InvalidSize,
        ErrorCode::InvalidEnumeration,
        ErrorCode::HostToolNotFound,
        ErrorCode::InvalidValue,
        ErrorCode::Unimplemented,
        ErrorCode::Unsupported,
        ErrorCode::AssembleFailure,
        ErrorCode::CompileFailure,
        ErrorCode::LinkFailure,
        ErrorCode::BackendFailure,
        ErrorCode::Uninitialized,
        ErrorCode::InvalidNullHandle,
        ErrorCode::InvalidPlatform,
        ErrorCode::InvalidDevice,
        ErrorCode::InvalidQueue,
        ErrorCode::InvalidEvent,
        ErrorCode::SymbolKind,
    ];

    /// Returns the code with this value; [`ErrorCode::Unknown`] for any other value.
    pub fn from_raw(value: u32) -> ErrorCode {
        (value as usize)
            .checked_sub(1)
            .and_then(|index| Self::ALL.get(index))
            .copied()
            .unwrap_or(ErrorCode::Unknown)
    }

    /// Returns the name of LLVM's enumerator: `OL_ERRC_INVALID_SIZE`.
    pub fn llvm_name(self) -> &'static str {
        match self {
            ErrorCode::Unknown => "OL_ERRC_UNKNOWN",
            ErrorCode::HostIo => "OL_ERRC_HOST_IO",
            ErrorCode::InvalidBinary => "OL_ERRC_INVALID_BINARY",
            ErrorCode::InvalidNullPointer => "OL_ERRC_INVALID_NULL_POINTER",
            ErrorCode::InvalidArgument => "OL_ERRC_INVALID_ARGUMENT",
            ErrorCode::NotFound => "OL_ERRC_NOT_FOUND",
            ErrorCode::OutOfResources => "OL_ERRC_OUT_OF_RESOURCES",
            ErrorCode::InvalidSize => "OL_ERRC_INVALID_SIZE",
            ErrorCode::InvalidEnumeration => "OL_ERRC_INVALID_ENUMERATION",
            ErrorCode::HostToolNotFound => "OL_ERRC_HOST_TOOL_NOT_FOUND",
            ErrorCode::InvalidValue => "OL_ERRC_INVALID_VALUE",
            ErrorCode::Unimplemented => "OL_ERRC_UNIMPLEMENTED",
            ErrorCode::Unsupported => "OL_ERRC_UNSUPPORTED",
            ErrorCode::AssembleFailure => "OL_ERRC_ASSEMBLE_FAILURE",
            ErrorCode::CompileFailure => "OL_ERRC_COMPILE_FAILURE",
            ErrorCode::LinkFailure => "OL_ERRC_LINK_FAILURE",
            ErrorCode::BackendFailure => "OL_ERRC_BACKEND_FAILURE",
            ErrorCode::Uninitialized => "OL_ERRC_UNINITIALIZED",
            ErrorCode::InvalidNullHandle => "OL_ERRC_INVALID_NULL_HANDLE",
            ErrorCode::InvalidPlatform => "OL_ERRC_INVALID_PLATFORM",
            ErrorCode::InvalidDevice => "OL_ERRC_INVALID_DEVICE",
            ErrorCode::InvalidQueue => "OL_ERRC_INVALID_QUEUE",
            ErrorCode::InvalidEvent => "OL_ERRC_INVALID_EVENT",
            ErrorCode::SymbolKind => "OL_ERRC_SYMBOL_KIND",
        }
    }
}

/// A vendor's own error: its name and its number in the vendor's API.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct VendorError {
    /// Name of the error: `CUDA_ERROR_OUT_OF_MEMORY`.
    pub name: String,
    /// Number that the vendor's call returned.
    pub number: i64,
}

/// An error: a code and a message, with the vendor's own error if there is one. The message names
/// the object, the wrong value and the expected one.
///
/// An error made from another error has that error as its [`source`](std::error::Error::source)
/// within the process. Only code, message and the vendor's own error cross the boundary between a
/// plugin and the host; the boundary between processes also passes [`Error::is_breach`]. Equality
/// ignores sources.
///
/// ```
/// use longshore_plugin_api::{Error, ErrorCode};
/// use std::error::Error as _;
///
/// let message = "no memory for 4096 bytes on device 0, which has 1024";
/// let error = Error::new(ErrorCode::OutOfResources, message)
///     .with_vendor("CUDA_ERROR_OUT_OF_MEMORY", 2)
///     .context("loading 'k.img'");
/// assert_eq!(error.code(), ErrorCode::OutOfResources);
/// assert_eq!(error.message(), format!("loading 'k.img': {message}"));
/// assert!(error.to_string().ends_with("[CUDA_ERROR_OUT_OF_MEMORY 2]"));
///
/// let cause = std::io::Error::other("the disk is full");
/// let error = Error::new(ErrorCode::HostIo, format!("writing 'p.profraw': {cause}"));
/// assert!(error.with_source(cause).source().is_some());
/// ```
#[derive(Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(from = "ErrorFacts", into = "ErrorFacts"))]
pub struct Error(Box<Contents>);

#[derive(Clone)]
struct Contents {
    facts: ErrorFacts,
    source: Option<Source>,
}

type Source = Arc<dyn std::error::Error + Send + Sync>;

#[derive(Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
struct ErrorFacts {
    code: ErrorCode,
    message: String,
    vendor: Option<VendorError>,
    is_breach: bool,
}

/// Bounds the parts and makes them printable, as [`Error::new`] does: another process may have made
/// them.
impl From<ErrorFacts> for Error {
    fn from(facts: ErrorFacts) -> Error {
        let mut error = Error::new(facts.code, facts.message);
        error.0.facts.is_breach = facts.is_breach;
        match facts.vendor {
            Some(VendorError { name, number }) => error.with_vendor(name, number),
            None => error,
        }
    }
}

impl From<Error> for ErrorFacts {
    fn from(error: Error) -> ErrorFacts {
        error.0.facts
    }
}

/// The result of a fallible operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Limit of a message in bytes. Callers' names and drivers' logs can have any length.
const MESSAGE_BYTES: usize = 16 << 10;
/// Number of bytes kept from the end of a longer message.
const END_BYTES: usize = 4 << 10;

impl Error {
    /// Creates an error without a vendor's error. A message above 16 KiB loses its middle. Control
    /// characters of the message become escapes, as in [`printable`].
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Error {
        let message = in_print(bounded(message.into()));
        let facts = ErrorFacts { code, message, vendor: None, is_breach: false };
        Error(Box::new(Contents { facts, source: None }))
    }

    /// Creates the `Unsupported` error of a call in a host function of `queue` that would wait for
    /// the queue, and so for the end of that function. `call` names the call: "synchronizing a
    /// queue".
    #[cold]
    pub fn would_deadlock(call: impl fmt::Display, queue: &str) -> Error {
        let message = format!(
            "{call} in a host function of {queue} would deadlock: the call waits for the function, \
             which waits for the call; call it on another thread, or after the function \
             returns"
        );
        Error::new(ErrorCode::Unsupported, message)
    }

    /// Creates the error of a caught panic in `place`: "the launch panicked: ...".
    pub fn from_panic(place: &str, payload: Box<dyn Any + Send>) -> Error {
        let said = match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
            (Some(said), _) => said,
            (_, Some(said)) => said.as_str(),
            _ => "no message",
        };
        let error = Error::new(ErrorCode::BackendFailure, format!("{place} panicked: {said}"));
        // The drop of a payload may panic; the payload of that second panic is leaked.
        if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            std::mem::forget(another);
        }
        error
    }

    /// Returns the same error with the vendor's name and number.
    #[must_use]
    pub fn with_vendor(mut self, name: impl Into<String>, number: i64) -> Error {
        let name = in_print(bounded(name.into()));
        self.0.facts.vendor = Some(VendorError { name, number });
        self
    }

    /// Returns the same error with its cause, for [`source`](std::error::Error::source). The
    /// message does not change: it contains the text of the cause already.
    #[must_use]
    pub fn with_source(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Error {
        self.0.source = Some(Arc::new(source));
        self
    }

    /// Returns the same error with the failed operation in front of its message: "loading 'k.so':
    /// ...".
    #[must_use]
    pub fn context(mut self, doing: impl fmt::Display) -> Error {
        let doing = in_print(doing.to_string());
        self.0.facts.message = bounded(format!("{doing}: {}", self.0.facts.message));
        self
    }

    /// Returns the code of the error.
    pub fn code(&self) -> ErrorCode {
        self.0.facts.code
    }

    /// Returns the message without the vendor's error.
    pub fn message(&self) -> &str {
        &self.0.facts.message
    }

    /// Returns the same error, marked as a breach; see [`Error::is_breach`].
    #[must_use]
    pub fn into_breach(mut self) -> Error {
        self.0.facts.is_breach = true;
        self
    }

    /// Returns whether a plugin's answer was beyond one of the [`bounds`](crate::bounds): the
    /// plugin is at fault, not its driver or device.
    pub fn is_breach(&self) -> bool {
        self.0.facts.is_breach
    }

    /// Returns the vendor's own error, if there is one.
    pub fn vendor(&self) -> Option<&VendorError> {
        self.0.facts.vendor.as_ref()
    }

    fn describe(&self) -> String {
        let ErrorFacts { message, vendor, .. } = &self.0.facts;
        match vendor {
            Some(vendor) => format!("{message} [{} {}]", vendor.name, vendor.number),
            None => message.clone(),
        }
    }
}

impl PartialEq for Error {
    fn eq(&self, other: &Error) -> bool {
        self.0.facts == other.0.facts
    }
}

impl Eq for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        let source = self.0.source.as_deref()?;
        Some(source)
    }
}

/// Creates the error for an ability that a backend lacks: "this backend has no pinning of host
/// memory".
pub(crate) fn unsupported(what: &str) -> Error {
    Error::new(ErrorCode::Unsupported, format!("this backend has no {what}"))
}

/// Leaves out the middle of a message above [`MESSAGE_BYTES`].
pub(crate) fn bounded(message: String) -> String {
    if message.len() <= MESSAGE_BYTES {
        return message;
    }
    // Leaves 64 bytes of room for the words in between.
    let mut start = MESSAGE_BYTES - END_BYTES - 64;
    while !message.is_char_boundary(start) {
        start -= 1;
    }
    let mut end = message.len() - END_BYTES;
    while !message.is_char_boundary(end) {
        end += 1;
    }
    let (before, after) = (&message[..start], &message[end..]);
    format!("{before} ... ({} bytes are left out) ... {after}", end - start)
}

/// Escapes control characters; copies the text only if it has any.
fn in_print(text: String) -> String {
    match printable(&text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(escaped) => escaped,
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.code(), self.describe())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_and_the_end_of_a_long_message_are_kept() {
        for unit in ["a", "ü", "\u{1f600}"] {
            let message = format!("<{}>", unit.repeat(MESSAGE_BYTES));
            let error = Error::new(ErrorCode::NotFound, message).context("doing");
            let said = error.message();
            assert!(said.len() <= MESSAGE_BYTES, "{}", said.len());
            assert!(said.starts_with("doing: <") && said.ends_with('>'));
            assert!(said.contains(" bytes are left out) ... "));
        }
        let short = "b".repeat(MESSAGE_BYTES);
        assert_eq!(Error::new(ErrorCode::NotFound, &*short).message(), short);
    }

    #[test]
    fn a_source_is_kept_by_clones_and_does_not_make_errors_differ() {
        use std::error::Error as _;
        let plain = Error::new(ErrorCode::HostIo, "cannot read 'f': denied");
        assert!(plain.source().is_none());
        let cause = std::io::Error::new(std::io::ErrorKind::PermissionDenied, "denied");
        let error = plain.clone().with_source(cause);
        assert_eq!(error, plain);
        let changed = error.clone().context("loading").with_vendor("E", 1).into_breach();
        for error in [error, changed] {
            let cause = error.source().and_then(|cause| cause.downcast_ref::<std::io::Error>());
            assert_eq!(cause.unwrap().kind(), std::io::ErrorKind::PermissionDenied);
        }
    }

    #[test]
    fn a_deadlock_is_unsupported_and_says_what_to_do() {
        let error = Error::would_deadlock("closing a device", "a queue of that device");
        assert_eq!(error.code(), ErrorCode::Unsupported);
        let message = error.message();
        assert!(message.starts_with("closing a device in a host function of a queue of that"));
        assert!(message.contains("on another thread"), "{message}");
    }

    #[test]
    fn codes_survive_the_trip_through_their_numbers() {
        for &code in ErrorCode::ALL {
            assert_eq!(ErrorCode::from_raw(code as u32), code);
        }
        assert_eq!(ErrorCode::from_raw(0), ErrorCode::Unknown);
        assert_eq!(ErrorCode::from_raw(25), ErrorCode::Unknown);
    }

    #[test]
    fn a_message_cannot_write_to_the_terminal_by_escape_codes() {
        let error = Error::new(ErrorCode::NotFound, "no '\u{1b}[2Jf'").with_vendor("\u{7}", 1);
        let error = error.context("\u{1b}]0;title");
        let expected = "\\u{1b}]0;title: no '\\u{1b}[2Jf' [\\u{7} 1]";
        assert_eq!(error.to_string(), expected);
        assert_eq!(format!("{error:?}"), format!("NotFound: {expected}"));
    }
}
