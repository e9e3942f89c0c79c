//! Which backends and devices the user wants: parsing and choosing. Nothing here loads or opens.

mod backends;
mod devices;

pub use backends::BackendSelection;
pub(crate) use backends::is_backend_name;
pub use devices::{DeviceFacts, DeviceSelection};
