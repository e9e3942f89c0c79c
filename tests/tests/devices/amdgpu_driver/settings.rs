//! Versions of HIP, and devices without some features.

use super::{Case, ROUND};
use longshore::{Environment, ErrorCode, Host, Outcome};
use longshore_conformance::TrustedImages;
use longshore_tests::doubled::cases::{self, assert_clean};
use longshore_tests::doubled::{Double, image};

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "HIP 7 has all",
        driver: "version=7",
        check: |double| cases::everything_works(double, &ROUND),
    },
    Case {
        name: "HIP 6 has all",
        driver: "version=6",
        check: |double| cases::everything_works(double, &ROUND),
    },
    Case {
        name: "HIP 5 has all but cooperative launches",
        driver: "version=5",
        check: everything_works_but_cooperation,
    },
    Case {
        name: "with pools, memory comes from one",
        driver: "devices=1",
        check: memory_comes_from_a_pool,
    },
    Case {
        name: "what the user sets for the device is passed on",
        driver: "devices=1",
        check: settings_are_passed_on,
    },
    Case {
        name: "a machine without a device says so, with HIP's reason",
        driver: "devices=0",
        check: no_device_is_no_error,
    },
    Case {
        name: "so does one with HIP 5, which answers otherwise",
        driver: "devices=0;version=5",
        check: no_device_is_no_error,
    },
];

fn everything_works_but_cooperation(double: &Double) {
    let error = ROUND.run().unwrap_err();
    assert_eq!(error.code(), ErrorCode::Unsupported, "{error}");
    assert!(error.message().contains("hipModuleLaunchCooperativeKernel"), "{error}");
    assert_clean(double);
}

fn no_device_is_no_error(double: &Double) {
    let host = ROUND.host().unwrap();
    assert!(host.devices().is_empty());
    let outcome = &host.candidates()[0].outcome;
    assert!(matches!(outcome, Outcome::NoDevice(why) if why.contains("hipError")), "{outcome:?}");
    assert_clean(double);
}

fn settings_are_passed_on(double: &Double) {
    let environment = Environment::from_process()
        .with("LONGSHORE_AMDGPU_STACK_BYTES", "4096")
        .with("LONGSHORE_AMDGPU_HEAP_BYTES", "16777216")
        .with("LONGSHORE_AMDGPU_PRINTF_BYTES", "65536");
    let host = ROUND.of.host_with(environment).unwrap();
    let device = host.device("amdgpu:0").unwrap();
    let basic = device.load_trusted(&*image(&device, "basic").unwrap()).unwrap();
    basic.unload().unwrap();
    assert_eq!(double.calls_of("hipDeviceSetLimit"), 2);
    device.close().unwrap();
    assert_clean(double);
}

fn memory_comes_from_a_pool(double: &Double) {
    let environment = Environment::from_process().with("LONGSHORE_AMDGPU_POOLS", "1");
    let host =
        Host::builder().with_environment(environment).with_cache_limit(0).with_only_given_plugins();
    let host = host.with_plugin(ROUND.of.plugin().unwrap()).build().unwrap();
    let device = host.device("amdgpu:0").unwrap();
    let queue = device.queue().unwrap();
    drop(device.buffer_of(&queue, &[1u8; 1000]).unwrap());
    assert_eq!(double.calls_of("hipMallocFromPoolAsync"), 1);
    // HIP reports success but returns no memory.
    let error = device.allocate(longshore::MemoryKind::Device, 1 << 40, 1).map(drop).unwrap_err();
    assert_eq!(error.code(), ErrorCode::OutOfResources, "{error}");
    drop(queue);
    device.close().unwrap();
    assert_clean(double);
}
