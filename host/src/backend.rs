//! The backend that the host calls. Each object belongs to a plugin in this process, called through
//! the plugin's tables, or to a plugin in another process, called by messages. An isolated call
//! uses no tables of this process.

use longshore_executor::plugin::Isolated;
use longshore_plugin_api::remote::Remote;
use longshore_plugin_api::*;
use std::sync::Arc;

longshore_plugin_api::with_interface!(longshore_interface_macros::either_of);

/// A kernel of a plugin.
pub(crate) enum AnyKernel {
    /// A kernel in this process.
    Here(Arc<<Remote as Backend>::Kernel>),
    /// A kernel in another process.
    There(Arc<<Isolated as Backend>::Kernel>),
}

macro_rules! backends {
    ($($name:ident: $kind:ident, $code:ident;)*) => { $(
        impl $name {
            /// Returns the object of a plugin in this process.
            #[inline]
            fn here(&self) -> Result<&<Remote as Backend>::$kind> {
                match self {
                    $name::Here(object) => Ok(object),
                    $name::There(_) => Err(elsewhere(ErrorCode::$code)),
                }
            }

            /// Returns the object of a plugin in another process.
            #[inline]
            fn there(&self) -> Result<&<Isolated as Backend>::$kind> {
                match self {
                    $name::There(object) => Ok(object),
                    $name::Here(_) => Err(elsewhere(ErrorCode::$code)),
                }
            }
        }
    )* };
}

backends! {
    AnyDevice: Device, InvalidDevice;
    AnyEvent: Event, InvalidEvent;
    AnyKernel: Kernel, InvalidArgument;
}

/// Returns the error of a call with an object of another plugin.
#[cold]
fn elsewhere(code: ErrorCode) -> Error {
    Error::new(code, "the object belongs to a device of another process")
}

impl AnyDevice {
    /// Returns the name of the plugin, for errors.
    pub(crate) fn plugin(&self) -> &str {
        match self {
            AnyDevice::Here(device) => device.plugin(),
            AnyDevice::There(device) => device.plugin(),
        }
    }
}
