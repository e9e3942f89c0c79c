//! Answers to queries, as the library writes them to the program's memory.

use crate::types::enumerations::*;
use crate::types::structures::*;
use crate::types::trace::{Pointee, TraceValue};
use longshore::{Error, ErrorCode, Result};
use std::ffi::{c_char, c_void};

/// An answer.
pub(crate) enum InfoReply {
    Text(String),
    Bool(bool),
    U32(u32),
    U64(u64),
    Dimensions([u32; 3]),
    /// A handle, an address or a size.
    Word(usize),
}

impl InfoReply {
    pub(crate) fn from_handle<T>(handle: *mut T) -> InfoReply {
        InfoReply::Word(handle as usize)
    }

    /// Returns the size in bytes; the NUL of a text counts.
    pub(crate) fn size(&self) -> usize {
        match self {
            InfoReply::Text(text) => text.len() + 1,
            InfoReply::Bool(_) => 1,
            InfoReply::U32(_) => 4,
            InfoReply::U64(_) | InfoReply::Word(_) => 8,
            InfoReply::Dimensions(_) => 12,
        }
    }

    /// Writes the answer to memory of `size` bytes.
    ///
    /// # Errors
    /// `InvalidSize` if `size` is too small, `InvalidNullPointer` for a null pointer.
    ///
    /// # Safety
    /// There are `size` bytes of memory, unless the pointer is null.
    pub(crate) unsafe fn write(&self, size: usize, value: *mut c_void) -> Result<()> {
        if size < self.size() {
            let message = format!("room for {size} bytes, the answer has {}", self.size());
            return Err(Error::new(ErrorCode::InvalidSize, message));
        }
        // SAFETY: there is room for the answer, as checked above.
        unsafe {
            match self {
                InfoReply::Text(text) => {
                    write_bytes(value, text.as_bytes())?;
                    write_bytes(value.byte_add(text.len()), &[0])
                }
                InfoReply::Bool(truth) => write_bytes(value, &[u8::from(*truth)]),
                InfoReply::U32(number) => write_bytes(value, &number.to_ne_bytes()),
                InfoReply::U64(number) => write_bytes(value, &number.to_ne_bytes()),
                InfoReply::Word(number) => write_bytes(value, &number.to_ne_bytes()),
                InfoReply::Dimensions([x, y, z]) => {
                    write(value.cast(), ol_dimensions_t { x: *x, y: *y, z: *z })
                }
            }
        }
    }
}

/// Writes an answer of a function.
///
/// # Errors
/// `InvalidNullPointer` for a null pointer.
///
/// # Safety
/// There is memory for the value, unless the pointer is null.
pub(crate) unsafe fn write<T>(to: *mut T, value: T) -> Result<()> {
    if to.is_null() {
        return Err(Error::new(
            ErrorCode::InvalidNullPointer,
            "the pointer for the answer is null",
        ));
    }
    // SAFETY: promised by the caller.
    unsafe { to.write_unaligned(value) };
    Ok(())
}

