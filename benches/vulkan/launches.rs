//! The time of launches.

use crate::ours::Ours;
use crate::plain::{Plain, Signal};
use crate::recorded::{Barriers, Kernels};
use anyhow::{Result, ensure};
use ash::vk;
use longshore::Grid;
use longshore_benches::report::{Limit, Report};
use longshore_benches::rounds::{Contender, Times, in_rounds};
use std::cell::Cell;
use std::time::Duration;

/// Launches in a sample, each of which is waited for.
const WAITED_FOR: u32 = 200;
/// Launches queued before a wait.
const QUEUED: u32 = 2000;
/// Time that a launch with a wait may take beyond a factor of the floor.
const EXTRA: Duration = Duration::from_micros(1);

/// Measures an empty kernel on an idle queue.
pub(crate) fn one(
    ours: &Ours,
    plain: &Plain,
    kernels: &Kernels,
    report: &mut Report,
) -> Result<()> {
    let (again, anew) = (plain.command_buffer()?, plain.command_buffer()?);
    let flags = vk::CommandBufferUsageFlags::empty();
    plain.record(again, flags, || kernels.empty_once(plain, again, Barriers::None))?;
    let for_host = plain.command_buffer()?;
    plain.record(for_host, flags, || kernels.empty_once(plain, for_host, Barriers::ForHost))?;
    let (fence, timeline) = (Submission::new(plain, plain.fence()?), plain.timeline()?);
    let timeline = Submission::new(plain, timeline);
    let recorded = || {
        let once = vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT;
        plain
            .record(anew, once, || kernels.empty_once(plain, anew, Barriers::ForHost))
            .expect("it is recorded");
        timeline.run(anew);
    };
    // SAFETY: the kernel takes no arguments.
    let launch =
        || unsafe { ours.queue.launch_and_wait(&ours.empty, Grid::default(), ()) }.unwrap();
    let webgpu = webgpu(plain);
    let times = in_rounds([
        Some(Contender::new(WAITED_FOR, || fence.run(again))),
        Some(Contender::new(WAITED_FOR, || timeline.run(again))),
        Some(Contender::new(WAITED_FOR, launch)),
        webgpu.as_ref().map(|run| Contender::new(WAITED_FOR, run)),
        Some(Contender::new(WAITED_FOR, || timeline.run(for_host))),
        Some(Contender::new(WAITED_FOR, recorded)),
    ]);
    let [Some(fence), Some(timeline), Some(launch), webgpu, Some(for_host), Some(anew)] = times
    else {
        unreachable!("every contender ran")
    };
    let floor = if fence.median() < timeline.median() { &fence } else { &timeline };
    let limit =
        Limit::from_floor("1.05 x floor + 1 us", floor, |floor| floor.mul_f64(1.05) + EXTRA);
    report.row("empty kernel, launched and waited for", Some(floor), &launch, limit);
    if let Some(webgpu) = &webgpu {
        let limit = half_way("floor + half of wgpu's overhead", floor, webgpu);
        report.row("the same, beside wgpu", Some(floor), &launch, limit);
        report.note("empty kernel, wgpu", webgpu);
    }
    report.note("empty kernel, floor by fence", &fence);
    report.note("empty kernel, floor by timeline semaphore", &timeline);
    report.note("empty kernel, floor with a barrier for the host", &for_host);
    report.note("empty kernel, floor with that barrier, recorded anew", &anew);
    Ok(())
}

/// Returns a limit of the floor plus half of the other contender's time beyond the floor.
fn half_way(text: &str, floor: &Times, other: &Times) -> Limit {
    let most = |floor: Duration, other: Duration| floor + other.saturating_sub(floor) / 2;
    Limit::new(text, most(floor.best(), other.best()), most(floor.median(), other.median()))
}

/// Measures many launches before one wait.
pub(crate) fn many(
    ours: &Ours,
    plain: &Plain,
    kernels: &Kernels,
    report: &mut Report,
) -> Result<()> {
    let queue = &ours.queue;
    let empty = || {
        for _ in 0..QUEUED {
            // SAFETY: the kernel takes no arguments.
            unsafe { queue.launch(&ours.empty, Grid::default(), ()) }.unwrap();
        }
        queue.synchronize().unwrap();
    };
    let store = || {
        for number in 0..QUEUED {
            // SAFETY: the kernel takes a number and a pointer to one.
            unsafe { queue.launch(&ours.store, Grid::default(), (number, &ours.place)) }.unwrap();
        }
        queue.synchronize().unwrap();
    };
    store();
    ensure!(ours.place.to_vec(queue)? == [QUEUED - 1], "the last launch comes last");
    let commands = plain.command_buffer()?;
    let submission = Submission::new(plain, plain.timeline()?);
    let floor = |barriers, dispatch: &dyn Fn(u32)| {
        let once = vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT;
        let body = || {
            (0..QUEUED).for_each(|number| {
                kernels.between(plain, commands, barriers);
                dispatch(number);
            })
        };
        plain.record(commands, once, body).expect("it is recorded");
        submission.run(commands);
    };
    let plain_empty = |number: u32| kernels.empty(plain, commands, number == 0);
    let plain_store = |number: u32| kernels.store(plain, commands, number);
    measure(
        "2000 empty kernels",
        report,
        &empty,
        [&|| floor(Barriers::Between, &plain_empty), &|| floor(Barriers::None, &plain_empty)],
    );
    measure(
        "2000 kernels with a pointer and a number",
        report,
        &store,
        [&|| floor(Barriers::Between, &plain_store), &|| floor(Barriers::None, &plain_store)],
    );
    ensure!(kernels.stored() == QUEUED - 1, "the floor's last launch comes last");
    Ok(())
}

/// Measures beside a floor with barriers, and beside one without, which does less.
fn measure(name: &str, report: &mut Report, ours: &dyn Fn(), floors: [&dyn Fn(); 2]) {
    let [with, without] = floors;
    let times = in_rounds([with, ours, without].map(|run| Some(Contender::new(1, run))));
    let [Some(with), Some(ours), Some(without)] = times else {
        unreachable!("every contender ran")
    };
    let limit = Limit::share(0.95, &with);
    report.row(name, Some(&with), &ours, limit);
    report.note(&format!("{name}, floor without barriers"), &without);
}

/// Work that is submitted and waited for repeatedly.
struct Submission<'a> {
    plain: &'a Plain,
    signal: Signal,
    value: Cell<u64>,
}

impl Submission<'_> {
    fn new(plain: &Plain, signal: Signal) -> Submission<'_> {
        Submission { plain, signal, value: Cell::new(0) }
    }

    fn run(&self, commands: vk::CommandBuffer) {
        self.value.set(self.value.get() + 1);
        self.plain.submit(commands, self.signal, self.value.get());
        self.plain.wait(self.signal, self.value.get());
    }
}

/// Returns a function that launches the empty kernel and waits for it by wgpu.
#[cfg(feature = "wgpu")]
fn webgpu(plain: &Plain) -> Option<impl Fn()> {
    let webgpu = crate::webgpu::WebGpu::new(&plain.name);
    let webgpu = webgpu.inspect_err(|error| println!("without wgpu: {error:#}")).ok();
    webgpu.map(|webgpu| move || webgpu.launch_and_wait())
}

#[cfg(not(feature = "wgpu"))]
fn webgpu(_: &Plain) -> Option<fn()> {
    println!("without wgpu: built without the feature `wgpu`");
    None
}
