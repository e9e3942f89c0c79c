//! Allocation of memory on devices.

use crate::place::Place;
use crate::{message, ompt, profile, runtime};
use longshore::MemoryKind;
use std::ffi::c_void;

/// Allocates memory. Returns null for 0 bytes and if there is not enough memory.
fn allocate(bytes: usize, device: i32, kind: MemoryKind) -> *mut c_void {
    if bytes == 0 {
        return std::ptr::null_mut();
    }
    match Place::get(device) {
        // SAFETY: `malloc` has no requirements.
        Place::Host => unsafe { libc::malloc(bytes) },
        Place::Device(device) => {
            let mut scope = ompt::allocation(device.number, 0, bytes as u64);
            match device.allocations.allocate(&device.device, kind, bytes as u64) {
                Ok(address) => {
                    scope.allocated(address);
                    address as *mut c_void
                }
                Err(error) => {
                    log::warn!("allocating {bytes} bytes on device {}: {error}", device.number);
                    std::ptr::null_mut()
                }
            }
        }
    }
}

/// Frees memory. Memory that is not allocated on the device is an error message.
unsafe fn free(address: *mut c_void, device: i32, routine: &str) {
    if address.is_null() {
        return;
    }
    match Place::get(device) {
        // SAFETY: the callers' promise.
        Place::Host => unsafe { libc::free(address) },
        Place::Device(device) => {
            let _scope = ompt::deletion(device.number, address as u64);
            if !device.allocations.free(address as u64) {
                refuse(address as u64, device.number, routine);
            }
        }
    }
}

#[cold]
fn refuse(address: u64, device: usize, routine: &str) {
    let devices = runtime::devices();
    let owner = devices.iter().find(|device| device.allocations.kind_of(address, 1).is_some());
    let fact = match owner {
        Some(owner) if owner.number == device => "is inside an allocation".to_owned(),
        Some(owner) => format!("belongs to device {}", owner.number),
        None => "is not allocated".to_owned(),
    };
    message::error(format_args!(
        "{routine} for device {device}: the address {address:#x} {fact}; expected the first \
         address of memory that omp_target_alloc returned for this device"
    ));
}

macro_rules! allocation {
    ($( $(#[$doc:meta])* $allocate:ident: $kind:ident; )*) => { $(
        $(#[$doc])*
        ///
        /// Returns null for 0 bytes and if there is not enough memory. For the number of the host,
        /// allocates by `malloc`. May block.
        #[unsafe(no_mangle)]
        pub extern "C" fn $allocate(bytes: usize, device: i32) -> *mut c_void {
            let detail = || Some(format!("dst_dev={device};size={bytes}"));
            let _profile = profile::routine(stringify!($allocate), detail);
            allocate(bytes, device, MemoryKind::$kind)
        }
    )* };
}

allocation! {
    /// Allocates memory of a device. LLVM: `omp_target_alloc`.
    omp_target_alloc: Device;
    /// Allocates memory of a device. LLVM: `llvm_omp_target_alloc_device`.
    llvm_omp_target_alloc_device: Device;
    /// Allocates page-locked memory of the host that a device reaches. LLVM:
    /// `llvm_omp_target_alloc_host`.
    llvm_omp_target_alloc_host: Host;
    /// Allocates memory that migrates between host and device. LLVM:
    /// `llvm_omp_target_alloc_shared`.
    llvm_omp_target_alloc_shared: Managed;
}

macro_rules! release {
    ($( $(#[$doc:meta])* $free:ident; )*) => { $(
        $(#[$doc])*
        ///
        /// Prints an error for an address that the device has not allocated. Work that was queued
        /// before may still use the memory.
        ///
        /// # Safety
        /// For the number of the host, `malloc` has allocated the memory.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $free(address: *mut c_void, device: i32) {
            let name = concat!("void ", stringify!($free), "(void *, int)");
            let _profile = profile::routine(name, || None);
            // SAFETY: promised by the caller.
            unsafe { free(address, device, stringify!($free)) }
        }
    )* };
}

release! {
    /// Frees memory of a device. LLVM: `omp_target_free`.
    omp_target_free;
    /// Frees memory of a device. LLVM: `llvm_omp_target_free_device`.
    llvm_omp_target_free_device;
    /// Frees page-locked memory. LLVM: `llvm_omp_target_free_host`.
    llvm_omp_target_free_host;
    /// Frees memory that migrates between host and device. LLVM: `llvm_omp_target_free_shared`.
    llvm_omp_target_free_shared;
}

/// Allocates memory that several devices reach. Returns null without devices. AMD's branch of LLVM:
/// `llvm_omp_target_alloc_multi_devices`.
///
/// # Safety
/// `devices` points at `count` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn llvm_omp_target_alloc_multi_devices(
    bytes: usize,
    count: i32,
    devices: *const i32,
) -> *mut c_void {
    if count < 1 || devices.is_null() {
        return std::ptr::null_mut();
    }
    // SAFETY: promised by the caller.
    allocate(bytes, unsafe { *devices }, MemoryKind::Managed)
}

/// Page-locks memory of the host. Returns the device's address of the memory; null for 0 bytes and
/// if the device cannot lock it. May block. LLVM: `llvm_omp_target_lock_mem`.
///
/// # Safety
/// The memory stays allocated until `llvm_omp_target_unlock_mem`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn llvm_omp_target_lock_mem(
    address: *mut c_void,
    bytes: usize,
    device: i32,
) -> *mut c_void {
    if bytes == 0 {
        return std::ptr::null_mut();
    }
    let Some(device) = Place::get(device).remote() else { return address };
    // SAFETY: promised by the caller.
    match unsafe { device.device.pin(address, bytes as u64) } {
        Ok(locked) => locked.address() as *mut c_void,
        Err(error) => {
            message::error(format_args!("llvm_omp_target_lock_mem: {error}"));
            std::ptr::null_mut()
        }
    }
}

/// Ends the page-lock of memory that `llvm_omp_target_lock_mem` has locked; `address` is the
/// host's. May block. LLVM: `llvm_omp_target_unlock_mem`.
///
/// # Safety
/// No work uses the memory through the device's address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn llvm_omp_target_unlock_mem(address: *mut c_void, device: i32) {
    let Some(device) = Place::get(device).remote() else { return };
    // SAFETY: promised by the caller.
    unsafe { device.device.unpin(address) }.unwrap_or_else(|error| {
        message::error(format_args!("llvm_omp_target_unlock_mem: {error}"));
    });
}

/// Returns the dynamic group memory of the calling team: null on the host. LLVM:
/// `llvm_omp_target_dynamic_shared_alloc`.
#[unsafe(no_mangle)]
pub extern "C" fn llvm_omp_target_dynamic_shared_alloc() -> *mut c_void {
    std::ptr::null_mut()
}

/// Returns the dynamic group memory of the calling team: null on the host. LLVM:
/// `llvm_omp_get_dynamic_shared`.
#[unsafe(no_mangle)]
pub extern "C" fn llvm_omp_get_dynamic_shared() -> *mut c_void {
    std::ptr::null_mut()
}
