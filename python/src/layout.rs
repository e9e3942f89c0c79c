//! The shapes of arrays: sizes and distances of their elements.

use pyo3::exceptions::{PyIndexError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyEllipsis, PySlice, PyTuple};
use smallvec::{SmallVec, smallvec};

/// A number for each dimension.
pub(crate) type Dimensions = SmallVec<[i64; 4]>;

/// A shape of elements in memory.
#[derive(Clone)]
pub(crate) struct Layout {
    /// Number of elements in each dimension.
    pub(crate) shape: Dimensions,
    /// Distance in bytes of neighbours in each dimension.
    pub(crate) strides: Dimensions,
    /// Distance in bytes of the first element from the start of the memory.
    pub(crate) offset: i64,
    /// Size in bytes of an element.
    pub(crate) element: i64,
}

impl Layout {
    /// Creates the layout of elements without gaps, the last dimension first.
    ///
    /// # Errors
    /// `ValueError` for a negative number, and for more than 2^63 - 1 bytes.
    pub(crate) fn contiguous(shape: Dimensions, element: usize) -> PyResult<Layout> {
        let wrong = |why| {
            let message = format!("an array of shape {:?} {why}", shape.as_slice());
            Err(PyValueError::new_err(message))
        };
        if shape.iter().any(|count| *count < 0) {
            return wrong("has a negative dimension");
        }
        let mut bytes = element as i64;
        let mut strides: Dimensions = smallvec![0; shape.len()];
        for (stride, count) in strides.iter_mut().zip(&shape).rev() {
            *stride = bytes;
            match bytes.checked_mul((*count).max(1)) {
                Some(more) => bytes = more,
                None => return wrong("has more than 2^63 - 1 bytes"),
            }
        }
        Ok(Layout { shape, strides, offset: 0, element: element as i64 })
    }

    /// Returns the number of elements.
    pub(crate) fn count(&self) -> i64 {
        self.shape.iter().product()
    }

    /// Returns the size of the elements in bytes, without gaps.
    pub(crate) fn bytes(&self) -> i64 {
        self.count() * self.element
    }

    /// Returns whether the elements lie without gaps, the last dimension first.
    pub(crate) fn is_contiguous(&self) -> bool {
        self.tail_bytes(0).is_some()
    }

    /// Returns the size in bytes of the dimensions from `first`, if they have no gaps.
    fn tail_bytes(&self, first: usize) -> Option<i64> {
        if self.count() == 0 {
            return Some(0);
        }
        let mut bytes = self.element;
        for (stride, count) in self.strides.iter().zip(&self.shape).skip(first).rev() {
            if *count != 1 && *stride != bytes {
                return None;
            }
            bytes *= count;
        }
        Some(bytes)
    }

    /// Calls `copy` for each part without gaps, in order, with its distance from the start of the
    /// memory, its distance in a copy without gaps, and its size, in bytes.
    ///
    /// # Errors
    /// The first error of `copy`.
    pub(crate) fn parts<E>(
        &self,
        mut copy: impl FnMut(i64, i64, i64) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.count() == 0 {
            return Ok(());
        }
        let dimensions = self.shape.len();
        let whole = (0..=dimensions).find_map(|first| Some((first, self.tail_bytes(first)?)));
        let (outer, bytes) = whole.expect("one element has no gaps");
        let mut index: Dimensions = smallvec![0; outer];
        let mut done = 0;
        loop {
            let from: i64 = index.iter().zip(&self.strides).map(|(at, stride)| at * stride).sum();
            copy(self.offset + from, done, bytes)?;
            done += bytes;
            let Some(next) = (0..outer).rev().find(|d| index[*d] + 1 < self.shape[*d]) else {
                return Ok(());
            };
            index[next] += 1;
            index[next + 1..].fill(0);
        }
    }

