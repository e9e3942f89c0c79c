//! Results: errors that live as long as the process, each made once.

use crate::enumerations::ol_errc_t;
use crate::structures::{ol_error_struct_t, ol_result_t};
use longshore::ErrorCode;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString};

/// So many different errors are told apart; of more, the kind alone is told.
const MOST: usize = 1 << 16;

/// By what they say. A tree, as it points to where its parts begin: tools that look for leaks then find what it has.
static ANSWERS: Mutex<BTreeMap<(u32, &'static CStr), Answer>> = Mutex::new(BTreeMap::new());

#[derive(Clone, Copy)]
struct Answer(ol_result_t);

// SAFETY: it points to what never changes or ends.
unsafe impl Send for Answer {}

/// The result for an error.
pub(crate) fn of(code: ErrorCode, message: &str) -> ol_result_t {
    let mut answers = ANSWERS.lock();
    let text = match answers.len() < MOST {
        true => CString::new(message.replace('\0', "?")),
        false => CString::new(format!("{code:?}; there were too many errors to say more")),
    };
    let (code, text) = (code as u32, text.unwrap_or_default());
    if let Some(Answer(known)) = answers.get(&(code, text.as_c_str())) {
        return *known;
    }
    let text: &'static CStr = Box::leak(text.into_boxed_c_str());
    let error = ol_error_struct_t { Code: ol_errc_t(code), Details: text.as_ptr() };
    let answer: &'static ol_error_struct_t = Box::leak(Box::new(error));
    answers.insert((code, text), Answer(answer));
    answer
}
