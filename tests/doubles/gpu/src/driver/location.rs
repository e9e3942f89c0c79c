//! Locations of memory.

/// Where memory is, as drivers are told.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Location {
    /// 1 for a device.
    pub kind: u32,
    /// Which one.
    pub id: i32,
}

/// The kind of location that is a device.
pub const LOCATION_DEVICE: u32 = 1;
