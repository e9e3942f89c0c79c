//! A program that uses the CPU, under a debugger.

use longshore::{Environment, Grid};
use longshore_conformance::TrustedImages;
use longshore_tests::device_code::{Workshop, clangs};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const CHILD: &str = "LONGSHORE_TEST_UNDER_DEBUGGER";
const SOURCE: &str = "void k(void **a) { **(int **)a[0] = 7; }";
/// The time limit for a debugger.
const LIMIT: Duration = Duration::from_secs(240);

#[test]
fn gdb_sees_a_program_that_loads_a_shared_object_to_its_end() {
    if std::env::var_os(CHILD).is_some() {
        return load_and_run();
    }
    if clangs().is_empty() || Command::new("gdb").arg("--version").output().is_err() {
        println!("gdb or clang is not installed; nothing was tried");
        return;
    }
    let program = std::env::current_exe().unwrap();
    let name = "debugged_programs::gdb_sees_a_program_that_loads_a_shared_object_to_its_end";
    let mut gdb = Command::new("gdb");
    gdb.args(["-nx", "-batch", "-ex", "set debuginfod enabled off", "-ex", "run"]).arg("--args");
    gdb.arg(program).args(["--exact", name, "--nocapture"]);
    let mut gdb = gdb
        .env(CHILD, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + LIMIT;
    while gdb.try_wait().unwrap().is_none() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(50));
    }
    let ended = gdb.try_wait().unwrap().is_some();
    let _ = gdb.kill();
    let output = gdb.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(ended, "gdb hangs: {said}");
    if said.contains("ptrace") {
        println!("gdb may not trace here; nothing was tried: {said}");
        return;
    }
    assert!(said.contains("exited normally"), "{said}");
}

fn load_and_run() {
    let workshop = Workshop::new();
    let clang = clangs().pop().unwrap();
    let image = workshop.shared(clang, "image", SOURCE, &["-g"]);
    let device = workshop.device(Environment::empty());
    let (program, queue) = (device.load_trusted(image).unwrap(), device.queue().unwrap());
    let number = device.buffer_of(&queue, &[0_u32]).unwrap();
    let kernel = program.kernel("k").unwrap();
    // SAFETY: the kernel writes one number.
    unsafe { queue.launch_and_wait(&kernel, Grid::default(), (&number,)).unwrap() };
    assert_eq!(number.to_vec(&queue).unwrap(), [7]);
    program.unload().unwrap();
}
