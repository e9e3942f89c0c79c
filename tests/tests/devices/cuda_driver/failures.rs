//! Calls of the driver that fail, one at a time.

use super::contexts::Other;
use super::{Case, ROUND};
use longshore_tests::doubled::{self, Functions};

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "each call that fails once is told with its code, and the next round works",
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
    // A pool is of no context: what does not end it, keeps it.
    only_ends: &[("cuMemPoolDestroy", "pool")],
    kept: Some(("cuDevicePrimaryCtxRelease_v2", |double| Other(double).release())),
};

/// What is only a hint, or a question to which there is another way: at the end the context is entered in
/// another one, a thread is left without a context that is gone if that can be, threads that queues share enter it
/// with each call where they cannot for long, and who would sleep until an event is reached can wait awake.
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
/// What ends the life of something, which the driver keeps if the call fails.
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
/// Questions about a device; one that does not answer them is passed over if there are others.
const ABOUT_DEVICES: [&str; 5] = [
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDeviceGetName",
    "cuDeviceGetUuid_v2",
    "cuDeviceTotalMem_v2",
];
