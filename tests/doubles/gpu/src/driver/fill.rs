//! Fills.

use super::range::{At, Range, device_range};
use super::transfer::{prepare, write};
use super::{Answer, Code, broken, stream};
use crate::protocol::Fault;

/// What is filled: rows of equal length.
struct Rows {
    /// From one row's start to the next one's.
    pitch: u64,
    width: u64,
    count: u64,
}

/// Fills with `count` values in a row, in the context's own stream and without waiting.
pub fn fill_now(to: u64, value: &[u8], count: usize) -> Answer {
    fill(to, value, count, 0)
}

/// Fills with `count` values in a row.
pub fn fill(to: u64, value: &[u8], count: usize, stream: usize) -> Answer {
    fill_rows(to, 0, value, count, 1, stream)
}

/// Fills with `height` rows of `width` values, from each start to the next `pitch` bytes.
pub fn fill_rows(
    to: u64,
    pitch: usize,
    value: &[u8],
    width: usize,
    height: usize,
    stream: usize,
) -> Answer {
    let (_, stream) = stream::for_work(stream)?;
    let unit = value.len() as u64;
    if width == 0 || height == 0 {
        return Ok(());
    }
    let width = (width as u64).checked_mul(unit);
    let extent = |width: u64| (pitch as u64).checked_mul(height as u64 - 1)?.checked_add(width);
    let Some((width, extent)) = width.and_then(|width| Some((width, extent(width)?))) else {
        return Err(broken(Code::INVALID_VALUE, "a fill of more bytes than there are"));
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
        let offset = index * rows.pitch;
        let at = match &to.at {
            At::Here(address) => At::Here(address + offset as usize),
            At::Process(context, address) => At::Process(context.clone(), address + offset),
        };
        let part = Range { at, bytes: rows.width, ..to.clone() };
        write(&part, &row)?;
    }
    Ok(())
}
