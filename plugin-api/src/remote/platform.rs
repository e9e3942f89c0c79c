//! The plugin's entry and its platform.

use super::tables::{Incompatible, Tables};
use super::{Remote, RemoteDevice, handed_out};
use crate::abi;
use crate::backend::{Connected, Platform, Plugin};
use crate::bounds;
use crate::error::{Error, ErrorCode, Result};
use crate::export::entry;
use crate::info::{DeviceInfo, InfoValue, PlatformInfo};
use crate::layout::check_layout;
use crate::raw::{collect, from_raw};

/// What a plugin says of itself, copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteDescription {
    /// The backend that it provides.
    pub backend: String,
    /// What it is, for people.
    pub name: String,
    /// The plugin's own version.
    pub version: String,
    /// Who made it.
    pub vendor: String,
    /// The image formats that it takes, separated by commas.
    pub image_formats: String,
    /// The driver library that it wants, empty if none.
    pub driver: String,
    /// The library may be closed after its platform was destroyed.
    pub unloadable: bool,
}

/// A plugin whose entry and tables were checked.
pub struct RemotePlugin {
    entry: abi::Entry,
    tables: Tables,
    description: RemoteDescription,
}

impl RemotePlugin {
    /// Checks an entry: magic, interface version, layouts, and that nothing required is missing.
    /// Calls `describe` and `table`, which run no driver.
    ///
    /// # Errors
    /// What does not fit.
    ///
    /// # Safety
    /// `entry` is the symbol `longshore_plugin` of a library, of at least 16 readable bytes, and
    /// the library stays loaded as long as anything that comes from it lives. What comes from it
    /// is used as the interface demands: a kernel only while its module is loaded; modules,
    /// queues and events go before their device, devices before their platform.
    pub unsafe fn new(entry: *const abi::Entry) -> Result<RemotePlugin, Incompatible> {
        // SAFETY: magic and versions are the first 16 bytes; the rest is read after they fit.
        unsafe {
            if !entry.is_aligned() || (*entry).magic != abi::ENTRY_MAGIC {
                return Err(Incompatible::NoEntry);
            }
            let plugin = ((*entry).interface_major, (*entry).interface_minor);
            if plugin.0 != abi::INTERFACE_MAJOR {
                let host = (abi::INTERFACE_MAJOR, abi::INTERFACE_MINOR);
                return Err(Incompatible::Interface { plugin, host });
            }
            check_layout::<abi::Entry>((*entry).layout)
                .map_err(|difference| Incompatible::Layout { table: "entry", difference })?;
            let functions = (&raw const (*entry).describe).cast::<[usize; 3]>().read();
            if let Some(index) = functions.iter().position(|function| *function == 0) {
                return Err(Incompatible::NullFunction { table: "entry", index });
            }
            let entry = *entry;
            let description = describe(&entry).map_err(Incompatible::Description)?;
            let tables = Tables::ask(&entry, &description.backend)?;
            Ok(RemotePlugin { entry, tables, description })
        }
    }

    /// What the plugin says of itself.
    pub fn description(&self) -> &RemoteDescription {
        &self.description
    }

    /// Looks for the driver and its devices. May block.
    ///
    /// # Errors
    /// Errors of the plugin; a breach of [`bounds`] for more devices or a longer reason.
    ///
    /// # Safety
    /// `services` stays valid until the library is closed.
    pub unsafe fn connect(
        &self,
        services: *const abi::Services,
    ) -> Result<Connected<RemotePlatform>> {
        let (mut outcome, mut platform) = (u32::MAX, std::ptr::null_mut());
        let mut result = Ok(());
        let reason = collect(bounds::REASON_BYTES, |reason| {
            // SAFETY: places to write to, and services as the caller promised.
            result = unsafe {
                from_raw((self.entry.connect)(services, &mut outcome, &mut platform, reason))
            };
        });
        result?;
        let reason = reason.text_of_plugin(&self.tables.plugin, "connect, reason");
        const CONNECTED: u32 = abi::Connection::Connected as u32;
        const NO_DRIVER: u32 = abi::Connection::NoDriver as u32;
        const NO_DEVICE: u32 = abi::Connection::NoDevice as u32;
        match outcome {
            CONNECTED => {
                let handle = handed_out("platform", platform)?;
                RemotePlatform::new(handle, self.tables.clone()).map(Connected::Platform)
            }
            NO_DRIVER => reason.map(Connected::NoDriver),
            NO_DEVICE => reason.map(Connected::NoDevice),
            other => {
                let message = format!("connect answered {other}, which is no outcome");
                Err(Error::new(ErrorCode::BackendFailure, message))
            }
        }
    }
}

