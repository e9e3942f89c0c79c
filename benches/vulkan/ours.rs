//! The same device through Longshore.

use anyhow::{Context, Result, bail};
use longshore::{Buffer, Device, DeviceInfo, Environment, Host, InfoValue, Kernel, Program, Queue};
use longshore_conformance::TrustedImages;
use longshore_tests::vulkan;

pub(crate) struct Ours {
    pub(crate) device: Device,
    pub(crate) queue: Queue,
    pub(crate) empty: Kernel,
    pub(crate) store: Kernel,
    /// Buffer that `store` writes to.
    pub(crate) place: Buffer<u32>,
    _program: Program,
}

impl Ours {
    /// Opens the first device, with these settings, and loads the module.
    pub(crate) fn new(environment: Environment, module: &[u32]) -> Result<Ours> {
        let device = host(environment)?.default_device()?;
        let queue = device.queue()?;
        let image: Vec<u8> = module.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let program = device.load_trusted(image)?;
        Ok(Ours {
            empty: program.kernel("empty")?,
            store: program.kernel("store")?,
            place: device.buffer_of(&queue, &[0])?,
            device,
            queue,
            _program: program,
        })
    }

    /// Returns the UUID, by which the loader finds the device.
    pub(crate) fn uuid(&self) -> Result<[u8; 16]> {
        match self.device.info(DeviceInfo::Uuid)? {
            InfoValue::Uuid(uuid) => Ok(uuid),
            other => bail!("{other:?} is no UUID"),
        }
    }
}

/// Creates a host with the Vulkan plugin alone.
pub(crate) fn host(environment: Environment) -> Result<Host> {
    let plugin = vulkan::plugin().context("cargo build --release -p longshore-plugin-vulkan")?;
    let host =
        Host::builder().with_environment(environment).with_only_given_plugins().with_plugin(plugin);
    Ok(host.with_backends("vulkan").build()?)
}
