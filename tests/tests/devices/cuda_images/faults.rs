//! A faulting kernel: its process survives, and gets the reason. The test uses a process of its
//! own, whose context is unusable after the fault.

use super::{Check, Setting};
use longshore::{Device, DevicePointer, ErrorCode, Grid, Host};
use longshore_conformance::Fixtures;
use longshore_conformance::TrustedImages;
use longshore_tests::doubled::CUDA;
use std::process::Command;

pub(super) const CHECKS: &[Check] = &[(
    "a kernel that faults is an error with its name, and the device is lost",
    a_fault_is_reported,
)];

/// The variable with the device whose kernel faults in this process.
const DEVICE: &str = "LONGSHORE_TEST_CUDA_FAULT";

/// Returns whether this process is for a fault. If so, the fault has happened.
pub(super) fn is_done() -> bool {
    let Some(device) = std::env::var_os(DEVICE) else { return false };
    let host =
        Host::builder().with_only_given_plugins().with_plugin(CUDA.plugin().expect("it is built"));
    let host = host.build().unwrap();
    let device = host.device(device.to_str().expect("it is ASCII")).unwrap();
    fault(&device);
    // All later calls of the device fail alike.
    assert!(device.close().is_err());
    true
}

fn a_fault_is_reported(setting: &Setting<'_>) {
    let device = format!("{}:{}", setting.device.backend(), setting.device.index());
    let mut child = Command::new(std::env::current_exe().unwrap());
    let output = child.env(DEVICE, device).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{}: {said}", output.status);
    print!("{}", String::from_utf8_lossy(&output.stdout));
}

fn fault(device: &Device) {
    let queue = device.queue().unwrap();
    let image = Fixtures::built_in().image(device, "basic").unwrap().unwrap();
    let program = device.load_trusted(&image[..]).unwrap();
    let read = program.kernel("read_counter").unwrap();
    // SAFETY: the kernel writes to unmapped memory: the device is lost, and nothing else.
    unsafe { queue.launch(&read, Grid::default(), (DevicePointer(0x10),)).unwrap() };
    let error = queue.synchronize().unwrap_err();
    println!("measured: {error}");
    assert_eq!(error.code(), ErrorCode::BackendFailure, "{error}");
    assert!(error.vendor().is_some(), "{error}");
    for part in ["CUDA_ERROR_", "'read_counter'", "lost"] {
        assert!(error.to_string().contains(part), "no {part}: {error}");
    }
    let again = device.queue().map(drop).unwrap_err();
    assert_eq!(again.message(), error.message());
    drop(read);
    assert!(program.unload().is_err());
}
