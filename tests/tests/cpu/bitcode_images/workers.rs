//! The worker process: killed, too slow, and at the program's end.

use super::{Shop, answer, clang};
use longshore::ErrorCode;
use longshore_conformance::TrustedImages;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

/// A kernel whose loops LLVM unrolls for a long time.
const LONG: &str = "void k(void **args) {\n\
    unsigned *out = *(unsigned **)args[0], sum = NUMBER;\n\
    _Pragma(\"clang loop unroll(full)\") for (unsigned a = 0; a < 20; a++)\n\
    _Pragma(\"clang loop unroll(full)\") for (unsigned b = 0; b < 20; b++)\n\
    _Pragma(\"clang loop unroll(full)\") for (unsigned c = 0; c < 20; c++)\n\
        out[a * 400 + b * 20 + c] = sum = sum * out[sum % (a + b + 7)] + (c ^ sum >> a);\n\
    }\n";

/// Returns bitcode whose compilation takes many seconds.
fn long(shop: &Shop, clang: &str) -> Vec<u8> {
    let early = ["-O0", "-Xclang", "-disable-O0-optnone"];
    shop.bitcode(clang, &LONG.replace("NUMBER", "1"), &early)
}

#[test]
fn a_worker_that_is_killed_is_started_again() {
    let Some(clang) = clang() else { return };
    let shop = Shop::new();
    let device = shop.device(&[]);
    assert_eq!(answer(&device, shop.answering(clang, 1, &[])), Ok(1));
    for number in 2..5 {
        for worker in workers_of(shop.path()) {
            // SAFETY: sends a signal to a process that this test has started.
            unsafe { libc::kill(worker, libc::SIGKILL) };
        }
        assert_eq!(answer(&device, shop.answering(clang, number, &[])), Ok(number));
    }
}

