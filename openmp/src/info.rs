//! The texts of `LIBOMPTARGET_INFO`. Tools and tests match them literally, so they are LLVM's.

use crate::abi::{Ident, MapArguments, MapType, SourceLocation};
use crate::debug::debug;
use crate::device::OmpDevice;
use crate::kernel::RegionKernel;
use crate::mapping::table::{self, Entry, Locked};
use crate::message;
use crate::settings::{self, info as kinds};
use std::ffi::{CStr, c_char};
use std::fmt::Arguments;

mod translation;

pub(crate) use translation::translated;

/// A look-up of a mapped range.
pub(crate) struct Existing {
    pub(crate) implicit: &'static str,
    pub(crate) begin: u64,
    pub(crate) target: u64,
    pub(crate) bytes: u64,
    /// Dynamic and hold count.
    pub(crate) counts: (u64, u64),
    /// Changes of both counts.
    pub(crate) actions: (&'static str, &'static str),
    /// Name of the variable, which only beginnings print.
    pub(crate) name: Option<*const c_char>,
}

/// Returns the name of a mapped variable: the text between the first two semicolons.
pub(crate) fn name_of(name: *const c_char) -> String {
    if name.is_null() {
        return "unknown".to_owned();
    }
    // SAFETY: names are C strings of the program.
    let text = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    let inner = text.split_once(';').map_or(&*text, |(_, rest)| rest);
    inner.split_once(';').map_or(inner, |(name, _)| name).to_owned()
}

/// Prints a look-up that found a range.
#[cold]
pub(crate) fn mapping_exists(device: usize, found: &Existing) {
    let (dynamic, hold) = found.counts;
    let name = found.name.map_or(String::new(), |name| format!(", Name={}", name_of(name)));
    message::info(
        device,
        format_args!(
            "Mapping exists{} with HstPtrBegin={:#018x}, TgtPtrBegin={:#018x}, Size={}, \
             DynRefCount={}{}, HoldRefCount={}{}{name}",
            found.implicit,
            found.begin,
            found.target,
            found.bytes as i64,
            Entry::count_text(dynamic),
            found.actions.0,
            Entry::count_text(hold),
            found.actions.1,
        ),
    );
}

/// Prints a new mapped range.
#[cold]
pub(crate) fn new_mapping(device: usize, entry: &Entry, allocation: u64) {
    message::info(
        device,
        format_args!(
            "Creating new map entry with HstPtrBase={:#018x}, HstPtrBegin={:#018x}, \
             TgtAllocBegin={allocation:#018x}, TgtPtrBegin={:#018x}, Size={}, DynRefCount={}, \
             HoldRefCount={}, Name={}",
            entry.base,
            entry.begin,
            entry.target,
            entry.end - entry.begin,
            Entry::count_text(entry.dynamic),
            Entry::count_text(entry.hold),
            name_of(entry.name),
        ),
    );
}

/// Prints a mapped range that was removed.
#[cold]
pub(crate) fn removed_mapping(device: usize, entry: &Entry, bytes: u64) {
    message::info(
        device,
        format_args!(
            "Removing map entry with HstPtrBegin={:#018x}, TgtPtrBegin={:#018x}, Size={}, Name={}",
            entry.begin,
            entry.target,
            bytes as i64,
            name_of(entry.name),
        ),
    );
}

/// Prints a look-up that changes no count, if it finds a mapped byte; with `whole`, if all bytes
/// are mapped.
#[cold]
pub(crate) fn looked_up(device: &OmpDevice, begin: u64, bytes: u64, whole: bool) {
    let locked = device.table.lock();
    let found = table::lookup(&locked, begin, bytes);
    let Some(range) =
        found.range.filter(|_| if whole { found.is_contained } else { found.overlaps() })
    else {
        return;
    };
    let entry = locked.get(range.entry as u32);
    mapping_exists(
        device.number,
        &Existing {
            implicit: "",
            begin,
            target: range.target.wrapping_add(begin.wrapping_sub(range.begin)),
            bytes,
            counts: (entry.dynamic, entry.hold),
            actions: (" (update suppressed)", ""),
            name: None,
        },
    );
}

/// Returns the name for a copy of memory that is not mapped. LLVM's library names the mapped
/// variable above it, else the one below it.
fn nearest_name(locked: &Locked<'_>, begin: u64, bytes: u64) -> *const c_char {
    let (floor, above) = locked.around(begin);
    let overlapping = floor.filter(|range| begin < range.end && bytes != 0);
    let range = overlapping.or(above).or(floor);
    range.map_or(std::ptr::null(), |range| locked.get(range.entry as u32).name)
}

