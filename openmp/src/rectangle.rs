//! Rectangular parts of arrays with any number of dimensions, as rows of contiguous bytes.

use smallvec::SmallVec;

/// A dimension of a rectangle, outside of its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Dimension {
    count: u64,
    /// Distance of neighbours in the destination, in bytes.
    to_stride: u64,
    /// Distance of neighbours in the source, in bytes.
    from_stride: u64,
}

/// The arrays that describe a rectangle, outermost dimension first. All have the same length.
pub(crate) struct Shape<'a> {
    pub(crate) element_bytes: u64,
    /// Number of elements of the rectangle in each dimension.
    pub(crate) volume: &'a [usize],
    pub(crate) to_offsets: &'a [usize],
    pub(crate) from_offsets: &'a [usize],
    /// Number of elements of the destination in each dimension; the first is not used.
    pub(crate) to_dimensions: &'a [usize],
    /// Number of elements of the source in each dimension; the first is not used.
    pub(crate) from_dimensions: &'a [usize],
}

/// A rectangle as rows that are contiguous in source and destination.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rows {
    row_bytes: u64,
    /// Offset of the first row in the destination, in bytes.
    to_offset: u64,
    /// Offset of the first row in the source, in bytes.
    from_offset: u64,
    /// Dimensions of the rows, innermost first.
    dimensions: SmallVec<[Dimension; 4]>,
}

impl Rows {
    /// Splits a rectangle into as few rows as possible; `None` if a size exceeds 64 bits.
    pub(crate) fn new(shape: &Shape<'_>) -> Option<Rows> {
        let mut rows = Rows {
            row_bytes: shape.element_bytes,
            to_offset: 0,
            from_offset: 0,
            dimensions: SmallVec::new(),
        };
        let (mut to_stride, mut from_stride) = (shape.element_bytes, shape.element_bytes);
        for index in (0..shape.volume.len()).rev() {
            let count = shape.volume[index] as u64;
            let to_skipped = to_stride.checked_mul(shape.to_offsets[index] as u64)?;
            let from_skipped = from_stride.checked_mul(shape.from_offsets[index] as u64)?;
            rows.to_offset = rows.to_offset.checked_add(to_skipped)?;
            rows.from_offset = rows.from_offset.checked_add(from_skipped)?;
            if to_stride == rows.row_bytes && from_stride == rows.row_bytes {
                rows.row_bytes = rows.row_bytes.checked_mul(count)?;
            } else {
                rows.dimensions.push(Dimension { count, to_stride, from_stride });
            }
            if index > 0 {
                to_stride = to_stride.checked_mul(shape.to_dimensions[index] as u64)?;
                from_stride = from_stride.checked_mul(shape.from_dimensions[index] as u64)?;
            }
        }
        Some(rows)
    }

    /// Calls `row` with the offsets in destination and source and the size of each row, in bytes.
    ///
    /// # Errors
    /// The first error of `row`.
    pub(crate) fn for_each<E>(
        &self,
        mut row: impl FnMut(u64, u64, u64) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.row_bytes == 0 || self.dimensions.iter().any(|dimension| dimension.count == 0) {
            return Ok(());
        }
        let mut indices: SmallVec<[u64; 4]> = self.dimensions.iter().map(|_| 0).collect();
        let (mut to, mut from) = (self.to_offset, self.from_offset);
        loop {
            row(to, from, self.row_bytes)?;
            let mut carries = true;
            for (index, dimension) in indices.iter_mut().zip(&self.dimensions) {
                *index += 1;
                to = to.wrapping_add(dimension.to_stride);
                from = from.wrapping_add(dimension.from_stride);
                if *index < dimension.count {
                    carries = false;
                    break;
                }
                to = to.wrapping_sub(dimension.to_stride.wrapping_mul(dimension.count));
                from = from.wrapping_sub(dimension.from_stride.wrapping_mul(dimension.count));
                *index = 0;
            }
            if carries {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Rows, Shape};

    fn rows(
        element_bytes: u64,
        volume: &[usize],
        (to_offsets, to_dimensions): (&[usize], &[usize]),
        (from_offsets, from_dimensions): (&[usize], &[usize]),
    ) -> Option<Vec<(u64, u64, u64)>> {
        let rows = Rows::new(&Shape {
            element_bytes,
            volume,
            to_offsets,
            from_offsets,
            to_dimensions,
            from_dimensions,
        })?;
        let mut all = Vec::new();
        let collected: Result<(), ()> = rows.for_each(|to, from, bytes| {
            all.push((to, from, bytes));
            Ok(())
        });
        collected.map(|()| all).ok()
    }

    #[test]
    fn a_part_of_a_plane_has_a_row_for_each_line() {
        let found = rows(4, &[2, 3], (&[0, 1], &[2, 5]), (&[3, 2], &[9, 10])).unwrap();
        assert_eq!(found, [(4, 128, 12), (24, 168, 12)]);
    }

    #[test]
    fn whole_inner_dimensions_belong_to_one_row() {
        let found = rows(8, &[2, 3, 4], (&[1, 0, 0], &[9, 3, 4]), (&[0, 0, 0], &[2, 3, 4]));
        assert_eq!(found.unwrap(), [(96, 0, 192)]);
    }

    #[test]
    fn an_outer_dimension_is_not_merged_over_a_gap() {
        let found = rows(1, &[2, 2, 2], (&[0; 3], &[2, 2, 2]), (&[0; 3], &[2, 2, 3])).unwrap();
        assert_eq!(found, [(0, 0, 2), (2, 3, 2), (4, 6, 2), (6, 9, 2)]);
    }

    #[test]
    fn seven_dimensions_visit_each_element_once() {
        let (volume, dimensions) = ([2; 7], [3; 7]);
        let found = rows(1, &volume, (&[0; 7], &volume), (&[1; 7], &dimensions)).unwrap();
        assert_eq!(found.len(), 64);
        let bytes: u64 = found.iter().map(|row| row.2).sum();
        assert_eq!(bytes, 128);
        assert!(found.windows(2).all(|pair| pair[0].0 + 2 == pair[1].0 && pair[0].1 < pair[1].1));
    }

    #[test]
    fn a_rectangle_without_elements_has_no_rows() {
        assert_eq!(rows(4, &[0, 3], (&[0; 2], &[4, 4]), (&[0; 2], &[4, 4])), Some(vec![]));
        assert_eq!(rows(4, &[3, 0], (&[0; 2], &[4, 4]), (&[0; 2], &[4, 5])), Some(vec![]));
    }

    #[test]
    fn sizes_beyond_64_bits_are_refused() {
        let huge = usize::MAX / 2;
        assert_eq!(rows(8, &[1, huge], (&[0; 2], &[1, 1]), (&[0; 2], &[1, 1])), None);
        assert_eq!(rows(8, &[1, 1], (&[0, 0], &[1, huge]), (&[0; 2], &[1, 1])), None);
    }
}
