//! Executors beside their floors: two processes that wake each other by a futex, that watch a word
//! which the other one writes, and that copy through shared memory. LLVM's executor is measured,
//! too, if its headers are installed.
//!
//! All take turns in one run. The tables show and judge the best times and, in brackets, the
//! medians.

mod floors;
mod llvm;

use anyhow::Result;
use clap::Parser;
use floors::{PingPong, Waiting};
use longshore_benches::machine;
use longshore_benches::report::{Limit, Report};
use longshore_benches::rounds::{Contender, in_rounds};
use longshore_executor::controller::{ExecutorProcess, Spawn};
use longshore_jitlink::process::{ProcessLibrary, SymbolQuery, SymbolRequest, TargetProcess};
use longshore_jitlink::session::Lookup;
use longshore_jitlink::wait;
use longshore_tests::world::executor;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A benchmark of executors.
#[derive(Parser)]
struct Arguments {
    /// Group to measure: calls, memory, look-ups, life, llvm.
    filter: Option<String>,
    /// Flag that cargo passes to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let filter = arguments.filter.unwrap_or_default();
    let mut report = Report::new();
    for (name, measure) in [
        ("calls", calls as fn(&mut Report) -> Result<()>),
        ("memory", memory),
        ("look-ups", look_ups),
        ("life", life),
        ("llvm", llvm::measure),
    ] {
        if name.contains(&filter) {
            measure(&mut report)?;
        }
    }
    report.print();
    println!("{}", machine::load());
    Ok(())
}

/// Number of a service that does nothing.
const ECHO: u32 = 0;
const CALLS: u32 = 2000;

fn process(spawn: Spawn) -> Result<Arc<ExecutorProcess>> {
    Ok(ExecutorProcess::spawn(&spawn)?)
}

fn call(process: &ExecutorProcess) -> Contender<'_> {
    Contender::new(CALLS, || drop(process.peer().call(ECHO, &[]).expect("it answers")))
}

fn rounds(pair: &mut PingPong) -> Contender<'_> {
    Contender { sample: Box::new(|| pair.rounds(CALLS)) }
}

fn calls(report: &mut Report) -> Result<()> {
    let sleeping = process(Spawn::new(executor()))?;
    let spinning = process(Spawn::new(executor()).with_spin(Duration::from_micros(50)))?;
    let stream = process(Spawn::new(executor()).with_shared_memory(false))?;
    let (mut futex, mut spin) =
        (PingPong::new(Waiting::Asleep)?, PingPong::new(Waiting::Spinning)?);
    let [floor, ours] = in_rounds([Some(rounds(&mut futex)), Some(call(&sleeping))]);
    if let (Some(floor), Some(ours)) = (floor, ours) {
        let most =
            Limit::from_floor("1.3 times a futex ping-pong", &floor, |time| time.mul_f64(1.3));
        report.row("an empty call", Some(&floor), &ours, most);
    }
    let [floor, ours, streamed] =
        in_rounds([Some(rounds(&mut spin)), Some(call(&spinning)), Some(call(&stream))]);
    if let (Some(floor), Some(ours)) = (floor, ours) {
        let most = Limit::from_floor("3 times a spinning ping-pong", &floor, |time| time * 3);
        report.row("the same, spinning before sleeping", Some(&floor), &ours, most);
    }
    streamed.iter().for_each(|times| report.note("the same over a bare stream", times));
    Ok(())
}

const LARGE: usize = 64 << 20;

