//! The validator of Vulkan modules, with an isolated backend.

use longshore::{Device, DeviceInfo, Environment, ErrorCode, InfoValue, IsolateSandbox};
use longshore_conformance::TrustedImages;
use longshore_tests::vulkan;
use longshore_tests::world::{World, copy_into, executor};

const WGSL: &[u8] = b"@compute @workgroup_size(1) fn nothing() {}";

/// Checks a device of the isolated backend, with the text of its properties about the validator.
/// Does nothing without lavapipe.
fn with_a_device(sandbox: IsolateSandbox, setting: &str, check: impl Fn(&Device, &str)) {
    let Some(plugin) = vulkan::plugin().filter(|_| vulkan::lavapipe().is_some()) else {
        return println!("nothing is tried: the Vulkan plugin or lavapipe is not there");
    };
    let world = World::new();
    copy_into(&world, &plugin);
    let environment = Environment::empty().with("LONGSHORE_VULKAN_VALIDATOR", setting);
    let host = world
        .host()
        .with_environment(environment)
        .with_isolated_backends("vulkan")
        .with_isolate_sandbox(sandbox);
    let host = host.with_executor(executor()).build().unwrap();
    let device = host.device("vulkan:*").unwrap();
    let InfoValue::Text(properties) = device.info(DeviceInfo::Properties).unwrap() else {
        panic!("properties are text")
    };
    let validator = properties.lines().find_map(|line| line.strip_prefix("validator="));
    check(&device, validator.expect("the properties name the validator"));
    device.close().unwrap();
}

#[test]
fn outside_of_a_sandbox_the_validator_is_that_of_the_machine() {
    with_a_device(IsolateSandbox::Off, "require", |device, validator| {
        match validator.starts_with("none (") {
            true => assert!(std::env::var_os("CI").is_none(), "{validator}"),
            false => drop(device.load_trusted(WGSL).unwrap()),
        }
    });
}

#[test]
fn in_a_sandbox_a_required_validator_is_the_library_or_an_error_with_the_reason() {
    with_a_device(IsolateSandbox::Available, "require", |device, validator| {
        let loaded = device.load_trusted(WGSL);
        if validator.starts_with("libSPIRV-Tools-shared.so") || validator == "compiled in" {
            return drop(loaded.unwrap());
        }
        let Err(error) = loaded else { panic!("loaded without a validator: {validator}") };
        assert_eq!(error.code(), ErrorCode::HostToolNotFound, "{error}");
        let texts = ["libSPIRV-Tools-shared.so", "spirv-val", "install SPIRV-Tools"];
        for text in texts {
            assert!(
                error.message().contains(text) && validator.contains(text),
                "{error}\n{validator}"
            );
        }
        let has_command = std::process::Command::new("spirv-val").arg("--version").output().is_ok();
        assert!(!has_command || validator.contains("Operation not permitted"), "{validator}");
    });
}

#[test]
fn in_a_sandbox_modules_are_loaded_where_no_validator_is_required() {
    with_a_device(IsolateSandbox::Available, "auto", |device, _| {
        drop(device.load_trusted(WGSL).unwrap())
    });
}
