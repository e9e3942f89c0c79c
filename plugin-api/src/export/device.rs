//! "longshore.device" and the optional tables about devices.

use super::{give, guard, known, lent, module::ModuleObject, take_back};
use crate::abi::{self, DeviceHandle, ErrorObject, KernelHandle};
use crate::backend::{Acceptance, Device, ImageBytes, ImageEntry, Plugin};
use crate::error::bounded;
use crate::raw::{read_bytes, read_text, write_sink};
use crate::request::{MemoryKind, Span};

pub(super) const fn table<P: Plugin>() -> &'static abi::DeviceTable {
    &abi::DeviceTable {
        accepts: accepts::<P>,
        allocate: allocate::<P>,
        free: free::<P>,
        load: load::<P>,
        create_queue: create_queue::<P>,
        create_event: create_event::<P>,
        close: close::<P>,
    }
}

pub(super) const fn pinning_table<P: Plugin>() -> &'static abi::PinningTable {
    &abi::PinningTable { pin: pin::<P>, unpin: unpin::<P> }
}

pub(super) const fn peer_table<P: Plugin>() -> &'static abi::PeerTable {
    &abi::PeerTable { can_access: can_access::<P>, enable: enable::<P> }
}

pub(super) const fn occupancy_table<P: Plugin>() -> &'static abi::OccupancyTable {
    &abi::OccupancyTable {
        optimal_group_items: optimal_group_items::<P>,
        max_cooperative_groups: max_cooperative_groups::<P>,
    }
}

pub(super) const fn selection_table<P: Plugin>() -> &'static abi::SelectionTable {
    &abi::SelectionTable { rank: rank::<P> }
}

pub(super) const fn extent_table<P: Plugin>() -> &'static abi::ExtentTable {
    &abi::ExtentTable { set_extent: set_extent::<P> }
}

pub(super) const fn adoption_table<P: Plugin>() -> &'static abi::AdoptionTable {
    &abi::AdoptionTable { adopt: adopt::<P> }
}

pub(super) const fn lazy_table<P: Plugin>() -> &'static abi::LazyTable {
    &abi::LazyTable { load: load_lazily::<P> }
}

/// The device behind a handle.
///
/// # Safety
/// `device` is a device of ours that is still open.
unsafe fn of<'a, P: Plugin>(device: *mut DeviceHandle) -> &'a P::Device {
    // SAFETY: promised by the caller.
    unsafe { lent(device) }
}

unsafe extern "C" fn accepts<P: Plugin>(
    device: *mut DeviceHandle,
    image: abi::Bytes,
    accepted: *mut u32,
    reason: abi::Sink,
) -> *mut ErrorObject {
    // SAFETY: an open device, a readable image, a place to write to, the sink of this call.
    guard::<P>("device.accepts", || unsafe {
        let answer = of::<P>(device).accepts(read_bytes(image))?;
        accepted.write(match answer {
            Acceptance::Refused(why) => {
                write_sink(reason, bounded(why).as_bytes());
                0
            }
            Acceptance::Accepted => 1,
            Acceptance::Verified => 2,
        });
        Ok(())
    })
}

unsafe extern "C" fn allocate<P: Plugin>(
    device: *mut DeviceHandle,
    kind: u32,
    bytes: u64,
    alignment: u64,
    address: *mut u64,
) -> *mut ErrorObject {
    // SAFETY: an open device and a place to write to.
    guard::<P>("device.allocate", || unsafe {
        let kind = known("memory kind", kind, MemoryKind::from_raw)?;
        address.write(of::<P>(device).allocate(kind, bytes, alignment)?);
        Ok(())
    })
}

unsafe extern "C" fn free<P: Plugin>(
    device: *mut DeviceHandle,
    kind: u32,
    address: u64,
) -> *mut ErrorObject {
    guard::<P>("device.free", || {
        let kind = known("memory kind", kind, MemoryKind::from_raw)?;
        // SAFETY: an open device.
        unsafe { of::<P>(device) }.free(kind, address)
    })
}

unsafe extern "C" fn load<P: Plugin>(
    device: *mut DeviceHandle,
    image: abi::Bytes,
    module: *mut *mut abi::ModuleHandle,
) -> *mut ErrorObject {
    // SAFETY: an open device, and image bytes that the host keeps until `unload`.
    guard::<P>("device.load", || unsafe {
        let loaded = of::<P>(device).load(ImageBytes::new(read_bytes(image)))?;
        give(ModuleObject::<P>::new(loaded), module);
        Ok(())
    })
}

unsafe extern "C" fn load_lazily<P: Plugin>(
    device: *mut DeviceHandle,
    image: abi::Bytes,
    module: *mut *mut abi::ModuleHandle,
) -> *mut ErrorObject {
    // SAFETY: as for `load`.
    guard::<P>("device.load_lazily", || unsafe {
        let loaded = of::<P>(device).load_lazily(ImageBytes::new(read_bytes(image)))?;
        give(ModuleObject::<P>::new(loaded), module);
        Ok(())
    })
}

