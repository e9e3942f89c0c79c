//! Attachment: pointers on the device are set to the device addresses of their pointees.

use super::Failure;
use super::begin::Beginning;
use super::table::Shadow;
use crate::abi::{MapArgument, MapType};
use crate::debug::debug;
use crate::info;
use crate::settings::{info as kinds, settings, wants};
use crate::stream::Stream;

/// A pointer to attach once all arguments of the construct are mapped.
pub(crate) struct AttachEntry {
    /// Address of the pointer.
    pointer: u64,
    /// First mapped address of the pointee.
    pointee: u64,
    /// Size of the pointer, or of the Fortran descriptor that begins with it.
    bytes: u64,
    /// Whether the pointer is attached even if nothing is new.
    always: bool,
}

impl AttachEntry {
    /// Creates the entry of an argument with `ATTACH`.
    pub(crate) fn new(argument: &MapArgument) -> AttachEntry {
        AttachEntry {
            pointer: argument.base,
            pointee: argument.begin,
            bytes: (argument.size as u64).max(8),
            always: argument.kind.has(MapType::ALWAYS),
        }
    }
}

/// Attaches the pointers that the arguments of a construct named. A pointer is attached if the
/// construct has mapped it or its pointee newly, and if both are present.
///
/// # Errors
/// Errors of the device.
///
/// # Safety
/// The pointers are readable.
pub(crate) unsafe fn process(beginning: &mut Beginning<'_>) -> Result<(), Failure> {
    let entries = std::mem::take(&mut beginning.attach);
    let always = !entries.is_empty() && settings().attach_always;
    if always {
        debug!(
            "Treating ATTACH(auto) as ATTACH(always) because \
             LIBOMPTARGET_TREAT_ATTACH_AUTO_AS_ALWAYS is true"
        );
    }
    for entry in entries {
        let is_new = beginning.has_mapped(entry.pointee) || beginning.has_mapped(entry.pointer);
        if !always && !entry.always && !is_new {
            continue;
        }
        let device = beginning.stream.device;
        let table = &device.table;
        if wants(kinds::MAPPING_EXISTS) {
            info::looked_up(device, entry.pointee, 0, true);
        }
        let Some(pointee) = contained(table.lookup(entry.pointee, 0), entry.pointee) else {
            continue;
        };
        if wants(kinds::MAPPING_EXISTS) {
            info::looked_up(device, entry.pointer, entry.bytes, true);
        }
        let lookup = table.lookup(entry.pointer, entry.bytes);
        let Some(pointer) = contained(lookup, entry.pointer) else { continue };
        let number = lookup.range.expect("a contained range was found").entry as u32;
        // SAFETY: promised by the caller.
        let base = unsafe { (entry.pointer as *const u64).read_unaligned() };
        let value = pointee.wrapping_sub(entry.pointee.wrapping_sub(base));
        // SAFETY: the pointer is mapped.
        unsafe {
            attach(beginning.stream, number, entry.pointer, pointer, value, entry.bytes)?;
        }
    }
    Ok(())
}

/// Returns the device address of a range that is mapped in whole to device memory.
fn contained(lookup: super::table::Lookup, begin: u64) -> Option<u64> {
    let range = lookup.range.filter(|_| lookup.is_contained)?;
    let target = range.target.wrapping_add(begin.wrapping_sub(range.begin));
    (target != begin).then_some(target)
}

/// Sets a pointer on the device to `value`, with the rest of a Fortran descriptor behind it.
///
/// # Errors
/// Errors of the device.
///
/// # Safety
/// `entry` is the mapped range of the pointer; `host` and `target` are the pointer's addresses,
/// with `bytes` bytes each.
pub(crate) unsafe fn attach(
    stream: &mut Stream,
    entry: u32,
    host: u64,
    target: u64,
    value: u64,
    bytes: u64,
) -> Result<(), Failure> {
    // SAFETY: promised by the caller.
    let host_contents: Box<[u8]> =
        unsafe { std::slice::from_raw_parts(host as *const u8, bytes as usize) }.into();
    let mut target_contents = host_contents.clone();
    target_contents[..8].copy_from_slice(&value.to_ne_bytes());
    let shadow = Shadow { host, target, host_contents, target_contents };
    stream.device.table.note_attached();
    let mut locked = stream.device.table.lock();
    let shadows = &mut locked.get_mut(entry).shadows;
    match shadows.get(&host) {
        Some(known) if known.target_contents == shadow.target_contents => return Ok(()),
        _ => shadows.insert(host, shadow.clone()),
    };
    if wants(kinds::COPIES) {
        let (device, name) = (stream.device.number, locked.get(entry).name);
        let host = shadow.target_contents.as_ptr() as u64;
        info::attached(device, (host, target), value, bytes, name);
    }
    drop(locked);
    // SAFETY: promised by the caller.
    unsafe { stream.submit_value(target, &shadow.target_contents).map_err(Failure::from) }
}
