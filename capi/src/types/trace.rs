//! The values in a line of `OFFLOAD_TRACE`, in LLVM's form.

use std::ffi::{CStr, c_char, c_void};
use std::fmt::Write;

/// A value that a trace shows.
pub(crate) trait TraceValue {
    fn show(&self, line: &mut String);

    /// Shows the value as an argument of a call. A successful call has written the targets of
    /// pointers.
    fn show_argument(&self, _succeeded: bool, line: &mut String) {
        self.show(line);
    }
}

/// A type behind pointers. A trace shows it in parentheses after the address, or not at all.
pub(crate) trait Pointee {
    fn show_at(at: *const Self, line: &mut String);
}

/// The fields of a structure: `.A = 1, .B = 2`.
pub(crate) struct Fields<'a> {
    line: &'a mut String,
    is_first: bool,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(line: &'a mut String) -> Fields<'a> {
        Fields { line, is_first: true }
    }

    pub(crate) fn show(&mut self, name: &str, value: &impl TraceValue) {
        self.name(name);
        value.show(self.line);
    }

    fn name(&mut self, name: &str) {
        let comma = if std::mem::take(&mut self.is_first) { "" } else { ", " };
        // A keyword of Rust is not a keyword of C.
        let name = name.trim_start_matches("r#");
        let _ = write!(self.line, "{comma}.{name} = ");
    }
}

/// The parameters of a call, in the form of [`Fields`].
pub(crate) struct Parameters<'a> {
    fields: Fields<'a>,
    succeeded: bool,
}

impl<'a> Parameters<'a> {
    pub(crate) fn new(line: &'a mut String, succeeded: bool) -> Parameters<'a> {
        Parameters { fields: Fields::new(line), succeeded }
    }

    pub(crate) fn show(&mut self, name: &str, value: &impl TraceValue) {
        self.fields.name(name);
        value.show_argument(self.succeeded, self.fields.line);
    }
}

fn show_pointer<T: Pointee>(at: *const T, is_valid: bool, line: &mut String) {
    match at.is_null() {
        true => line.push_str("nullptr"),
        false => {
            let _ = write!(line, "{:#x}", at as usize);
            if is_valid {
                T::show_at(at, line);
            }
        }
    }
}

impl<T: Pointee> TraceValue for *const T {
    fn show(&self, line: &mut String) {
        show_pointer(*self, true, line);
    }

    fn show_argument(&self, succeeded: bool, line: &mut String) {
        show_pointer(*self, succeeded, line);
    }
}

impl<T: Pointee> TraceValue for *mut T {
    fn show(&self, line: &mut String) {
        show_pointer(self.cast_const(), true, line);
    }

    fn show_argument(&self, succeeded: bool, line: &mut String) {
        show_pointer(self.cast_const(), succeeded, line);
    }
}

impl Pointee for c_void {
    fn show_at(_: *const c_void, _: &mut String) {}
}

impl Pointee for c_char {
    fn show_at(at: *const c_char, line: &mut String) {
        // SAFETY: a successful call got a text that ends with a NUL.
        let text = unsafe { CStr::from_ptr(at) }.to_string_lossy();
        let _ = write!(line, " ({text})");
    }
}

/// Implements the display of values of these types behind pointers.
macro_rules! pointees {
    ($($kind:ty),*) => {$(
        impl Pointee for $kind {
            fn show_at(at: *const $kind, line: &mut String) {
                line.push_str(" (");
                // SAFETY: a successful call has read or written the value.
                unsafe { at.read_unaligned() }.show(line);
                line.push(')');
            }
        }
    )*};
}
pub(crate) use pointees;

macro_rules! numbers {
    ($($kind:ty),*) => {
        $(impl TraceValue for $kind {
            fn show(&self, line: &mut String) {
                let _ = write!(line, "{self}");
            }
        })*
        pointees!($($kind),*);
    };
}
numbers!(u32, u64, usize, f32);
pointees!(bool);

impl TraceValue for bool {
    fn show(&self, line: &mut String) {
        line.push(if *self { '1' } else { '0' });
    }
}

impl<T> Pointee for *mut T
where
    *mut T: TraceValue,
{
    fn show_at(at: *const *mut T, line: &mut String) {
        line.push_str(" (");
        // SAFETY: a successful call has read or written the value.
        unsafe { at.read_unaligned() }.show(line);
        line.push(')');
    }
}

impl<T> Pointee for *const T
where
    *const T: TraceValue,
{
    fn show_at(at: *const *const T, line: &mut String) {
        line.push_str(" (");
        // SAFETY: as above.
        unsafe { at.read_unaligned() }.show(line);
        line.push(')');
    }
}
