//! Settings of the user.

use longshore::Environment;

/// Returns the process's variables without the devices of the CPU, whose plugin is not loaded.
pub fn without_cpu() -> Environment {
    let environment = Environment::from_process();
    let Some(devices) = environment.devices() else { return environment };
    let devices = devices.split(';').filter(|part| !part.trim().starts_with("host"));
    let devices = devices.collect::<Vec<_>>().join(";");
    environment.with("LONGSHORE_DEVICES", devices)
}
