//! Calls of the driver that fail, one at a time.

use crate::Case;
use crate::contexts::Other;
use crate::round::round;
use longshore::ErrorCode;
use longshore_tests::cuda::Double;

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "each call that fails once is told with its code, and the next round works",
        driver: "devices=2",
        check: each_call_fails_once,
    },
    Case {
        name: "a driver without memory says so at whichever call it is",
        driver: "devices=1",
        check: each_call_lacks_memory,
    },
];

const OUT_OF_MEMORY: u32 = 2;
const UNKNOWN: u32 = 999;
/// So many calls of a function are tried.
const MOST_CALLS: u64 = 200;
/// What is only a hint, or a question to which there is another way: at the end the context is entered in
/// another one, and a thread is left without a context that is gone if that can be.
const NOT_NEEDED: [&str; 11] = [
    "cuCtxGetCurrent",
    "cuCtxSetCurrent",
    "cuDriverGetVersion",
    "cuGetErrorString",
    "cuGetErrorName",
    "cuGetProcAddress_v2",
    "cuDeviceGetPCIBusId",
    "cuDevicePrimaryCtxGetState",
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

fn each_call_fails_once(double: &Double) {
    each_call(double, UNKNOWN, ErrorCode::BackendFailure);
}

fn each_call_lacks_memory(double: &Double) {
    each_call(double, OUT_OF_MEMORY, ErrorCode::OutOfResources);
}

fn each_call(double: &Double, result: u32, code: ErrorCode) {
    round().expect("a round with a driver that works");
    let calls = double.calls();
    round().expect("another one");
    let count = |name: &str| {
        let before = calls.iter().find(|(known, _)| known == name).map_or(0, |(_, count)| *count);
        double.calls_of(name) - before
    };
    // What the double does on threads of its own, it counts too.
    let functions = calls.iter().filter(|(name, _)| name.starts_with("cu"));
    let in_a_round: Vec<_> = functions.map(|(name, _)| (name.clone(), count(name))).collect();
    assert!(in_a_round.len() > 50, "{in_a_round:?}");
    for (function, count) in in_a_round {
        for nth in 1..=count.min(MOST_CALLS) {
            one_call(double, (&function, count), nth, result, code);
        }
    }
}

/// `usually` is how often the function is called in a round in which nothing fails.
fn one_call(
    double: &Double,
    (function, usually): (&str, u64),
    nth: u64,
    result: u32,
    code: ErrorCode,
) {
    let what = format!("call {nth} of {function} fails with {result}");
    let (before, kept_before) = (double.calls_of(function), double.live());
    double.fail(function, nth, result);
    let failed = round();
    double.clear();
    // Where memory is short, the host gives back what it keeps, and tries again.
    let is_retried = result == OUT_OF_MEMORY && double.calls_of(function) - before > usually;
    assert_eq!(double.violations(), [""; 0], "{what}: {failed:?}");
    if !ENDINGS.contains(&function) {
        assert_eq!(double.lost(), [""; 0], "{what}");
    }
    let may_pass = [&NOT_NEEDED[..], &ENDINGS[..], &ABOUT_DEVICES[..]].concat().contains(&function);
    match failed {
        Ok(()) => assert!(may_pass || is_retried, "{what} of {usually}, and nobody was told"),
        Err(error) => {
            let told = error.vendor().map(|vendor| vendor.number);
            assert_eq!(told, Some(i64::from(result)), "{what}: {error}");
            assert_eq!(error.code(), code, "{what}: {error}");
        }
    }
    if function == "cuDevicePrimaryCtxRelease_v2" {
        // What nobody can give back is given back here, for the rounds that follow.
        Other(double).release();
        double.reset();
    }
    // A pool is of no context: what does not end it, keeps it.
    let is_kept = |what: &String| {
        kept_before.contains(what) || function == "cuMemPoolDestroy" && what.starts_with("pool")
    };
    let live: Vec<_> = double.live().into_iter().filter(|what| !is_kept(what)).collect();
    assert_eq!(live, [""; 0], "{what}");
    double.reset();
    round().unwrap_or_else(|error| panic!("the round after {what}: {error}"));
    assert_eq!(double.violations(), [""; 0], "the round after {what}");
    double.reset();
}
