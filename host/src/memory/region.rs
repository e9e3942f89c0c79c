//! Parts of arrays of two and three dimensions in buffers.

use super::buffer_slice::BufferSlice;
use super::element::Element;
use crate::queue::Queue;
use crate::queue::rect::RectEnd;
use longshore_plugin_api::{Error, ErrorCode, Extent, Pitch, Result};

/// A box of elements in an array of up to three dimensions, given in x, y and z. Elements with
/// neighbouring x are neighbours in memory. An unused dimension has the size 1.
///
/// ```
/// use longshore::Region;
///
/// // 64 by 48 elements of an array of 640 by 480, from column 100 and row 50 on.
/// let tile = Region::new([640, 480, 1]).part([100, 50, 0], [64, 48, 1]);
/// assert_eq!(tile.extent(), [64, 48, 1]);
/// assert_ne!(tile, Region::new([64, 48, 1]));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    array: [usize; 3],
    origin: [usize; 3],
    extent: [usize; 3],
}

impl Region {
    /// Creates a region with all elements of an array.
    pub fn new(array: [usize; 3]) -> Region {
        Region { array, origin: [0; 3], extent: array }
    }

    /// Returns the region of the same array with these first elements and numbers of elements. The
    /// copy refuses a region that exceeds its array.
    #[must_use]
    pub fn part(mut self, origin: [usize; 3], extent: [usize; 3]) -> Region {
        (self.origin, self.extent) = (origin, extent);
        self
    }

    /// Returns the numbers of elements in x, y and z.
    pub fn extent(&self) -> [usize; 3] {
        self.extent
    }

    /// Returns the offset of the first element, in elements; 0 for a region without elements.
    ///
    /// # Errors
    /// `InvalidSize` if the region exceeds its array, or the array `len` elements.
    fn offset(&self, len: usize) -> Result<usize> {
        let [width, height, depth] = self.array;
        let size = width.checked_mul(height).and_then(|plane| plane.checked_mul(depth));
        let fits = |axis: usize| {
            let end = self.origin[axis].checked_add(self.extent[axis]);
            end.is_some_and(|end| end <= self.array[axis])
        };
        match size.is_some_and(|size| size <= len) && [0, 1, 2].into_iter().all(fits) {
            true if self.extent.contains(&0) => Ok(0),
            true => {
                let [x, y, z] = self.origin;
                Ok((z * height + y) * width + x)
            }
            false => Err(self.beyond(len)),
        }
    }

    #[cold]
    fn beyond(&self, len: usize) -> Error {
        let Region { array, origin, extent } = self;
        let message = format!(
            "a region of {extent:?} elements from {origin:?} of an array of {array:?} in {len} \
             elements; expected a region within its array, and an array of at most {len} elements"
        );
        Error::new(ErrorCode::InvalidSize, message)
    }

    // An array without elements can have dimensions of any size; a region of it is empty.
    fn pitch<T>(&self) -> Pitch {
        Pitch::new(self.array[0].saturating_mul(size_of::<T>()) as u64, self.array[1] as u64)
    }

    fn bytes<T>(&self) -> Extent {
        let [width, height, depth] = self.extent;
        let row = width.saturating_mul(size_of::<T>()) as u64;
        Extent::new(row, height as u64).with_slices(depth as u64)
    }

    /// Checks that two regions have the same extent.
    ///
    /// # Errors
    /// `InvalidSize` for other regions.
    fn same_extent(&self, other: &Region) -> Result<()> {
        if self.extent == other.extent {
            return Ok(());
        }
        let message = format!(
            "a copy of a region of {:?} elements to one of {:?}; expected regions of the same extent",
            other.extent, self.extent
        );
        Err(Error::new(ErrorCode::InvalidSize, message))
    }

    /// Returns whether two regions of the same array have an element in common.
    fn meets(&self, other: &Region) -> bool {
        let has_elements = |region: &Region| !region.extent.contains(&0);
        let overlap = (0..3).all(|axis| {
            let end = |region: &Region| region.origin[axis] + region.extent[axis];
            self.origin[axis] < end(other) && other.origin[axis] < end(self)
        });
        overlap && has_elements(self) && has_elements(other)
    }
}

