//! Actions of the program: it forks, or it ends.

use crate::isolation::support::{assert_lost, children, comes_true, isolated, process_of, round};
use longshore::{Grid, MemoryKind};
use longshore_conformance::Fixtures;
use longshore_tests::resource_usage::ResourceUsage;
use longshore_tests::world::{World, copy_into, host_plugin};
use std::sync::{Arc, Barrier};

#[test]
fn a_forked_child_gets_errors_and_leaves_the_parents_device_alone() {
    let world = World::new();
    copy_into(&world, &host_plugin());
    let host = isolated(&world, None).unwrap();
    let device = host.default_device().unwrap();
    let queue = device.queue().unwrap();
    let shared = device.allocate(MemoryKind::Host, 1 << 16, 1).unwrap();
    let bytes = shared.pointer().address() as *mut u8;
    // SAFETY: the range is host memory of this size.
    unsafe { bytes.write_bytes(7, 1 << 16) };
    // SAFETY: the child uses only code that does not depend on other threads, as far as this test
    // can know, and ends by `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let refused = queue.synchronize().is_err() && device.queue().is_err();
        drop((queue, shared));
        drop(device);
        drop(host);
        // SAFETY: the call ends the child.
        unsafe { libc::_exit(i32::from(!refused)) };
    }
    let mut status = -1;
    // SAFETY: the call waits for the child of this test.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0, "the child did not get errors, or did not end");
    round(&device).unwrap();
    // SAFETY: as above.
    assert!(unsafe { std::slice::from_raw_parts(bytes, 1 << 16) }.iter().all(|byte| *byte == 7));
    queue.synchronize().unwrap();
}

/// Runs as a separate program: opens an isolated device, reports that, and waits for a signal.
#[test]
#[ignore = "not a test: the program that another test starts"]
fn program_that_is_killed() {
    let Some(folder) = std::env::var_os("LONGSHORE_TEST_PLUGINS") else { return };
    let host = longshore::Host::builder()
        .with_environment(longshore::Environment::empty())
        .with_only_given_plugins()
        .with_plugin(&folder)
        .with_isolated_backends("all")
        .with_executor(longshore_tests::world::executor())
        .build()
        .unwrap();
    let device = host.default_device().unwrap();
    let plugin = host.devices()[0].plugin_path().to_owned();
    std::fs::write(
        std::path::Path::new(&folder).join("pid"),
        process_of(&host, &plugin).to_string(),
    )
    .unwrap();
    let queue = device.queue().unwrap();
    queue.host_function(|| std::thread::sleep(std::time::Duration::from_secs(100))).unwrap();
    queue.synchronize().unwrap();
}

#[test]
fn no_process_stays_when_the_program_is_killed() {
    let world = World::new();
    copy_into(&world, &host_plugin());
    let mut program = std::process::Command::new(std::env::current_exe().unwrap());
    program.args([
        "--exact",
        "isolation::program::program_that_is_killed",
        "--ignored",
        "--nocapture",
    ]);
    let mut program = program.env("LONGSHORE_TEST_PLUGINS", world.path()).spawn().unwrap();
    let file = world.path().join("pid");
    let read = || std::fs::read_to_string(&file).ok().and_then(|text| text.parse::<i32>().ok());
    assert!(comes_true(|| read().is_some()));
    let executor = read().unwrap();
    // SAFETY: the call only checks whether a process exists.
    let is_there = || unsafe { libc::kill(executor, 0) } == 0;
    assert!(is_there());
    program.kill().unwrap();
    program.wait().unwrap();
    assert!(comes_true(|| !is_there()), "the executor {executor} is still there");
}

#[test]
fn rounds_with_and_without_a_killed_process_leave_nothing_behind() {
    let world = World::new();
    let plugin = copy_into(&world, &host_plugin());
    let rounds = |count: usize| {
        for index in 0..count {
            let host = isolated(&world, None).unwrap();
            let device = host.default_device().unwrap();
            round(&device).unwrap();
            if index % 2 == 1 {
                // SAFETY: the child is alive.
                unsafe { libc::kill(process_of(&host, &plugin), libc::SIGKILL) };
                assert!(comes_true(|| device.queue().is_err()));
                assert_lost(&device.queue().err().unwrap(), "SIGKILL");
            }
        }
    };
    rounds(4);
    let before = ResourceUsage::now();
    rounds(30);
    assert!(
        comes_true(|| ResourceUsage::now().threads <= before.threads),
        "{before:?} {:?}",
        ResourceUsage::now()
    );
    // The count may still have included descriptors of the previous process.
    let are_closed = || ResourceUsage::now().descriptors <= before.descriptors;
    assert!(comes_true(are_closed), "{before:?} {:?}", ResourceUsage::now());
    let after = ResourceUsage::now();
    assert!(after.mappings <= before.mappings + 8, "{before:?} {after:?}");
    assert!(comes_true(|| children().is_empty()), "{:?}", children());
}

