//! Platforms: what plugins offer.

use crate::context::{Context, current};
use crate::device::OfDevice;
use crate::enumerations::*;
use crate::handle::Kind;
use crate::info::{self, Answer};
use crate::structures::*;
use longshore::{DeviceEntry, Error, ErrorCode, Host, PlatformInfo, Result};

/// A platform.
pub(crate) struct OfPlatform {
    backend: String,
    /// One of its devices, by its place among the host's.
    first: usize,
}

/// Backends that the interface has numbers for.
const BACKENDS: [(&str, ol_platform_backend_t); 3] = [
    ("cuda", OL_PLATFORM_BACKEND_CUDA),
    ("amdgpu", OL_PLATFORM_BACKEND_AMDGPU),
    ("host", OL_PLATFORM_BACKEND_HOST),
];

/// The platforms and devices of a host, in its order.
pub(crate) fn all(host: &Host) -> (Vec<OfPlatform>, Vec<OfDevice>) {
    let (mut platforms, mut devices) = (Vec::<OfPlatform>::new(), Vec::new());
    for (place, entry) in host.devices().iter().enumerate() {
        let backend = &entry.facts().backend;
        let known = platforms.iter().position(|platform| platform.backend == *backend);
        let platform = known.unwrap_or_else(|| {
            platforms.push(OfPlatform { backend: backend.clone(), first: place });
            platforms.len() - 1
        });
        let shares_memory = platforms[platform].is_host() && !entry.is_isolated();
        devices.push(OfDevice::new(place, platform, shares_memory));
    }
    (platforms, devices)
}

/// The backends of a number.
pub(crate) fn backends_of(number: ol_platform_backend_t) -> impl Iterator<Item = &'static str> {
    BACKENDS.into_iter().filter(move |(_, known)| *known == number).map(|(name, _)| name)
}

impl OfPlatform {
    pub(crate) fn backend(&self) -> ol_platform_backend_t {
        let known = BACKENDS.iter().find(|(name, _)| *name == self.backend);
        known.map_or(OL_PLATFORM_BACKEND_UNKNOWN, |(_, number)| *number)
    }

    pub(crate) fn is_host(&self) -> bool {
        self.backend() == OL_PLATFORM_BACKEND_HOST
    }
}

/// The handle of a platform, by its place.
pub(crate) fn handle(context: &Context, place: usize) -> ol_platform_handle_t {
    Kind::Platform.handle(context.cycle, place as u32)
}

/// The platform of a handle.
///
/// # Errors
/// `InvalidPlatform`.
pub(crate) fn of_handle(context: &Context, handle: ol_platform_handle_t) -> Result<&OfPlatform> {
    let place = Kind::Platform.place(context.cycle, handle);
    let found = place.and_then(|place| context.platforms.get(place));
    found.ok_or_else(|| Kind::Platform.refused(handle))
}

fn answer(handle: ol_platform_handle_t, query: ol_platform_info_t) -> Result<Answer> {
    let context = current()?;
    let platform = of_handle(&context, handle)?;
    let entry: &DeviceEntry = &context.host.devices()[platform.first];
    let text = |query| entry.platform_info(query).map(Answer::Text);
    match query {
        OL_PLATFORM_INFO_NAME => text(PlatformInfo::Name),
        OL_PLATFORM_INFO_VENDOR_NAME => text(PlatformInfo::VendorName),
        OL_PLATFORM_INFO_VERSION => text(PlatformInfo::Version),
        OL_PLATFORM_INFO_BACKEND => Ok(Answer::U32(platform.backend().0)),
        _ => Err(info::unknown("platform", query.0)),
    }
}

info::queries!(ol_platform_handle_t, ol_platform_info_t);

pub(crate) unsafe fn register_callback(
    platform: ol_platform_handle_t,
    callback: ol_platform_rpc_cb_t,
) -> Result<()> {
    let context = current()?;
    of_handle(&context, platform)?;
    if callback.is_none() {
        return Err(Error::new(ErrorCode::InvalidNullPointer, "no callback"));
    }
    log::warn!(
        "olPlatformRegisterRPCCallback: what devices ask of the host is not served, the callback is not called"
    );
    Ok(())
}
