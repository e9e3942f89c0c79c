//! Results: errors that live as long as the process, each made once.

use crate::types::enumerations::ol_errc_t;
use crate::types::structures::{ol_error_struct_t, ol_result_t};
use longshore::ErrorCode;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString};

/// Limit of the bytes of all texts. Of an error beyond it the code alone is told.
const MOST_BYTES: usize = 8 << 20;

static RESULTS: Mutex<ResultHandles> =
    Mutex::new(ResultHandles { known: BTreeMap::new(), bytes: 0 });

struct ResultHandles {
    /// By their texts. A tree, as it points to where its parts begin: tools that look for leaks then find what it has.
    known: BTreeMap<(u32, &'static CStr), ResultHandle>,
    /// Bytes of all texts.
    bytes: usize,
}

#[derive(Clone, Copy)]
struct ResultHandle(ol_result_t);

// SAFETY: it points to what never changes or ends.
unsafe impl Send for ResultHandle {}

/// Returns the result for an error.
pub(crate) fn for_error(code: ErrorCode, message: &str) -> ol_result_t {
    let mut results = RESULTS.lock();
    let text = match results.bytes + message.len() <= MOST_BYTES {
        true => CString::new(message.replace('\0', "?")),
        false => CString::new(format!("{code:?}; there were too many errors to say more")),
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
