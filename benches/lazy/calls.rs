//! Calls through entries, and the creation of entries.

use crate::compile;
use anyhow::{Result, ensure};
use longshore_benches::report::{Limit, Report};
use longshore_benches::rounds::{Contender, in_rounds};
use longshore_jitlink::lazy::{LazyReexports, LazyTracker, Reexport};
use longshore_jitlink::session::{Lookup, Removal};
use longshore_jitlink::{Library, Session};
use std::hint::black_box;
use std::time::{Duration, Instant};

type Function = extern "C" fn(u64) -> u64;

const ENTRIES: usize = 10_000;
/// Later calls that are timed together, as one takes about a nanosecond.
const CALLS: u32 = 1000;

/// Implementation of all entries, which is already linked.
const IMPLEMENTATION: &str = "unsigned long it(unsigned long n) { return n + 1; }";

/// Adds 1, like the linked implementation, in this executable.
#[cfg(target_arch = "x86_64")]
extern "C" fn implementation(n: u64) -> u64 {
    n + 1
}

// The code that the system's linker generates for a function of another library.
#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".pushsection .text",
    ".balign 16",
    "longshore_bench_jump: jmp *longshore_bench_slot(%rip)",
    ".popsection",
    ".pushsection .data",
    ".balign 8",
    "longshore_bench_slot: .quad {implementation}",
    ".popsection",
    implementation = sym implementation,
    options(att_syntax)
);

#[cfg(target_arch = "x86_64")]
unsafe extern "C" {
    #[link_name = "longshore_bench_jump"]
    safe fn through_a_jump(n: u64) -> u64;
}

struct Entries {
    library: Library,
    implementations: Library,
    implementation: Function,
    lazy: LazyReexports,
    names: Vec<String>,
}

pub(crate) fn measure(report: &mut Report) -> Result<()> {
    let entries = Entries::new()?;
    let direct = || Some(calling(entries.implementation));

    let first = Some(Contender { sample: Box::new(|| entries.first_calls()) });
    let [floor, ours] = in_rounds([direct(), first]);
    let (floor, ours) = (floor.expect("it ran"), ours.expect("it ran"));
    let most = CALLS * Duration::from_micros(2);
    let limit = Limit::new("2 us each", most, most);
    report.row("1000 first calls of linked code", Some(&floor), &ours, limit);

    let (tracker, functions) = entries.add()?;
    ensure!(functions[0](1) == 2 && functions[0](2) == 3, "an entry has another implementation");
    let [floor, ours] = in_rounds([direct(), Some(calling(functions[0]))]);
    let (floor, ours) = (floor.expect("it ran"), ours.expect("it ran"));
    let most = |floor| floor + CALLS * Duration::from_nanos(1);
    let limit = Limit::from_floor("1 ns more each", &floor, most);
    report.row("1000 later calls", Some(&floor), &ours, limit);
    tracker.remove(Removal::Unused)?;
    #[cfg(target_arch = "x86_64")]
    if let [Some(jumping)] = in_rounds([Some(calling(black_box(through_a_jump)))]) {
        report.note("1000 calls through an indirect jump, as a library's", &jumping);
    }

    let adding = Some(Contender { sample: Box::new(|| entries.adding().0) });
    let asking = Some(Contender { sample: Box::new(|| entries.adding().1) });
    let [adding, asking] = in_rounds([adding, asking]);
    report.note("adding 10,000 entries", &adding.expect("it ran"));
    report.note("looking up the first entry, which links the entries", &asking.expect("it ran"));
    Ok(())
}

impl Entries {
    fn new() -> Result<Self> {
        // SAFETY: only entries are linked, and a function that adds 1.
        let session = unsafe { Session::new() }?;
        let (library, implementations) =
            (session.create_library("entries"), session.create_library("implementations"));
        let _object = implementations.add_object("it.o", compile(IMPLEMENTATION)?)?;
        // SAFETY: the object defines it so.
        let implementation = unsafe { function(implementations.lookup("it")?) };
        let names = (0..ENTRIES).map(|index| format!("kernel_{index:05}")).collect();
        let lazy = LazyReexports::for_session(&session)?;
        Ok(Self { library, implementations, implementation, lazy, names })
    }

    fn define(&self) -> Result<LazyTracker> {
        let reexports = self.names.iter().map(|name| Reexport::new(name, "it"));
        Ok(self.lazy.add(&self.library, &self.implementations, reexports)?)
    }

    fn add(&self) -> Result<(LazyTracker, Vec<Function>)> {
        let tracker = self.define()?;
        let names: Vec<_> = self.names.iter().map(|name| (&**name, Lookup::Required)).collect();
        let addresses = self.library.lookup_all(&names)?.into_iter().flatten();
        // SAFETY: the implementation has this type.
        Ok((tracker, addresses.map(|address| unsafe { function(address) }).collect()))
    }

    /// Returns the time of `CALLS` first calls of new entries.
    fn first_calls(&self) -> Duration {
        let (tracker, functions) = self.add().expect("the names are free");
        let start = Instant::now();
        for function in &functions {
            black_box(function(1));
        }
        let took = start.elapsed() * CALLS / ENTRIES as u32;
        tracker.remove(Removal::Unused).expect("nobody uses them");
        took
    }

    /// Returns the times to add entries and to look one up.
    fn adding(&self) -> (Duration, Duration) {
        let start = Instant::now();
        let tracker = self.define().expect("the names are free");
        let added = start.elapsed();
        let start = Instant::now();
        self.library.lookup(&self.names[0]).expect("it was added");
        let asked = start.elapsed();
        tracker.remove(Removal::Unused).expect("nobody uses them");
        (added, asked)
    }
}

/// Converts an address to a function.
///
/// # Safety
/// It is the address of such a function.
unsafe fn function(address: u64) -> Function {
    // SAFETY: promised by the caller.
    unsafe { std::mem::transmute::<usize, Function>(address as usize) }
}

/// Creates a contender that calls a function many times.
fn calling(function: Function) -> Contender<'static> {
    Contender::new(1000, move || {
        for n in 0..CALLS {
            black_box(function(black_box(n.into())));
        }
    })
}
