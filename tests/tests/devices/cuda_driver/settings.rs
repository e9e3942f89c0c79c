//! Drivers and devices without some features.

use super::{Case, ROUND};
use longshore::{Environment, ErrorCode, Outcome};
use longshore_conformance::TrustedImages;
use longshore_tests::doubled::cases::assert_clean;
use longshore_tests::doubled::{Double, image};

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "an older driver has the older functions",
        driver: "driver=11.4;missing=cuMemPrefetchAsync_v2,cuFuncGetParamInfo,cuGetProcAddress_v2",
        check: everything_works_but_clusters,
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

fn everything_works_but_clusters(double: &Double) {
    match ROUND.run() {
        Ok(()) => {}
        Err(error) => assert_eq!(error.code(), ErrorCode::Unsupported, "{error}"),
    }
    assert_eq!(double.violations(), [""; 0]);
}

fn no_device_is_no_error(_: &Double) {
    let host = ROUND.host().unwrap();
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
        named.into_iter().fold(Environment::from_process(), |environment, (name, value)| {
            environment.with(name, value)
        });
    let host = ROUND.of.host_with(environment).unwrap();
    let device = host.device("cuda:0").unwrap();
    let basic = device.load_trusted(&*image(&device, "basic").unwrap()).unwrap();
    basic.unload().unwrap();
    assert_eq!(double.calls_of("cuCtxSetLimit"), 3);
    device.close().unwrap();
    assert_clean(double);
}
