//! Faulting kernels where HIP survives them, and the later state of the device.

use super::{Case, ROUND};
use longshore::ErrorCode;
use longshore_tests::doubled::{Double, faults};

pub(crate) const CASES: &[Case] = &[Case {
    name: "a kernel that faults is reported with its name, and the device is lost for the whole process",
    driver: "devices=1",
    check: a_fault_loses_the_device,
}];

fn a_fault_loses_the_device(double: &Double) {
    let error = faults::a_fault_loses_the_device(double, &ROUND);
    assert_eq!(error.code(), ErrorCode::BackendFailure);
    let vendor = error.vendor().unwrap();
    assert_eq!((vendor.name.as_str(), vendor.number), ("hipErrorIllegalAddress", 700));
    // HIP has no context that the backend could create anew.
    assert_eq!(ROUND.run().unwrap_err().vendor().unwrap().number, 700);
}
