//! The functions of platforms.

use crate::context::current;
use crate::info::{self, InfoReply};
use crate::types::enumerations::*;
use crate::types::structures::*;
use longshore::{DeviceEntry, Error, ErrorCode, PlatformInfo, Result};

fn reply(handle: ol_platform_handle_t, query: ol_platform_info_t) -> Result<InfoReply> {
    let context = current()?;
    let platform = context.platform(handle)?;
    let entry: &DeviceEntry = &context.host.devices()[platform.first_device()];
    let text = |query| entry.platform_info(query).map(InfoReply::Text);
    match query {
        OL_PLATFORM_INFO_NAME => text(PlatformInfo::Name),
        OL_PLATFORM_INFO_VENDOR_NAME => text(PlatformInfo::VendorName),
        OL_PLATFORM_INFO_VERSION => text(PlatformInfo::Version),
        OL_PLATFORM_INFO_BACKEND => Ok(InfoReply::U32(platform.backend().0)),
        _ => Err(info::unknown("platform", query.0)),
    }
}

info::queries!(ol_platform_handle_t, ol_platform_info_t);

pub(crate) unsafe fn register_callback(
    platform: ol_platform_handle_t,
    callback: ol_platform_rpc_cb_t,
) -> Result<()> {
    let context = current()?;
    context.platform(platform)?;
    if callback.is_none() {
        return Err(Error::new(ErrorCode::InvalidNullPointer, "no callback"));
    }
    log::warn!(
        "olPlatformRegisterRPCCallback: requests of devices are not served, the callback is never called"
    );
    Ok(())
}
