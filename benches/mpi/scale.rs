//! Many nodes whose device computes nothing: the constants of a model of larger clusters.
//!
//! The device is that of `examples/plugin.rs`, and its kernel runs over no elements. All processes
//! share this machine, so wall times beyond its cores are upper bounds. The program's own processor
//! time is the constant that holds for a cluster.

use crate::jobs::release;
use anyhow::{Context, Result};
use longshore::{Device, Environment, Grid, Host, Image, Kernel, Queue};
use longshore_mpi_backend::launch;
use longshore_mpi_backend::settings::Settings;
use std::time::{Duration, Instant, SystemTime};

/// Launches of a measurement, to all nodes together.
const LAUNCHES: usize = 40_000;
const IDLE: Duration = Duration::from_secs(4);
/// The variable with the time of the launcher's start, in microseconds of the system's clock.
pub(crate) const STARTED: &str = "LONGSHORE_BENCH_STARTED";

struct Node {
    _device: Device,
    queue: Queue,
    kernel: Kernel,
}

/// The processor time of this process, and of this thread.
#[derive(Clone, Copy)]
struct Used {
    process: Duration,
    thread: Duration,
}

/// Returns the time since the system's clock began, in microseconds.
pub(crate) fn clock() -> Result<u64> {
    Ok(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_micros() as u64)
}

pub(crate) fn measure() -> Result<()> {
    let started: u64 = std::env::var(STARTED)?.parse()?;
    let setting = |name: &str| std::env::var(format!("LONGSHORE_MPI_{}", name.to_uppercase())).ok();
    let settings = Settings::read(setting).map_err(anyhow::Error::msg)?;
    let mpi = launch::library(&settings).map_err(anyhow::Error::msg)?;
    launch::initialize(mpi)?;
    let nodes = mpi.size(mpi.world())? - 1;
    println!("{nodes} nodes");
    println!("  MPI is initialized after {:.3} s", (clock()? - started) as f64 / 1e6);

    let before = (memory()?, Instant::now(), Used::now());
    let environment = Environment::from_process().with("LONGSHORE_BACKEND", "mpi");
    let builder = Host::builder().with_environment(environment).with_only_given_plugins();
    let host = builder.with_plugin(release()?.join("liblongshore_plugin_mpi.so")).build()?;
    let found = host.devices().len();
    println!("  {found} devices are found after {:.3} s more", before.1.elapsed().as_secs_f64());
    println!("  processor time of that: {:.3} s", Used::since(before.2).process.as_secs_f64());
    let start = Instant::now();
    let nodes = host.devices().iter().map(|entry| Node::new(entry.open()?));
    let nodes = nodes.collect::<Result<Vec<_>>>()?;
    let took = start.elapsed() / found.max(1) as u32;
    println!("  device, image, kernel and queue: {:.1} us per node", us(took));
    let kept = (memory()? - before.0) as f64 / found.max(1) as f64;
    println!("  memory of the program: {:.1} KiB per node", kept / 1024.0);

    let (used, start) = (Used::now(), Instant::now());
    std::thread::sleep(IDLE);
    let idle = Used::since(used).process.as_secs_f64() / start.elapsed().as_secs_f64();
    println!("  an idle program uses {:.2} % of a core", 100.0 * idle);

    let mut count = 1;
    while count <= nodes.len() {
        launch_on(&nodes[..count])?;
        count *= 4;
    }
    if count != 4 * nodes.len() {
        launch_on(&nodes)?;
    }
    drop((nodes, host));
    mpi.finalize()?;
    Ok(())
}

/// Prints the cost of launches on nodes in turn.
fn launch_on(nodes: &[Node]) -> Result<()> {
    nodes.iter().try_for_each(Node::launch)?;
    nodes.iter().try_for_each(|node| node.queue.synchronize())?;
    let (start, used) = (Instant::now(), Used::now());
    for node in nodes.iter().cycle().take(LAUNCHES) {
        node.launch()?;
    }
    let (queued, launching) = (start.elapsed(), Used::since(used));
    nodes.iter().try_for_each(|node| node.queue.synchronize())?;
    let (took, all) = (start.elapsed(), Used::since(used));
    let each = |time: Duration| us(time) / LAUNCHES as f64;
    println!(
        "  a launch on {} nodes in turn: queued in {:.3} us, done in {:.3} us; processor time: \
         launching thread {:.3} us, program {:.3} us",
        nodes.len(),
        each(queued),
        each(took),
        each(launching.thread),
        each(all.process)
    );
    Ok(())
}

impl Node {
    fn new(device: Device) -> Result<Self> {
        let image = Image::from(b"longshore-example: saxpy\n".to_vec());
        // SAFETY: the image has no code.
        let program = unsafe { device.load(image)? };
        let (queue, kernel) = (device.queue()?, program.kernel("saxpy")?);
        Ok(Self { _device: device, queue, kernel })
    }

    fn launch(&self) -> longshore::Result<()> {
        // SAFETY: the kernel takes (u64, f32, pointer, pointer), and accesses no elements.
        unsafe { self.queue.launch(&self.kernel, Grid::default(), (0_u64, 1.0_f32, 0_u64, 0_u64)) }
    }
}

impl Used {
    fn now() -> Self {
        let of = |clock| {
            // SAFETY: the structure has only numbers.
            let mut time: libc::timespec = unsafe { std::mem::zeroed() };
            // SAFETY: the output is a local variable.
            unsafe { libc::clock_gettime(clock, &raw mut time) };
            Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
        };
        Self {
            process: of(libc::CLOCK_PROCESS_CPUTIME_ID),
            thread: of(libc::CLOCK_THREAD_CPUTIME_ID),
        }
    }

    fn since(earlier: Self) -> Self {
        let now = Self::now();
        Self { process: now.process - earlier.process, thread: now.thread - earlier.thread }
    }
}

/// Returns the memory of this process in bytes.
fn memory() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.context("a size")?.split_whitespace().next().context("a number")?;
    Ok(number.parse::<u64>()? * 1024)
}

fn us(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