impl<T: Element> BufferSlice<'_, T> {
    /// Copies the elements of the region `from` in `values` to the region `to` of this slice, after
    /// all queued work of `queue`. Blocks until the copy is done.
    ///
    /// ```
    /// # let host = longshore::Host::new()?;
    /// # if host.devices().is_empty() { return Ok(()) }
    /// # let device = host.default_device()?;
    /// # let queue = device.queue()?;
    /// use longshore::Region;
    ///
    /// let image = device.buffer::<u32>(&queue, 4 * 3)?;
    /// let inner = Region::new([4, 3, 1]).part([1, 1, 0], [2, 2, 1]);
    /// image.as_slice().write_region(&queue, inner, &[1, 2, 3, 4], Region::new([2, 2, 1]))?;
    /// assert_eq!(image.to_vec(&queue)?, [0, 0, 0, 0, 0, 1, 2, 0, 0, 3, 4, 0]);
    ///
    /// let mut column = [0; 3];
    /// let second = Region::new([4, 3, 1]).part([1, 0, 0], [1, 3, 1]);
    /// image.as_slice().read_region(&queue, second, &mut column, Region::new([1, 3, 1]))?;
    /// assert_eq!(column, [0, 1, 3]);
    /// # Ok::<(), longshore::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidSize` for a region that exceeds its array, for an array that exceeds the slice or
    /// `values`, and for regions of different extents; errors of [`Queue::synchronize`].
    pub fn write_region(
        &self,
        queue: &Queue,
        to: Region,
        values: &[T],
        from: Region,
    ) -> Result<()> {
        to.same_extent(&from)?;
        let end = self.end_of(&to)?;
        let start = from.offset(values.len())?;
        let address = values[start..].as_ptr() as u64;
        let source = RectEnd { address, device: None, pitch: from.pitch::<T>() };
        let extent = to.bytes::<T>();
        self.buffer().behind_zeros(queue, || queue.rect_and_wait(end, source, extent))
    }

    /// Copies the elements of the region `from` of this slice to the region `to` in `values`, after
    /// all queued work of `queue`. Blocks until the copy is done. [`BufferSlice::write_region`] has
    /// an example.
    ///
    /// # Errors
    /// As for [`BufferSlice::write_region`].
    pub fn read_region(
        &self,
        queue: &Queue,
        from: Region,
        values: &mut [T],
        to: Region,
    ) -> Result<()> {
        to.same_extent(&from)?;
        let end = self.end_of(&from)?;
        let start = to.offset(values.len())?;
        let address = values[start..].as_mut_ptr() as u64;
        let target = RectEnd { address, device: None, pitch: to.pitch::<T>() };
        let extent = to.bytes::<T>();
        self.buffer().behind_zeros(queue, || queue.rect_and_wait(target, end, extent))
    }

    /// Copies the elements of the region `from` of `source` to the region `to` of this slice, after
    /// all queued work of `queue`. The slices may belong to two devices. Blocks until the copy is
    /// done.
    ///
    /// # Errors
    /// As for [`BufferSlice::write_region`]. `InvalidArgument` for regions of one buffer that
    /// overlap, or that are regions of different arrays in the same elements.
    pub fn copy_region_from(
        &self,
        queue: &Queue,
        to: Region,
        source: BufferSlice<'_, T>,
        from: Region,
    ) -> Result<()> {
        to.same_extent(&from)?;
        let (target, origin) = (self.end_of(&to)?, source.end_of(&from)?);
        let is_same_array = self.pointer() == source.pointer() && to.array == from.array;
        let is_apart = !self.shares_elements(&source) || is_same_array && !to.meets(&from);
        if !is_apart {
            let message = format!(
                "a copy between regions of one buffer, {from:?} and {to:?}; expected regions of the \
                 same array that do not overlap: copy through a second buffer"
            );
            return Err(Error::new(ErrorCode::InvalidArgument, message));
        }
        let extent = to.bytes::<T>();
        self.buffer().behind_zeros(queue, || {
            source.buffer().behind_zeros(queue, || queue.rect_and_wait(target, origin, extent))
        })
    }

    /// Returns the end of a copy for a region of the slice.
    ///
    /// # Errors
    /// `InvalidSize` for a region that exceeds its array, or an array that exceeds the slice.
    fn end_of(&self, region: &Region) -> Result<RectEnd<'_>> {
        let offset = region.offset(self.len())? * size_of::<T>();
        let address = self.pointer().offset(offset as i64).address();
        Ok(RectEnd { address, device: Some(self.device()), pitch: region.pitch::<T>() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_counts_rows_and_planes() {
        let array = Region::new([5, 4, 3]);
        assert_eq!(array.offset(60), Ok(0));
        assert_eq!(array.part([2, 3, 1], [3, 1, 2]).offset(60), Ok(20 + 15 + 2));
        assert_eq!(array.part([5, 4, 3], [0, 0, 0]).offset(60), Ok(0));
    }

    #[test]
    fn regions_beyond_their_array_or_its_elements_are_refused() {
        let array = Region::new([5, 4, 3]);
        for (region, len) in [
            (array, 59),
            (array.part([3, 0, 0], [3, 1, 1]), 60),
            (array.part([0, 4, 0], [1, 1, 1]), 60),
            (array.part([0, 0, usize::MAX], [1, 1, 2]), 60),
            (Region::new([usize::MAX, 2, 1]), usize::MAX),
        ] {
            let error = region.offset(len).unwrap_err();
            assert_eq!(error.code(), ErrorCode::InvalidSize, "{region:?}");
        }
    }

    #[test]
    fn an_empty_array_may_have_dimensions_of_any_size() {
        let region = Region::new([usize::MAX, 0, 1]);
        assert_eq!(region.offset(0), Ok(0));
        assert_eq!(region.pitch::<u64>(), Pitch { row: u64::MAX, slice: 0 });
        assert_eq!(region.bytes::<u64>(), Extent::new(u64::MAX, 0));
    }

    #[test]
    fn regions_meet_where_they_have_an_element_in_common() {
        let array = Region::new([8, 8, 2]);
        let left = array.part([0, 0, 0], [4, 8, 2]);
        assert!(!left.meets(&array.part([4, 0, 0], [4, 8, 2])));
        assert!(left.meets(&array.part([3, 7, 1], [1, 1, 1])));
        assert!(!left.meets(&array.part([3, 7, 1], [0, 1, 1])));
    }
}
