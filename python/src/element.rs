//! The types of arrays' elements, and their names in NumPy, the buffer protocol and DLPack.

use longshore::{ArgumentKind, ArgumentType};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use std::ffi::CStr;

/// A type of elements.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Element {
    /// Name, which is NumPy's where it has the type.
    pub(crate) name: &'static str,
    /// Type in NumPy's array interface: "<f4".
    pub(crate) interface: &'static str,
    /// Format in the buffer protocol; `None` if the protocol lacks the type.
    pub(crate) format: Option<&'static CStr>,
    /// Size in bytes.
    pub(crate) bytes: usize,
    /// Kind of numbers in kernels' descriptions; `None` for types that descriptions lack.
    pub(crate) kind: Option<ArgumentKind>,
    /// Type in DLPack.
    pub(crate) dlpack: Code,
}

/// A class of types in DLPack, `DLDataTypeCode`.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    Int = 0,
    UInt = 1,
    Float = 2,
    Bfloat = 4,
    Complex = 5,
    Bool = 6,
}

const fn element(
    name: &'static str,
    interface: &'static str,
    format: Option<&'static CStr>,
    bytes: usize,
    kind: Option<ArgumentKind>,
    dlpack: Code,
) -> Element {
    Element { name, interface, format, bytes, kind, dlpack }
}

const SIGNED: Option<ArgumentKind> = Some(ArgumentKind::Signed);
const UNSIGNED: Option<ArgumentKind> = Some(ArgumentKind::Unsigned);
const FLOAT: Option<ArgumentKind> = Some(ArgumentKind::Float);

/// All types.
pub(crate) static ELEMENTS: [Element; 15] = [
    element("float32", "<f4", Some(c"f"), 4, FLOAT, Code::Float),
    element("float64", "<f8", Some(c"d"), 8, FLOAT, Code::Float),
    element("float16", "<f2", Some(c"e"), 2, FLOAT, Code::Float),
    element("bfloat16", "<V2", None, 2, FLOAT, Code::Bfloat),
    element("int8", "|i1", Some(c"b"), 1, SIGNED, Code::Int),
    element("int16", "<i2", Some(c"h"), 2, SIGNED, Code::Int),
    element("int32", "<i4", Some(c"i"), 4, SIGNED, Code::Int),
    element("int64", "<i8", Some(c"q"), 8, SIGNED, Code::Int),
    element("uint8", "|u1", Some(c"B"), 1, UNSIGNED, Code::UInt),
    element("uint16", "<u2", Some(c"H"), 2, UNSIGNED, Code::UInt),
    element("uint32", "<u4", Some(c"I"), 4, UNSIGNED, Code::UInt),
    element("uint64", "<u8", Some(c"Q"), 8, UNSIGNED, Code::UInt),
    element("bool", "|b1", Some(c"?"), 1, UNSIGNED, Code::Bool),
    element("complex64", "<c8", Some(c"Zf"), 8, None, Code::Complex),
    element("complex128", "<c16", Some(c"Zd"), 16, None, Code::Complex),
];

impl Element {
    /// Returns the type of this name.
    ///
    /// # Errors
    /// `TypeError` for another name; the message lists the names.
    pub(crate) fn named(name: &str) -> PyResult<&'static Element> {
        ELEMENTS.iter().find(|element| element.name == name).ok_or_else(|| {
            let names: Vec<_> = ELEMENTS.iter().map(|element| element.name).collect();
            let message = format!("dtype '{name}'; expected one of {}", names.join(", "));
            PyTypeError::new_err(message)
        })
    }

    /// Returns the type of a format of the buffer protocol with elements of this size. `None` for
    /// structures and other byte orders.
    pub(crate) fn from_format(format: &[u8], bytes: usize) -> Option<&'static Element> {
        let format = match format {
            [b'@' | b'=' | b'<', rest @ ..] => rest,
            rest => rest,
        };
        let code = match format {
            b"b" | b"h" | b"i" | b"l" | b"q" | b"n" => Code::Int,
            b"B" | b"H" | b"I" | b"L" | b"Q" | b"N" | b"c" => Code::UInt,
            b"e" | b"f" | b"d" => Code::Float,
            b"Zf" | b"Zd" => Code::Complex,
            b"?" => Code::Bool,
            _ => return None,
        };
        Element::from_code(code as u8, bytes)
    }

    /// Returns the type of DLPack with this code and size in bytes.
    pub(crate) fn from_code(code: u8, bytes: usize) -> Option<&'static Element> {
        ELEMENTS.iter().find(|element| element.dlpack as u8 == code && element.bytes == bytes)
    }

    /// Returns the type that kernels' descriptions have for a pointer to these elements.
    #[inline]
    pub(crate) fn pointer(&self) -> ArgumentType {
        match self.kind {
            Some(kind) => ArgumentType::pointer_to(kind, self.bytes as u16),
            None => ArgumentType::new(ArgumentKind::Pointer),
        }
    }
}
