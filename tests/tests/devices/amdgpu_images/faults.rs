//! A faulting kernel. HIP may end the process, or continue with an unusable device: so each fault
//! has a process of its own.

use super::{Check, Setting};
use crate::gpu_images::SOURCE;
use longshore::{Device, DevicePointer, ErrorCode, Grid, MemoryKind, Program};
use longshore_conformance::TrustedImages;
use longshore_tests::doubled::AMDGPU;
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

pub(super) const CHECKS: &[Check] = &[
    (
        "a kernel that faults is an error with its name, or HIP ends the process",
        a_fault_is_reported,
    ),
    ("a kernel that faults ends the process where HIP does so", a_fault_ends_the_process),
];

/// The variable with the image file of a process whose kernel must fault.
const IMAGE: &str = "LONGSHORE_TEST_AMDGPU_FAULT";
/// The variable with the device of the fault.
const DEVICE: &str = "LONGSHORE_TEST_AMDGPU_FAULT_DEVICE";
/// The variable with the address of the fault: one of [`PLACES`].
const PLACE: &str = "LONGSHORE_TEST_AMDGPU_FAULT_PLACE";
/// Addresses of faults: below the end of the first page, which some GPUs ignore, and in an
/// inaccessible page.
const PLACES: [&str; 2] = ["null", "reserved"];
/// The time limit of a process: a slower fault counts as unreported.
const TIMEOUT: Duration = Duration::from_secs(180);

/// Returns whether this process is for a fault. If so, the fault has happened, and the device has
/// reported it.
pub(super) fn is_done() -> bool {
    let Some(image) = std::env::var_os(IMAGE) else { return false };
    let image = std::fs::read(image).unwrap();
    let device = AMDGPU.host().unwrap().device(&std::env::var(DEVICE).unwrap()).unwrap();
    let program = device.load_trusted(&image[..]).unwrap();
    fault(&device, &program, place());
    assert!(program.unload().is_err());
    assert!(device.close().is_err());
    true
}

/// Returns the address of the fault in this process.
fn place() -> DevicePointer {
    if std::env::var(PLACE).unwrap() == PLACES[0] {
        return DevicePointer(0x10);
    }
    // The page stays reserved, so that no allocation gets its address.
    let page = memmap2::MmapOptions::new().len(4096).map_anon().unwrap();
    let address = page.as_ptr() as u64;
    // SAFETY: no code uses the page, which is never unmapped.
    assert_eq!(unsafe { libc::mprotect(page.as_ptr() as *mut _, 4096, libc::PROT_NONE) }, 0);
    std::mem::forget(page);
    DevicePointer(address)
}

fn a_fault_is_reported(setting: &Setting<'_>) {
    for place in PLACES {
        let Some((status, said)) = faulted(setting, place, None) else { return };
        match status.signal() {
            Some(signal) if !AMDGPU.is_double() => {
                println!("measured: a fault ({place}) ends the process by signal {signal}");
            }
            _ => assert!(status.success(), "{place}: {status}: {said}"),
        }
        print!("{said}");
    }
}

/// Checks the end of the process on the double, whose faults end it in a known way.
fn a_fault_ends_the_process(setting: &Setting<'_>) {
    const ABORTED: i32 = 6;
    if !AMDGPU.is_double() {
        return println!("not tried: HIP is no double");
    }
    for place in PLACES {
        let Some((status, said)) = faulted(setting, place, Some("fault=abort")) else { return };
        assert_eq!(status.signal(), Some(ABORTED), "{place}: {status}: {said}");
    }
}

/// Returns the exit status and the output of a process with a faulting kernel, or `None` without
/// the compiler.
fn faulted(
    setting: &Setting<'_>,
    place: &str,
    double: Option<&str>,
) -> Option<(ExitStatus, String)> {
    let (image, said) = (setting.folder.join("image"), setting.folder.join("said"));
    std::fs::write(&image, setting.image(SOURCE)?).unwrap();
    let device = format!("{}:{}", setting.device.backend(), setting.device.index());
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env(IMAGE, image).env(DEVICE, device).env(PLACE, place);
    if let Some(more) = double {
        let variable = AMDGPU.settings_variable();
        let settings = std::env::var(variable).unwrap_or_default();
        command.env(variable, format!("{settings};{more}"));
    }
    // Some versions of ROCm write a dump into the working folder.
    command.current_dir(setting.folder);
    let status = ended(spawned(&mut command, &said));
    Some((status, std::fs::read_to_string(said).unwrap()))
}

/// Starts a process whose output goes to a file: a large output does not block it.
fn spawned(command: &mut Command, said: &Path) -> Child {
    let file = File::create(said).unwrap();
    command.stdout(file.try_clone().unwrap()).stderr(file).spawn().unwrap()
}

/// Blocks until the process ends.
///
/// # Panics
/// If the process does not end in time; then it is killed.
fn ended(mut child: Child) -> ExitStatus {
    let start = Instant::now();
    while start.elapsed() < TIMEOUT {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        thread::sleep(Duration::from_millis(10));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    panic!("{TIMEOUT:?} after a kernel's fault the process had not ended");
}

/// Runs a kernel that faults. The device is then lost, and reports that from then on.
fn fault(device: &Device, program: &Program, place: DevicePointer) {
    let (queue, other) = (device.queue().unwrap(), device.queue().unwrap());
    let weigh = program.kernel("weigh").unwrap();
    // SAFETY: the kernel writes to unmapped memory: the device is lost, and perhaps also this
    // process, which exists for that.
    unsafe { queue.launch(&weigh, Grid::default(), (place,)).unwrap() };
    let error = queue.synchronize().unwrap_err();
    println!("measured: {error}");
    assert_eq!(error.code(), ErrorCode::BackendFailure, "{error}");
    assert!(error.vendor().is_some(), "{error}");
    for part in ["hipError", "'weigh'", "lost"] {
        assert!(error.to_string().contains(part), "no {part}: {error}");
    }
    for again in [
        other.synchronize().unwrap_err(),
        device.allocate(MemoryKind::Device, 10, 1).map(drop).unwrap_err(),
        device.queue().map(drop).unwrap_err(),
    ] {
        assert_eq!(again.message(), error.message());
    }
}
