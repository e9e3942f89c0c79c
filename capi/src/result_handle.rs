//! Results: errors that live until the process ends, each created once.

use crate::types::enumerations::ol_errc_t;
use crate::types::structures::{ol_error_struct_t, ol_result_t};
use longshore::ErrorCode;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString};

/// Limit of the size of all texts in bytes. Above it, an error has only its code.
const MOST_BYTES: usize = 8 << 20;

static RESULTS: Mutex<ResultHandles> =
    Mutex::new(ResultHandles { known: BTreeMap::new(), bytes: 0 });

struct ResultHandles {
    /// Results by code and text. The map is a tree, which points to the beginnings of its parts:
    /// leak checkers then find its contents.
    known: BTreeMap<(u32, &'static CStr), ResultHandle>,
    /// Size of all texts in bytes.
    bytes: usize,
}

#[derive(Clone, Copy)]
struct ResultHandle(ol_result_t);

// SAFETY: the pointer's target never changes and never ends.
unsafe impl Send for ResultHandle {}

/// Returns the result for an error.
pub(crate) fn for_error(code: ErrorCode, message: &str) -> ol_result_t {
    let mut results = RESULTS.lock();
    let text = match results.bytes + message.len() <= MOST_BYTES {
        true => CString::new(message.replace('\0', "?")),
        false => CString::new(format!("{code:?}; the text is left out after too many errors")),
    };
    let (code, text) = (code as u32, text.unwrap_or_default());
    if let Some(ResultHandle(known)) = results.known.get(&(code, text.as_c_str())) {
        return *known;
    }
    results.bytes += text.as_bytes_with_nul().len();
    let text: &'static CStr = Box::leak(text.into_boxed_c_str());
    let error = ol_error_struct_t { Code: ol_errc_t(code), Details: text.as_ptr() };
    let handle: &'static ol_error_struct_t = Box::leak(Box::new(error));
    results.known.insert((code, text), ResultHandle(handle));
    handle
}
