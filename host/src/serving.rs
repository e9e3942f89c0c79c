//! Plugins of this host that other processes use.

use crate::PluginDescription;
use crate::backend::{AnyPlatform, Either};
use crate::discovery::LoadedPlugin;
use crate::host::Host;
use longshore_executor::plugin::{Channel, FindSender, Images, Server, SharedPlatform};
use longshore_plugin_api::Result;
use std::ops::Deref;
use std::sync::Arc;

/// A plugin of a host, and the server by which other processes use it. Any thread may use it.
pub struct ServedPlugin {
    plugin: Arc<LoadedPlugin>,
    server: Server<Either>,
    devices: Vec<u32>,
}

impl Host {
    /// Returns a server for each plugin with a selected device. The servers keep images in
    /// `images`.
    /// `is_transferable` returns whether channels may transfer memory of a plugin's devices at its
    /// addresses, although this process does not reach it.
    pub fn served_plugins(
        &self,
        images: &Arc<Images>,
        is_transferable: impl Fn(&PluginDescription) -> bool,
    ) -> Vec<ServedPlugin> {
        let mut served: Vec<ServedPlugin> = Vec::new();
        for entry in self.devices() {
            let (plugin, index) = (entry.loaded_plugin(), entry.facts().index);
            match served.iter_mut().find(|served| Arc::ptr_eq(&served.plugin, plugin)) {
                Some(served) => served.devices.push(index),
                None => {
                    let platform: SharedPlatform<Either> =
                        Arc::new(PluginPlatform(Arc::clone(plugin)));
                    let server = Server::for_platform(platform)
                        .with_images(Arc::clone(images))
                        .with_transferable_memory(is_transferable(plugin.description()));
                    let plugin = Arc::clone(plugin);
                    served.push(ServedPlugin { plugin, server, devices: vec![index] });
                }
            }
        }
        served
    }
}

impl ServedPlugin {
    /// Returns the plugin's description of itself.
    pub fn description(&self) -> &PluginDescription {
        self.plugin.description()
    }

    /// Returns the indices of the selected devices, in order of preference.
    pub fn devices(&self) -> &[u32] {
        &self.devices
    }

    /// Executes a request of another process and returns the reply. Blocks as the plugin does.
    ///
    /// # Errors
    /// A text for a malformed request. The plugin's errors are replies.
    pub fn call(
        &self,
        channel: &Arc<dyn Channel>,
        request: &[u8],
    ) -> std::result::Result<Vec<u8>, String> {
        self.server.call(channel, request)
    }

    /// Returns whether a channel may transfer the memory of an open device at its addresses.
    ///
    /// # Errors
    /// `InvalidArgument` for a device that is not open.
    pub fn is_transferable(&self, device: u64) -> Result<bool> {
        self.server.is_transferable(device)
    }

    /// Copies between memory of an open device and of this process. Blocks.
    ///
    /// # Errors
    /// `InvalidArgument` for a device that is not open; the errors of the plugin.
    ///
    /// # Safety
    /// Both ranges are valid during the call.
    pub unsafe fn copy_here(
        &self,
        device: u64,
        address: u64,
        here: *mut u8,
        bytes: u64,
        to_device: bool,
    ) -> Result<()> {
        // SAFETY: guaranteed by the caller.
        unsafe { self.server.copy_here(device, address, here, bytes, to_device) }
    }

    /// Executes a request without a reply. `peer` returns the channel to the sender. Does not
    /// block.
    pub fn post(&self, peer: FindSender<'_>, request: &[u8]) {
        self.server.post(peer, request);
    }
}

/// The platform of a plugin.
struct PluginPlatform(Arc<LoadedPlugin>);

impl Deref for PluginPlatform {
    type Target = AnyPlatform;

    fn deref(&self) -> &AnyPlatform {
        self.0.platform()
    }
}
