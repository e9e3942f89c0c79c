//! Concurrent calls of many threads.

use super::context::{Context, Counter, bytes, refused};
use super::{Check, Stop, behaviour_list, ensure, ensure_eq};
use crate::TrustedImages;
use crate::amount;
use longshore::{ErrorCode, MemoryKind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

behaviour_list! { "threads":
    "eight threads load, launch, copy and unload at once" ["P-23"] threads_do_everything;
    "eight threads allocate and free at once" ["P-23"] threads_allocate;
    "a program is unloaded while other threads launch it" ["P-23"] unloading_races_with_launching;
    "a device is closed while other threads use it" ["P-23"] closing_races_with_use;
}

const THREADS: usize = 8;
const PERIOD: Duration = Duration::from_millis(300);
/// The time limit of threads that use a program or device until another thread ends its life.
const LIMIT: Duration = Duration::from_secs(6);

fn threads_do_everything(cx: &Context) -> Check {
    let shared = cx.basic()?;
    let image = cx.image("basic")?;
    let device = cx.device();
    let work = |seed: usize, end: Instant| -> Result<u64, Stop> {
        let mut rounds = 0;
        while rounds == 0 || Instant::now() < end {
            let (queue, basic) = (device.queue()?, Counter::new(device.load_trusted(&*image)?)?);
            shared.bump(&queue)?;
            basic.bump(&queue)?;
            let content = bytes(1000 + seed * 333, rounds as u8);
            let buffer = device.buffer_of(&queue, &content)?;
            let event = queue.record()?;
            ensure_eq!(basic.read(&queue)?, 6, "counter of thread {seed}");
            event.synchronize()?;
            ensure!(buffer.to_vec(&queue)? == content, "memory of thread {seed} was changed");
            basic.program.unload()?;
            rounds += 1;
        }
        Ok(rounds)
    };
    let rounds: u64 = in_threads(work)?.into_iter().sum();
    ensure_eq!(shared.global(&cx.queue()?)?, 5 + rounds, "counter that all threads share");
    Ok(())
}

fn threads_allocate(cx: &Context) -> Check {
    let (device, host) = (cx.device(), cx.host());
    let work = |seed: usize, end: Instant| -> Check {
        let mut live = Vec::new();
        for round in 0.. {
            if round > 0 && Instant::now() >= end {
                break;
            }
            let size = 1 + (round * 7919 + seed * 104_729) % 100_000;
            let made = device.allocate(MemoryKind::Device, size as u64, 1)?;
            let info = host.allocation_at(made.pointer())?;
            ensure_eq!(info.bytes, size as u64, "size in the table");
            live.push(made);
            if live.len() > 20 {
                live.swap_remove(round % 20);
            }
        }
        Ok(())
    };
    in_threads(work).map(drop)
}

fn unloading_races_with_launching(cx: &Context) -> Check {
    for _ in 0..10 {
        let basic = cx.basic()?;
        let work = |_: usize, end: Instant| -> Check {
            let queue = cx.device().queue()?;
            while Instant::now() < end {
                match basic.bump(&queue) {
                    Ok(()) => queue.synchronize()?,
                    launched => return refused(launched, ErrorCode::Uninitialized, "launching"),
                }
            }
            Err(Stop::Failed("it was never unloaded".to_owned()))
        };
        let unloaded = thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|seed| scope.spawn(move || work(seed, Instant::now() + amount::limit(LIMIT))))
                .collect();
            thread::sleep(Duration::from_millis(5));
            let unloaded = basic.program.clone().unload();
            join(threads).map(|_| unloaded)
        })?;
        unloaded?;
    }
    Ok(())
}

fn closing_races_with_use(cx: &Context) -> Check {
    cx.device().clone().close()?;
    for _ in 0..5 {
        let device = cx.reopened()?;
        let image = cx.image_for(&device, "basic")?;
        let closed = AtomicBool::new(false);
        let work = |seed: usize| -> Check {
            let attempt = || -> longshore::Result<()> {
                let queue = device.queue()?;
                let basic = Counter::new(device.load_trusted(&*image)?)?;
                basic.bump(&queue)?;
                let buffer = device.buffer_of(&queue, &bytes(1000, seed as u8))?;
                buffer.to_vec(&queue)?;
                queue.record()?.synchronize()
            };
            let end = Instant::now() + amount::limit(LIMIT);
            while Instant::now() < end {
                match attempt() {
                    Ok(()) => {}
                    tried if closed.load(Ordering::Acquire) => return after_close(tried),
                    // The closing thread sets the flag before it closes the device.
                    Err(error) => return Err(error.into()),
                }
            }
            Err(Stop::Failed("it was never closed".to_owned()))
        };
        let result = thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|seed| scope.spawn(move || work(seed))).collect();
            thread::sleep(Duration::from_millis(10));
            closed.store(true, Ordering::Release);
            let result = device.clone().close();
            join(threads).map(|_| result)
        })?;
        result?;
    }
    Ok(())
}

/// Checks the result of a call whose device may have been closed meanwhile: the device, or its
/// memory, is gone.
fn after_close(tried: longshore::Result<()>) -> Check {
    match tried {
        Err(error) if error.code() == ErrorCode::InvalidArgument => Ok(()),
        Err(error) if error.code() == ErrorCode::InvalidDevice => Ok(()),
        tried => refused(tried, ErrorCode::Uninitialized, "using a closed device"),
    }
}

/// Runs the work in all threads at once; its arguments are the thread's number and the time at
/// which to end.
fn in_threads<T: Send>(
    work: impl Fn(usize, Instant) -> Result<T, Stop> + Sync,
) -> Result<Vec<T>, Stop> {
    let end = Instant::now() + PERIOD;
    thread::scope(|scope| {
        let work = &work;
        join((0..THREADS).map(|seed| scope.spawn(move || work(seed, end))).collect())
    })
}

fn join<T>(threads: Vec<thread::ScopedJoinHandle<'_, Result<T, Stop>>>) -> Result<Vec<T>, Stop> {
    let panicked = |_| Err(Stop::Failed("a thread panicked".to_owned()));
    // All threads are joined before the first failure is reported.
    let results: Vec<_> =
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).collect();
    results.into_iter().collect()
}
