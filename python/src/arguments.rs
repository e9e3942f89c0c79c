//! Values of Python as arguments of kernels, checked by the image's description.

use crate::array::ArrayBase;
use crate::host_buffer::HostBuffer;
use crate::layout::named;
use crate::numbers::{bits, integer};
use crate::open_device::OpenDevice;
use longshore::{ArgumentKind, ArgumentType, KernelAttributes};
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyFloat;
use smallvec::SmallVec;
use std::ffi::c_void;
use std::sync::Arc;

/// Most arguments of a call that allocates nothing.
const USUAL: usize = 16;
/// Largest argument without a description, in bytes.
const LARGEST: usize = 4096;

/// The values of a launch, as the library takes them.
#[derive(Default)]
pub(crate) struct Values {
    words: SmallVec<[u64; USUAL]>,
    /// Index of each value's first word.
    places: SmallVec<[u32; USUAL]>,
    sizes: SmallVec<[usize; USUAL]>,
    types: SmallVec<[ArgumentType; USUAL]>,
}

impl Values {
    #[inline]
    fn push(&mut self, word: u64, bytes: usize, of: ArgumentType) {
        self.places.push(self.words.len() as u32);
        self.words.push(word);
        self.sizes.push(bytes);
        self.types.push(of);
    }

    fn push_bytes(&mut self, value: &[u8], of: ArgumentType) {
        self.places.push(self.words.len() as u32);
        self.sizes.push(value.len());
        self.types.push(of);
        for part in value.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.words.push(u64::from_ne_bytes(word));
        }
    }

    /// Calls `body` with a pointer to each value, and the values' sizes and types.
    #[inline]
    pub(crate) fn with<R>(
        &self,
        body: impl FnOnce(&[*const c_void], &[usize], &[ArgumentType]) -> R,
    ) -> R {
        let pointer = |place: &u32| (&raw const self.words[*place as usize]).cast::<c_void>();
        let pointers: SmallVec<[*const c_void; USUAL]> = self.places.iter().map(pointer).collect();
        body(&pointers, &self.sizes, &self.types)
    }
}

/// The description of an argument.
pub(crate) struct Declared {
    bytes: usize,
    of: ArgumentType,
    /// The parameter in the source: "float *x".
    parameter: Option<String>,
}

impl Declared {
    /// Returns a description of each argument, if the image has them.
    pub(crate) fn all(attributes: &KernelAttributes) -> Option<Box<[Declared]>> {
        let sizes = attributes.argument_sizes.as_ref()?;
        let types = attributes.argument_types.iter().copied();
        let types = types.chain(std::iter::repeat(ArgumentType::UNKNOWN));
        let declared = sizes.iter().zip(types).enumerate().map(|(index, (bytes, of))| Declared {
            bytes: *bytes as usize,
            of,
            parameter: attributes.parameter(index).map(str::to_owned),
        });
        Some(declared.collect())
    }

    /// Returns the type's name: "f32", "pointer to f64".
    pub(crate) fn type_name(&self) -> String {
        self.of.name(self.bytes)
    }

    /// Returns the parameter in the source, if the image has it.
    pub(crate) fn parameter(&self) -> Option<&str> {
        self.parameter.as_deref()
    }

    /// Returns whether the source declares a pointer to data that the kernel may write.
    fn is_written(&self) -> bool {
        self.parameter().is_none_or(|text| !text.contains("const"))
    }
}

/// The place of an argument, for messages.
#[derive(Clone, Copy)]
pub(crate) struct Slot<'a> {
    pub(crate) kernel: &'a str,
    pub(crate) index: usize,
    pub(crate) declared: Option<&'a Declared>,
}

impl Slot<'_> {
    fn text(&self) -> String {
        let source = self.declared.and_then(Declared::parameter);
        let source = source.map(|text| format!(" '{text}'")).unwrap_or_default();
        format!("kernel '{}': argument {}{source}", self.kernel, self.index)
    }

    #[cold]
    fn wrong_type(&self, value: &Bound<'_, PyAny>, remedy: &str) -> PyErr {
        let expected = self.declared.map_or_else(|| "bytes".to_owned(), Declared::type_name);
        let message = format!(
            "{} is declared as {expected}; a value of type {} was given{remedy}",
            self.text(),
            named(value)
        );
        PyTypeError::new_err(message)
    }
}

