//! Nodes that die or stand still while the program works with them. Each step of the program's work
//! loses a node of its own; the last node lives, and does the same work all the time.

use crate::{TrialResult, part, trial};
use libtest_mimic::{Completion, Trial};
use longshore::{Buffer, Device, Grid, Host, Queue, Result};
use longshore_conformance::{Fixtures, TrustedImages};
use longshore_tests::mpi::{Implementation, node_processes, signal};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The parts of jobs, by name.
pub(crate) const PARTS: [(&str, fn()); 1] = [("losses", losses)];

/// The steps at which a node is lost.
const STEPS: [&str; 10] =
    ["queue", "load", "allocate", "launch", "copy", "read", "wait", "unload", "underway", "across"];
/// Variable with the signal that the program sends.
const SIGNAL: &str = "LONGSHORE_TEST_SIGNAL";
/// Variable with the process of a node that gets the signal.
const TARGET: &str = "LONGSHORE_TEST_TARGET";
/// Text of the program that has seen the right errors.
const WELL: &str = "all errors are right";
/// Time after which a silent node is lost.
const LIMIT: &str = "2";

pub(crate) fn trials(implementation: Implementation) -> Vec<Trial> {
    let cases = [
        ("a killed node is lost, and no other", "KILL", "working"),
        ("a stopped node is lost, and no other", "STOP", "working"),
        ("a killed watcher ends its node, or the job", "KILL", "watching"),
    ];
    let trial = |(name, signal, target)| {
        trial(implementation, name, move |implementation| lose(implementation, signal, target))
    };
    cases.into_iter().map(trial).collect()
}

fn lose(implementation: Implementation, signal: &str, target: &str) -> TrialResult {
    let job = part(implementation, "losses").nodes(STEPS.len() as u32 + 1);
    let job = job.env(SIGNAL, signal).env(TARGET, target).env("LONGSHORE_MPI_TIME_LIMIT", LIMIT);
    // The launchers know watchers alone. MPICH's launcher ends a job with a killed process; Open
    // MPI's has an option against that.
    let (job, survives) = match (target, implementation) {
        ("watching", Implementation::OpenMpi) => (job.option("--enable-recovery"), true),
        ("watching", Implementation::Mpich) => (job, false),
        _ => (job, true),
    };
    let outcome = job.limit(Duration::from_secs(60)).run();
    outcome.check_end()?;
    match outcome.printed.contains(WELL) || !survives {
        true => Ok(Completion::Completed),
        false => Err(outcome.text().into()),
    }
}

fn losses() {
    let host = Host::new().unwrap();
    let devices: Vec<_> = host.devices().iter().map(|entry| entry.open().unwrap()).collect();
    assert_eq!(devices.len(), STEPS.len() + 1);
    let (living, losing) = devices.split_last().unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let works = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                Work::new(living, "").round().unwrap();
            }
        });
        let losing = (1..).zip(losing).zip(STEPS);
        let lost: Vec<_> = losing
            .map(|((rank, device), step)| scope.spawn(move || lose_at(device, living, step, rank)))
            .collect();
        let wrong: Vec<_> =
            lost.into_iter().filter_map(|lost| lost.join().unwrap().err()).collect();
        is_over.store(true, Ordering::Relaxed);
        works.join().unwrap();
        Work::new(living, "").round().unwrap();
        assert!(wrong.is_empty(), "{wrong:#?}");
    });
    println!("{WELL}");
}

/// Works until the error of the loss, and checks it.
fn lose_at(
    device: &Device,
    living: &Device,
    step: &'static str,
    rank: i32,
) -> std::result::Result<(), String> {
    log_a_failure(device).map_err(|error| error.to_string())?;
    let started = Instant::now();
    let work = Work { device, living, step, rank };
    let error = loop {
        match work.round() {
            Ok(()) => std::thread::sleep(Duration::from_millis(20)),
            Err(error) => break error,
        }
    };
    println!("{step}: after {:?}: {error}", started.elapsed());
    let message = error.message();
    let node = format!("(rank {rank})");
    let parts = ["node '", &node, "is lost", "the device is lost", "; it logged last: "];
    let missing = parts.iter().find(|part| !message.contains(**part));
    missing.map_or(Ok(()), |missing| Err(format!("{step}: no '{missing}' in '{message}'")))
}

