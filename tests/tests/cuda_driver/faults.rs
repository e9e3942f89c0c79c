//! Kernels that fault, and what becomes of the device.

use crate::{Case, ROUND};
use longshore::{DevicePointer, ErrorCode, Grid, MemoryKind};
use longshore_tests::doubled::{Double, image};

pub(crate) const CASES: &[Case] = &[Case {
    name: "a kernel that faults is told with its name, the device is lost and can be opened again",
    driver: "devices=1",
    check: a_fault_loses_the_device,
}];

const ILLEGAL_ADDRESS: i64 = 700;

fn a_fault_loses_the_device(double: &Double) {
    let host = ROUND.host().unwrap();
    let device = host.device("cuda:0").unwrap();
    let (queue, other) = (device.queue().unwrap(), device.queue().unwrap());
    let basic = device.load(&*image(&device, "basic").unwrap()).unwrap();
    let read = basic.kernel("read_counter").unwrap();
    // SAFETY: the kernel writes to no memory at all: the device is lost, and nothing else.
    unsafe { queue.launch(&read, Grid::default(), (DevicePointer(0x10),)).unwrap() };
    let error = queue.synchronize().unwrap_err();
    assert_eq!(error.code(), ErrorCode::BackendFailure);
    let vendor = error.vendor().unwrap();
    assert_eq!(
        (vendor.name.as_str(), vendor.number),
        ("CUDA_ERROR_ILLEGAL_ADDRESS", ILLEGAL_ADDRESS)
    );
    for part in ["queue 0", "'read_counter'", "lost", "close it"] {
        assert!(error.message().contains(part), "no {part}: {error}");
    }
    for again in [
        other.synchronize().unwrap_err(),
        device.allocate(MemoryKind::Device, 10, 1).map(drop).unwrap_err(),
        device.load(&*image(&device, "life").unwrap()).map(drop).unwrap_err(),
        device.queue().map(drop).unwrap_err(),
    ] {
        assert_eq!(again.message(), error.message());
    }
    drop((read, queue, other));
    assert!(basic.unload().is_err());
    assert!(device.close().is_err());
    assert_eq!(double.live(), [""; 0]);
    assert_eq!(double.violations(), [""; 0]);
    drop(host);
    ROUND.run().unwrap();
}