/// Prints a copy to the device that belongs to no mapping.
#[cold]
pub(crate) fn unmapped_to_device(device: &OmpDevice, host: u64, target: u64, bytes: u64) {
    let name = nearest_name(&device.table.lock(), host, bytes);
    copied_to_device(device.number, host, target, bytes, name);
}

/// Prints a copy to the host that belongs to no mapping.
#[cold]
pub(crate) fn unmapped_to_host(device: &OmpDevice, host: u64, target: u64, bytes: u64) {
    let name = nearest_name(&device.table.lock(), host, bytes);
    copied_to_host(device.number, host, target, bytes, name);
}

/// Prints the use of host memory in place of device memory.
#[cold]
pub(crate) fn shared_mapping(device: usize, begin: u64, bytes: u64) {
    message::info(
        device,
        format_args!("Return HstPtrBegin {begin:#018x} Size={bytes} for unified shared memory"),
    );
}

/// Prints a copy of mapped data to the device, and its debug line.
#[cold]
pub(crate) fn moved_to_device(
    device: usize,
    host: u64,
    target: u64,
    bytes: u64,
    name: *const c_char,
) {
    debug!("Moving {bytes} bytes (hst:{host:#018x}) -> (tgt:{target:#018x})");
    copied_to_device(device, host, target, bytes, name);
}

/// Prints a copy of mapped data to the host, and its debug line.
#[cold]
pub(crate) fn moved_to_host(
    device: usize,
    host: u64,
    target: u64,
    bytes: u64,
    name: *const c_char,
) {
    debug!("Moving {bytes} bytes (tgt:{target:#018x}) -> (hst:{host:#018x})");
    copied_to_host(device, host, target, bytes, name);
}

/// Prints the attachment of a pointer at `target` to the device address `pointee`, and the copy of
/// the address from `host`.
#[cold]
pub(crate) fn attached(
    device: usize,
    (host, target): (u64, u64),
    pointee: u64,
    bytes: u64,
    name: *const c_char,
) {
    debug!("Update pointer ({target:#018x}) -> [{pointee:#018x}]");
    copied_to_device(device, host, target, bytes, name);
}

/// Prints a copy to the device, if copies are wanted.
#[cold]
pub(crate) fn copied_to_device(
    device: usize,
    host: u64,
    target: u64,
    bytes: u64,
    name: *const c_char,
) {
    let places = format_args!("host to device, HstPtr={host:#018x}, TgtPtr={target:#018x}");
    copied(device, places, bytes, name);
}

/// Prints a copy to the host, if copies are wanted.
#[cold]
pub(crate) fn copied_to_host(
    device: usize,
    host: u64,
    target: u64,
    bytes: u64,
    name: *const c_char,
) {
    let places = format_args!("device to host, TgtPtr={target:#018x}, HstPtr={host:#018x}");
    copied(device, places, bytes, name);
}

fn copied(device: usize, places: Arguments, bytes: u64, name: *const c_char) {
    if settings::wants(kinds::TRANSFERS) {
        let name = name_of(name);
        let copy = format_args!("Copying data from {places}, Size={bytes}, Name={name}");
        message::info(device, copy);
    }
}

/// Prints that a mapped variable has no device counterpart.
#[cold]
pub(crate) fn empty_mapping(device: usize, name: *const c_char) {
    message::info(
        device,
        format_args!("variable {} does not have a valid device counterpart", name_of(name)),
    );
}

/// Prints that a range with `present` is not mapped; `modifier` is "map type" or "motion".
#[cold]
pub(crate) fn present_missing(modifier: &str, begin: u64, bytes: u64) {
    message::message(format_args!(
        "device mapping required by 'present' {modifier} modifier does not exist for host address \
         {begin:#018x} ({} bytes)",
        bytes as i64
    ));
}

/// Prints the launch of a region's kernel.
///
/// A region compiled by clang 20 or a later version gets the text of LLVM 22, another one that of
/// LLVM 19.
#[cold]
pub(crate) fn launch(
    device: usize,
    kernel: &RegionKernel,
    teams: [u32; 3],
    threads: [u32; 3],
    mode: &str,
) {
    let list = |sizes: [u32; 3]| match kernel.is_recent {
        true => format!("[{},{},{}]", sizes[0], sizes[1], sizes[2]),
        false => sizes[0].to_string(),
    };
    message::plugin_info(
        device,
        format_args!(
            "Launching kernel {} with {} blocks and {} threads in {mode} mode",
            kernel.name,
            list(teams),
            list(threads)
        ),
    );
}

