//! What the CUDA backend makes of its driver: of one that fails, lacks functions, has other users in the
//! process. On the double alone, which can be told to.

mod contexts;
mod failures;
mod faults;
mod settings;

use longshore_tests::doubled::cases::{self, Case};
use longshore_tests::doubled::copies;
use longshore_tests::doubled::{CUDA, Round};
use std::process::ExitCode;

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

const COPIES: &[Case] = &[
    Case {
        name: "small copies from pageable memory are taken along when they are queued",
        driver: copies::SLOW,
        check: |double| copies::small_copies_are_taken_along(double, &ROUND, None),
    },
    Case {
        name: "memory that is page-locked in part is copied, and read when what writes it is done",
        driver: copies::SLOW,
        check: |double| copies::what_is_locked_in_part_is_copied_whole(double, &ROUND),
    },
];

fn main() -> ExitCode {
    let lists = [COPIES, contexts::CASES, failures::CASES, faults::CASES, settings::CASES];
    cases::main(&ROUND, &lists.concat())
}
