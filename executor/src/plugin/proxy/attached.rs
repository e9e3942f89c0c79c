//! Plugins in processes that this one did not start, such as nodes of a cluster.

use std::sync::Arc;

use longshore_plugin_api::{DeviceInfo, Error, ErrorCode, InfoValue, PlatformInfo, Result, bounds};

use super::callbacks::{Callbacks, Record};
use super::device::IsolatedDevice;
use super::link::Link;
use super::watchdog::Watchdog;
use crate::plugin::channel::{Channel, Handler};
use crate::plugin::interface::messages::PlatformCall;
use crate::plugin::protocol::Request;

/// A plugin in a process that serves it, reached by a channel. Its devices behave as if the plugin
/// were in this process. Any thread may use it.
pub struct Attached {
    link: Arc<Link>,
}

impl Attached {
    /// Attaches to a plugin of `backend`. `channel` receives the handler of the process's calls and
    /// returns the channel. `process` is the beginning of each error after the end of the channel,
    /// such as "node 'a' is lost". `log` receives the plugin's log records.
    ///
    /// # Errors
    /// `OutOfResources` if there is no channel or no thread can be started.
    pub fn new(
        backend: &str,
        process: String,
        log: impl Fn(Record<'_>) + Send + Sync + 'static,
        channel: impl FnOnce(Arc<dyn Handler>) -> Option<Arc<dyn Channel>>,
    ) -> Result<Self> {
        let callbacks = Arc::new(Callbacks::new(Arc::new(log), Watchdog::new(None)));
        let channel = channel(Arc::clone(&callbacks) as Arc<dyn Handler>).ok_or_else(|| {
            let message = format!("there is no channel to the plugin '{backend}'");
            Error::new(ErrorCode::OutOfResources, message)
        })?;
        callbacks.set_channel(&channel);
        let link = Link::attached(channel, callbacks, backend, process)?;
        Ok(Self { link })
    }

    /// Adds a line to the last words that the error after the end of the process reports.
    pub fn note(&self, line: &str) {
        self.link.callbacks.last_records.add(line);
    }

    /// Answers a query about the plugin's platform: see
    /// [`Platform::info`](longshore_plugin_api::Platform::info). Blocks.
    ///
    /// # Errors
    /// Every error of the plugin, and the end of its process.
    pub fn info(&self, query: PlatformInfo) -> Result<String> {
        let text: String = self.link.ask(&Request::Platform(PlatformCall::Info { query }))?;
        let place = format_args!("longshore.platform, info {query:?}");
        bounds::reply(self.link.backend(), place, &text).map(|()| text)
    }

    /// Answers a query about a device of the plugin as it holds for that process: see
    /// [`Platform::device_info`](longshore_plugin_api::Platform::device_info). Blocks.
    ///
    /// # Errors
    /// Every error of the plugin, and the end of its process.
    pub fn device_info(&self, index: u32, query: DeviceInfo) -> Result<InfoValue> {
        let request = Request::Platform(PlatformCall::DeviceInfo { index, query });
        let value: InfoValue = self.link.ask(&request)?;
        let place = format_args!("longshore.platform, device_info {query:?} of device {index}");
        bounds::value(self.link.backend(), place, query, &value).map(|()| value)
    }

    /// Opens a device of the plugin. Blocks.
    ///
    /// # Errors
    /// Every error of the plugin, and the end of its process.
    pub fn open(&self, index: u32) -> Result<IsolatedDevice> {
        let id = self.link.ask(&Request::Platform(PlatformCall::Open { index }))?;
        Ok(IsolatedDevice::new(Arc::clone(&self.link), id))
    }
}
