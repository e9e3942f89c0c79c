//! Queries about devices.

use crate::device::OmpDevice;
use crate::place::{INVALID_DEVICE, Place};
use crate::{message, runtime, settings};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char};

/// Returns the number of devices. The first call blocks while plugins load. LLVM:
/// `omp_get_num_devices`.
#[unsafe(no_mangle)]
pub extern "C" fn omp_get_num_devices() -> i32 {
    runtime::devices().len() as i32
}

/// Returns the number of devices: the name by which libomp looks first.
#[unsafe(no_mangle)]
pub extern "C" fn __tgt_get_num_devices() -> i32 {
    omp_get_num_devices()
}

/// Returns the number of the host, which is the number of devices. LLVM:
/// `omp_get_initial_device`.
#[unsafe(no_mangle)]
pub extern "C" fn omp_get_initial_device() -> i32 {
    omp_get_num_devices()
}

/// Returns the number of the calling device; on the host, the number of the host. LLVM:
/// `omp_get_device_num`.
#[unsafe(no_mangle)]
pub extern "C" fn omp_get_device_num() -> i32 {
    omp_get_initial_device()
}

/// Sets the kinds of information that are printed, as `LIBOMPTARGET_INFO` does. LLVM:
/// `__tgt_set_info_flag`.
#[unsafe(no_mangle)]
pub extern "C" fn __tgt_set_info_flag(level: u32) {
    settings::set_info(level);
}

/// The identifier of the host. LLVM: `getHostDeviceUid`.
const HOST_UID: &CStr = c"HOST";
/// The access group of the threads of a team. LLVM: `omp_access_cgroup`.
const ACCESS_OF_TEAM: i32 = 0;

/// Returns the unique identifier of the host or a device; null for another number. The text stays
/// valid. LLVM: `omp_get_uid_from_device`.
#[unsafe(no_mangle)]
pub extern "C" fn omp_get_uid_from_device(device: i32) -> *const c_char {
    match Place::find(device) {
        Some(Place::Host) => HOST_UID.as_ptr(),
        Some(Place::Device(device)) => uid(device).map_or(std::ptr::null(), CStr::as_ptr),
        None => std::ptr::null(),
    }
}

/// Returns the number of the host or a device with a unique identifier; `omp_invalid_device`, -2,
/// without one. LLVM: `omp_get_device_from_uid`.
///
/// # Safety
/// `text` is null or ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_get_device_from_uid(text: *const c_char) -> i32 {
    if text.is_null() {
        return INVALID_DEVICE;
    }
    // SAFETY: promised by the caller.
    let text = unsafe { CStr::from_ptr(text) };
    if text == HOST_UID {
        return omp_get_initial_device();
    }
    let devices = runtime::devices();
    let found = devices.iter().find(|device| uid(device).is_some_and(|known| *known == *text));
    found.map_or(INVALID_DEVICE, |device| device.number as i32)
}

/// Returns a device's unique identifier, which lives as long as the process.
fn uid(device: &OmpDevice) -> Option<&'static CStr> {
    static KNOWN: Mutex<BTreeMap<usize, &'static CStr>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock();
    if let Some(text) = known.get(&device.number) {
        return Some(text);
    }
    let text = CString::new(device.device.uid().ok()?).ok()?;
    let text: &'static CStr = Box::leak(text.into_boxed_c_str());
    known.insert(device.number, text);
    Some(text)
}

/// Returns the size in bytes of the largest group memory that a team of a device can have; 0 for
/// the host, and for devices without group memory. LLVM: `omp_get_gprivate_limit`.
#[unsafe(no_mangle)]
pub extern "C" fn omp_get_gprivate_limit(device: i32, access_group: i32) -> usize {
    let Place::Device(device) = Place::get(device) else { return 0 };
    // Kernels of the CPU have no group memory of OpenMP's kind.
    if access_group != ACCESS_OF_TEAM || device.is_reachable {
        return 0;
    }
    device.device.work_group_local_memory_bytes().unwrap_or(0) as usize
}

/// Prints the properties of a device to the standard output. Returns 1; 0 for a number of no
/// device. LLVM: `__tgt_print_device_info`.
#[unsafe(no_mangle)]
pub extern "C" fn __tgt_print_device_info(device: i64) -> i32 {
    let place = i32::try_from(device).ok().and_then(Place::find);
    let Some(Place::Device(device)) = place else { return 0 };
    let facts = &device.device;
    let text = |value: longshore::Result<String>| value.unwrap_or_else(|_| "unknown".to_owned());
    let number = |value: Option<u64>| value.map_or("unknown".to_owned(), |n| n.to_string());
    let rows = [
        ("Device Number", device.number.to_string()),
        ("Backend", facts.backend().to_owned()),
        ("Device Name", text(facts.device_name())),
        ("Unique ID", text(facts.uid())),
        ("Vendor Name", text(facts.vendor())),
        ("Driver Version", text(facts.driver_version())),
        ("Architecture", text(facts.architecture())),
        ("Compute Units", number(facts.compute_units().ok().map(u64::from))),
        ("Global Memory Size (bytes)", number(facts.global_memory_bytes().ok())),
        ("Max Work Group Size", number(facts.max_work_group_size().ok().map(u64::from))),
        ("Group Memory Size (bytes)", number(facts.work_group_local_memory_bytes().ok())),
    ];
    for (name, value) in rows {
        message::to_output(format_args!("    {name:<27} {value}"));
    }
    1
}

/// The pause of device resources in all places. LLVM: `KMP_DEVICE_ALL`.
const ALL_DEVICES: i32 = -11;

/// Returns memory that a device, or each device, keeps for later use to its driver. Mapped data
/// stays. libomp calls it for `omp_pause_resource`. Returns 0; 1 for a number of no device.
#[unsafe(no_mangle)]
pub extern "C" fn tgt_pause_resource(_kind: i32, device: i32) -> i32 {
    let trim = |device: &OmpDevice| {
        device.device.trim().unwrap_or_else(|error| log::warn!("{error}"));
    };
    match Place::find(device) {
        _ if device == ALL_DEVICES => runtime::devices().iter().for_each(|device| trim(device)),
        Some(Place::Device(device)) => trim(device),
        Some(Place::Host) => {}
        None => return 1,
    }
    0
}
