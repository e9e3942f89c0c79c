//! Faulting kernels, and the later state of the device.

use super::{Case, ROUND};
use longshore::ErrorCode;
use longshore_tests::doubled::{Double, faults};

pub(crate) const CASES: &[Case] = &[Case {
    name: "a kernel that faults is reported with its name, the device is lost and can be opened again",
    driver: "devices=1",
    check: a_fault_loses_the_device,
}];

fn a_fault_loses_the_device(double: &Double) {
    let error = faults::a_fault_loses_the_device(double, &ROUND);
    assert_eq!(error.code(), ErrorCode::BackendFailure);
    let vendor = error.vendor().unwrap();
    assert_eq!((vendor.name.as_str(), vendor.number), ("CUDA_ERROR_ILLEGAL_ADDRESS", 700));
    ROUND.run().unwrap();
}
