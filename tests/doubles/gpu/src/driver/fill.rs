//! Fills.

use super::range::{Range, device_range};
use super::transfer::{prepare, write};
use super::{Code, DriverResult, broken, stream};
use crate::protocol::Fault;

/// The rows of a fill, which have equal lengths.
struct Rows {
    /// Distance between the starts of two rows, in bytes.
    pitch: u64,
    width: u64,
    count: u64,
}

/// Fills memory with `count` copies of a value, in the context's own stream. Does not wait.
pub fn fill_now(to: u64, value: &[u8], count: usize) -> DriverResult {
    fill(to, value, count, 0)
}

/// Fills memory with `count` copies of a value.
pub fn fill(to: u64, value: &[u8], count: usize, stream: usize) -> DriverResult {
    fill_rows(to, 0, value, count, 1, stream)
}

/// Fills `height` rows of `width` values. The starts of two rows are `pitch` bytes apart.
pub fn fill_rows(
    to: u64,
    pitch: usize,
    value: &[u8],
    width: usize,
    height: usize,
    stream: usize,
) -> DriverResult {
    let (_, stream) = stream::for_work(stream)?;
    let unit = value.len() as u64;
    if width == 0 || height == 0 {
        return Ok(());
    }
    let width = (width as u64).checked_mul(unit);
    let extent = |width: u64| (pitch as u64).checked_mul(height as u64 - 1)?.checked_add(width);
    let Some((width, extent)) = width.and_then(|width| Some((width, extent(width)?))) else {
        return Err(broken(Code::INVALID_VALUE, "the size of a fill exceeds 64 bits"));
    };
    let is_aligned = to.is_multiple_of(unit) && (pitch as u64).is_multiple_of(unit);
    if !is_aligned || (height > 1 && (pitch as u64) < width) {
        let what = format!("values of {unit} bytes at {to:#x}, rows every {pitch} bytes");
        return Err(broken(Code::INVALID_VALUE, what));
    }
    let range = device_range(to, extent)?;
    let rows = Rows { pitch: pitch as u64, width, count: height as u64 };
    let value = value.to_vec();
    stream.push(move |context| {
        prepare(&range);
        if let Err(fault) = fill_range(&range, &rows, &value) {
            context.fail(&fault);
        }
    })?;
    Ok(())
}

fn fill_range(to: &Range, rows: &Rows, value: &[u8]) -> Result<(), Fault> {
    let row = value.repeat((rows.width as usize) / value.len());
    for index in 0..rows.count {
        write(&to.part(index * rows.pitch, rows.width), &row)?;
    }
    Ok(())
}
