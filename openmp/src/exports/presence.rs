//! Queries of the mapping table, and associations that the program itself makes.

use crate::abi::SourceLocation;
use crate::device::OmpDevice;
use crate::mapping::table::{self, Entry, INFINITE};
use crate::place::Place;
use crate::settings::{info as kinds, wants};
use crate::{dump, info, message, ompt, profile, runtime};
use longshore::MemoryKind;
use std::ffi::c_void;

/// The result of a routine that succeeded.
const SUCCESS: i32 = 0;
/// The result of a routine that failed.
const FAILURE: i32 = -1;

/// Returns the device address of mapped host memory, for a query of the program.
fn mapped(device: &OmpDevice, address: *const c_void) -> Option<u64> {
    if wants(kinds::MAPPING_EXISTS) {
        info::looked_up(device, address as u64, 1, true);
    }
    let found = device.table.lookup(address as u64, 1);
    let range = found.range.filter(|_| found.is_contained)?;
    Some(range.target.wrapping_add((address as u64).wrapping_sub(range.begin)))
}

/// Returns 1 if a byte of the host is mapped on a device, else 0; 1 for the number of the host.
/// LLVM: `omp_target_is_present`.
#[unsafe(no_mangle)]
pub extern "C" fn omp_target_is_present(address: *const c_void, device: i32) -> i32 {
    let _profile = profile::routine("int omp_target_is_present(const void *, int)", || None);
    if address.is_null() {
        return 0;
    }
    match Place::get(device) {
        Place::Host => 1,
        Place::Device(device) => i32::from(mapped(device, address).is_some()),
    }
}

/// Returns 1 if kernels of a device read and write a range at its own address, else 0; 1 for the
/// number of the host. LLVM: `omp_target_is_accessible`.
#[unsafe(no_mangle)]
pub extern "C" fn omp_target_is_accessible(
    address: *const c_void,
    bytes: usize,
    device: i32,
) -> i32 {
    if address.is_null() {
        return 0;
    }
    match Place::get(device) {
        Place::Host => 1,
        Place::Device(device) if device.shares_memory => 1,
        Place::Device(device) => {
            let (begin, bytes) = (address as u64, bytes.max(1) as u64);
            let own = device.allocations.kind_of(begin, bytes).is_some();
            let is_shared = |other: &&OmpDevice| {
                other.allocations.kind_of(begin, bytes) == Some(MemoryKind::Managed)
            };
            i32::from(own || runtime::devices().iter().any(is_shared))
        }
    }
}

/// Returns the device address of mapped host memory; null if it is not mapped, and for a number of
/// neither the host nor a device. LLVM: `omp_get_mapped_ptr`.
#[unsafe(no_mangle)]
pub extern "C" fn omp_get_mapped_ptr(address: *const c_void, device: i32) -> *mut c_void {
    let _profile = profile::routine("void *omp_get_mapped_ptr(const void *, int)", || None);
    if address.is_null() {
        message::error(format_args!("Call to omp_get_mapped_ptr with nullptr."));
        return std::ptr::null_mut();
    }
    if Place::find(device).is_none() {
        return std::ptr::null_mut();
    }
    match Place::get(device) {
        Place::Host => address.cast_mut(),
        Place::Device(device) => mapped(device, address).unwrap_or(0) as *mut c_void,
    }
}

/// Maps host memory to device memory that the program has allocated, until
/// `omp_target_disassociate_ptr`. Returns 0; -1 if the host memory is mapped to other memory. LLVM:
/// `omp_target_associate_ptr`.
#[unsafe(no_mangle)]
pub extern "C" fn omp_target_associate_ptr(
    host: *const c_void,
    target: *const c_void,
    bytes: usize,
    target_offset: usize,
    device: i32,
) -> i32 {
    let _profile = profile::routine(
        "int omp_target_associate_ptr(const void *, const void *, size_t, size_t, int)",
        || None,
    );
    let end = (host as u64).checked_add(bytes as u64);
    let Some(end) = end.filter(|_| !host.is_null() && !target.is_null() && bytes > 0) else {
        message::error(format_args!("Call to omp_target_associate_ptr with invalid arguments"));
        return FAILURE;
    };
    let Place::Device(device) = Place::get(device) else {
        message::error(format_args!(
            "omp_target_associate_ptr: no association possible on the host"
        ));
        return FAILURE;
    };
    let target = (target as u64).wrapping_add(target_offset as u64);
    let _scope = ompt::association(device.number, host as u64, target, bytes as u64);
    match associate(device, (host as u64, end), target) {
        Ok(()) => SUCCESS,
        Err(reason) => {
            message::error(format_args!("{reason}"));
            FAILURE
        }
    }
}

fn associate(device: &OmpDevice, (begin, end): (u64, u64), target: u64) -> Result<(), String> {
    let mut locked = device.table.lock();
    let found = table::lookup(&locked, begin, end - begin);
    let Some(known) = found.range.filter(|_| found.overlaps()) else {
        table::insert(&mut locked, Entry::associated((begin, end), target));
        return Ok(());
    };
    drop(locked);
    match known.begin == begin {
        true if known.end == end && known.target == target => Ok(()),
        true => Err("Not allowed to re-associate a different device ptr+offset with the same \
                     host ptr"
            .to_owned()),
        false => Err(format!(
            "omp_target_associate_ptr: [{begin:#x}, {end:#x}) overlaps the mapped range \
             [{:#x}, {:#x})",
            known.begin, known.end
        )),
    }
}

/// Ends an association. Returns 0; -1 if the program has not associated the address. LLVM:
/// `omp_target_disassociate_ptr`.
#[unsafe(no_mangle)]
pub extern "C" fn omp_target_disassociate_ptr(host: *const c_void, device: i32) -> i32 {
    let _profile = profile::routine("int omp_target_disassociate_ptr(const void *, int)", || None);
    if host.is_null() {
        message::error(format_args!("Call to omp_target_disassociate_ptr with invalid host_ptr"));
        return FAILURE;
    }
    let Place::Device(device) = Place::get(device) else {
        message::error(format_args!(
            "omp_target_disassociate_ptr: no association possible on the host"
        ));
        return FAILURE;
    };
    let _scope = ompt::disassociation(device.number, host as u64);
    match disassociate(device, host as u64) {
        Ok(()) => SUCCESS,
        Err(reason) => {
            message::error(format_args!("{reason}"));
            FAILURE
        }
    }
}

fn disassociate(device: &OmpDevice, begin: u64) -> Result<(), &'static str> {
    let (mut locked, found) = device.table.lock_settled(begin, 1);
    let Some(range) = found.range.filter(|range| range.begin == begin) else {
        return Err("Association not found");
    };
    let number = range.entry as u32;
    let entry = locked.get(number);
    if entry.hold != 0 {
        return Err("Trying to disassociate a pointer with a non-zero hold reference count");
    }
    if entry.dynamic != INFINITE {
        return Err(
            "Trying to disassociate a pointer which was not mapped via omp_target_associate_ptr",
        );
    }
    table::remove(&mut locked, number);
    Ok(())
}

/// Prints the mapping tables of all devices to the standard output. LLVM:
/// `ompx_dump_mapping_tables`.
#[unsafe(no_mangle)]
pub extern "C" fn ompx_dump_mapping_tables() {
    let place = SourceLocation::for_library();
    for device in runtime::devices().iter() {
        for line in dump::lines(device, &place) {
            message::info_to_output(device.number, format_args!("{line}"));
        }
    }
}
