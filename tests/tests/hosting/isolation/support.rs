//! A round of all functions of a device, and the remains of processes.

use longshore::{Device, Error, ErrorCode, Grid, Host, MemoryKind, Result};
use longshore_conformance::Fixtures;
use longshore_conformance::TrustedImages;
use longshore_tests::world::{World, executor};
use std::path::Path;
use std::time::{Duration, Instant};

/// Returns a host that runs the plugins of a world in processes of their own.
pub(crate) fn isolated(world: &World, limit: Option<Duration>) -> Result<Host> {
    let builder = world.host().with_isolated_backends("all").with_executor(executor());
    match limit {
        Some(limit) => builder.with_isolate_time_limit(limit).build(),
        None => builder.build(),
    }
}

/// Uses each function once: memory of all kinds, an image, launches, copies, fills, host functions,
/// events.
pub(crate) fn round(device: &Device) -> Result<()> {
    let image = Fixtures::built_in().image(device, "basic")?.expect("there is an image for it");
    let program = device.load_trusted(&*image)?;
    let (bump, read) = (program.kernel("bump")?, program.kernel("read_counter")?);
    program.symbols()?;
    let (queue, other) = (device.queue()?, device.queue()?);
    let start = queue.record_timed()?;
    for _ in 0..3 {
        // SAFETY: `bump` takes no arguments.
        unsafe { queue.launch(&bump, Grid::default(), ())? };
    }
    let end = queue.record_timed()?;
    other.wait_for(&end)?;
    end.synchronize()?;
    end.is_complete()?;
    start.elapsed_ns(&end)?;
    let out = device.buffer_of(&queue, &[0_u64; 4])?;
    // SAFETY: `read_counter` takes a pointer to 8 bytes; `out` outlives the launch.
    unsafe { queue.launch_and_wait(&read, Grid::default(), (&out,))? };
    assert_eq!(out.to_vec(&queue)?[0], 8, "5 at first, and three launches");
    queue.host_function(|| {})?;
    queue.synchronize()?;
    queue.is_idle()?;
    program.global("counter")?.read::<u64>(&queue)?;
    match device.allocate(MemoryKind::Host, 4096, 1) {
        Err(error) if error.code() != ErrorCode::Unsupported => return Err(error),
        _ => {}
    }
    program.unload()?;
    Ok(())
}

/// Returns the child processes that have not been waited for.
pub(crate) fn children() -> Vec<String> {
    let here = std::process::id();
    let tasks = std::fs::read_dir(format!("/proc/{here}/task")).unwrap().flatten();
    let listed =
        tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    listed.flat_map(|all| all.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// Returns whether the condition becomes true within some seconds.
pub(crate) fn comes_true(condition: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !condition() {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    true
}

/// Asserts that an error reports the loss of a process with all known facts.
pub(crate) fn assert_lost(error: &Error, cause: &str) {
    let message = error.message();
    assert!(message.contains("is gone") && message.contains(cause), "{message}");
    assert!(message.contains("the device is lost"), "{message}");
}

/// Returns the process ID in the reason of a candidate, such as "process 123".
pub(crate) fn process_of(host: &Host, plugin: &Path) -> i32 {
    let candidate = host.candidates().iter().find(|candidate| candidate.path == plugin).unwrap();
    let reason = candidate.outcome.reason();
    reason.strip_prefix("process ").and_then(|number| number.parse().ok()).expect(&reason)
}
