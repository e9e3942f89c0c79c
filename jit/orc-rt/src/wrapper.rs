//! Wrapper functions, the one kind of function called from another process (ORC's
//! `WrapperFunction`). Each takes bytes and returns bytes; their meaning is up to the caller and
//! the function.
//!
//! Functions of this crate take and return serde values in postcard's format: a [`Service`] names
//! their types.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The type of a function that takes bytes, and fills a reply that is empty at the call.
///
/// The argument is valid until the function returns. Nothing may unwind out of the function.
pub type WrapperFunction =
    unsafe extern "C" fn(argument: *const u8, size: usize, reply: *mut Reply);

/// The reply of a wrapper function: bytes, or the reason why it could not be called. In C:
///
/// ```c
/// struct longshore_reply { unsigned char *data; size_t size; unsigned char is_error; };
/// ```
///
/// `data` is null, or memory from `malloc` that the caller of the function frees. With `is_error`
/// the bytes are a UTF-8 text with the error of the call. Otherwise the bytes contain the result of
/// the work, even of failed work.
#[repr(C)]
#[derive(Debug)]
pub struct Reply {
    data: *mut u8,
    size: usize,
    is_error: bool,
}

// SAFETY: the reply owns memory that any thread may free.
unsafe impl Send for Reply {}

impl Reply {
    /// Creates a reply without bytes.
    pub const fn new() -> Self {
        Self { data: null_mut(), size: 0, is_error: false }
    }

    /// Makes a copy of these bytes the reply's result.
    pub fn set(&mut self, bytes: &[u8]) {
        *self = Self::copy(bytes, false);
    }

    /// Makes the reply an error with this text.
    pub fn fail(&mut self, problem: &str) {
        *self = Self::copy(problem.as_bytes(), true);
    }

    /// Returns the bytes of the result, or the text of the error.
    ///
    /// # Errors
    /// The text of an error reply.
    pub fn result(&self) -> Result<&[u8], String> {
        let bytes = match self.data.is_null() {
            true => &[],
            // SAFETY: `size` is the number of bytes at `data`, as set by the function that filled
            // the reply. The bytes belong to the reply.
            false => unsafe { std::slice::from_raw_parts(self.data, self.size) },
        };
        match self.is_error {
            true => Err(String::from_utf8_lossy(bytes).into_owned()),
            false => Ok(bytes),
        }
    }

    fn copy(bytes: &[u8], is_error: bool) -> Self {
        if bytes.is_empty() {
            return Self { is_error, ..Self::new() };
        }
        // SAFETY: the size is not zero.
        let data = unsafe { libc::malloc(bytes.len()) }.cast::<u8>();
        if data.is_null() {
            return Self { is_error: true, ..Self::new() };
        }
        // SAFETY: the memory was allocated for this number of bytes.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), data, bytes.len()) };
        Self { data, size: bytes.len(), is_error }
    }
}

impl Default for Reply {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        // SAFETY: the pointer is null or from `malloc`, and the reply is its only owner.
        unsafe { libc::free(self.data.cast::<c_void>()) };
    }
}

/// Calls the wrapper function at an address of this process. Blocks until it returns.
///
/// # Errors
/// The text of an error reply, and an error for a null address.
///
/// # Safety
/// The address must be that of a [`WrapperFunction`] that may be called with these bytes.
pub unsafe fn call(function: u64, argument: &[u8]) -> Result<Vec<u8>, String> {
    if function == 0 {
        return Err("the function is null".to_owned());
    }
    // SAFETY: guaranteed by the caller.
    let function = unsafe {
        std::mem::transmute::<*const (), WrapperFunction>(std::ptr::with_exposed_provenance(
            function as usize,
        ))
    };
    let mut reply = Reply::new();
    // SAFETY: guaranteed by the caller; the argument and the reply live during the call.
    unsafe { function(argument.as_ptr(), argument.len(), &mut reply) };
    reply.result().map(<[u8]>::to_vec)
}

/// Executes the body of a wrapper function: decodes its argument, calls a closure with it, and
/// encodes the closure's result. A malformed argument or a panic becomes an error.
///
/// # Safety
/// `argument` must be valid for reads of `size` bytes, and `reply` for writes.
pub unsafe fn serve<A: DeserializeOwned, R: Serialize>(
    argument: *const u8,
    size: usize,
    reply: *mut Reply,
    function: impl FnOnce(A) -> R,
) {
    // SAFETY: guaranteed by the caller.
    let (argument, reply) = unsafe { (bytes(argument, size), &mut *reply) };
    match decode_reply(argument, function) {
        Ok(decode_reply) => reply.set(&decode_reply),
        Err(problem) => reply.fail(&problem),
    }
}

