//! The functions of devices.

use super::defaults;
use crate::context::current;
use crate::info::{self, InfoReply};
use crate::types::enumerations::*;
use crate::types::structures::*;
use longshore::{DeviceInfo, Error, ErrorCode, InfoValue, Result};
use std::ffi::c_void;

pub(crate) unsafe fn iterate(callback: ol_device_iterate_cb_t, data: *mut c_void) -> Result<()> {
    let Some(callback) = callback else {
        return Err(Error::new(ErrorCode::InvalidNullPointer, "no callback"));
    };
    let context = current()?;
    for device in context.device_handles() {
        // SAFETY: promised by the caller.
        if !unsafe { callback(device, data) } {
            break;
        }
    }
    Ok(())
}

fn reply(handle: ol_device_handle_t, query: ol_device_info_t) -> Result<InfoReply> {
    let context = current()?;
    let device = context.device(handle)?;
    if query == OL_DEVICE_INFO_PLATFORM {
        return Ok(InfoReply::from_handle(context.platform_handle(device.platform())));
    }
    if query == OL_DEVICE_INFO_TYPE {
        let kind = if device.is_host() { OL_DEVICE_TYPE_HOST } else { OL_DEVICE_TYPE_GPU };
        return Ok(InfoReply::U32(kind.0));
    }
    // The queries count up from 0.
    let known =
        ol_device_info_t::ALL.get(query.0 as usize).is_some_and(|(_, known)| *known == query);
    let asked = DeviceInfo::from_raw(query.0).ok().filter(|_| known);
    let asked = asked.ok_or_else(|| info::unknown("device", query.0))?;
    let entry = device.entry();
    let answered = match entry.info(asked) {
        Err(error) if defaults::is_none(&error) => {
            return defaults::reply(entry, asked).ok_or(error);
        }
        answered => answered?,
    };
    Ok(match answered {
        InfoValue::Text(text) => InfoReply::Text(text),
        InfoValue::Bool(yes) => InfoReply::Bool(yes),
        InfoValue::U32(number) => InfoReply::U32(number),
        InfoValue::U64(number) => InfoReply::U64(number),
        InfoValue::Dimensions(xyz) => InfoReply::Dimensions(xyz),
        // LLVM's queries have no replies of other types.
        _ => return Err(info::unknown("device", query.0)),
    })
}

info::queries!(ol_device_handle_t, ol_device_info_t);
