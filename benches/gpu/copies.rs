//! The time of copies.

use crate::ends::Ends;
use crate::raw::Raw;
use crate::{Both, queueing};
use anyhow::Result;
use longshore_benches::report::{Limit, Report};
use longshore_benches::rounds::{Contender, Times, in_rounds};
use std::time::Duration;

const SMALL_BYTES: usize = 64;
/// Copies in a sample, each of which is waited for.
const COPIES: u32 = 200;
const LARGE_BYTES: usize = 1 << 30;
/// Divisor of the device's free memory, for the largest copy. Each of the two contenders allocates
/// memory of that size.
const PART_OF_FREE: usize = 4;
/// Time that a small copy may take beyond the floor.
const EXTRA: Duration = Duration::from_nanos(150);

/// Measures small copies, where the calls count, and large copies, where the bytes count.
pub(crate) fn measure<D: Raw>(both: &Both<D>, report: &mut Report) -> Result<()> {
    let small = Ends::new(both, SMALL_BYTES)?;
    small.check()?;
    small_waited_for(&small, report);
    small_queued(&small, report);
    let large = large(both)?;
    large.check()?;
    large_pinned(&large, report);
    large_pageable(&large, report);
    Ok(())
}

/// Returns memory for the large copies, as large as the free memory allows.
fn large<D: Raw>(both: &Both<D>) -> Result<Ends<'_, D>> {
    let most = both.plain.free_bytes()? / PART_OF_FREE;
    let mut bytes = LARGE_BYTES;
    while bytes > most {
        bytes /= 2;
    }
    loop {
        match Ends::new(both, bytes) {
            Err(_) if bytes > SMALL_BYTES => bytes /= 2,
            ends => return ends,
        }
    }
}

fn small_waited_for<D: Raw>(ends: &Ends<'_, D>, report: &mut Report) {
    let memory = &ends.pageable;
    let times = in_rounds([
        Some(Contender::new(COPIES, || ends.upload_plainly(memory))),
        Some(Contender::new(COPIES, || ends.upload(memory))),
        Some(Contender::new(COPIES, || ends.upload_by_driver(memory))),
    ]);
    small_row(report, "to the device, waited for", &times);
    note(report, D::NAMES.upload, &times[2]);
    let times = in_rounds([
        Some(Contender::new(COPIES, || ends.download_plainly(memory))),
        Some(Contender::new(COPIES, || ends.download(memory))),
        Some(Contender::new(COPIES, || ends.download_by_driver(memory))),
    ]);
    small_row(report, "from the device, waited for", &times);
    note(report, D::NAMES.download, &times[2]);
}

/// Measures queued copies. From the device, only copies to pinned memory, as the driver blocks the
/// caller for other memory.
fn small_queued<D: Raw>(ends: &Ends<'_, D>, report: &mut Report) {
    for (memory, name) in [(&ends.pageable, ""), (&ends.pinned, ", pinned")] {
        let times = in_rounds([
            Some(queueing::alone(|| ends.queue_upload_plainly(memory), || ends.wait_plainly())),
            Some(queueing::alone(|| ends.queue_upload(memory), || ends.wait())),
        ]);
        small_row(report, &format!("to the device{name}, queued"), &times);
    }
    let memory = &ends.pinned;
    let times = in_rounds([
        Some(queueing::alone(|| ends.queue_download_plainly(memory), || ends.wait_plainly())),
        Some(queueing::alone(|| ends.queue_download(memory), || ends.wait())),
    ]);
    small_row(report, "from the device, pinned, queued", &times);
}

fn large_pinned<D: Raw>(ends: &Ends<'_, D>, report: &mut Report) {
    let memory = &ends.pinned;
    let times = in_rounds([
        Some(Contender::new(1, || ends.upload_plainly(memory))),
        Some(Contender::new(1, || ends.upload(memory))),
    ]);
    large_row(report, ends, "to the device, pinned", 0.99, &times);
    let times = in_rounds([
        Some(Contender::new(1, || ends.download_plainly(memory))),
        Some(Contender::new(1, || ends.download(memory))),
    ]);
    large_row(report, ends, "from the device, pinned", 0.99, &times);
}

/// Measures large copies of pageable memory, beside the driver's own calls for such memory.
fn large_pageable<D: Raw>(ends: &Ends<'_, D>, report: &mut Report) {
    let memory = &ends.pageable;
    let times = in_rounds([
        Some(Contender::new(1, || ends.upload_by_driver(memory))),
        Some(Contender::new(1, || ends.upload(memory))),
    ]);
    large_row(report, ends, "to the device, pageable", 1.0, &times);
    let times = in_rounds([
        Some(Contender::new(1, || ends.download_by_driver(memory))),
        Some(Contender::new(1, || ends.download(memory))),
    ]);
    large_row(report, ends, "from the device, pageable", 1.0, &times);
}

/// Adds a row. The floor's times come first, then Longshore's.
fn small_row(report: &mut Report, name: &str, times: &[Option<Times>]) {
    let [Some(floor), Some(ours), ..] = times else { unreachable!("every contender ran") };
    let limit = Limit::from_floor("floor + 150 ns", floor, |floor| floor + EXTRA);
    report.row(&format!("{SMALL_BYTES} B {name}"), Some(floor), ours, limit);
}

fn large_row<D: Raw>(
    report: &mut Report,
    ends: &Ends<'_, D>,
    name: &str,
    share: f64,
    times: &[Option<Times>; 2],
) {
    let [Some(floor), Some(ours)] = times else { unreachable!("every contender ran") };
    let name = format!("{} {name}", shown(ends.bytes));
    report.row(&name, Some(floor), ours, Limit::share(share, floor));
}

fn note(report: &mut Report, call: &str, times: &Option<Times>) {
    report.note(&format!("{call} of {SMALL_BYTES} B"), times.as_ref().expect("the contender ran"));
}

fn shown(bytes: usize) -> String {
    match bytes {
        size if size >= 1 << 30 => format!("{} GiB", size >> 30),
        size if size >= 1 << 20 => format!("{} MiB", size >> 20),
        size => format!("{size} B"),
    }
}
