//! Attachment: pointers on the device are set to the device addresses of their pointees.

use super::Failure;
use super::begin::Beginning;
use super::parts::in_turn;
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
        // SAFETY: promised by the caller.
        let base = unsafe { (entry.pointer as *const u64).read_unaligned() };
        let value = pointee.wrapping_sub(entry.pointee.wrapping_sub(base));
        // SAFETY: the pointer is mapped.
        unsafe {
            attach(beginning.stream, entry.pointer, pointer, value, entry.bytes)?;
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
/// `host` and `target` are the addresses of the pointer, which is mapped, with `bytes` bytes each.
pub(crate) unsafe fn attach(
    stream: &mut Stream,
    host: u64,
    target: u64,
    value: u64,
    bytes: u64,
) -> Result<(), Failure> {
    // SAFETY: promised by the caller.
    let mut target_contents: Box<[u8]> =
        unsafe { std::slice::from_raw_parts(host as *const u8, bytes as usize) }.into();
    target_contents[..8].copy_from_slice(&value.to_ne_bytes());
    let shadow = Shadow { host, target, target_contents };
    let device = stream.device;
    device.table.note_attached();
    let (mut locked, found) = device.table.lock_settled(host, bytes);
    let Some(range) = found.range.filter(|_| found.is_contained) else {
        // Another thread has removed the range of the pointer.
        return Ok(());
    };
    let entry = range.entry as u32;
    let known = &mut locked.get_mut(entry).shadows;
    if known.get(&host).is_some_and(|known| known.target_contents == shadow.target_contents) {
        // Another thread may have queued the pointer.
        let event = locked.get(entry).copied.clone();
        drop(locked);
        return match event {
            Some(event) => Ok(stream.queue()?.wait_for(&event)?),
            None => Ok(()),
        };
    }
    known.insert(host, shadow.clone());
    if wants(kinds::COPIES) {
        let name = locked.get(entry).name;
        let host = shadow.target_contents.as_ptr() as u64;
        info::attached(device.number, (host, target), value, bytes, name);
    }
    // SAFETY: promised by the caller.
    let write = |stream: &mut Stream| unsafe {
        stream.submit_value(target, &shadow.target_contents).map_err(Failure::from)
    };
    if device.is_reachable {
        // Other threads find the pointer on the device once the table is unlocked.
        return write(stream);
    }
    let earlier = locked.get_mut(entry).begin_copy();
    drop(locked);
    in_turn(stream, entry, earlier, write).1
}