/// Prints the resources of a launched kernel, as its code object describes them, with the number of
/// arguments and the trip count of the launch.
#[cold]
pub(crate) fn amdgpu_launch(
    device: usize,
    kernel: &longshore_format_amdgpu::Kernel,
    teams: [u32; 3],
    threads: [u32; 3],
    (argument_count, trip_count): (usize, u64),
) {
    let total = |sizes: [u32; 3]| sizes.iter().fold(1u32, |total, size| total.wrapping_mul(*size));
    let count = |count: Option<u32>| count.unwrap_or(0);
    message::plugin_info(
        device,
        format_args!(
            "#Args: {argument_count} Teams x Thrds: {:4}x{:4} (MaxFlatWorkGroupSize: {}) LDS \
             Usage: {}B #SGPRs/VGPRs: {}/{} #SGPR/VGPR Spills: {}/{} Tripcount: {trip_count}",
            total(teams),
            total(threads),
            count(kernel.max_group_items),
            kernel.static_shared_bytes,
            count(kernel.scalar_registers),
            count(kernel.registers),
            count(kernel.spilled_scalar_registers),
            count(kernel.spilled_registers),
        ),
    );
}

/// Prints the launch of a region's kernel on the CPU. LLVM 19 prints the requested sizes, LLVM 22
/// one team of one thread.
#[cold]
pub(crate) fn host_launch(device: usize, kernel: &RegionKernel, teams: i32, threads: i32) {
    let size = |requested: i32| match kernel.is_recent {
        true => [1; 3],
        false => [requested.max(1) as u32; 3],
    };
    launch(device, kernel, size(teams), size(threads), "Generic");
}

/// Prints the copy of a launch environment to the device.
#[cold]
pub(crate) fn launch_environment(device: usize, host: u64, target: u64, bytes: usize) {
    message::plugin_info(
        device,
        format_args!(
            "Copying data from host to device, HstPtr={host:#018x}, TgtPtr={target:#018x}, \
             Size={bytes}, Name=KernelLaunchEnv"
        ),
    );
}

/// Prints the arguments of a construct, and their debug lines.
///
/// # Safety
/// The arguments and the location are the program's.
#[cold]
pub(crate) unsafe fn arguments(
    device: i64,
    title: &str,
    location: *const Ident,
    arguments: &MapArguments,
) {
    debug!("{title} on device {device}");
    if settings::wants(kinds::ARGUMENTS) {
        // SAFETY: promised by the caller.
        unsafe { listed_arguments(device, title, location, arguments) };
    }
    for index in (0..arguments.count).filter(|_| settings::debugs()) {
        // SAFETY: promised by the caller.
        let argument = unsafe { arguments.get(index) };
        debug!(
            "Entry {index:2}: Base={:#018x}, Begin={:#018x}, Size={}, Type={:#x}, Name={}",
            argument.base,
            argument.begin,
            argument.size,
            argument.kind.0,
            name_of(argument.name)
        );
    }
}

unsafe fn listed_arguments(
    device: i64,
    title: &str,
    location: *const Ident,
    arguments: &MapArguments,
) {
    // SAFETY: the caller's promise.
    let place = unsafe { SourceLocation::for_construct(location) };
    message::info(
        device,
        format_args!(
            "{title} at {}:{}:{} with {} arguments:",
            place.file, place.line, place.column, arguments.count
        ),
    );
    for index in 0..arguments.count {
        // SAFETY: promised by the caller.
        let argument = unsafe { arguments.get(index) };
        let kind = argument.kind;
        let has_both = kind.has_all(MapType::TO | MapType::FROM);
        let text = match kind {
            _ if has_both => "tofrom",
            _ if kind.has(MapType::TO) => "to",
            _ if kind.has(MapType::FROM) => "from",
            _ if kind.has(MapType::PRIVATE) => "private",
            _ if kind.has(MapType::LITERAL) => "firstprivate",
            _ if kind.has(MapType::ATTACH) => "attach",
            _ if argument.size != 0 => "alloc",
            _ => "use_address",
        };
        let implicit = if kind.has(MapType::IMPLICIT) { "(implicit)" } else { "" };
        let (name, size) = (name_of(argument.name), argument.size);
        message::info(device, format_args!("{text}({name})[{size}] {implicit}"));
    }
}
