//! Processes ended by a plugin, a kernel or a signal.

use crate::isolation::support::{assert_lost, children, comes_true, isolated, process_of, round};
use longshore::{DeviceInfo, Grid, Host, MemoryKind, Outcome, PlatformInfo};
use longshore_conformance::TrustedImages;
use longshore_tests::world::{World, copy_into, executor, host_plugin};
use std::time::{Duration, Instant};

/// The required tables of a plugin, with the numbers of their functions.
const TABLES: [(&str, usize); 5] = [
    ("longshore.platform", 5),
    ("longshore.device", 10),
    ("longshore.module", 6),
    ("longshore.queue", 9),
    ("longshore.event", 4),
];
const LIMIT: Duration = Duration::from_millis(300);

/// Returns the text of an error for an end of the process.
fn cause(kind: &str) -> &'static str {
    match kind {
        "abort" => "SIGABRT",
        "exit" => "exited with code 7",
        "segv" => "SIGSEGV",
        "kill" => "SIGKILL",
        _ => "no answer within",
    }
}

/// Lets each function of a plugin fault in turn, in a round of all functions.
fn each_function_faults(kind: &str) {
    let world = World::new();
    let plugin = world.add_faulty("faulty");
    let mut lost = 0;
    for (table, functions) in TABLES {
        for index in 0..functions {
            world.set_fault(table, index, kind);
            let host = isolated(&world, Some(LIMIT)).unwrap();
            let Some(entry) = host.devices().first() else {
                let candidate = &host.candidates()[0];
                let reason = candidate.outcome.reason();
                assert!(
                    matches!(candidate.outcome, Outcome::Crashed(_)),
                    "{table} {index}: {candidate}"
                );
                assert!(reason.contains(cause(kind)), "{table} {index}: {reason}");
                continue;
            };
            let went = entry.open().and_then(|device| round(&device).map(|()| device));
            match went {
                Err(error) => {
                    assert_lost(&error, cause(kind));
                    assert!(error.message().contains("about to fault as requested"), "{error}");
                    lost += 1;
                }
                Ok(device) => drop(device.close()),
            }
            world.clear_fault();
            let device = entry.open().unwrap_or_else(|error| panic!("{table} {index}: {error}"));
            round(&device).unwrap_or_else(|error| panic!("{table} {index}, again: {error}"));
            device.close().unwrap();
        }
    }
    assert!(lost >= 18, "{lost} functions of '{}' were seen to fault", plugin.display());
    assert!(comes_true(|| children().is_empty()), "{:?}", children());
}

#[test]
fn a_plugin_that_aborts_in_any_of_its_functions_is_a_lost_device() {
    each_function_faults("abort");
}

#[test]
fn a_plugin_that_exits_in_any_of_its_functions_is_a_lost_device() {
    each_function_faults("exit");
}

#[test]
fn a_plugin_that_crashes_in_any_of_its_functions_is_a_lost_device() {
    each_function_faults("segv");
}

#[test]
fn a_plugin_that_hangs_in_any_of_its_functions_is_a_lost_device() {
    each_function_faults("hang");
}

#[test]
fn a_plugin_that_ends_its_process_when_it_is_described_or_connected_has_crashed() {
    let world = World::new();
    world.add_faulty("faulty");
    for index in 0..2 {
        for kind in ["abort", "exit", "segv", "kill", "hang"] {
            world.set_fault("entry", index, kind);
            let host = isolated(&world, Some(LIMIT)).unwrap();
            let outcome = &host.candidates()[0].outcome;
            assert!(matches!(outcome, Outcome::Crashed(_)), "{index} {kind}: {outcome}");
            assert!(outcome.reason().contains(cause(kind)), "{index} {kind}: {outcome}");
        }
    }
    assert!(comes_true(|| children().is_empty()), "{:?}", children());
}