unsafe fn write_bytes(to: *mut c_void, bytes: &[u8]) -> Result<()> {
    if to.is_null() {
        return Err(Error::new(
            ErrorCode::InvalidNullPointer,
            "the pointer for the answer is null",
        ));
    }
    // SAFETY: promised by the caller.
    unsafe { to.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    Ok(())
}

/// Declares the two functions for queries about a kind of object: for an answer, and for its size.
/// The module of the macro's call defines `reply`.
macro_rules! queries {
    ($handle:ty, $query:ty) => {
        pub(crate) unsafe fn info(
            object: $handle,
            query: $query,
            size: usize,
            value: *mut std::ffi::c_void,
        ) -> Result<()> {
            // SAFETY: promised by the caller.
            unsafe { reply(object, query)?.write(size, value) }
        }

        pub(crate) unsafe fn info_size(
            object: $handle,
            query: $query,
            size: *mut usize,
        ) -> Result<()> {
            // SAFETY: promised by the caller.
            unsafe { info::write(size, reply(object, query)?.size()) }
        }
    };
}
pub(crate) use queries;

/// Creates the error for an unknown query.
#[cold]
pub(crate) fn unknown(what: &str, number: u32) -> Error {
    Error::new(ErrorCode::InvalidEnumeration, format!("{number} is not a query about a {what}"))
}

/// Implements the display of answers to queries, for traces.
macro_rules! shows {
    ($($query:ident { $($kind:ty => $($name:ident),*;)* })*) => {$(
        impl $query {
            /// Shows the answer to a query.
            pub(crate) fn show_value(self, size: usize, value: *const c_void, line: &mut String) {
                match self {
                    $($($name)|* if size >= size_of::<$kind>() => <$kind>::show_at(value.cast(), line),)*
                    _ => {}
                }
            }
        }
    )*};
}

shows! {
    ol_platform_info_t {
        c_char => OL_PLATFORM_INFO_NAME, OL_PLATFORM_INFO_VENDOR_NAME, OL_PLATFORM_INFO_VERSION;
        ol_platform_backend_t => OL_PLATFORM_INFO_BACKEND;
    }
    ol_device_info_t {
        ol_device_type_t => OL_DEVICE_INFO_TYPE;
        ol_platform_handle_t => OL_DEVICE_INFO_PLATFORM;
        c_char => OL_DEVICE_INFO_NAME, OL_DEVICE_INFO_PRODUCT_NAME, OL_DEVICE_INFO_UID, OL_DEVICE_INFO_VENDOR,
            OL_DEVICE_INFO_DRIVER_VERSION;
        ol_dimensions_t => OL_DEVICE_INFO_MAX_WORK_GROUP_SIZE_PER_DIMENSION, OL_DEVICE_INFO_MAX_WORK_SIZE_PER_DIMENSION;
        u64 => OL_DEVICE_INFO_MAX_MEM_ALLOC_SIZE, OL_DEVICE_INFO_GLOBAL_MEM_SIZE, OL_DEVICE_INFO_WORK_GROUP_LOCAL_MEM_SIZE;
        bool => OL_DEVICE_INFO_SINGLE_FP_SUPPORT, OL_DEVICE_INFO_DOUBLE_FP_SUPPORT, OL_DEVICE_INFO_HALF_FP_SUPPORT,
            OL_DEVICE_INFO_COOPERATIVE_LAUNCH_SUPPORT;
        u32 => OL_DEVICE_INFO_MAX_WORK_GROUP_SIZE, OL_DEVICE_INFO_MAX_WORK_SIZE, OL_DEVICE_INFO_VENDOR_ID,
            OL_DEVICE_INFO_NUM_COMPUTE_UNITS, OL_DEVICE_INFO_MAX_CLOCK_FREQUENCY, OL_DEVICE_INFO_MEMORY_CLOCK_RATE,
            OL_DEVICE_INFO_ADDRESS_BITS, OL_DEVICE_INFO_SINGLE_FP_CONFIG, OL_DEVICE_INFO_DOUBLE_FP_CONFIG,
            OL_DEVICE_INFO_HALF_FP_CONFIG, OL_DEVICE_INFO_NATIVE_VECTOR_WIDTH_CHAR, OL_DEVICE_INFO_NATIVE_VECTOR_WIDTH_SHORT,
            OL_DEVICE_INFO_NATIVE_VECTOR_WIDTH_INT, OL_DEVICE_INFO_NATIVE_VECTOR_WIDTH_LONG,
            OL_DEVICE_INFO_NATIVE_VECTOR_WIDTH_FLOAT, OL_DEVICE_INFO_NATIVE_VECTOR_WIDTH_DOUBLE,
            OL_DEVICE_INFO_NATIVE_VECTOR_WIDTH_HALF;
    }
    ol_mem_info_t {
        ol_device_handle_t => OL_MEM_INFO_DEVICE;
        *mut c_void => OL_MEM_INFO_BASE;
        usize => OL_MEM_INFO_SIZE;
        ol_alloc_type_t => OL_MEM_INFO_TYPE;
    }
    ol_queue_info_t {
        ol_device_handle_t => OL_QUEUE_INFO_DEVICE;
        bool => OL_QUEUE_INFO_EMPTY;
    }
    ol_event_info_t {
        ol_queue_handle_t => OL_EVENT_INFO_QUEUE;
        bool => OL_EVENT_INFO_IS_COMPLETE;
    }
    ol_symbol_info_t {
        ol_symbol_kind_t => OL_SYMBOL_INFO_KIND;
        *mut c_void => OL_SYMBOL_INFO_GLOBAL_VARIABLE_ADDRESS;
        usize => OL_SYMBOL_INFO_GLOBAL_VARIABLE_SIZE;
    }
}

/// Implements the display of enumerators behind pointers.
macro_rules! enumerators {
    ($($kind:ident),*) => { crate::types::trace::pointees!($($kind),*); };
}
enumerators!(ol_device_type_t, ol_alloc_type_t, ol_symbol_kind_t);
const _: fn(&ol_device_type_t, &mut String) = <ol_device_type_t as TraceValue>::show;
