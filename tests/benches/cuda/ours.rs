//! The same device by Longshore.

use anyhow::{Context, Result, bail};
use longshore::{Device, DeviceInfo, Environment, Host, InfoValue, Queue};
use longshore_tests::doubled::CUDA;

/// The first device, with one queue.
pub(crate) struct Ours {
    pub(crate) device: Device,
    pub(crate) queue: Queue,
}

impl Ours {
    pub(crate) fn new(environment: Environment) -> Result<Ours> {
        let device = host(environment)?.default_device()?;
        let queue = device.queue()?;
        Ok(Ours { device, queue })
    }

    /// By which the device is found without Longshore.
    pub(crate) fn uuid(&self) -> Result<[u8; 16]> {
        match self.device.info(DeviceInfo::Uuid)? {
            InfoValue::Uuid(uuid) => Ok(uuid),
            other => bail!("{other:?} is no UUID"),
        }
    }
}

/// With the plugin of CUDA alone.
pub(crate) fn host(environment: Environment) -> Result<Host> {
    let plugin = CUDA.plugin().context("cargo build --release -p longshore-plugin-cuda")?;
    let host = Host::builder().environment(environment).only_given_plugins().plugin(plugin);
    Ok(host.backends("cuda").build()?)
}