#[test]
fn killed_at_any_moment_of_a_round_the_process_is_a_lost_device_and_nothing_hangs() {
    let world = World::new();
    let plugin = copy_into(&world, &host_plugin());
    let host = isolated(&world, None).unwrap();
    let entry = &host.devices()[0];
    let time = || {
        let device = entry.open().unwrap();
        let start = Instant::now();
        round(&device).unwrap();
        start.elapsed()
    };
    let whole = (0..5).map(|_| time()).min().unwrap();
    let mut lost = 0;
    for step in 0..60 {
        let process = process_of(&host, &plugin);
        let device = entry.open().unwrap();
        let killer = std::thread::spawn(move || {
            std::thread::sleep(whole * step / 40);
            // SAFETY: the call sends a signal to a child for which the host has not waited.
            unsafe { libc::kill(process, libc::SIGKILL) };
        });
        let went = round(&device);
        killer.join().unwrap();
        if let Err(error) = went {
            assert_lost(&error, "SIGKILL");
            lost += 1;
        }
        drop(device);
        let again = || entry.open().is_ok_and(|device| round(&device).is_ok());
        assert!(comes_true(again), "step {step}");
    }
    assert!(lost > 5, "{lost} of 60 rounds were cut");
    drop(host);
    assert!(comes_true(|| children().is_empty()), "{:?}", children());
}

#[test]
fn waits_for_a_killed_process_end_at_once_and_name_the_kernel() {
    let world = World::new();
    let plugin = copy_into(&world, &host_plugin());
    let host = isolated(&world, None).unwrap();
    let device = host.default_device().unwrap();
    let image =
        longshore_conformance::Fixtures::built_in().image(&device, "basic").unwrap().unwrap();
    let program = device.load_trusted(&*image).unwrap();
    let (queue, bump) = (device.queue().unwrap(), program.kernel("bump").unwrap());
    let shared = device.allocate(MemoryKind::Host, 64, 1).unwrap();
    let (open, gate) = std::sync::mpsc::channel::<()>();
    queue.host_function(move || _ = gate.recv()).unwrap();
    // SAFETY: `bump` takes no arguments.
    unsafe { queue.launch(&bump, Grid::default(), ()).unwrap() };
    let process = process_of(&host, &plugin);
    let waiting = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| (queue.synchronize().unwrap_err(), Instant::now()));
        std::thread::sleep(Duration::from_millis(50));
        // SAFETY: as above.
        unsafe { libc::kill(process, libc::SIGKILL) };
        std::thread::sleep(Duration::from_millis(50));
        // A wait also covers the running function.
        drop(open);
        waiting.join().unwrap()
    });
    assert_lost(&waiting.0, "SIGKILL");
    assert!(waiting.0.message().contains("'bump'"), "{}", waiting.0);
    // Memory that both processes shared still belongs to the program.
    // SAFETY: the range is host memory of 64 bytes.
    unsafe { (shared.pointer().address() as *mut u8).write_bytes(1, 64) };
    // SAFETY: `bump` takes no arguments.
    assert_lost(&unsafe { queue.launch(&bump, Grid::default(), ()) }.unwrap_err(), "SIGKILL");
    assert_lost(&device.queue().err().unwrap(), "SIGKILL");
}

