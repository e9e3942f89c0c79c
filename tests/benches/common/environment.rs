//! What the user set.

use longshore::Environment;

/// The process's variables, of whose devices those of the CPU are left out: its plugin is not loaded.
pub(crate) fn without_cpu() -> Environment {
    let environment = Environment::of_process();
    let Some(devices) = environment.devices() else { return environment };
    let devices = devices.split(';').filter(|part| !part.trim().starts_with("host"));
    let devices = devices.collect::<Vec<_>>().join(";");
    environment.with("LONGSHORE_DEVICES", devices)
}
