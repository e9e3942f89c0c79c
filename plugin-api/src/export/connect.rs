//! The function `connect` of the entry.

use super::{give, guard};
use crate::abi::{self, PlatformHandle};
use crate::backend::{Connected, Plugin};
use crate::error::bounded;
use crate::raw::write_sink;
use crate::services::Services;

pub(super) unsafe extern "C" fn connect<P: Plugin>(
    raw: *const abi::Services,
    outcome: *mut u32,
    platform: *mut *mut PlatformHandle,
    reason: abi::Sink,
) -> *mut abi::ErrorObject {
    guard::<P>("connect", || {
        let (kind, why) = match P::connect(services(raw))? {
            Connected::Platform(connected) => {
                give(connected, platform);
                (abi::Connection::Connected, String::new())
            }
            Connected::NoDriver(why) => (abi::Connection::NoDriver, why),
            Connected::NoDevice(why) => (abi::Connection::NoDevice, why),
        };
        // SAFETY: the host passes a place to write to, and the sink of this call.
        unsafe {
            outcome.write(kind as u32);
            write_sink(reason, bounded(why).as_bytes());
        }
        Ok(())
    })
}

fn services(raw: *const abi::Services) -> Services {
    // SAFETY: the host promises that its services stay valid until the library is closed.
    let services = unsafe { Services::from_raw(raw) };
    services.forward_log();
    services
}
