//! The time of launches.

use crate::raw::{Handle, Raw};
use crate::{Both, queueing};
use anyhow::Result;
use longshore::{Grid, Kernel, Program};
use longshore_benches::report::{Limit, Report};
use longshore_benches::rounds::{Contender, Times, in_rounds};
use longshore_conformance::TrustedImages;
use std::time::Duration;

/// Launches in a sample, each of which is waited for.
const WAITED_FOR: u32 = 200;
/// Launches queued before one wait: more than the driver accepts without blocking.
const MANY: u32 = 5000;
/// Limits of a launch's time: a factor of the floor, and an addition to it.
const SHARE: f64 = 1.03;
const EXTRA: Duration = Duration::from_nanos(100);

/// The null kernel of both contenders.
struct Empty<'a, D> {
    both: &'a Both<D>,
    kernel: Kernel,
    _program: Program,
    function: Handle,
    stream: Handle,
}

/// Measures launches of a null kernel: queued, waited for, and many.
pub(crate) fn measure<D: Raw>(both: &Both<D>, report: &mut Report) -> Result<()> {
    let empty = Empty::new(both)?;
    queued(&empty, report);
    waited_for(&empty, report);
    many(&empty, report);
    Ok(())
}

fn queued<D: Raw>(empty: &Empty<'_, D>, report: &mut Report) {
    let times = in_rounds([
        Some(queueing::alone(|| empty.launch_plainly(), || empty.wait_plainly())),
        Some(queueing::alone(|| empty.launch(), || empty.wait())),
    ]);
    let [Some(floor), Some(ours)] = times else { unreachable!("every contender ran") };
    report.row("null kernel, queued", Some(&floor), &ours, limit(&floor));
}

fn waited_for<D: Raw>(empty: &Empty<'_, D>, report: &mut Report) {
    let floor = || {
        empty.launch_plainly();
        empty.wait_plainly();
    };
    let in_two_calls = || {
        empty.launch();
        empty.wait();
    };
    let times = in_rounds([
        Some(Contender::new(WAITED_FOR, floor)),
        Some(Contender::new(WAITED_FOR, in_two_calls)),
        Some(Contender::new(WAITED_FOR, || empty.launch_and_wait())),
    ]);
    let [Some(floor), Some(in_two), Some(in_one)] = times else {
        unreachable!("every contender ran")
    };
    report.row("null kernel, launched, queue waited for", Some(&floor), &in_two, limit(&floor));
    report.row("null kernel, launched and waited for", Some(&floor), &in_one, limit(&floor));
}

fn many<D: Raw>(empty: &Empty<'_, D>, report: &mut Report) {
    let floor = || {
        (0..MANY).for_each(|_| empty.launch_plainly());
        empty.wait_plainly();
    };
    let ours = || {
        (0..MANY).for_each(|_| empty.launch());
        empty.wait();
    };
    let times = in_rounds([Some(Contender::new(1, floor)), Some(Contender::new(1, ours))]);
    let [Some(floor), Some(ours)] = times else { unreachable!("every contender ran") };
    report.note(&format!("{MANY} null kernels, then a wait, floor"), &floor);
    report.note(&format!("{MANY} null kernels, then a wait, longshore"), &ours);
}

fn limit(floor: &Times) -> Limit {
    let most = |floor: Duration| floor.mul_f64(SHARE).min(floor + EXTRA);
    Limit::from_floor("1.03 x floor, and floor + 100 ns", floor, most)
}

impl<D: Raw> Empty<'_, D> {
    fn new(both: &Both<D>) -> Result<Empty<'_, D>> {
        let mut image = D::empty(&both.ours.arch)?;
        let program = both.ours.device.load_trusted(&image[..])?;
        image.push(0);
        // SAFETY: it is a whole image with a NUL after it, and the module is never unloaded.
        let function = unsafe {
            let module = both.plain.load(&image)?;
            both.plain.kernel(module, c"empty")?
        };
        let (kernel, stream) = (program.kernel("empty")?, both.plain.stream()?);
        Ok(Empty { both, kernel, _program: program, function, stream })
    }

    fn launch_plainly(&self) {
        // SAFETY: the function takes no arguments; it and the stream are live.
        unsafe { self.both.plain.launch(self.function, self.stream) }.unwrap();
    }

    fn wait_plainly(&self) {
        // SAFETY: the stream is live.
        unsafe { self.both.plain.wait(self.stream) }.unwrap();
    }

    fn launch(&self) {
        // SAFETY: the kernel takes no arguments.
        unsafe { self.both.ours.queue.launch(&self.kernel, Grid::default(), ()) }.unwrap();
    }

    fn launch_and_wait(&self) {
        let queue = &self.both.ours.queue;
        // SAFETY: the kernel takes no arguments.
        unsafe { queue.launch_and_wait(&self.kernel, Grid::default(), ()) }.unwrap();
    }

    fn wait(&self) {
        self.both.ours.queue.synchronize().unwrap();
    }
}
