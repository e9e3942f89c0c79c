//! Failing calls of HIP, one at a time.

use super::{Case, ROUND};
use longshore_tests::doubled::{self, Double, Functions};

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "each call that fails once is reported with its code, and the next round works",
        driver: "devices=2",
        check: each_call_fails_once,
    },
    Case {
        name: "a HIP without memory says so at whichever call it is",
        driver: "devices=1",
        check: |double| doubled::each_call_lacks_memory(double, &ROUND, &FUNCTIONS),
    },
];

/// Lets each call fail once, with all optional features of the backend.
fn each_call_fails_once(double: &Double) {
    // SAFETY: no other thread of the process reads the environment.
    unsafe { std::env::set_var("LONGSHORE_AMDGPU_POOLS", "1") };
    doubled::each_call_fails_once(double, &ROUND, &FUNCTIONS);
}

const FUNCTIONS: Functions = Functions {
    start: "hip",
    least: 40,
    not_needed: &[
        "hipDeviceGetPCIBusId",
        "hipDeviceGetUuid",
        "hipEventCreateWithFlags",
        "hipEventRecord",
        "hipGetDevice",
        "hipGetErrorName",
        "hipGetErrorString",
        "hipMemGetAddressRange",
        "hipMemPrefetchAsync",
        "hipDrvPointerGetAttributes",
        "hipGetLastError",
        "hipRuntimeGetVersion",
        "hipStreamQuery",
    ],
    other_way: &["hipEventQuery", "hipHostMalloc"],
    endings: &[
        "hipEventDestroy",
        "hipFree",
        "hipFreeAsync",
        "hipHostFree",
        "hipHostUnregister",
        "hipMemPoolDestroy",
        "hipModuleUnload",
        "hipStreamDestroy",
    ],
    about_devices: &[
        "hipDeviceGetAttribute",
        "hipDeviceGetName",
        "hipDeviceTotalMem",
        "hipGetDevicePropertiesR0600",
    ],
    // HIP has no context whose end would also end its objects.
    only_ends: &[
        ("hipEventDestroy", "event"),
        ("hipHostFree", "page-locked host memory"),
        ("hipMemPoolDestroy", "pool"),
        ("hipStreamDestroy", "stream"),
    ],
    kept: None,
};
