//! Devices with full memory. For devices in the memory of the process, that means a full address
//! space; doubles have little memory of their own. So each trial is a process with a limit of its
//! address space.

use libtest_mimic::{Failed, Trial};
use longshore::{ErrorCode, Grid, Host, MemoryKind};
use longshore_conformance::Fixtures;
use longshore_conformance::TrustedImages;
use longshore_tests::suites::Suite;
use longshore_tests::{doubled, vulkan, world};
use std::path::PathBuf;
use std::process::Command;

/// The variables with the plugin and the selector of the device that a process fills.
const CHILD: [&str; 2] = ["LONGSHORE_TEST_FULL_PLUGIN", "LONGSHORE_TEST_FULL_DEVICE"];
/// Bytes of address space that a process has left before it fills the device.
const SPACE: u64 = 1 << 30;
const BLOCK: u64 = 8 << 20;
/// Size of an allocation that succeeds only if the cache frees blocks, in bytes.
const LARGE: u64 = 256 << 20;

pub(crate) const SUITE: Suite = Suite {
    // SAFETY: promised by the caller.
    prepare: || unsafe {
        vulkan::choose_drivers();
        doubled::ALL.iter().for_each(|of| of.take_double("memory=1G"));
    },
    child: is_done,
    ..Suite::new("full_devices", trials)
};

/// Returns whether this process is for a device to fill. If so, the test has run.
fn is_done() -> bool {
    let [Some(plugin), Some(device)] = CHILD.map(std::env::var_os) else { return false };
    fill(plugin.into(), device.to_str().expect("it is ASCII"));
    true
}

fn trials() -> Vec<Trial> {
    let devices = vulkan::devices().unwrap_or_else(|error| panic!("{error:?}"));
    let vulkan = devices.iter().filter_map(|device| {
        Some((vulkan::plugin()?, format!("{}:{}", device.backend, device.index)))
    });
    let doubles = doubled::ALL.into_iter().filter(|of| of.is_double());
    let doubles = doubles.filter_map(|of| Some((of.plugin()?, format!("{}:0", of.backend))));
    let all =
        [(world::host_plugin(), "host:0".to_owned())].into_iter().chain(vulkan).chain(doubles);
    let trials = all.map(|(plugin, device)| {
        let name = "a full device says so, gives back its cache, and goes on";
        Trial::test(format!("{device}: {name}"), move || in_a_process(plugin, &device))
    });
    trials.collect()
}

fn in_a_process(plugin: PathBuf, device: &str) -> Result<(), Failed> {
    let mut child = Command::new(std::env::current_exe()?);
    let output = child.env(CHILD[0], plugin).env(CHILD[1], device).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{}: {said}", output.status).into()),
    }
}

fn fill(plugin: PathBuf, device: &str) {
    let is_cpu = device.starts_with("host:");
    let host = Host::builder()
        .with_environment(vulkan::environment_without_layer())
        .with_cache_limit(u64::MAX);
    let host = host.with_only_given_plugins().with_plugin(plugin).build().unwrap();
    let device = host.device(device).unwrap();
    let image = Fixtures::built_in().image(&device, "basic").unwrap().unwrap();
    let (queue, program) = (device.queue().unwrap(), device.load_trusted(&image[..]).unwrap());
    let (bump, read) = (program.kernel("bump").unwrap(), program.kernel("read_counter").unwrap());
    let counter = device.buffer::<u64>(&queue, 1).unwrap();
    let mut before = None;
    let mut launch = || {
        // SAFETY: `bump` takes no arguments, `read_counter` a pointer to a u64.
        unsafe {
            queue.launch(&bump, Grid::default(), ()).unwrap();
            queue.launch(&read, Grid::default(), (&counter,)).unwrap();
        }
        let [count] = counter.to_vec(&queue).unwrap()[..] else { panic!("one number") };
        assert!(before.replace(count).is_none_or(|before| before + 1 == count), "{count}");
    };
    // Drivers compile kernels and start threads with the first launch.
    launch();
    limit_address_space();
    let allocate = |bytes| device.allocate(MemoryKind::Device, bytes, 1);
    let mut blocks = Vec::new();
    let error = loop {
        match allocate(BLOCK) {
            Ok(block) => blocks.push(block),
            Err(error) => break error,
        }
        // The plugin may have allocated memory before the limit.
        assert!(blocks.len() as u64 * BLOCK <= 2 * SPACE, "more than there is");
    };
    assert_eq!(error.code(), ErrorCode::OutOfResources, "{error}");
    assert!(error.message().contains(&BLOCK.to_string()), "{error}");
    let is_reported = !is_cpu || error.message().contains("RLIMIT_AS");
    assert!(is_reported, "the limit is not reported: {error}");
    assert!(blocks.len() as u64 * BLOCK >= LARGE, "{} blocks: {error}", blocks.len());
    blocks.pop();
    launch();
    assert_eq!(allocate(LARGE).map(drop).unwrap_err().code(), ErrorCode::OutOfResources);
    // Memory used by queued work is free after that work.
    queue.host_function(|| std::thread::sleep(std::time::Duration::from_millis(100))).unwrap();
    drop(blocks);
    drop(allocate(LARGE).unwrap());
    launch();
    drop((counter, bump, read));
    program.unload().unwrap();
    assert!(device.close().unwrap().leaks.is_empty());
}

/// Limits the address space to [`SPACE`] bytes more than the process has now.
fn limit_address_space() {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = pages.split(' ').next().unwrap().parse().unwrap();
    // SAFETY: the call has no precondition.
    let page = u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap();
    let most = pages * page + SPACE;
    let limit = libc::rlimit { rlim_cur: most, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the structure is valid for the call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
}