    /// Returns the part that an index of integers, slices and `...` selects.
    ///
    /// # Errors
    /// `IndexError` and `TypeError` as for NumPy's arrays.
    pub(crate) fn select(&self, key: &Bound<'_, PyAny>) -> PyResult<Layout> {
        let keys: SmallVec<[Bound<'_, PyAny>; 4]> = match key.cast::<PyTuple>() {
            Ok(keys) => keys.iter().collect(),
            Err(_) => smallvec![key.clone()],
        };
        let is_ellipsis = |key: &Bound<'_, PyAny>| key.is_instance_of::<PyEllipsis>();
        let ellipses = keys.iter().filter(|key| is_ellipsis(key)).count();
        let given = keys.len() - ellipses;
        if ellipses > 1 || given > self.shape.len() {
            let message = format!(
                "an index of {given} dimensions and {ellipses} '...' for an array of {}",
                self.shape.len()
            );
            return Err(PyIndexError::new_err(message));
        }
        let rest = self.shape.len() - given;
        let mut part = Layout { shape: smallvec![], strides: smallvec![], ..*self };
        let mut dimension = 0;
        for key in &keys {
            if is_ellipsis(key) {
                part.keep(self, dimension..dimension + rest);
                dimension += rest;
            } else {
                part.take(self, dimension, key)?;
                dimension += 1;
            }
        }
        part.keep(self, dimension..self.shape.len());
        Ok(part)
    }

    fn keep(&mut self, whole: &Layout, dimensions: std::ops::Range<usize>) {
        self.shape.extend_from_slice(&whole.shape[dimensions.clone()]);
        self.strides.extend_from_slice(&whole.strides[dimensions]);
    }

    fn take(&mut self, whole: &Layout, dimension: usize, key: &Bound<'_, PyAny>) -> PyResult<()> {
        let (count, stride) = (whole.shape[dimension], whole.strides[dimension]);
        if let Ok(slice) = key.cast::<PySlice>() {
            let range = slice.indices(count as isize)?;
            // The start of an empty slice may lie behind the end.
            self.offset += if range.slicelength == 0 { 0 } else { range.start as i64 * stride };
            self.shape.push(range.slicelength as i64);
            self.strides.push(range.step as i64 * stride);
            return Ok(());
        }
        let index: i64 = key.extract().map_err(|_| {
            let message = format!("an index of type {}; expected int, slice or '...'", named(key));
            PyTypeError::new_err(message)
        })?;
        if index < -count || index >= count {
            let message = format!("index {index} of dimension {dimension}, which has {count}");
            return Err(PyIndexError::new_err(message));
        }
        self.offset += if index < 0 { index + count } else { index } * stride;
        Ok(())
    }

    /// Returns the elements in another shape, in which one dimension may be -1.
    ///
    /// # Errors
    /// `ValueError` for another number of elements, and for elements with gaps.
    pub(crate) fn reshaped(&self, mut shape: Dimensions) -> PyResult<Layout> {
        let mut known = shape.iter().filter(|count| **count != -1);
        // `contiguous` refuses a product beyond 64 bits.
        let known = known.try_fold(1i64, |product, count| product.checked_mul(*count)).unwrap_or(0);
        if let Some(open) = shape.iter_mut().find(|count| **count == -1)
            && known > 0
        {
            *open = self.count() / known;
        }
        let other = Layout::contiguous(shape, self.element as usize)?;
        if other.count() != self.count() || !self.is_contiguous() {
            let gaps = if self.is_contiguous() { "" } else { " with gaps; copy() closes them" };
            let message = format!(
                "reshaping {:?} to {:?}{gaps}",
                self.shape.as_slice(),
                other.shape.as_slice()
            );
            return Err(PyValueError::new_err(message));
        }
        Ok(Layout { offset: self.offset, ..other })
    }
}

/// Returns the name of an object's type.
pub(crate) fn named(object: &Bound<'_, PyAny>) -> String {
    object.get_type().name().map_or_else(|_| "unknown".to_owned(), |name| name.to_string())
}

/// Reads a shape: a number, or a sequence of numbers.
///
/// # Errors
/// `TypeError` for another object.
pub(crate) fn shape(object: &Bound<'_, PyAny>) -> PyResult<Dimensions> {
    if let Ok(count) = object.extract::<i64>() {
        return Ok(smallvec![count]);
    }
    let counts: Vec<i64> = object.extract().map_err(|_| {
        let message = format!("a shape of type {}; expected int or tuple of int", named(object));
        PyTypeError::new_err(message)
    })?;
    Ok(counts.into())
}
