//! Drivers and devices that lack something.

use crate::Case;
use crate::round::{host, image, round};
use longshore::{Environment, ErrorCode, Host, Outcome};
use longshore_tests::cuda::{self, Double};
use std::process::Command;

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "without pools, memory comes from the device itself",
        driver: "pools=0",
        check: everything_works,
    },
    Case {
        name: "an older driver has the older functions",
        driver: "driver=11.4;missing=cuMemPrefetchAsync_v2,cuFuncGetParamInfo,cuGetProcAddress_v2",
        check: everything_works_but_clusters,
    },
    Case {
        name: "without managed memory, that is unsupported and the rest works",
        driver: "managed=0",
        check: managed_memory_is_unsupported,
    },
    Case {
        name: "a function that is missing is unsupported, and nothing else",
        driver: "devices=1",
        check: each_function_may_be_missing,
    },
    Case {
        name: "what the user sets for the compiler and the context is passed on",
        driver: "devices=1",
        check: settings_are_passed_on,
    },
    Case {
        name: "a machine without a device says so",
        driver: "devices=0",
        check: no_device_is_no_error,
    },
];

fn everything_works(double: &Double) {
    round().unwrap();
    assert_eq!(double.violations(), [""; 0]);
    assert_eq!(double.live(), [""; 0]);
}

fn everything_works_but_clusters(double: &Double) {
    match round() {
        Ok(()) => {}
        Err(error) => assert_eq!(error.code(), ErrorCode::Unsupported, "{error}"),
    }
    assert_eq!(double.violations(), [""; 0]);
}

fn managed_memory_is_unsupported(double: &Double) {
    let error = round().unwrap_err();
    assert_eq!(error.code(), ErrorCode::Unsupported, "{error}");
    assert!(error.message().contains("managed"), "{error}");
    assert_eq!(double.violations(), [""; 0]);
    assert_eq!(double.live(), [""; 0]);
}

fn no_device_is_no_error(_: &Double) {
    let host = host().unwrap();
    assert!(host.devices().is_empty());
    let outcome = &host.candidates()[0].outcome;
    assert!(matches!(outcome, Outcome::NoDevice(_)), "{outcome:?}");
}

fn settings_are_passed_on(double: &Double) {
    let settings = [
        ("JIT_OPTIMIZATION", "1"),
        ("JIT_LINE_INFO", "1"),
        ("JIT_MAX_REGISTERS", "64"),
        ("STACK_BYTES", "4096"),
        ("HEAP_BYTES", "16777216"),
        ("PRINTF_BYTES", "2097152"),
    ];
    let named = settings.map(|(name, value)| (format!("LONGSHORE_CUDA_{name}"), value));
    let environment =
        named.into_iter().fold(Environment::of_process(), |environment, (name, value)| {
            environment.with(name, value)
        });
    let host = Host::builder().environment(environment).only_given_plugins();
    let host = host.plugin(cuda::plugin().unwrap()).build().unwrap();
    let device = host.device("cuda:0").unwrap();
    let basic = device.load(&*image(&device, "basic").unwrap()).unwrap();
    basic.unload().unwrap();
    assert_eq!(double.calls_of("cuCtxSetLimit"), 3);
    device.close().unwrap();
    assert_eq!(double.violations(), [""; 0]);
    assert_eq!(double.live(), [""; 0]);
}

/// Which function a process's driver lacks.
const MISSING: &str = "LONGSHORE_TEST_CUDA_MISSING";

/// Each in a process of its own, as the driver is looked at once.
fn each_function_may_be_missing(double: &Double) {
    round().unwrap();
    for (function, _) in double.calls() {
        let settings = format!("twins={};missing={function}", cuda::twins().display());
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.env("LONGSHORE_CUDA_DOUBLE", settings).env(MISSING, &function);
        let output = child.env(crate::CASE, crate::WITHOUT_A_FUNCTION).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{function}: {}: {said}", output.status);
    }
}

/// What a process does whose driver lacks a function: there is no such driver, or what needs it is
/// unsupported.
pub(crate) fn without_a_function() {
    let function = std::env::var(MISSING).unwrap();
    let environment = Environment::of_process();
    let host = Host::builder().environment(environment).only_given_plugins();
    let host = host.plugin(cuda::plugin().unwrap()).build().unwrap();
    if host.devices().is_empty() {
        println!("without {function}: {:?}", host.candidates()[0].outcome);
        return;
    }
    drop(host);
    match round() {
        Ok(()) => println!("without {function}: all works"),
        Err(error) => {
            println!("without {function}: {error}");
            assert_eq!(error.code(), ErrorCode::Unsupported, "{error}");
        }
    }
}
