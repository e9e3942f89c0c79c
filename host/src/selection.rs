//! Selections of backends and devices: parsing and matching. This module loads no plugin and opens
//! no device.

mod backends;
mod devices;

pub use backends::BackendSelection;
pub(crate) use backends::is_backend_name;
pub use devices::{DeviceFacts, DeviceSelection};
