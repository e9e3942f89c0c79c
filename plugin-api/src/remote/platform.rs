//! The plugin's entry and its platform.

use super::receive::{handed_out, nothing, number, written};
use super::tables::{Incompatible, Tables};
use crate::abi;
use crate::backend::Connected;
use crate::bounds;
use crate::description::{Description, Note};
use crate::error::{Error, ErrorCode, Result};
use crate::info::{DeviceInfo, InfoValue};
use crate::layout::check_layout;
use std::fmt;
use std::sync::Arc;

/// A plugin with a checked entry and checked tables.
pub struct RemotePlugin {
    entry: abi::Entry,
    tables: Arc<Tables>,
    description: Description<String>,
}

impl fmt::Debug for RemotePlugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let backend = &self.description.backend;
        f.debug_struct("RemotePlugin").field("backend", backend).finish_non_exhaustive()
    }
}

impl RemotePlugin {
    /// Checks an entry: magic, interface version, layouts, and all required tables and functions.
    /// Calls `describe` and `table`, which run no driver.
    ///
    /// # Errors
    /// The first incompatibility.
    ///
    /// # Safety
    /// `entry` is the symbol `longshore_plugin` of a library, with at least 16 readable bytes. The
    /// library stays loaded while any object from the entry lives. The caller uses those objects as
    /// the interface demands: a kernel only while its module is loaded; modules, queues and events
    /// end before their device, devices before their platform.
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

    /// Returns the plugin's description.
    pub fn description(&self) -> &Description<String> {
        &self.description
    }

    /// Returns the contents of the plugin's ELF note, from its description.
    pub fn note(&self) -> Note {
        let interface = (self.entry.interface_major, self.entry.interface_minor);
        Note::new(&self.description, interface)
    }

    /// Looks for the driver and its devices. May block while the driver starts.
    ///
    /// # Errors
    /// Errors of the plugin; a breach of [`bounds`] for too many devices or a reason that is too
    /// long.
    ///
    /// # Safety
    /// `services` stays valid until the library is closed.
    pub unsafe fn connect(
        &self,
        services: *const abi::Services,
    ) -> Result<Connected<RemotePlatform>> {
        let (mut outcome, mut platform) = (u32::MAX, std::ptr::null_mut());
        let reason = written(bounds::REASON_BYTES, |reason| {
            // SAFETY: places to write to, and services as the caller promised.
            unsafe { (self.entry.connect)(services, &raw mut outcome, &raw mut platform, reason) }
        })?;
        let reason = reason.into_plugin_text(&self.tables.plugin, "connect, reason");
        const CONNECTED: u32 = abi::Connection::Connected as u32;
        const NO_DRIVER: u32 = abi::Connection::NoDriver as u32;
        const NO_DEVICE: u32 = abi::Connection::NoDevice as u32;
        match outcome {
            CONNECTED => {
                let handle = handed_out("platform", platform)?;
                RemotePlatform::new(handle, &self.tables).map(Connected::Platform)
            }
            NO_DRIVER => reason.map(Connected::NoDriver),
            NO_DEVICE => reason.map(Connected::NoDevice),
            other => {
                let message = format!("connect answered the outcome {other}, expected 0, 1 or 2");
                Err(Error::new(ErrorCode::BackendFailure, message))
            }
        }
    }
}

fn describe(entry: &abi::Entry) -> Result<Description<String>> {
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
        Ok(Description {
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

/// A connected platform. Dropping the value destroys the plugin's platform, whose devices must be
/// closed before.
pub struct RemotePlatform {
    handle: *mut abi::PlatformHandle,
    tables: Arc<Tables>,
    /// First answer to `device_count`.
    devices: u32,
}

// SAFETY: the interface promises that a platform may be used from any thread.
unsafe impl Send for RemotePlatform {}
// SAFETY: as above.
unsafe impl Sync for RemotePlatform {}

impl RemotePlatform {
    /// Wraps a platform that the plugin just created, and destroys it if it reports too many
    /// devices.
    fn new(handle: *mut abi::PlatformHandle, tables: &Arc<Tables>) -> Result<RemotePlatform> {
        let mut platform = RemotePlatform { handle, tables: Arc::clone(tables), devices: 0 };
        let count = tables.platform.device_count;
        platform.devices = number(&tables.plugin, "longshore.platform, device_count", |result| {
            // SAFETY: a live platform and a place to write to.
            unsafe { count(handle, result) }
        })?;
        bounds::devices(&tables.plugin, platform.devices).map(|()| platform)
    }

    pub(crate) fn handle(&self) -> *mut abi::PlatformHandle {
        self.handle
    }

    pub(crate) fn table(&self) -> &'static abi::PlatformTable {
        self.tables.platform
    }

    pub(crate) fn tables(&self) -> &Arc<Tables> {
        &self.tables
    }

    pub(crate) fn plugin(&self) -> &str {
        &self.tables.plugin
    }

    /// Implements `device_count` of the trait.
    pub(crate) fn devices(&self) -> u32 {
        self.devices
    }

    /// Implements `device_info` of the trait: the query determines the type of the answer.
    pub(crate) fn ask_device(&self, index: u32, query: DeviceInfo) -> Result<InfoValue> {
        let ask = self.table().device_info;
        let reply = written(bounds::REPLY_BYTES, |sink| {
            // SAFETY: a live platform and the sink of this call.
            unsafe { ask(self.handle, index, query as u32, sink) }
        })?;
        let reply = reply.into_plugin_bytes(
            self.plugin(),
            format_args!("longshore.platform, device_info {query:?} of device {index}"),
        )?;
        InfoValue::from_bytes(query.value_type(), reply)
            .map_err(|error| error.context(format_args!("{query:?}")))
    }
}

impl Drop for RemotePlatform {
    fn drop(&mut self) {
        // SAFETY: a live platform, not used afterwards.
        if let Err(error) = nothing(|| unsafe { (self.table().destroy)(self.handle) }) {
            log::warn!("destroying a platform: {error}");
        }
    }
}