fn describe(entry: &abi::Entry) -> Result<RemoteDescription> {
    const EMPTY: abi::Text = abi::Text { data: std::ptr::null(), bytes: 0 };
    let mut raw = abi::Description {
        backend: EMPTY,
        name: EMPTY,
        version: EMPTY,
        vendor: EMPTY,
        image_formats: EMPTY,
        driver: EMPTY,
        unloadable: 0,
        reserved: 0,
    };
    // SAFETY: a checked entry, whose strings live as long as the library.
    unsafe {
        (entry.describe)(&mut raw);
        let most = bounds::DESCRIPTION_BYTES;
        let backend = bounds::copy_text("(unnamed)", "describe, backend", raw.backend, most)?;
        let copy = |field: &str, text| {
            bounds::copy_text(&backend, format_args!("describe, {field}"), text, most)
        };
        Ok(RemoteDescription {
            name: copy("name", raw.name)?,
            version: copy("version", raw.version)?,
            vendor: copy("vendor", raw.vendor)?,
            image_formats: copy("image_formats", raw.image_formats)?,
            driver: copy("driver", raw.driver)?,
            unloadable: raw.unloadable != 0,
            backend,
        })
    }
}

/// A connected platform. Dropping it destroys the plugin's; its devices must be closed before.
pub struct RemotePlatform {
    handle: *mut abi::PlatformHandle,
    tables: Tables,
    /// The first answer to `device_count`.
    devices: u32,
}

// SAFETY: the interface promises that a platform may be used from any thread.
unsafe impl Send for RemotePlatform {}
// SAFETY: as above.
unsafe impl Sync for RemotePlatform {}

impl RemotePlatform {
    /// A platform of this program, as if it came from a plugin. What a host does with plugins it can
    /// do with it. `backend` is its name in errors.
    ///
    /// # Errors
    /// A breach for more than [`bounds::DEVICES`].
    pub fn of_program<P: Plugin>(platform: P::Platform, backend: &str) -> Result<RemotePlatform> {
        let entry = entry::<P>();
        // SAFETY: the tables are of this program, and stay.
        let tables = unsafe { Tables::ask(&entry, backend) };
        let tables = tables.expect("all tables are made by this crate");
        RemotePlatform::new(Box::into_raw(Box::new(platform)).cast(), tables)
    }

    /// Takes a platform that was just handed out, and ends it if it reports too many devices.
    fn new(handle: *mut abi::PlatformHandle, tables: Tables) -> Result<RemotePlatform> {
        // SAFETY: a live platform.
        let devices = unsafe { (tables.platform.device_count)(handle) };
        let platform = RemotePlatform { handle, tables, devices };
        bounds::devices(&platform.tables.plugin, devices).map(|()| platform)
    }
}

impl Platform<Remote> for RemotePlatform {
    fn info(&self, query: PlatformInfo) -> Result<String> {
        let mut result = Ok(());
        let answer = collect(bounds::ANSWER_BYTES, |sink| {
            // SAFETY: a live platform and the sink of this call.
            result =
                unsafe { from_raw((self.tables.platform.info)(self.handle, query as u32, sink)) };
        });
        result?;
        let place = format_args!("longshore.platform, info {query:?}");
        answer.text_of_plugin(&self.tables.plugin, place)
    }

    fn device_count(&self) -> u32 {
        self.devices
    }

    fn device_info(&self, index: u32, query: DeviceInfo) -> Result<InfoValue> {
        let mut result = Ok(());
        let answer = collect(bounds::ANSWER_BYTES, |sink| {
            let ask = self.tables.platform.device_info;
            // SAFETY: a live platform and the sink of this call.
            result = unsafe { from_raw(ask(self.handle, index, query as u32, sink)) };
        });
        result?;
        let place = format_args!("longshore.platform, device_info {query:?} of device {index}");
        let answer = answer.of_plugin(&self.tables.plugin, place)?;
        InfoValue::from_bytes(query.value_type(), &answer)
            .map_err(|error| error.context(format_args!("{query:?}")))
    }

    fn open(&self, index: u32) -> Result<RemoteDevice> {
        let mut device = std::ptr::null_mut();
        // SAFETY: a live platform and a place to write to.
        unsafe { from_raw((self.tables.platform.open)(self.handle, index, &mut device))? };
        Ok(RemoteDevice::new(handed_out("device", device)?, self.tables.clone()))
    }
}

impl Drop for RemotePlatform {
    fn drop(&mut self) {
        // SAFETY: a live platform, used no more.
        unsafe { (self.tables.platform.destroy)(self.handle) }
    }
}
