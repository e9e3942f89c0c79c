//! Streams of the C library, which device code names by handles.

use super::opcodes::{Opcode, Output};
use parking_lot::Mutex;
use std::ffi::{CString, c_int};
use std::io::Write as _;

unsafe extern "C" {
    #[link_name = "stdin"]
    static C_INPUT: *mut libc::FILE;
    #[link_name = "stdout"]
    static C_OUTPUT: *mut libc::FILE;
    #[link_name = "stderr"]
    static C_ERROR: *mut libc::FILE;
}

/// A stream of the C library, which locks it in each call.
#[derive(Clone, Copy)]
pub(super) struct Stream(*mut libc::FILE);

// SAFETY: functions of the C library lock the stream.
unsafe impl Send for Stream {}

/// The files that device code has opened. A handle is a multiple of 16. The low 2 bits of a handle
/// from the device are a tag: 1 standard input, 2 standard output, 3 standard error.
#[derive(Default)]
pub(super) struct Streams {
    open: Mutex<Vec<Option<Stream>>>,
}

const HANDLE_STEP: u64 = 16;

impl Streams {
    /// Returns the stream of an output; `None` for a handle of no open file.
    pub(super) fn output(&self, output: Output, handle: u64) -> Option<Stream> {
        match output {
            Output::Standard => Some(standard(&raw const C_OUTPUT)),
            Output::Error => Some(standard(&raw const C_ERROR)),
            Output::Stream => self.find(handle),
        }
    }

    /// Returns the stream of a handle; `None` for a handle of no open file.
    pub(super) fn find(&self, handle: u64) -> Option<Stream> {
        match handle & 3 {
            1 => Some(standard(&raw const C_INPUT)),
            2 => Some(standard(&raw const C_OUTPUT)),
            3 => Some(standard(&raw const C_ERROR)),
            _ => self.open.lock().get(place(handle)?).copied().flatten(),
        }
    }

    /// Opens a file, and returns its handle; 0 for a failure.
    pub(super) fn open(&self, path: &[u8], mode: &[u8]) -> u64 {
        let (Some(path), Some(mode)) = (text(path), text(mode)) else { return 0 };
        // SAFETY: both are C strings.
        let file = unsafe { libc::fopen(path.as_ptr(), mode.as_ptr()) };
        if file.is_null() {
            return 0;
        }
        let mut open = self.open.lock();
        open.push(Some(Stream(file)));
        open.len() as u64 * HANDLE_STEP
    }

    /// Closes a file, and returns 0; -1 for a failure.
    pub(super) fn close(&self, handle: u64) -> c_int {
        let mut open = self.open.lock();
        let stream = place(handle).and_then(|place| open.get_mut(place)?.take());
        // SAFETY: the stream was open, and nothing uses it any more.
        stream.map_or(-1, |stream| unsafe { libc::fclose(stream.0) })
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        for stream in self.open.get_mut().drain(..).flatten() {
            // SAFETY: the stream is open, and nothing uses it any more.
            unsafe { libc::fclose(stream.0) };
        }
    }
}

impl Stream {
    /// Writes bytes, and returns the number of written bytes.
    pub(super) fn write(self, bytes: &[u8]) -> usize {
        // SAFETY: the stream is open, and the bytes are readable.
        unsafe { libc::fwrite(bytes.as_ptr().cast(), 1, bytes.len(), self.0) }
    }

    /// Reads up to `most` bytes.
    pub(super) fn read(self, most: usize) -> Vec<u8> {
        let mut bytes = vec![0; most];
        // SAFETY: the stream is open, and the buffer has as many bytes.
        let count = unsafe { libc::fread(bytes.as_mut_ptr().cast(), 1, most, self.0) };
        bytes.truncate(count);
        bytes
    }

    /// Reads a line of fewer than `most` bytes, with a zero byte behind it; nothing at the end.
    pub(super) fn read_line(self, most: usize) -> Vec<u8> {
        let mut bytes = vec![0u8; most.min(c_int::MAX as usize)];
        if bytes.is_empty() {
            return bytes;
        }
        let size = bytes.len() as c_int;
        // SAFETY: the stream is open, and the buffer has as many bytes.
        let found = unsafe { libc::fgets(bytes.as_mut_ptr().cast(), size, self.0) };
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len() - 1);
        bytes.truncate(if found.is_null() { 0 } else { end + 1 });
        bytes
    }

    /// Moves the place of the next byte; returns -1 for a failure.
    pub(super) fn seek(self, offset: i64, origin: c_int) -> i64 {
        // SAFETY: the stream is open.
        i64::from(unsafe { libc::fseek(self.0, offset, origin) })
    }

    /// Puts a character back; returns -1 for a failure.
    pub(super) fn put_back(self, character: c_int) -> i64 {
        // SAFETY: the stream is open.
        i64::from(unsafe { libc::ungetc(character, self.0) })
    }

    /// Returns what C's function for a call without further arguments returns.
    pub(super) fn ask(self, call: Opcode) -> i64 {
        // SAFETY: the stream is open.
        unsafe {
            match call {
                Opcode::IsAtEnd => i64::from(libc::feof(self.0)),
                Opcode::HasError => i64::from(libc::ferror(self.0)),
                Opcode::Tell => libc::ftell(self.0),
                Opcode::Flush => i64::from(libc::fflush(self.0)),
                _ => {
                    libc::clearerr(self.0);
                    0
                }
            }
        }
    }
}

/// Returns a standard stream of the C library.
fn standard(place: *const *mut libc::FILE) -> Stream {
    // SAFETY: the place is a variable of the C library, which sets it before any thread starts.
    Stream(unsafe { *place })
}

/// Writes all buffered output of the process.
pub(super) fn flush_all() {
    // SAFETY: null stands for all streams.
    unsafe { libc::fflush(std::ptr::null_mut()) };
    let _ = std::io::stdout().flush();
}

/// Returns the bytes before the first zero byte as a C string.
pub(super) fn text(bytes: &[u8]) -> Option<CString> {
    CString::new(bytes.split(|byte| *byte == 0).next()?).ok()
}

fn place(handle: u64) -> Option<usize> {
    let is_handle = handle != 0 && handle.is_multiple_of(HANDLE_STEP);
    if is_handle { Some((handle / HANDLE_STEP - 1) as usize) } else { None }
}
