//! Kernels that fault, and the state of their device afterwards.

use super::{Double, Round, image};
use longshore::{DevicePointer, Error, Grid, MemoryKind};
use longshore_conformance::TrustedImages;

/// Asserts that a kernel's fault is reported with the kernel's name, and that the device is lost.
/// Returns the reported error.
///
/// # Panics
/// If the assertion fails.
pub fn a_fault_loses_the_device(double: &Double, round: &Round) -> Error {
    let host = round.host().unwrap();
    let device = host.device(&format!("{}:0", round.of.backend)).unwrap();
    let (queue, other) = (device.queue().unwrap(), device.queue().unwrap());
    let basic = device.load_trusted(&*image(&device, "basic").unwrap()).unwrap();
    let read = basic.kernel("read_counter").unwrap();
    // SAFETY: the kernel writes to no memory at all: the device is lost, and nothing else.
    unsafe { queue.launch(&read, Grid::default(), (DevicePointer(0x10),)).unwrap() };
    let error = queue.synchronize().unwrap_err();
    for part in ["queue 0", "'read_counter'", "lost", "close it"] {
        assert!(error.message().contains(part), "no {part}: {error}");
    }
    for again in [
        other.synchronize().unwrap_err(),
        device.allocate(MemoryKind::Device, 10, 1).map(drop).unwrap_err(),
        device.load_trusted(&*image(&device, "life").unwrap()).map(drop).unwrap_err(),
        device.queue().map(drop).unwrap_err(),
    ] {
        assert_eq!(again.message(), error.message());
    }
    drop((read, queue, other));
    assert!(basic.unload().is_err());
    assert!(device.close().is_err());
    assert_eq!(double.live(), [""; 0]);
    assert_eq!(double.violations(), [""; 0]);
    error
}
