//! "longshore.platform" and `connect`.

use super::{give, guard, lent, services, take_back};
use crate::abi::{self, PlatformHandle};
use crate::backend::{Connected, Platform, Plugin};
use crate::error::{Error, ErrorCode, Result, bounded};
use crate::info::{DeviceInfo, PlatformInfo};
use crate::raw::write_sink;

pub(super) const fn table<P: Plugin>() -> &'static abi::PlatformTable {
    &abi::PlatformTable {
        info: info::<P>,
        device_count: device_count::<P>,
        device_info: device_info::<P>,
        open: open::<P>,
        destroy: destroy::<P>,
    }
}

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

unsafe extern "C" fn info<P: Plugin>(
    platform: *mut PlatformHandle,
    query: u32,
    value: abi::Sink,
) -> *mut abi::ErrorObject {
    guard::<P>("platform.info", || {
        // SAFETY: a platform of ours, and the sink of this call.
        unsafe {
            let answer = lent::<P::Platform, _>(platform).info(PlatformInfo::from_raw(query)?)?;
            write_sink(value, answer.as_bytes());
        }
        Ok(())
    })
}

unsafe extern "C" fn device_count<P: Plugin>(platform: *mut PlatformHandle) -> u32 {
    let mut count = 0;
    let failed = guard::<P>("platform.device_count", || {
        // SAFETY: a platform of ours.
        count = unsafe { lent::<P::Platform, _>(platform) }.device_count();
        Ok(())
    });
    // A panicking count has no way to be reported but as a platform without devices.
    // SAFETY: `guard` made it.
    if let Err(error) = unsafe { crate::raw::from_raw(failed) } {
        log::error!("{error}");
    }
    count
}

unsafe extern "C" fn device_info<P: Plugin>(
    platform: *mut PlatformHandle,
    index: u32,
    query: u32,
    value: abi::Sink,
) -> *mut abi::ErrorObject {
    guard::<P>("platform.device_info", || {
        // SAFETY: a platform of ours, and the sink of this call.
        unsafe {
            let platform = lent::<P::Platform, _>(platform);
            in_range::<P>(platform, index)?;
            let answer = platform.device_info(index, DeviceInfo::from_raw(query)?)?;
            write_sink(value, &answer.to_bytes());
        }
        Ok(())
    })
}

unsafe extern "C" fn open<P: Plugin>(
    platform: *mut PlatformHandle,
    index: u32,
    device: *mut *mut abi::DeviceHandle,
) -> *mut abi::ErrorObject {
    guard::<P>("platform.open", || {
        // SAFETY: a platform of ours.
        let platform = unsafe { lent::<P::Platform, _>(platform) };
        in_range::<P>(platform, index)?;
        give(platform.open(index)?, device);
        Ok(())
    })
}

unsafe extern "C" fn destroy<P: Plugin>(platform: *mut PlatformHandle) {
    let failed = guard::<P>("platform.destroy", || {
        // SAFETY: a platform of ours, used no more.
        drop(unsafe { take_back::<P::Platform, _>(platform) });
        Ok(())
    });
    // SAFETY: `guard` made it.
    if let Err(error) = unsafe { crate::raw::from_raw(failed) } {
        log::error!("{error}");
    }
}

fn in_range<P: Plugin>(platform: &P::Platform, index: u32) -> Result<()> {
    let count = platform.device_count();
    if index < count {
        return Ok(());
    }
    let backend = P::DESCRIPTION.backend;
    let message = format!("there is no device {backend}:{index}, the platform has {count}");
    Err(Error::new(ErrorCode::InvalidDevice, message))
}