#[test]
fn an_isolated_device_shares_no_memory_with_the_program() {
    let world = World::new();
    copy_into(&world, &host_plugin());
    let host = isolated(&world, None).unwrap();
    let (entry, device) = (&host.devices()[0], host.default_device().unwrap());
    for shares in [
        entry.supports_host_access(),
        entry.supports_unified_memory(),
        device.supports_host_access(),
        device.supports_unified_memory(),
    ] {
        assert_eq!(shares, Ok(false));
    }
}

/// Number of threads, which exceeds the slots of a connection.
const THREADS: usize = 300;

#[test]
fn hundreds_of_threads_wait_for_host_functions_that_launch_and_wait() {
    let world = World::new();
    copy_into(&world, &host_plugin());
    let host = isolated(&world, None).unwrap();
    let device = host.default_device().unwrap();
    let image = Fixtures::built_in().image(&device, "basic").unwrap().unwrap();
    // SAFETY: the image belongs to the suite.
    let program = unsafe { device.load(&*image) }.unwrap();
    let (bump, read) = (program.kernel("bump").unwrap(), program.kernel("read_counter").unwrap());
    // All functions run at the same time, and so do the waiting calls of their threads.
    let all_run = Arc::new(Barrier::new(THREADS));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            let (outer, inner) = (device.queue().unwrap(), device.queue().unwrap());
            let (bump, all_run) = (bump.clone(), Arc::clone(&all_run));
            let function = move || {
                all_run.wait();
                // SAFETY: `bump` takes no arguments.
                unsafe { inner.launch_and_wait(&bump, Grid::default(), ()).unwrap() };
            };
            outer.host_function(function).unwrap();
            scope.spawn(move || outer.synchronize().unwrap());
        }
    });
    let queue = device.queue().unwrap();
    let out = device.buffer_of(&queue, &[0_u64]).unwrap();
    // SAFETY: `read_counter` takes a pointer to 8 bytes; `out` outlives the launch.
    unsafe { queue.launch_and_wait(&read, Grid::default(), (&out,)).unwrap() };
    assert!(out.to_vec(&queue).unwrap()[0] > 5, "no kernel has run");
}

/// Runs as a separate program whose files may have as many bytes as a variable sets: a larger file
/// would end the process.
#[test]
#[ignore = "not a test: the program that another test starts"]
fn program_with_small_files() {
    let Ok(bytes) = std::env::var(FILE_BYTES) else { return };
    let world = World::new();
    copy_into(&world, &host_plugin());
    let bytes = bytes.parse().unwrap();
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    // SAFETY: the call sets a limit of this process.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &limit) }, 0);
    round(&isolated(&world, None).unwrap().default_device().unwrap()).unwrap();
    round(&world.host().build().unwrap().default_device().unwrap()).unwrap();
    let device = world.host().build().unwrap().default_device().unwrap();
    let image = Fixtures::built_in().image(&device, "basic").unwrap().unwrap();
    let mut large = image.to_vec();
    large.resize(usize::try_from(bytes).unwrap().min(1 << 27) + 4096, 0);
    // SAFETY: the image is refused, or it is the image of the suite with zeros after it.
    let loaded = unsafe { device.load(large) };
    if bytes < 1 << 27 {
        let error = loaded.err().expect("it is larger than a file may be");
        assert!(error.message().contains("`ulimit -f`"), "{error}");
    }
}

const FILE_BYTES: &str = "LONGSHORE_TEST_FILE_BYTES";

#[test]
fn limits_of_file_sizes_cost_shared_memory_or_an_error_and_never_the_program() {
    for bytes in [1_u64 << 40, 1 << 26, 1 << 20, 1 << 17] {
        let mut program = std::process::Command::new(std::env::current_exe().unwrap());
        program.args([
            "--exact",
            "isolation::program::program_with_small_files",
            "--ignored",
            "--nocapture",
        ]);
        let output = program.env(FILE_BYTES, bytes.to_string()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{bytes} bytes: {}: {said}", output.status);
    }
}
