//! Devices.

use crate::context::{Context, current};
use crate::enumerations::*;
use crate::handle::Kind;
use crate::info::{self, Answer};
use crate::memory::Registered;
use crate::platform::{self, OfPlatform};
use crate::structures::*;
use crate::unanswered;
use longshore::{
    AllocationOwner, Device, DeviceInfo, DevicePointer, Error, ErrorCode, InfoValue, MemoryKind,
    Result,
};
use parking_lot::Mutex;
use std::ffi::c_void;
use std::sync::OnceLock;

/// A device, which is opened when it is first used.
pub(crate) struct OfDevice {
    /// Its place among the host's devices.
    place: usize,
    platform: usize,
    shares_memory: bool,
    open: OnceLock<Device>,
    opening: Mutex<()>,
    /// Memory of the program that was registered for it.
    pub(crate) registered: Mutex<Registered>,
}

impl OfDevice {
    /// A device that is not open yet. `shares_memory` is said of those whose kernels run in this process.
    pub(crate) fn new(place: usize, platform: usize, shares_memory: bool) -> OfDevice {
        OfDevice {
            place,
            platform,
            shares_memory,
            open: OnceLock::new(),
            opening: Mutex::new(()),
            registered: Mutex::default(),
        }
    }

    /// The open device. Blocks while it is opened.
    ///
    /// # Errors
    /// Those of opening it.
    #[inline]
    pub(crate) fn get(&self, context: &Context) -> Result<&Device> {
        match self.open.get() {
            Some(device) => Ok(device),
            None => self.open(context),
        }
    }

    #[cold]
    fn open(&self, context: &Context) -> Result<&Device> {
        let _opening = self.opening.lock();
        if self.open.get().is_none() {
            let _ = self.open.set(context.host.devices()[self.place].open()?);
        }
        Ok(self.open.get().expect("it was just set"))
    }

    pub(crate) fn platform<'a>(&self, context: &'a Context) -> &'a OfPlatform {
        &context.platforms[self.platform]
    }

    /// Whether it is the CPU, in this process or in another: callers name it for memory of the program.
    #[inline]
    pub(crate) fn is_host(&self, context: &Context) -> bool {
        self.platform(context).is_host()
    }

    /// Whether all of its memory is the program's, and all of the program's memory its own.
    #[inline]
    pub(crate) fn shares_memory(&self) -> bool {
        self.shares_memory
    }

    /// Whether an address that is given with this device is memory of the program. Of the CPU in another process the
    /// table of allocations tells.
    #[inline]
    pub(crate) fn is_of_program(&self, context: &Context, address: *const c_void) -> bool {
        self.shares_memory || self.is_host(context) && !is_on_device(context, address)
    }

    /// Closes it, if it was opened. Blocks. At the end of the process its driver may have ended before, and the device
    /// with it.
    ///
    /// # Errors
    /// Those of [`Device::close`].
    pub(crate) fn close(&self) -> Result<()> {
        let Some(device) = self.open.get() else { return Ok(()) };
        match device.clone().close() {
            Err(error) if error.code() == ErrorCode::Uninitialized => {
                log::debug!("{error}");
                Ok(())
            }
            closed => closed.map(drop),
        }
    }
}

/// The device of a handle.
///
/// # Errors
/// `InvalidDevice`.
#[inline]
pub(crate) fn of_handle(context: &Context, handle: ol_device_handle_t) -> Result<&OfDevice> {
    let place = Kind::Device.place(context.cycle, handle);
    let found = place.and_then(|place| context.devices.get(place));
    found.ok_or_else(|| Kind::Device.refused(handle))
}

/// The handles of a platform's devices.
///
/// # Errors
/// `InvalidPlatform`.
pub(crate) fn of_platform(
    context: &Context,
    platform: ol_platform_handle_t,
) -> Result<Vec<ol_device_handle_t>> {
    platform::of_handle(context, platform)?;
    let devices = context.devices.iter().enumerate();
    let its = devices.filter(|(_, device)| platform::handle(context, device.platform) == platform);
    Ok(its.map(|(place, _)| Kind::Device.handle(context.cycle, place as u32)).collect())
}

/// The handle of an open device.
///
/// # Errors
/// `NotFound` if it is not one of this context.
pub(crate) fn handle_of(context: &Context, id: u64) -> Result<ol_device_handle_t> {
    let is_it = |device: &OfDevice| device.open.get().is_some_and(|open| open.id() == id);
    let place = context.devices.iter().position(is_it);
    let place = place.ok_or_else(|| Error::new(ErrorCode::NotFound, "it is of no device here"))?;
    Ok(Kind::Device.handle(context.cycle, place as u32))
}

pub(crate) unsafe fn iterate(callback: ol_device_iterate_cb_t, data: *mut c_void) -> Result<()> {
    let Some(callback) = callback else {
        return Err(Error::new(ErrorCode::InvalidNullPointer, "no callback"));
    };
    let context = current()?;
    for place in 0..context.devices.len() {
        // SAFETY: promised by the caller.
        if !unsafe { callback(Kind::Device.handle(context.cycle, place as u32), data) } {
            break;
        }
    }
    Ok(())
}

/// Whether an address is in an allocation or a variable that the program itself cannot reach.
fn is_on_device(context: &Context, address: *const c_void) -> bool {
    let found = context.host.allocation_at(DevicePointer(address as u64));
    found.is_ok_and(|found| match found.owner {
        AllocationOwner::Allocation { kind, .. } => kind == MemoryKind::Device,
        _ => true,
    })
}

fn answer(handle: ol_device_handle_t, query: ol_device_info_t) -> Result<Answer> {
    let context = current()?;
    let device = of_handle(&context, handle)?;
    if query == OL_DEVICE_INFO_PLATFORM {
        return Ok(Answer::of_handle(platform::handle(&context, device.platform)));
    }
    if query == OL_DEVICE_INFO_TYPE {
        let kind = if device.is_host(&context) { OL_DEVICE_TYPE_HOST } else { OL_DEVICE_TYPE_GPU };
        return Ok(Answer::U32(kind.0));
    }
    // They count up from 0.
    let known =
        ol_device_info_t::ALL.get(query.0 as usize).is_some_and(|(_, known)| *known == query);
    let asked = DeviceInfo::from_raw(query.0).ok().filter(|_| known);
    let asked = asked.ok_or_else(|| info::unknown("device", query.0))?;
    let entry = &context.host.devices()[device.place];
    let answered = match entry.info(asked) {
        Err(error) if unanswered::is_none(&error) => {
            return unanswered::answer(entry, asked).ok_or(error);
        }
        answered => answered?,
    };
    Ok(match answered {
        InfoValue::Text(text) => Answer::Text(text),
        InfoValue::Bool(yes) => Answer::Bool(yes),
        InfoValue::U32(number) => Answer::U32(number),
        InfoValue::U64(number) => Answer::U64(number),
        InfoValue::Dimensions(xyz) => Answer::Dimensions(xyz),
        InfoValue::Uuid(_) => return Err(info::unknown("device", query.0)),
    })
}

info::queries!(ol_device_handle_t, ol_device_info_t);
