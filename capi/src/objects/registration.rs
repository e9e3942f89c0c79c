//! Memory of the program that is registered for a device.

use longshore::{Error, ErrorCode, Result};
use std::collections::BTreeMap;

/// The registrations of a device, by their first addresses.
pub(crate) type Registered = BTreeMap<usize, Registration>;

/// A range of the program's memory that is locked for a device.
pub(crate) struct Registration {
    pub(crate) bytes: usize,
    /// Address on the device.
    pub(crate) address: usize,
    /// Number of calls that registered the range, or a part of it, and are not undone.
    pub(crate) users: usize,
}

/// Returns the registration around a range, and its first address.
///
/// # Errors
/// `InvalidArgument` if only a part of the range is in a registration.
pub(crate) fn around(
    registered: &mut Registered,
    start: usize,
    bytes: usize,
) -> Result<Option<(usize, &mut Registration)>> {
    let last = start.saturating_add(bytes.saturating_sub(1));
    let Some((base, found)) = registered.range_mut(..=last).next_back() else { return Ok(None) };
    let end = base + found.bytes;
    if end <= start {
        return Ok(None);
    }
    if *base <= start && last < end {
        return Ok(Some((*base, found)));
    }
    let message = format!(
        "{bytes} bytes at {start:#x} lie only partly in the {} registered bytes at {base:#x}",
        found.bytes
    );
    Err(Error::new(ErrorCode::InvalidArgument, message))
}

/// Returns the program's address of registered memory. The caller may also pass the device's
/// address.
///
/// # Errors
/// Errors of [`around`].
pub(crate) fn on_host(registered: &mut Registered, address: usize) -> Result<usize> {
    if around(registered, address, 1)?.is_some() {
        return Ok(address);
    }
    let on_device =
        registered.iter().find_map(|(base, Registration { bytes, address: device, .. })| {
            let offset = address.checked_sub(*device).filter(|offset| offset < bytes)?;
            Some(base + offset)
        });
    Ok(on_device.unwrap_or(address))
}
