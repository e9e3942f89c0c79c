//! The CUDA backend with different drivers: one that fails, one that lacks functions, one with
//! other users in the process. These tests need the double, because they control its behaviour.

mod contexts;
mod failures;
mod faults;
mod settings;

use longshore_tests::doubled::cases::{self, Case};
use longshore_tests::doubled::{CUDA, Round};
use longshore_tests::suites::Suite;
use longshore_tests::{cases_of_copies, cases_of_features, cases_of_queues};

const ROUND: Round =
    Round { of: CUDA, clusters: Some([2, 1, 1]), connecting: &CONNECTING, shared_bytes: 60_000 };

const CONNECTING: [&str; 6] = [
    "cuInit",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDeviceGetCount",
    "cuDeviceGetName",
    "cuDeviceTotalMem_v2",
];

const COPIES: &[Case] = cases_of_copies!(ROUND, None);
const FEATURES: &[Case] = cases_of_features!(ROUND);
const QUEUES: &[Case] = cases_of_queues!(ROUND, "cuCtxGetDevice");

pub(crate) const SUITE: Suite = Suite {
    child: || cases::is_done(&ROUND, &cases()),
    ..Suite::new("cuda_driver", || cases::trials(&ROUND, &cases()))
};

fn cases() -> Vec<Case> {
    [COPIES, FEATURES, QUEUES, contexts::CASES, failures::CASES, faults::CASES, settings::CASES]
        .concat()
}
