//! Locations of memory.

/// A location of memory in the drivers' format.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Location {
    /// 1 for a device.
    pub kind: u32,
    /// Number of the device.
    pub id: i32,
}

/// The kind of location that is a device.
pub const LOCATION_DEVICE: u32 = 1;
