//! The devices of CUDA, of AMD and of Vulkan, for tests that treat them alike.

use crate::doubled::{self, Doubled};
use crate::vulkan;
use longshore::{Environment, Host, Result};
use longshore_conformance::DeviceName;

/// Chooses Vulkan's drivers, and replaces other drivers without a device by doubles. Must be the
/// first call in `main`.
///
/// # Safety
/// No other thread runs yet.
pub unsafe fn take_drivers() {
    // SAFETY: promised by the caller.
    unsafe {
        vulkan::choose_drivers();
        doubled::ALL.iter().for_each(|of| of.take_driver());
    }
}

/// Returns whether a device belongs to a double.
pub fn is_double(device: &DeviceName) -> bool {
    Doubled::for_backend(&device.backend).is_some_and(|of| of.is_double())
}

/// Returns the available devices, for backends with devices in the selection `LONGSHORE_DEVICES`.
/// Prints a line for each missing driver or plugin.
///
/// # Errors
/// The errors of [`Host::new`].
pub fn devices() -> Result<Vec<DeviceName>> {
    let chosen = Environment::from_process().devices();
    let mut devices = Vec::new();
    for of in doubled::ALL.iter().filter(|of| leaves(chosen.as_deref(), of.backend)) {
        devices.extend(of.devices()?);
    }
    if leaves(chosen.as_deref(), "vulkan") {
        devices.extend(vulkan::devices()?);
    }
    Ok(devices)
}

/// Returns a host with the plugin of a device's backend alone, and these variables. Blocks.
///
/// # Errors
/// The errors of [`Host::new`].
///
/// # Panics
/// If the plugin is gone.
pub fn host(device: &DeviceName, environment: Environment) -> Result<Host> {
    let plugin = match Doubled::for_backend(&device.backend) {
        Some(of) => of.plugin(),
        None => vulkan::plugin(),
    };
    let plugin = plugin.expect("it has listed its devices");
    Host::builder()
        .with_environment(environment)
        .with_only_given_plugins()
        .with_plugin(plugin)
        .build()
}

/// Returns whether a selection has, or may have, devices of a backend.
fn leaves(selection: Option<&str>, backend: &str) -> bool {
    let terms = || selection.into_iter().flat_map(|text| text.split(';')).map(str::trim);
    let mut wanted = terms().filter(|term| !term.starts_with('!')).peekable();
    wanted.peek().is_none() || wanted.any(|term| term.split(':').next() == Some(backend))
}

#[cfg(test)]
mod tests {
    use super::leaves;

    #[test]
    fn backends_that_the_user_has_not_chosen_are_left_out() {
        assert!(leaves(None, "cuda"));
        assert!(leaves(Some("!vulkan:*"), "cuda"));
        assert!(leaves(Some("host:0; cuda:1"), "cuda"));
        assert!(!leaves(Some("cuda:0;!cuda:1"), "vulkan"));
    }
}
