//! What the AMDGPU backend makes of HIP: of one that fails, lacks functions, is of another version, has other
//! users in the process. On the double alone, which can be told to.

mod devices;
mod failures;
mod faults;
mod settings;
mod targets;

use longshore_tests::doubled::cases::{self, Case};
use longshore_tests::doubled::copies;
use longshore_tests::doubled::{AMDGPU, Round};
use std::process::ExitCode;

const ROUND: Round =
    Round { of: AMDGPU, clusters: None, connecting: &CONNECTING, shared_bytes: 60_000 };

const CONNECTING: [&str; 5] = [
    "hipInit",
    "hipDeviceGetAttribute",
    "hipDeviceGetName",
    "hipDeviceTotalMem",
    "hipGetDeviceCount",
];

const COPIES: &[Case] = &[
    Case {
        name: "small copies from pageable memory are taken along when they are queued",
        driver: copies::SLOW,
        check: |double| copies::small_copies_are_taken_along(double, &ROUND, Some("hipHostMalloc")),
    },
    Case {
        name: "memory that is page-locked in part is copied, and read when what writes it is done",
        driver: copies::SLOW,
        check: |double| copies::what_is_locked_in_part_is_copied_whole(double, &ROUND),
    },
];

fn main() -> ExitCode {
    let lists =
        [COPIES, devices::CASES, failures::CASES, faults::CASES, settings::CASES, targets::CASES];
    cases::main(&ROUND, &lists.concat())
}
