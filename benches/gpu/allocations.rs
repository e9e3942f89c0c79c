//! The time of allocations.

use crate::Both;
use crate::raw::Raw;
use anyhow::Result;
use longshore::MemoryKind;
use longshore_benches::report::{Limit, Report};
use longshore_benches::rounds::{Contender, in_rounds};
use std::hint::black_box;
use std::time::Duration;

const BYTES: usize = 1 << 20;
const MOST: Duration = Duration::from_nanos(100);

/// Measures memory of the device from Longshore's cache, beside the driver's.
pub(crate) fn measure<D: Raw>(both: &Both<D>, report: &mut Report) -> Result<()> {
    // Memory that other measurements have left in the cache would keep this block out of it.
    both.ours.device.trim()?;
    let floor = || {
        let address = both.plain.allocate(black_box(BYTES)).unwrap();
        // SAFETY: nothing uses it.
        unsafe { both.plain.free(address) }.unwrap();
    };
    let ours = || {
        let bytes = black_box(BYTES) as u64;
        drop(both.ours.device.allocate(MemoryKind::Device, bytes, 64).unwrap());
    };
    let times = in_rounds([Some(Contender::new(100, floor)), Some(Contender::new(10_000, ours))]);
    let [Some(floor), Some(ours)] = times else { unreachable!("every contender ran") };
    let (allocate, free) = (D::NAMES.allocate, D::NAMES.free);
    let name = format!("1 MiB allocated and freed, cached; floor: {allocate}, {free}");
    report.row(&name, Some(&floor), &ours, Limit::new("100 ns", MOST, MOST));
    Ok(())
}
