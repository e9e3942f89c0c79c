//! The AMDGPU backend with different HIP libraries: one that fails, one that lacks functions, one
//! of another version, one with other users in the process. These tests need the double, because
//! they control its behaviour.

mod devices;
mod failures;
mod faults;
mod settings;
mod targets;

use longshore_tests::doubled::cases::{self, Case};
use longshore_tests::doubled::{AMDGPU, Round};
use longshore_tests::suites::Suite;
use longshore_tests::{cases_of_copies, cases_of_features, cases_of_queues};

const ROUND: Round =
    Round { of: AMDGPU, clusters: None, connecting: &CONNECTING, shared_bytes: 60_000 };

const CONNECTING: [&str; 5] = [
    "hipInit",
    "hipDeviceGetAttribute",
    "hipDeviceGetName",
    "hipDeviceTotalMem",
    "hipGetDeviceCount",
];

const COPIES: &[Case] = cases_of_copies!(ROUND, Some("hipHostMalloc"));
const FEATURES: &[Case] = cases_of_features!(ROUND);
const QUEUES: &[Case] = cases_of_queues!(ROUND, "hipGetDevice");

pub(crate) const SUITE: Suite = Suite {
    child: || cases::is_done(&ROUND, &cases()),
    ..Suite::new("amdgpu_driver", || cases::trials(&ROUND, &cases()))
};

fn cases() -> Vec<Case> {
    [
        COPIES,
        FEATURES,
        QUEUES,
        devices::CASES,
        failures::CASES,
        faults::CASES,
        settings::CASES,
        targets::CASES,
    ]
    .concat()
}
