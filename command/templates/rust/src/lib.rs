//! The backend `acme` of Longshore.
//!
//! The device is memory of the host: it allocates, copies and fills, and refuses images. A comment
//! "Your driver" stands wherever the calls of a driver belong. Messages for the log go to the crate
//! `log`, and on to the host (P-18). Start reading here.

mod device;
mod memory;
mod module;
mod platform;
mod queue;

use device::AcmeDevice;
use longshore_plugin_api::software::{SoftwareEvent, SoftwareQueue};
use longshore_plugin_api::{
    Backend, Connected, Description, Error, ErrorCode, Plugin, Result, Services, export_plugin,
};
use module::{AcmeKernel, AcmeModule};
use platform::AcmePlatform;

/// The plugin: the types of the backend.
pub struct AcmePlugin;

export_plugin!(AcmePlugin);

impl Backend for AcmePlugin {
    type Platform = AcmePlatform;
    type Device = AcmeDevice;
    type Module = AcmeModule;
    type Kernel = AcmeKernel;
    // Your driver: if it has queues and events of its own, put types with them here, and implement
    // the traits `Queue` and `Event`. If its calls block, keep these: they are threads.
    type Queue = SoftwareQueue;
    type Event = SoftwareEvent;
}

impl Plugin for AcmePlugin {
    /// Facts that the host reads before it runs code of the library (P-6). Your driver: name its
    /// library by `with_driver("libacme.so.1")`.
    const DESCRIPTION: Description = Description::new("acme")
        .with_name("Acme backend")
        .with_version(env!("CARGO_PKG_VERSION"))
        .with_vendor("Acme")
        .with_image_formats("acme");

    // Your driver: open its library here, at the earliest (P-14), and ask it for its devices.
    // Return `Connected::NoDriver` or `Connected::NoDevice` with the reason if either is missing:
    // that is no error (P-15).
    fn connect(services: Services) -> Result<Connected<AcmePlatform>> {
        let devices = setting(services, "DEVICES", 16, 1)?;
        let memory_bytes = setting(services, "MEMORY", 1 << 40, 1 << 30)?;
        if devices == 0 {
            return Ok(Connected::NoDevice("the setting DEVICES is 0".to_owned()));
        }
        Ok(Connected::Platform(AcmePlatform {
            device_count: devices as u32,
            memory_bytes,
        }))
    }
}

/// Returns the number that the user has set as `LONGSHORE_ACME_<NAME>`, else `otherwise`. Plugins
/// ask the host, and do not read the environment (P-17).
fn setting(services: Services, name: &str, most: u64, otherwise: u64) -> Result<u64> {
    let Some(text) = services.setting(name) else {
        return Ok(otherwise);
    };
    text.parse()
        .ok()
        .filter(|number| *number <= most)
        .ok_or_else(|| {
            let message =
                format!("the setting {name} of acme is '{text}', expected a number up to {most}");
            Error::new(ErrorCode::InvalidValue, message)
        })
}
