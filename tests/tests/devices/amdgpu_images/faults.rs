//! A kernel that faults. HIP may end the process, or go on with a device that is of no use any more: so each fault
//! has a process of its own.

use super::{Check, Setting};
use crate::gpu_images::SOURCE;
use longshore::{Device, DevicePointer, ErrorCode, Grid, MemoryKind, Program};
use longshore_conformance::OwnImages;
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

/// Where the image is, for a process whose kernel is to fault.
const IMAGE: &str = "LONGSHORE_TEST_AMDGPU_FAULT";
/// The device on which it does.
const DEVICE: &str = "LONGSHORE_TEST_AMDGPU_FAULT_DEVICE";
/// Where it does: one of [`PLACES`].
const PLACE: &str = "LONGSHORE_TEST_AMDGPU_FAULT_PLACE";
/// Below the first page, which some GPUs ignore, and in a page that may not be touched.
const PLACES: [&str; 2] = ["null", "reserved"];
/// A fault for which a process takes longer is one that nobody tells.
const TIMEOUT: Duration = Duration::from_secs(180);

/// Returns whether this process is for a fault; then it has had it, and the device said so.
pub(super) fn is_done() -> bool {
    let Some(image) = std::env::var_os(IMAGE) else { return false };
    let image = std::fs::read(image).unwrap();
    let device = AMDGPU.host().unwrap().device(&std::env::var(DEVICE).unwrap()).unwrap();
    let program = device.load_own(&image[..]).unwrap();
    fault(&device, &program, place());
    assert!(program.unload().is_err());
    assert!(device.close().is_err());
    true
}

/// Returns the address at which the kernel of this process is to fault.
fn place() -> DevicePointer {
    if std::env::var(PLACE).unwrap() == PLACES[0] {
        return DevicePointer(0x10);
    }
    // The page stays reserved, so that no allocation gets its address.
    let page = memmap2::MmapOptions::new().len(4096).map_anon().unwrap();
    let address = page.as_ptr() as u64;
    // SAFETY: nothing uses the page, which is never given back.
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

/// On the double alone, which can be told to: the test knows that end.
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

/// How a process ended whose kernel faulted, and what it said; nothing without the compiler.
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
    // Some versions of ROCm leave a dump where the process is.
    command.current_dir(setting.folder);
    let status = ended(spawned(&mut command, &said));
    Some((status, std::fs::read_to_string(said).unwrap()))
}

/// Started, with a file for what it says: however much that is, it does not wait for a reader.
fn spawned(command: &mut Command, said: &Path) -> Child {
    let file = File::create(said).unwrap();
    command.stdout(file.try_clone().unwrap()).stderr(file).spawn().unwrap()
}

/// Blocks until the process ends.
///
/// # Panics
/// If it does not; then it is ended.
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

/// The device is lost, and says so from then on.
fn fault(device: &Device, program: &Program, place: DevicePointer) {
    let (queue, other) = (device.queue().unwrap(), device.queue().unwrap());
    let weigh = program.kernel("weigh").unwrap();
    // SAFETY: the kernel writes where no memory is: the device is lost, and perhaps this process, which is for that.
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
