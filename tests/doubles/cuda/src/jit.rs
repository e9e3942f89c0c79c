//! Options and logs of the JIT compiler.

use longshore_double_gpu::driver::{Code, DriverResult, In, broken};
use std::ffi::c_void;

const MAX_REGISTERS: u32 = 0;
const THREADS_PER_BLOCK: u32 = 1;
const WALL_TIME: u32 = 2;
const INFO_LOG: u32 = 3;
const INFO_LOG_BYTES: u32 = 4;
const ERROR_LOG: u32 = 5;
const ERROR_LOG_BYTES: u32 = 6;
const OPTIMIZATION_LEVEL: u32 = 7;
const LOG_VERBOSE: u32 = 12;
const KNOWN: u32 = 36;
/// Limit for numbers. A larger value is a pointer, passed in place of a number.
const MOST_NUMBER: usize = 1 << 30;

/// Options of the JIT compiler: their numbers, and their values in the type of pointers.
#[derive(Clone, Copy)]
pub(crate) struct Options {
    pub(crate) count: u32,
    pub(crate) numbers: In<u32>,
    pub(crate) values: *mut *mut c_void,
}

impl Options {
    pub(crate) fn none() -> Options {
        Options { count: 0, numbers: In::none(), values: std::ptr::null_mut() }
    }
}

/// The options that a program passes to the JIT compiler.
#[derive(Default)]
pub(crate) struct Jit {
    info: Log,
    error: Log,
    pub(crate) is_verbose: bool,
}

/// A program's buffer for text, and the place for the size of that text.
#[derive(Default)]
struct Log {
    buffer: Option<*mut c_void>,
    bytes: usize,
    /// Place for the number of written bytes.
    written: Option<*mut *mut c_void>,
}

impl Jit {
    /// Reads options. Their values are numbers in the type of pointers, except for buffers.
    ///
    /// # Errors
    /// `INVALID_VALUE`, a violation, for impossible options.
    pub(crate) fn new(options: Options) -> DriverResult<Jit> {
        let mut jit = Jit::default();
        let numbers = options.numbers.list(options.count as usize)?;
        if options.values.is_null() && !numbers.is_empty() {
            return Err(broken(Code::INVALID_VALUE, "options of the JIT compiler without values"));
        }
        for (index, number) in numbers.into_iter().enumerate() {
            // SAFETY: the program passed as many values as options.
            let (place, value) = unsafe {
                let place = options.values.add(index);
                (place, place.read_unaligned())
            };
            jit.set(number, place, value)?;
        }
        jit.info.check()?;
        jit.error.check()?;
        Ok(jit)
    }

    /// Writes to the info log.
    pub(crate) fn inform(&self, text: &str) {
        self.info.write(text);
    }

    /// Writes to the error log.
    pub(crate) fn complain(&self, text: &str) {
        self.error.write(text);
    }

    fn set(&mut self, option: u32, place: *mut *mut c_void, value: *mut c_void) -> DriverResult {
        let number = value.addr();
        let refuse = || {
            let what = format!("option {option} of the JIT is {number:#x}");
            Err(broken(Code::INVALID_VALUE, what))
        };
        match option {
            INFO_LOG => self.info.buffer = Some(value),
            ERROR_LOG => self.error.buffer = Some(value),
            _ if option >= KNOWN => return refuse(),
            MAX_REGISTERS if !(1..=255).contains(&number) => return refuse(),
            THREADS_PER_BLOCK if !(1..=1024).contains(&number) => return refuse(),
            OPTIMIZATION_LEVEL if number > 4 => return refuse(),
            INFO_LOG_BYTES | ERROR_LOG_BYTES | LOG_VERBOSE if number > MOST_NUMBER => {
                return refuse();
            }
            INFO_LOG_BYTES => (self.info.bytes, self.info.written) = (number, Some(place)),
            ERROR_LOG_BYTES => (self.error.bytes, self.error.written) = (number, Some(place)),
            LOG_VERBOSE => self.is_verbose = number != 0,
            WALL_TIME => {}
            _ => {}
        }
        Ok(())
    }
}

impl Log {
    /// Checks that the program passed both the buffer and its size, or neither.
    fn check(&self) -> DriverResult {
        if self.buffer.is_some() == self.written.is_some() {
            return Ok(());
        }
        Err(broken(
            Code::INVALID_VALUE,
            "a log of the JIT without its size, or a size without a log",
        ))
    }

    fn write(&self, text: &str) {
        let (Some(buffer), Some(written)) = (self.buffer, self.written) else { return };
        if buffer.is_null() || self.bytes == 0 {
            return;
        }
        let bytes = &text.as_bytes()[..text.len().min(self.bytes - 1)];
        // SAFETY: the program passed a buffer of this size, and the place of its size for the
        // number of written bytes.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), buffer.cast(), bytes.len());
            buffer.cast::<u8>().add(bytes.len()).write(0);
            let count = std::ptr::without_provenance_mut(bytes.len() + 1);
            written.write_unaligned(count);
        }
    }
}