fn decode_reply<A: DeserializeOwned, R: Serialize>(
    argument: &[u8],
    function: impl FnOnce(A) -> R,
) -> Result<Vec<u8>, String> {
    let argument = decode(argument).map_err(|problem| format!("its argument: {problem}"))?;
    let result = catch_unwind(AssertUnwindSafe(|| function(argument)));
    let result = result.map_err(|panic| format!("it panicked: {}", text_of(&*panic)))?;
    Ok(encode(&result))
}

/// # Safety
/// `start` must be valid for reads of `size` bytes while the slice is used.
pub(crate) unsafe fn bytes<'a>(start: *const u8, size: usize) -> &'a [u8] {
    match size {
        0 => &[],
        // SAFETY: guaranteed by the caller.
        _ => unsafe { std::slice::from_raw_parts(start, size) },
    }
}

fn text_of(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a message")
}

/// A wrapper function that every process with this crate has: its name among the
/// [`bootstrap_symbols`](crate::bootstrap_symbols), and the types of its argument and result.
pub struct Service<A, R> {
    name: &'static str,
    types: PhantomData<fn(A) -> R>,
}

impl<A: Serialize, R: DeserializeOwned> Service<A, R> {
    pub(crate) const fn new(name: &'static str) -> Self {
        Self { name, types: PhantomData }
    }

    /// Returns the name by which the process gives the function's address.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Encodes the argument of a call.
    pub fn argument(&self, argument: &A) -> Vec<u8> {
        encode(argument)
    }

    /// Decodes the result of a call.
    ///
    /// # Errors
    /// A text for malformed bytes.
    pub fn decode_reply(&self, bytes: &[u8]) -> Result<R, String> {
        decode(bytes).map_err(|problem| format!("its reply: {problem}"))
    }
}

impl<A, R> Clone for Service<A, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A, R> Copy for Service<A, R> {}

fn encode(value: &impl Serialize) -> Vec<u8> {
    postcard::to_stdvec(value)
        .expect("values of services have known lengths, and memory does not end")
}

fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let (value, rest) = postcard::take_from_bytes(bytes).map_err(|error| error.to_string())?;
    match rest.len() {
        0 => Ok(value),
        rest => Err(format!("{rest} of its {} bytes are left over", bytes.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call_of(function: WrapperFunction, argument: &[u8]) -> Result<Vec<u8>, String> {
        // SAFETY: the functions of these tests may be called with any bytes.
        unsafe { call(function as *const () as u64, argument) }
    }

    unsafe extern "C" fn half(argument: *const u8, size: usize, reply: *mut Reply) {
        // SAFETY: the function is called as a wrapper function.
        unsafe {
            serve(argument, size, reply, |(number, name): (u32, String)| {
                assert!(number < 100, "{number} is too much");
                (number % 2 == 0).then(|| format!("{name}{}", number / 2))
            });
        }
    }

    const HALF: Service<(u32, String), Option<String>> = Service::new("half");

    fn half_of(number: u32) -> Result<Option<String>, String> {
        let argument = HALF.argument(&(number, "n".to_owned()));
        call_of(half, &argument).and_then(|decode_reply| HALF.decode_reply(&decode_reply))
    }

    #[test]
    fn values_pass_both_ways() {
        assert_eq!(half_of(42), Ok(Some("n21".to_owned())));
        assert_eq!(half_of(41), Ok(None));
    }

    #[test]
    fn a_panic_is_an_error_of_the_call() {
        assert_eq!(half_of(100), Err("it panicked: 100 is too much".to_owned()));
    }

    #[test]
    fn bytes_that_are_no_argument_are_an_error_of_the_call() {
        let argument = HALF.argument(&(42, "n".to_owned()));
        for damaged in [&argument[..argument.len() - 1], &[&argument[..], &[0]].concat(), &[]] {
            let problem = call_of(half, damaged).unwrap_err();
            assert!(problem.starts_with("its argument: "), "{problem}");
        }
    }

    #[test]
    fn bytes_that_are_no_answer_are_an_error() {
        assert!(
            HALF.decode_reply(&[]).is_err()
                && HALF.decode_reply(&[2]).is_err()
                && HALF.decode_reply(&[0, 0]).is_err()
        );
    }

    #[test]
    fn a_null_function_is_an_error() {
        // SAFETY: a null function is not called.
        assert!(unsafe { call(0, &[]) }.is_err());
    }

    #[test]
    fn a_reply_has_the_last_that_was_put_into_it() {
        let mut reply = Reply::new();
        assert_eq!(reply.result(), Ok(&[][..]));
        reply.set(b"bytes");
        assert_eq!(reply.result(), Ok(&b"bytes"[..]));
        reply.fail("text");
        assert_eq!(reply.result(), Err("text".to_owned()));
        reply.set(&[]);
        assert_eq!(reply.result(), Ok(&[][..]));
    }
}