fn memory(report: &mut Report) -> Result<()> {
    let process = process(Spawn::new(executor()))?;
    for (name, size, count) in [("8 bytes written", 8, 100_000), ("64 MiB written", LARGE, 2)] {
        let address = wait(process.allocate(size as u64, 8))?;
        let (source, mut target) = (vec![1_u8; size], vec![0_u8; size]);
        let floor = Contender::new(count, || {
            black_box(&mut target).copy_from_slice(black_box(&source));
        });
        let write = Contender::new(count, || {
            // SAFETY: `size` bytes were allocated there.
            wait(unsafe { process.write(&[(address, black_box(&source))]) }).expect("it is there");
        });
        if let [Some(floor), Some(ours)] = in_rounds([Some(floor), Some(write)]) {
            let most = match size {
                // The floor is a call of the C library's function, below the resolution of the
                // clock.
                8 => Limit::new("100 ns", Duration::from_nanos(100), Duration::from_nanos(100)),
                _ => Limit::share(0.95, &floor),
            };
            report.row(name, Some(&floor), &ours, most);
        }
        // SAFETY: the memory is not used any more.
        wait(unsafe { process.free(address) })?;
    }
    Ok(())
}

fn look_ups(report: &mut Report) -> Result<()> {
    const NAMES: [&str; 10] = [
        "malloc", "free", "memcpy", "memset", "strlen", "printf", "exit", "fopen", "qsort",
        "getenv",
    ];
    let sleeping = process(Spawn::new(executor()))?;
    let spinning = process(Spawn::new(executor()).with_spin(Duration::from_micros(50)))?;
    let names =
        NAMES.map(|name| SymbolQuery { name, thread_local: false, lookup: Lookup::Required });
    let requests = [SymbolRequest { library: ProcessLibrary::GLOBAL, names: &names }];
    let look_up = |process: &Arc<ExecutorProcess>| {
        let process = Arc::clone(process);
        let requests = &requests;
        Contender::new(200, move || {
            // SAFETY: the C library is always loaded.
            drop(wait(unsafe { process.lookup(requests) }).expect("the C library has them"));
        })
    };
    let mut futex = PingPong::new(Waiting::Asleep)?;
    let times =
        in_rounds([Some(rounds(&mut futex)), Some(look_up(&sleeping)), Some(look_up(&spinning))]);
    if let [Some(floor), Some(ours), Some(looking)] = times {
        let most = Duration::from_micros(10);
        let limit = || Limit::new("10 us", most, most);
        report.row("ten look-ups in one message", Some(&floor), &ours, limit());
        report.row("the same, spinning before sleeping", Some(&floor), &looking, limit());
    }
    Ok(())
}

fn life(report: &mut Report) -> Result<()> {
    let start = |spawn: fn(Spawn) -> Spawn| {
        move || {
            let start = Instant::now();
            let process = process(spawn(Spawn::new(executor()))).expect("it starts");
            let took = start.elapsed();
            drop(process);
            took
        }
    };
    let nothing = || {
        let start = Instant::now();
        let status = std::process::Command::new("/bin/true").status();
        assert!(status.is_ok_and(|status| status.success()));
        start.elapsed()
    };
    let notice = || {
        let process = process(Spawn::new(executor())).expect("it starts");
        let peer = Arc::clone(process.peer());
        let waiting = std::thread::spawn(move || {
            peer.wait_for_end();
            Instant::now()
        });
        std::thread::sleep(Duration::from_millis(2));
        let killed = Instant::now();
        process.kill();
        waiting.join().expect("it does not panic").duration_since(killed)
    };
    let [floor, ours, boxed, noticed] = in_rounds([
        Some(Contender { sample: Box::new(nothing) }),
        Some(Contender { sample: Box::new(start(|spawn| spawn)) }),
        Some(Contender { sample: Box::new(start(|spawn| spawn.with_argument("--sandbox"))) }),
        Some(Contender { sample: Box::new(notice) }),
    ]);
    if let (Some(floor), Some(ours)) = (floor, ours) {
        let most = Duration::from_micros(1500);
        let name = "an executor, started and ready; floor: /bin/true, to its end";
        report.row(name, Some(&floor), &ours, Limit::new("1.5 ms", most, most));
    }
    if let Some(boxed) = boxed {
        report.note("the same in the sandbox", &boxed);
    }
    if let Some(noticed) = noticed {
        let most = Duration::from_millis(2);
        report.row(
            "a killed executor, until its end is noticed",
            None,
            &noticed,
            Limit::new("2 ms", most, most),
        );
    }
    Ok(())
}
