//! The places that memory routines name by a number: the host and the devices.

use crate::device::OmpDevice;
use crate::mapping::Failure;
use crate::{construct, loading, message, runtime};

/// The number of the host in programs of OpenMP 5.2 and later. LLVM: `omp_initial_device`.
const INITIAL_DEVICE: i32 = -1;
/// The number that names no device. LLVM: `omp_invalid_device`.
pub(crate) const INVALID_DEVICE: i32 = -2;

/// The host or a device.
#[derive(Clone, Copy)]
pub(crate) enum Place {
    Host,
    Device(&'static OmpDevice),
}

impl Place {
    /// Returns the place with a number; `None` for a number of neither the host nor a device.
    pub(crate) fn find(number: i32) -> Option<Place> {
        let devices = runtime::devices();
        match usize::try_from(number) {
            Ok(number) if number == devices.len() => Some(Place::Host),
            Ok(number) => devices.get(number).map(|device| Place::Device(device)),
            Err(_) => (number == INITIAL_DEVICE).then_some(Place::Host),
        }
    }

    /// Returns the place with a number. A device is ready then: all images are loaded. Ends the
    /// program for a number of neither the host nor a device.
    pub(crate) fn get(number: i32) -> Place {
        let Some(place) = Place::find(number) else {
            construct::out_of_range(i64::from(number), runtime::devices().len())
        };
        if let Place::Device(device) = place {
            loading::make_ready(device).unwrap_or_else(|failure| not_ready(number, &failure));
        }
        place
    }

    /// Returns the device whose memory only its queues reach; `None` for the host, and for a device
    /// whose memory the host reaches.
    pub(crate) fn remote(self) -> Option<&'static OmpDevice> {
        match self {
            Place::Device(device) if !device.is_reachable => Some(device),
            _ => None,
        }
    }
}

#[cold]
fn not_ready(number: i32, failure: &Failure) {
    failure.report();
    let number = i64::from(number);
    message::fatal(number, format_args!("Failed to load images on device '{number}'"))
}