#[test]
fn host_functions_that_a_lost_process_has_not_run_are_run() {
    let world = World::new();
    let plugin = copy_into(&world, &host_plugin());
    let host = isolated(&world, None).unwrap();
    let device = host.default_device().unwrap();
    let queue = device.queue().unwrap();
    let (open, gate) = std::sync::mpsc::channel::<()>();
    let (done, ran) = std::sync::mpsc::channel();
    queue.host_function(move || _ = gate.recv()).unwrap();
    for index in 0..10 {
        let done = done.clone();
        queue.host_function(move || done.send(index).unwrap()).unwrap();
    }
    // SAFETY: the child is alive.
    unsafe { libc::kill(process_of(&host, &plugin), libc::SIGKILL) };
    drop(open);
    queue.synchronize().unwrap_err();
    drop(done);
    assert_eq!(ran.iter().collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
}

#[test]
fn other_devices_go_on_when_one_is_lost() {
    let world = World::new();
    let faulty = world.add_faulty("faulty");
    copy_into(&world, &host_plugin());
    let host =
        world.host().with_isolated_backends("faulty").with_executor(executor()).build().unwrap();
    let (lost, other) = (host.device("faulty:0").unwrap(), host.device("host:0").unwrap());
    // SAFETY: the child is alive.
    unsafe { libc::kill(process_of(&host, &faulty), libc::SIGKILL) };
    assert!(comes_true(|| lost.queue().is_err()));
    round(&other).unwrap();
    drop(lost);
    round(&host.device("faulty:0").unwrap()).unwrap();
}

/// Source of a kernel that ends the process; the plugin's own fault handlers do not see the end.
const EXITING: &str =
    "#include <err.h>\nvoid leave(void **arguments) { (void)arguments; err(3, \"the end\"); }\n";

#[test]
fn a_kernel_that_exits_is_named() {
    let world = World::new();
    copy_into(&world, &host_plugin());
    let (source, library) = (world.path().join("leave.c"), world.path().join("leave.so"));
    std::fs::write(&source, EXITING).unwrap();
    let compiled = std::process::Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .status();
    assert!(compiled.unwrap().success());
    let host: Host = isolated(&world, None).unwrap();
    let device = host.default_device().unwrap();
    let program = device.load_trusted(std::fs::read(&library).unwrap()).unwrap();
    let (queue, leave) = (device.queue().unwrap(), program.kernel("leave").unwrap());
    // SAFETY: `leave` reads no arguments.
    let error = unsafe { queue.launch_and_wait(&leave, Grid::default(), ()) }.unwrap_err();
    assert_lost(&error, "exited with code 3");
    assert!(error.message().contains("'leave'"), "{error}");
}

/// Source of a constructor that does not end.
const SLEEPING: &str =
    "#include <unistd.h>\n__attribute__((constructor)) void start(void) { for (;;) pause(); }\n";

#[test]
fn a_plugin_whose_library_or_platform_does_not_come_up_in_time_is_killed() {
    let world = World::new();
    let constructor = world.path().join("constructor.c");
    std::fs::write(&constructor, SLEEPING).unwrap();
    world.add_sample("sleepy", &[constructor.to_str().unwrap()]);
    world.add_faulty("faulty");
    world.set_fault("entry", 1, "hang");
    let variables = longshore::Environment::empty()
        .with("LONGSHORE_ISOLATE_CONNECT_TIME_LIMIT", "0.3")
        .with("LONGSHORE_PROBE", "1");
    let host = world
        .host()
        .with_environment(variables)
        .with_isolated_backends("all")
        .with_executor(executor());
    let host = host.build().unwrap();
    for candidate in host.candidates() {
        let reason = candidate.outcome.reason();
        assert!(matches!(candidate.outcome, Outcome::Crashed(_)), "{candidate}");
        assert!(reason.contains("no answer within 300ms"), "{candidate}");
        assert!(reason.contains("LONGSHORE_ISOLATE_CONNECT_TIME_LIMIT"), "{candidate}");
    }
    assert_eq!(host.candidates().len(), 2);
    assert!(comes_true(|| children().is_empty()), "{:?}", children());
}

#[test]
fn a_plugin_that_does_not_answer_its_first_queries_is_killed() {
    let world = World::new();
    world.add_faulty("faulty");
    let host = |function| {
        world.set_fault("longshore.platform", function, "hang");
        let host = world.host().with_isolated_backends("all").with_executor(executor());
        host.with_isolate_connect_time_limit(LIMIT).build().unwrap()
    };
    let asked = host(0).devices()[0].platform_info(PlatformInfo::Name).unwrap_err();
    assert_lost(&asked, "no answer within 300ms");
    let outcome = host(1).candidates()[0].outcome.to_string();
    assert!(outcome.contains("no answer within 300ms"), "{outcome}");
    let asked = host(2).devices()[0].info(DeviceInfo::Name).unwrap_err();
    assert_lost(&asked, "no answer within 300ms");
    assert!(comes_true(|| children().is_empty()), "{:?}", children());
}
