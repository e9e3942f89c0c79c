//! Calls of HIP that fail, one at a time.

use crate::{Case, ROUND};
use longshore_tests::doubled::{self, Functions};

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "each call that fails once is told with its code, and the next round works",
        driver: "devices=2",
        check: |double| doubled::each_call_fails_once(double, &ROUND, &FUNCTIONS),
    },
    Case {
        name: "a HIP without memory says so at whichever call it is",
        driver: "devices=1",
        check: |double| doubled::each_call_lacks_memory(double, &ROUND, &FUNCTIONS),
    },
];

const FUNCTIONS: Functions = Functions {
    start: "hip",
    least: 45,
    not_needed: &[
        "hipDeviceGetPCIBusId",
        "hipDeviceGetUuid",
        "hipGetDevice",
        "hipGetErrorName",
        "hipGetErrorString",
        "hipMemPrefetchAsync",
        "hipPointerGetAttribute",
        "hipRuntimeGetVersion",
        "hipStreamQuery",
    ],
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
    // There is no context that would end what is in it.
    only_ends: &[
        ("hipEventDestroy", "event"),
        ("hipHostFree", "page-locked host memory"),
        ("hipMemPoolDestroy", "pool"),
        ("hipStreamDestroy", "stream"),
    ],
    kept: None,
};