/// Adds a value to the values of a launch. Returns the array that the value is, if it is one.
///
/// # Errors
/// `TypeError` for a value of a wrong type, `OverflowError` for a number beyond its range.
#[inline]
pub(crate) fn push<'a, 'py>(
    values: &mut Values,
    slot: Slot<'_>,
    value: &'a Bound<'py, PyAny>,
    device: &Arc<OpenDevice>,
) -> PyResult<Option<&'a ArrayBase>> {
    let kind = slot.declared.and_then(|declared| declared.of.kind());
    let bytes = slot.declared.map_or(0, |declared| declared.bytes);
    match kind {
        Some(ArgumentKind::Pointer) => {}
        Some(ArgumentKind::Float) => {
            return match real(value, bytes) {
                Some(number) => float(values, slot, number?, bytes).map(|()| None),
                None => other(values, slot, value).map(|()| None),
            };
        }
        Some(kind @ (ArgumentKind::Signed | ArgumentKind::Unsigned)) => {
            let is_signed = kind == ArgumentKind::Signed;
            return match integer(value, bytes, is_signed) {
                Some(Ok(number)) => {
                    values.push(number, bytes, ArgumentType::new(kind));
                    Ok(None)
                }
                Some(Err(())) => Err(out_of_range(slot, value, bytes, is_signed)),
                None => other(values, slot, value).map(|()| None),
            };
        }
        _ => {}
    }
    if let Ok(array) = value.cast::<ArrayBase>() {
        let array = array.get();
        check_array(slot, array, device)?;
        values.push(array.pointer, 8, array.element.pointer());
        return Ok(Some(array));
    }
    if kind.is_none() && matches!(bytes, 1 | 2 | 4 | 8) {
        return push_sized(values, slot, value, bytes).map(|()| None);
    }
    if value.is_none() && kind == Some(ArgumentKind::Pointer) {
        values.push(0, 8, ArgumentType::new(ArgumentKind::Pointer));
        return Ok(None);
    }
    other(values, slot, value).map(|()| None)
}

/// Adds a number whose size alone is declared, as in SPIR-V.
///
/// # Errors
/// As for [`push`].
fn push_sized(
    values: &mut Values,
    slot: Slot<'_>,
    value: &Bound<'_, PyAny>,
    bytes: usize,
) -> PyResult<()> {
    let unsigned = integer(value, bytes, false);
    let number = match unsigned {
        Some(Err(())) => integer(value, bytes, true),
        unsigned => unsigned,
    };
    match number {
        Some(Ok(number)) => values.push(number, bytes, ArgumentType::UNKNOWN),
        Some(Err(())) => return Err(out_of_range(slot, value, bytes, false)),
        None if value.is_exact_instance_of::<PyFloat>() && matches!(bytes, 4 | 8) => {
            return float(values, slot, value.extract()?, bytes);
        }
        None => return other(values, slot, value),
    }
    Ok(())
}

/// Checks that a kernel may take an array.
///
/// # Errors
/// `TypeError` for an array of other elements, with gaps, of another device, or read-only.
#[inline]
fn check_array(slot: Slot<'_>, array: &ArrayBase, device: &Arc<OpenDevice>) -> PyResult<()> {
    let given = array.element.pointer();
    let fits = slot.declared.is_none_or(|declared| declared.of.takes(given));
    if fits && array.is_contiguous && Arc::ptr_eq(&array.storage.device, device) {
        let may_write = slot.declared.is_none_or(Declared::is_written);
        if !(array.storage.is_read_only() && may_write) {
            return Ok(());
        }
    }
    Err(wrong_array(slot, array, device, fits))
}

