//! Values of the program that arrays take.

use crate::element::{Code, Element};
use crate::host_buffer::HostBuffer;
use crate::layout;
use crate::numbers;
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;

/// Values of the program: a view of memory without gaps, with elements that arrays have.
pub(crate) struct HostValues {
    pub(crate) buffer: HostBuffer,
    pub(crate) element: &'static Element,
}

impl HostValues {
    /// Returns the values of an object; NumPy converts objects whose memory does not fit.
    ///
    /// # Errors
    /// `TypeError` for values that are no numbers; errors of NumPy.
    pub(crate) fn read(
        py: Python<'_>,
        object: &Bound<'_, PyAny>,
        wanted: Option<&'static Element>,
    ) -> PyResult<HostValues> {
        if let Ok(buffer) = HostBuffer::for_object(object, false)
            && buffer.is_contiguous()
            && let Some(element) = buffer.element()
            && wanted.is_none_or(|wanted| wanted == element)
        {
            return Ok(HostValues { buffer, element });
        }
        let convert = py.import("longshore._convert")?.getattr("contiguous")?;
        let converted = convert.call1((object, wanted.map(|wanted| wanted.name)))?;
        let buffer = HostBuffer::for_object(&converted, false)?;
        let element = match wanted {
            // NumPy has no such type, and passes the bits as integers.
            Some(wanted) if wanted.dlpack == Code::Bfloat => Some(wanted),
            _ => buffer.element(),
        };
        match element.filter(|_| buffer.is_contiguous()) {
            Some(element) => Ok(HostValues { buffer, element }),
            None => {
                let given = layout::named(object);
                let message = format!("values of type {given} with elements that arrays lack");
                Err(PyTypeError::new_err(message))
            }
        }
    }

    /// Returns the number of elements in each dimension.
    pub(crate) fn shape(&self) -> PyResult<layout::Dimensions> {
        Ok(self.buffer.shape().iter().map(|count| *count as i64).collect())
    }
}

/// Returns the bytes of a number as an element.
///
/// # Errors
/// `TypeError` for another object, `OverflowError` for a number beyond the range.
pub(crate) fn encode(element: &'static Element, value: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let beyond =
        || PyOverflowError::new_err(format!("{value} is beyond the range of {}", element.name));
    let bytes = element.bytes;
    let part = |word: u64| word.to_le_bytes()[..bytes.min(8)].to_vec();
    Ok(match element.dlpack {
        Code::Bool => vec![u8::from(value.is_truthy()?)],
        Code::Bfloat => numbers::bfloat(value.extract()?).to_le_bytes().to_vec(),
        Code::Float => part(numbers::bits(value.extract()?, bytes).ok_or_else(beyond)?),
        Code::Complex => {
            let number = value.py().get_type::<pyo3::types::PyComplex>().call1((value,))?;
            let mut both = Vec::new();
            for name in ["real", "imag"] {
                let number = number.getattr(name)?.extract()?;
                let word = numbers::bits(number, bytes / 2).ok_or_else(beyond)?;
                both.extend_from_slice(&word.to_le_bytes()[..bytes / 2]);
            }
            both
        }
        Code::Int | Code::UInt => {
            match numbers::integer(value, bytes, element.dlpack == Code::Int) {
                Some(number) => part(number.map_err(|()| beyond())?),
                None => {
                    let given = layout::named(value);
                    let message = format!("a value of type {given} for {}", element.name);
                    return Err(PyTypeError::new_err(message));
                }
            }
        }
    })
}