/// Has a kernel fail, which the node logs.
fn log_a_failure(device: &Device) -> Result<()> {
    let image = Fixtures::built_in().image(device, "faulty")?.expect("it has an image");
    let (program, queue) = (device.load_trusted(&*image)?, device.queue()?);
    let fail = program.kernel("fail")?;
    // SAFETY: the kernel takes no arguments.
    unsafe { queue.launch(&fail, Grid::default(), ())? };
    assert!(queue.synchronize().is_err());
    drop((queue, fail));
    program.unload().map(drop)
}

/// A round of work with a device, whose node is lost at a step.
struct Work<'a> {
    device: &'a Device,
    living: &'a Device,
    step: &'static str,
    rank: i32,
}

impl<'a> Work<'a> {
    fn new(device: &'a Device, step: &'static str) -> Work<'a> {
        Work { device, living: device, step, rank: 0 }
    }

    /// Does the work once.
    fn round(&self) -> Result<()> {
        const COUNT: usize = 500_000;
        self.at("queue");
        let queue = self.device.queue()?;
        self.at("load");
        let image = Fixtures::built_in().image(self.device, "basic")?.expect("it has an image");
        let program = self.device.load_trusted(&*image)?;
        self.at("allocate");
        let buffer = self.device.buffer_of(&queue, &vec![7_u32; COUNT])?;
        let iota = program.kernel("iota")?;
        self.at("launch");
        // SAFETY: the kernel takes a pointer and a number, and stays within the elements.
        unsafe { queue.launch(&iota, Grid::linear(8, 128), (&buffer, COUNT as u64))? };
        self.at("copy");
        let copied = queue.write_owned(&buffer, vec![9; COUNT])?;
        copied.wait()?;
        self.at("read");
        assert!(buffer.to_vec(&queue)? == vec![9; COUNT]);
        self.wait(&queue)?;
        if self.step == "underway" {
            self.strike_later();
        }
        if self.step == "across" {
            self.wait_across(&queue, &buffer)?;
        }
        drop(buffer);
        self.at("unload");
        program.unload()?;
        queue.synchronize()
    }

    fn at(&self, step: &str) {
        if self.step == step {
            strike(self.rank);
        }
    }

    fn strike_later(&self) {
        let rank = self.rank;
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(3));
            strike(rank);
        });
    }

    /// Waits for a queue whose node is lost meanwhile.
    fn wait(&self, queue: &Queue) -> Result<()> {
        if self.step != "wait" {
            return queue.synchronize();
        }
        let is_released = Arc::new(AtomicBool::new(false));
        hold(queue, &is_released)?;
        let rank = self.rank;
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            strike(rank);
            std::thread::sleep(Duration::from_millis(50));
            is_released.store(true, Ordering::Relaxed);
        });
        queue.synchronize()
    }

    /// Has a queue of the living node wait for an event of the lost one.
    fn wait_across(&self, queue: &Queue, buffer: &Buffer<u32>) -> Result<()> {
        let is_released = Arc::new(AtomicBool::new(false));
        hold(queue, &is_released)?;
        let waiting = self.living.queue()?;
        let event = queue.record()?;
        waiting.wait_for(&event)?;
        let copying = self.living.queue()?;
        let copy = self.living.buffer::<u32>(&copying, 16)?;
        copying.wait_for(&event)?;
        // SAFETY: both buffers have the bytes, and live until the copy is done or given up.
        unsafe { copying.copy(copy.pointer(), buffer.pointer(), 64)? };
        // The queues come to their waits meanwhile.
        std::thread::sleep(Duration::from_millis(3));
        strike(self.rank);
        is_released.store(true, Ordering::Relaxed);
        let across = waiting.synchronize();
        println!("across: the living queue: {across:?}");
        let copied = copying.synchronize();
        println!("across: the copying queue: {copied:?}");
        assert!(across.is_err() && copied.is_err());
        queue.synchronize()
    }
}

/// Queues a function that waits for its release.
fn hold(queue: &Queue, is_released: &Arc<AtomicBool>) -> Result<()> {
    let is_released = Arc::clone(is_released);
    queue.host_function(move || {
        while !is_released.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
    })
}

fn strike(rank: i32) {
    let variable = |name| std::env::var(name).expect("the trial sets it");
    let found = node_processes(rank);
    // A lost node has no processes any more.
    let Some([watching, working]) = found else { return };
    let target = if variable(TARGET) == "watching" { watching } else { working };
    signal(&variable(SIGNAL), target.number);
}