#[cold]
fn wrong_array(slot: Slot<'_>, array: &ArrayBase, device: &Arc<OpenDevice>, fits: bool) -> PyErr {
    let name = array.element.name;
    let why = if !fits {
        let expected = slot.declared.map(Declared::type_name).unwrap_or_default();
        format!("is declared as {expected}; an array of {name} was given")
    } else if !Arc::ptr_eq(&array.storage.device, device) {
        let (own, other) = (device.name(), array.storage.device.name());
        let again = if own == other { ", before it was closed" } else { "" };
        format!("is an array of {other}{again}; expected one of {own}")
    } else if !array.is_contiguous {
        format!("is an array of {name} with gaps; copy() closes them")
    } else {
        "is a read-only array; expected one that the kernel may write".to_owned()
    };
    PyTypeError::new_err(format!("{} {why}", slot.text()))
}

/// Adds bytes of an object with the buffer protocol: a structure, or a number of `ctypes` or NumPy.
///
/// # Errors
/// `TypeError` for another object, and for another size.
#[cold]
fn other(values: &mut Values, slot: Slot<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
    let of = slot.declared.map_or(ArgumentType::UNKNOWN, |declared| declared.of);
    let is_pointer = of.kind() == Some(ArgumentKind::Pointer);
    let remedy = match () {
        _ if is_pointer => {
            "; device.array() copies a NumPy array to a device, longshore.from_dlpack() shares a \
             tensor"
        }
        _ if slot.declared.is_none() => {
            "; the image describes no arguments, so pass numbers of NumPy or ctypes, which have a \
             size"
        }
        _ => "",
    };
    let may_be_bytes = !is_pointer && value.cast::<ArrayBase>().is_err();
    let Some(buffer) = HostBuffer::for_object(value, false).ok().filter(|_| may_be_bytes) else {
        return Err(slot.wrong_type(value, remedy));
    };
    let expected = slot.declared.map_or(buffer.bytes(), |declared| declared.bytes);
    if buffer.bytes() != expected || !buffer.is_contiguous() || expected > LARGEST {
        let given = buffer.bytes();
        let message = format!(
            "{} takes {} bytes without gaps; a value of {given} bytes was given",
            slot.text(),
            expected.min(LARGEST)
        );
        return Err(PyTypeError::new_err(message));
    }
    // SAFETY: the view has these bytes, and this thread holds the interpreter's lock.
    let bytes = unsafe { std::slice::from_raw_parts(buffer.address(), buffer.bytes()) };
    values.push_bytes(bytes, ArgumentType::UNKNOWN);
    Ok(())
}

#[cold]
fn out_of_range(slot: Slot<'_>, value: &Bound<'_, PyAny>, bytes: usize, is_signed: bool) -> PyErr {
    let bits = 8 * bytes.min(8) as u32;
    let (least, most) = match is_signed {
        true => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
        false => (0, (1i128 << bits) - 1),
    };
    let given = value.str().map_or_else(|_| "it".to_owned(), |text| text.to_string());
    let message = format!("{}: {given} is not in the range from {least} to {most}", slot.text());
    PyOverflowError::new_err(message)
}

/// Returns a real number; `None` for another object, or for a size that no type has.
#[inline]
fn real(value: &Bound<'_, PyAny>, bytes: usize) -> Option<PyResult<f64>> {
    if !matches!(bytes, 2 | 4 | 8) {
        return None;
    }
    if let Ok(number) = value.cast_exact::<PyFloat>() {
        return Some(Ok(number.value()));
    }
    if value.cast::<ArrayBase>().is_ok() {
        return None;
    }
    match value.extract::<f64>() {
        Ok(number) => Some(Ok(number)),
        Err(error) if error.is_instance_of::<PyOverflowError>(value.py()) => Some(Err(error)),
        Err(_) => None,
    }
}

/// Adds a floating-point number.
///
/// # Errors
/// `OverflowError` for a finite number beyond the type's range.
#[inline]
fn float(values: &mut Values, slot: Slot<'_>, number: f64, bytes: usize) -> PyResult<()> {
    let of = ArgumentType::new(ArgumentKind::Float);
    match bits(number, bytes) {
        Some(word) => {
            values.push(word, bytes, of);
            Ok(())
        }
        None => {
            let message = format!("{}: {number:e} is beyond its range", slot.text());
            Err(PyOverflowError::new_err(message))
        }
    }
}