unsafe extern "C" fn create_queue<P: Plugin>(
    device: *mut DeviceHandle,
    queue: *mut *mut abi::QueueHandle,
) -> *mut ErrorObject {
    guard::<P>("device.create_queue", || {
        // SAFETY: an open device.
        give(unsafe { of::<P>(device) }.create_queue()?, queue);
        Ok(())
    })
}

unsafe extern "C" fn create_event<P: Plugin>(
    device: *mut DeviceHandle,
    timing: u32,
    event: *mut *mut abi::EventHandle,
) -> *mut ErrorObject {
    guard::<P>("device.create_event", || {
        // SAFETY: an open device.
        give(unsafe { of::<P>(device) }.create_event(timing != 0)?, event);
        Ok(())
    })
}

unsafe extern "C" fn close<P: Plugin>(device: *mut DeviceHandle) -> *mut ErrorObject {
    // SAFETY: an open device, used no more.
    guard::<P>("device.close", || unsafe { take_back::<P::Device, _>(device) }.close())
}

unsafe extern "C" fn pin<P: Plugin>(
    device: *mut DeviceHandle,
    address: u64,
    bytes: u64,
    device_address: *mut u64,
) -> *mut ErrorObject {
    // SAFETY: an open device, a place to write to, and a range that the program vouches for.
    guard::<P>("device.pin", || unsafe {
        device_address.write(of::<P>(device).pin(Span::new(address, bytes))?);
        Ok(())
    })
}

unsafe extern "C" fn unpin<P: Plugin>(device: *mut DeviceHandle, address: u64) -> *mut ErrorObject {
    // SAFETY: an open device.
    guard::<P>("device.unpin", || unsafe { of::<P>(device) }.unpin(address))
}

unsafe extern "C" fn can_access<P: Plugin>(
    device: *mut DeviceHandle,
    peer: *mut DeviceHandle,
    access: *mut u32,
) -> *mut ErrorObject {
    // SAFETY: two open devices and a place to write to.
    guard::<P>("device.can_access", || unsafe {
        access.write(u32::from(of::<P>(device).can_access(of::<P>(peer))?));
        Ok(())
    })
}

unsafe extern "C" fn enable<P: Plugin>(
    device: *mut DeviceHandle,
    peer: *mut DeviceHandle,
) -> *mut ErrorObject {
    // SAFETY: two open devices.
    guard::<P>("device.enable_access", || unsafe { of::<P>(device).enable_access(of::<P>(peer)) })
}

unsafe extern "C" fn optimal_group_items<P: Plugin>(
    device: *mut DeviceHandle,
    kernel: *mut KernelHandle,
    dynamic_shared_bytes: u64,
    items: *mut u32,
) -> *mut ErrorObject {
    // SAFETY: an open device, a kernel of a loaded module, a place to write to.
    guard::<P>("device.optimal_group_items", || unsafe {
        let kernel = lent::<P::Kernel, _>(kernel);
        items.write(of::<P>(device).optimal_group_items(kernel, dynamic_shared_bytes)?);
        Ok(())
    })
}

unsafe extern "C" fn max_cooperative_groups<P: Plugin>(
    device: *mut DeviceHandle,
    kernel: *mut KernelHandle,
    items: *const [u32; 3],
    dynamic_shared_bytes: u64,
    groups: *mut u32,
) -> *mut ErrorObject {
    // SAFETY: an open device, a kernel of a loaded module, places to read from and write to.
    guard::<P>("device.max_cooperative_groups", || unsafe {
        let kernel = lent::<P::Kernel, _>(kernel);
        let device = of::<P>(device);
        groups.write(device.max_cooperative_groups(kernel, *items, dynamic_shared_bytes)?);
        Ok(())
    })
}

unsafe extern "C" fn rank<P: Plugin>(
    device: *mut DeviceHandle,
    image: abi::Bytes,
    triple: abi::Text,
    arch: abi::Text,
    rank: *mut u32,
) -> *mut ErrorObject {
    // SAFETY: an open device, a readable image, readable strings, a place to write to.
    guard::<P>("device.rank", || unsafe {
        let (triple, arch) = (read_text(triple), read_text(arch));
        let entry = ImageEntry { bytes: read_bytes(image), triple: &triple, arch: &arch };
        rank.write(of::<P>(device).rank(&entry)?);
        Ok(())
    })
}

unsafe extern "C" fn set_extent<P: Plugin>(
    device: *mut DeviceHandle,
    address: u64,
    bytes: u64,
) -> *mut ErrorObject {
    // SAFETY: an open device.
    guard::<P>("device.set_extent", || unsafe { of::<P>(device).set_extent(address, bytes) })
}

unsafe extern "C" fn adopt<P: Plugin>(
    device: *mut DeviceHandle,
    kind: u32,
    address: u64,
    bytes: u64,
) -> *mut ErrorObject {
    // SAFETY: an open device, and memory that the host vouches for.
    guard::<P>("device.adopt", || unsafe {
        let kind = known("memory kind", kind, MemoryKind::from_raw)?;
        of::<P>(device).adopt(kind, Span::new(address, bytes))
    })
}
