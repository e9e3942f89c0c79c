//! Failing calls of the driver, one at a time.

use super::contexts::Other;
use super::{Case, ROUND};
use longshore_tests::doubled::{self, Functions};

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "each call that fails once is reported with its code, and the next round works",
        driver: "devices=2",
        check: |double| doubled::each_call_fails_once(double, &ROUND, &FUNCTIONS),
    },
    Case {
        name: "a driver without memory says so at whichever call it is",
        driver: "devices=1",
        check: |double| doubled::each_call_lacks_memory(double, &ROUND, &FUNCTIONS),
    },
];

const FUNCTIONS: Functions = Functions {
    start: "cu",
    least: 51,
    not_needed: &NOT_NEEDED,
    other_way: &[],
    endings: &ENDINGS,
    about_devices: &ABOUT_DEVICES,
    // A pool belongs to no context: if the call that destroys it fails, the pool stays.
    only_ends: &[("cuMemPoolDestroy", "pool")],
    kept: Some(("cuDevicePrimaryCtxRelease_v2", |double| Other(double).release())),
};

/// Calls that are hints, or have an alternative if they fail. At the end, the backend enters the
/// context with another call. A thread may keep a destroyed context. Threads shared by queues enter
/// the context for each call instead of once. A wait for an event spins instead of sleeping.
const NOT_NEEDED: [&str; 15] = [
    "cuCtxGetCurrent",
    "cuCtxPopCurrent_v2",
    "cuCtxPushCurrent_v2",
    "cuCtxSetCurrent",
    "cuDriverGetVersion",
    "cuGetErrorString",
    "cuGetErrorName",
    "cuGetProcAddress_v2",
    "cuDeviceGetPCIBusId",
    "cuDevicePrimaryCtxGetState",
    "cuEventCreate",
    "cuEventRecord",
    "cuMemPrefetchAsync_v2",
    "cuPointerGetAttribute",
    "cuStreamQuery",
];
/// Calls that end the life of an object, which the driver keeps if the call fails.
const ENDINGS: [&str; 9] = [
    "cuDevicePrimaryCtxRelease_v2",
    "cuEventDestroy_v2",
    "cuMemFree_v2",
    "cuMemFreeAsync",
    "cuMemFreeHost",
    "cuMemHostUnregister",
    "cuMemPoolDestroy",
    "cuModuleUnload",
    "cuStreamDestroy_v2",
];
/// Queries about a device. A device that fails them is skipped if there are others.
const ABOUT_DEVICES: [&str; 5] = [
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDeviceGetName",
    "cuDeviceGetUuid_v2",
    "cuDeviceTotalMem_v2",
];
