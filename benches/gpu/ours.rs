//! The same device through Longshore.

use anyhow::{Context, Result, bail};
use longshore::{Device, DeviceInfo, Environment, Host, InfoValue, Queue};
use longshore_tests::doubled::Doubled;

/// The first device, with one queue.
pub(crate) struct Ours {
    pub(crate) device: Device,
    pub(crate) queue: Queue,
    /// Target of its code: "sm_90", "gfx90a:sramecc+:xnack-".
    pub(crate) arch: String,
}

impl Ours {
    pub(crate) fn new(of: Doubled, environment: Environment) -> Result<Ours> {
        let device = host(of, environment)?.default_device()?;
        let queue = device.queue()?;
        let arch = text(&device, DeviceInfo::Architecture)?;
        Ok(Ours { device, queue, arch })
    }
}

/// Creates a host with the backend's plugin alone.
pub(crate) fn host(of: Doubled, environment: Environment) -> Result<Host> {
    let backend = of.backend;
    let plugin = of
        .plugin()
        .with_context(|| format!("cargo build --release -p longshore-plugin-{backend}"))?;
    let host =
        Host::builder().with_environment(environment).with_only_given_plugins().with_plugin(plugin);
    Ok(host.with_backends(backend).build()?)
}

/// Returns the UUID, by which the driver finds the device.
pub(crate) fn uuid(device: &Device) -> Result<[u8; 16]> {
    match device.info(DeviceInfo::Uuid)? {
        InfoValue::Uuid(uuid) => Ok(uuid),
        other => bail!("{other:?} is no UUID"),
    }
}

/// Returns the PCI address, by which the driver finds the device, too: "0000:65:00.0".
pub(crate) fn pci_address(device: &Device) -> Result<String> {
    text(device, DeviceInfo::PciAddress)
}

fn text(device: &Device, which: DeviceInfo) -> Result<String> {
    let value = device.info(which)?;
    Ok(value.as_text().with_context(|| format!("{value:?} is no text"))?.to_owned())
}