#[test]
fn a_worker_that_is_killed_while_it_compiles_fails_that_load_alone() {
    let Some(clang) = clang() else { return };
    let shop = Shop::new();
    let device = shop.device(&[]);
    assert_eq!(answer(&device, shop.answering(clang, 1, &[])), Ok(1));
    let workers = workers_of(shop.path());
    let times = || workers.iter().map(|worker| processor_time(*worker)).collect::<Vec<_>>();
    let before = times();
    let image = long(&shop, clang);
    let error = std::thread::scope(|scope| {
        let load = scope.spawn(|| device.load_trusted(image).err());
        // A third of a second, in ticks: LLVM is at work.
        let is_busy = |(now, before): (&u64, &u64)| *now >= before + 30;
        let worker = loop {
            assert!(!load.is_finished(), "the compilation is too short for this test");
            if let Some(busy) = times().iter().zip(&before).position(is_busy) {
                break workers[busy];
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        // SAFETY: sends a signal to a process that this test has started.
        unsafe { libc::kill(worker, libc::SIGKILL) };
        load.join().unwrap().expect("its compiler was killed")
    });
    assert_eq!(error.code(), ErrorCode::BackendFailure, "{error}");
    assert!(error.message().contains("signal 9"), "{error}");
    assert_eq!(answer(&device, shop.answering(clang, 2, &[])), Ok(2));
}

#[test]
fn a_compilation_beyond_the_time_limit_is_an_error_and_the_next_one_works() {
    let Some(clang) = clang() else { return };
    let shop = Shop::new();
    let device = shop.device(&[("TIME_LIMIT", "1.5")]);
    assert_eq!(answer(&device, shop.answering(clang, 1, &[])), Ok(1));
    let error = device.load_trusted(long(&shop, clang)).err().expect("it takes too long");
    assert_eq!(error.code(), ErrorCode::BackendFailure, "{error}");
    for part in ["1.5s", "LONGSHORE_JIT_TIME_LIMIT"] {
        assert!(error.message().contains(part), "{part}: {error}");
    }
    assert_eq!(answer(&device, shop.answering(clang, 2, &[])), Ok(2));
}

/// Runs as a separate program: loads bitcode in a folder, writes the number of its child, or 0, and
/// ends as `LONGSHORE_TEST_END` says.
#[test]
#[ignore = "not a test: the program that another test starts"]
fn program_with_a_worker() {
    let Some(folder) = std::env::var_os("LONGSHORE_TEST_PLUGINS") else { return };
    let folder = Path::new(&folder);
    let host = longshore::Host::builder()
        .with_environment(longshore::Environment::empty())
        .with_only_given_plugins()
        .with_plugin(folder)
        .with_executor(folder.join("executor"));
    let device = host.build().unwrap().default_device().unwrap();
    let program = device.load_trusted(std::fs::read(folder.join("source.bc")).unwrap()).unwrap();
    let mut child = 0;
    if std::env::var("LONGSHORE_TEST_END").unwrap() == "fork" {
        // SAFETY: the child only waits for its end.
        child = unsafe { libc::fork() };
        if child == 0 {
            loop {
                // SAFETY: the call waits for a signal.
                unsafe { libc::pause() };
            }
        }
    }
    let unfinished = folder.join("unfinished");
    std::fs::write(&unfinished, child.to_string()).unwrap();
    std::fs::rename(unfinished, folder.join("loaded")).unwrap();
    if std::env::var("LONGSHORE_TEST_END").unwrap() == "kill" {
        std::thread::sleep(Duration::from_secs(1000));
    }
    // The handles stay: nothing ends the worker but the program's end.
    std::mem::forget(program);
    std::process::exit(0);
}

/// Starts [`program_with_a_worker`], and returns it with the number of its child once it has
/// loaded the bitcode.
fn start(shop: &Shop, end: &str) -> (Child, libc::pid_t) {
    let mut program = Command::new(std::env::current_exe().unwrap());
    program.args(["--exact", "bitcode_images::workers::program_with_a_worker"]);
    program.args(["--ignored", "--nocapture"]).env("LONGSHORE_TEST_END", end);
    let mut program = program.env("LONGSHORE_TEST_PLUGINS", shop.path()).spawn().unwrap();
    let loaded = shop.path().join("loaded");
    loop {
        if let Ok(child) = std::fs::read_to_string(&loaded) {
            return (program, child.parse().unwrap());
        }
        if let Some(status) = program.try_wait().unwrap().filter(|_| !loaded.exists()) {
            panic!("the program did not load its image: {status}");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn no_worker_outlives_its_program_however_the_program_ends() {
    let Some(clang) = clang() else { return };
    for end in ["exit", "kill", "fork"] {
        let shop = Shop::new();
        shop.answering(clang, 1, &[]);
        let (mut program, child) = start(&shop, end);
        if end == "kill" {
            assert!(!workers_of(shop.path()).is_empty(), "the worker is kept");
            program.kill().unwrap();
        }
        program.wait().unwrap();
        let begin = std::time::Instant::now();
        while !workers_of(shop.path()).is_empty() {
            assert!(begin.elapsed() < Duration::from_secs(60), "{end}: a worker stays");
            std::thread::sleep(Duration::from_millis(10));
        }
        if end == "fork" {
            // SAFETY: the signal is for the child of the program of this test, which still runs.
            assert_eq!(unsafe { libc::kill(child, libc::SIGKILL) }, 0, "the child has ended");
        }
    }
}

/// Returns the processor time that a process has used, in ticks; 0 after its end.
fn processor_time(process: libc::pid_t) -> u64 {
    let facts = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name, in parentheses, may have spaces; the times are the 14th and 15th fields.
    let behind = facts.rsplit(')').next().unwrap_or_default();
    behind.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum()
}

/// Returns the processes that run a folder's own copy of the executor.
fn workers_of(folder: &Path) -> Vec<libc::pid_t> {
    let executable = folder.join("executor");
    let processes = std::fs::read_dir("/proc").unwrap();
    let processes = processes.filter_map(|entry| {
        let process = entry.ok()?.path();
        let runs = std::fs::read_link(process.join("exe")).ok()?;
        (runs == executable).then(|| process.file_name()?.to_str()?.parse().ok())?
    });
    processes.collect()
}
