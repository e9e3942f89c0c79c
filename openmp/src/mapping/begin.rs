//! The beginning of mappings: `target enter data`, and the first half of `target` and `target
//! data`. LLVM: `targetDataBegin`.

use super::attach::{self, AttachEntry};
use super::parts::{RangeCopy, in_turn};
use super::span::Span;
use super::spans::Spans;
use super::table::{self, COPIED_LOCKED, Entry, Locked, Lookup};
use super::{Failure, mapper};
use crate::abi::{MapArgument, MapArguments, MapType};
use crate::debug::debug;
use crate::device::OmpDevice;
use crate::gpu::Pin;
use crate::info;
use crate::message;
use crate::ompt;
use crate::profile;
use crate::runtime;
use crate::settings::{info as kinds, wants};
use crate::stream::Stream;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::ffi::c_char;

/// Greatest alignment that members of partially mapped structures get, in bytes.
const MAX_ALIGNMENT: u64 = 16;

/// The failure of a value's mapper, in LLVM's words.
const MAPPER_FAILED: &str =
    "Call to targetDataBegin via targetDataMapper for custom mapper failed.";

/// A construct that maps data. LLVM: `StateInfoTy`.
pub(crate) struct Beginning<'a> {
    pub(crate) stream: &'a mut Stream,
    /// Pointers to attach after all arguments are mapped.
    pub(crate) attach: SmallVec<[AttachEntry; 2]>,
    /// Ranges that the construct has mapped newly, and whether their contents need no copy.
    new: Spans<bool>,
}

impl<'a> Beginning<'a> {
    /// Creates a construct that has mapped nothing.
    pub(crate) fn new(stream: &'a mut Stream) -> Beginning<'a> {
        Beginning { stream, attach: SmallVec::new(), new: Spans::default() }
    }

    /// Returns whether an address is in a range that the construct has mapped newly.
    pub(crate) fn has_mapped(&self, address: u64) -> bool {
        self.new.contains(Span { begin: address, bytes: 1 })
    }
}

/// A request to map one range.
#[derive(Clone, Copy)]
struct Request {
    begin: u64,
    base: u64,
    /// Bytes in front of the range, so that members keep their alignment.
    padding: u64,
    bytes: u64,
    name: *const c_char,
    kind: MapType,
    /// Whether the range's count is incremented.
    counts: bool,
    /// Whether contents are copied to a new range.
    copies: bool,
}

/// A range that was mapped.
#[derive(Clone, Copy, Default)]
struct Mapped {
    /// Device address; 0 for a range of no bytes that is not present.
    target: u64,
    is_present: bool,
    /// Whether `target` is an address of the host.
    is_host: bool,
    is_contained: bool,
    entry: Option<u32>,
}

/// Maps all arguments.
///
/// # Errors
/// Ranges that overlap mapped ranges partially, absent ranges with `present`, errors of the device.
///
/// # Safety
/// The arguments describe memory of the program.
pub(crate) unsafe fn begin(
    beginning: &mut Beginning<'_>,
    arguments: &MapArguments,
) -> Result<(), Failure> {
    for index in 0..arguments.count {
        // SAFETY: promised by the caller.
        let (argument, next) = unsafe { (arguments.get(index), arguments.kind(index + 1)) };
        let kind = argument.kind;
        if kind.has(MapType::LITERAL | MapType::PRIVATE) {
            continue;
        }
        let _profile = profile::step("HostToDev", || format!("Size={}B", argument.size));
        if let Some(function) = argument.mapper {
            // SAFETY: promised by the caller.
            let components = unsafe { mapper::components(function, &argument) };
            // SAFETY: as above; the mapper described memory of the program.
            unsafe { begin(beginning, &components.arguments()) }
                .map_err(|failure| failure.explain(&[MAPPER_FAILED]))?;
            continue;
        }
        if kind.has(MapType::ATTACH) {
            beginning.attach.push(AttachEntry::new(&argument));
            continue;
        }
        let is_parent = kind.parent().is_none() && next.parent() == Some(index);
        let padding = if is_parent { padding(argument.base, argument.begin) } else { 0 };
        // SAFETY: promised by the caller.
        let returned = unsafe { begin_one(beginning, &argument, padding)? };
        if let Some(base) = returned {
            // SAFETY: the program reads the device's address from this array.
            unsafe { *arguments.bases.add(index) = base as *mut _ };
        }
    }
    Ok(())
}

/// Maps one argument. Returns the device's base address, if the program wants to know it.
unsafe fn begin_one(
    beginning: &mut Beginning<'_>,
    argument: &MapArgument,
    padding: u64,
) -> Result<Option<u64>, Failure> {
    let mut kind = argument.kind;
    let mut base = argument.base;
    let mut counts = !kind.has(MapType::MEMBER_OF);
    let mut pointer = None;
    if kind.has(MapType::PTR_AND_OBJ) {
        let request = Request {
            begin: base,
            base,
            padding: 0,
            bytes: 8,
            name: std::ptr::null(),
            kind,
            counts,
            copies: false,
        };
        // SAFETY: the base is the address of a pointer of the program.
        let mapped =
            unsafe { map(beginning, &request) }.map_err(|failure| unmapped(failure, kind))?;
        if mapped.target == 0 {
            return Err(unmapped(Failure::Reported, kind));
        }
        if kind.has(MapType::CLOSE) && leads_to_shared_variable(beginning.stream.device, &mapped) {
            kind = kind.without(MapType::CLOSE);
        }
        pointer = Some((base, mapped));
        // SAFETY: as above.
        base = unsafe { (base as *const u64).read_unaligned() };
        counts = true;
    }
    let bytes = argument.size as u64;
    let copies = kind.has(MapType::TO);
    let (begin, name) = (argument.begin, argument.name);
    let request = Request { begin, base, padding, bytes, name, kind, counts, copies };
    // SAFETY: promised by the caller.
    let mapped = unsafe { map(beginning, &request) }.map_err(|failure| unmapped(failure, kind))?;
    if mapped.target == 0 && (bytes != 0 || kind.has(MapType::PRESENT)) {
        return Err(unmapped(Failure::Reported, kind));
    }
    if kind.has(MapType::PRESENT) && !kind.has(MapType::MEMBER_OF) && beginning.has_mapped(begin) {
        info::present_missing("map type", begin, bytes);
        return Err(Failure::Reported.explain(&[&format!(
            "Pointer {begin:#018x} was not present on the device upon entry to the region."
        )]));
    }
    if let Some((host, pointer)) = pointer.filter(|(_, pointer)| !pointer.is_host)
        && pointer.entry.is_some()
        && !mapped.is_host
    {
        let pointee = mapped.target.wrapping_sub(begin.wrapping_sub(base));
        // SAFETY: both are addresses of the pointer, which is mapped.
        unsafe { attach::attach(beginning.stream, host, pointer.target, pointee, 8)? };
    }
    let is_absent = !mapped.is_present && !mapped.is_contained && !mapped.is_host;
    if is_absent
        && wants(kinds::EMPTY_MAPPING)
        && kind.0 != 0
        && !kind.has(MapType::MEMBER_OF | MapType::IMPLICIT)
    {
        info::empty_mapping(beginning.stream.device.number, name);
    }
    Ok(kind.has(MapType::RETURN_PARAM).then(|| match mapped.target {
        0 if kind.has(MapType::FALLBACK_NULL) => 0,
        // An absent pointer keeps its value.
        0 => base,
        target => target.wrapping_sub(begin.wrapping_sub(base)),
    }))
}

/// Returns whether a pointer is the device's reference to a variable of the program in shared
/// memory. The reference outlives all mappings, so memory of a mapping must not replace the
/// variable.
fn leads_to_shared_variable(device: &OmpDevice, pointer: &Mapped) -> bool {
    let is_variable = |number| device.table.lock().get(number).is_variable();
    runtime::uses_host_memory(device) && pointer.entry.is_some_and(is_variable)
}

/// Prints that a range could not be mapped, in LLVM's words.
#[cold]
fn unmapped(failure: Failure, kind: MapType) -> Failure {
    failure.explain(&[match kind.has(MapType::PRESENT) {
        true => "Call to getTargetPointer returned null pointer ('present' map type modifier).",
        false => {
            "Call to getTargetPointer returned null pointer (device failure or illegal mapping)."
        }
    }])
}

/// Maps one range: finds it, or allocates device memory for it, and copies its contents.
///
/// # Safety
/// The range is memory of the program.
unsafe fn map(beginning: &mut Beginning<'_>, request: &Request) -> Result<Mapped, Failure> {
    let device = beginning.stream.device;
    // The contents of a range that another thread is copying are not there yet.
    let (locked, found) = device.table.lock_settled(request.begin, request.bytes);
    let is_implicit = request.kind.has(MapType::IMPLICIT);
    let extends = found.extends_before || found.extends_after;
    if found.is_contained || (extends && is_implicit) {
        // SAFETY: the caller's promise.
        return unsafe { map_present(beginning, request, locked, found) };
    }
    let has_present = request.kind.has(MapType::PRESENT);
    if extends {
        let range = found.range.expect("a range that extends was found");
        message::message(format_args!(
            "explicit extension not allowed: host address specified is {:#018x} ({} bytes), but \
             device allocation maps to host at {:#018x} ({} bytes)",
            request.begin,
            request.bytes,
            range.begin,
            range.end - range.begin
        ));
        if has_present {
            info::present_missing("map type", request.begin, request.bytes);
        }
        return Err(Failure::Reported);
    }
    if runtime::uses_host_memory(device) && !request.kind.has(MapType::CLOSE) {
        drop(locked);
        return Ok(map_shared(request, device.number));
    }
    if has_present {
        info::present_missing("map type", request.begin, request.bytes);
        return Err(Failure::Reported);
    }
    if request.bytes == 0 {
        return Ok(Mapped::default());
    }
    // SAFETY: the caller's promise.
    unsafe { map_new(beginning, request, locked) }
}

/// Maps a range that is mapped already.
unsafe fn map_present(
    beginning: &mut Beginning<'_>,
    request: &Request,
    mut locked: Locked<'_>,
    found: Lookup,
) -> Result<Mapped, Failure> {
    let range = found.range.expect("a present range was found");
    let number = range.entry as u32;
    let hold = request.kind.has(MapType::HOLD);
    let entry = locked.get_mut(number);
    if request.counts {
        entry.increment(hold);
    }
    // A range without a count of its own may be part of a new parent.
    let is_new = !request.counts && entry.total() == 1 && beginning.has_mapped(request.begin);
    let target = range.target.wrapping_add(request.begin.wrapping_sub(range.begin));
    if wants(kinds::MAPPING_EXISTS) {
        let action = if request.counts { " (incremented)" } else { " (update suppressed)" };
        let implicit = if request.kind.has(MapType::IMPLICIT) { " (implicit)" } else { "" };
        info::mapping_exists(
            beginning.stream.device.number,
            &info::Existing {
                implicit,
                begin: request.begin,
                target,
                bytes: request.bytes,
                counts: (entry.dynamic, entry.hold),
                actions: if hold { ("", action) } else { (action, "") },
                name: Some(request.name),
            },
        );
    }
    let is_host = entry.is_host_memory();
    let mapped = Mapped {
        target,
        is_present: true,
        is_host,
        is_contained: found.is_contained,
        entry: Some(number),
    };
    if beginning.has_mapped(request.begin) {
        debug!("HstPtrBegin {:#018x} was newly allocated for the current region", request.begin);
    }
    let first = Span { begin: request.begin, bytes: 1 };
    let lacks_contents = beginning.new.contains_with(first, |is_copied| !is_copied);
    let span = Span { begin: request.begin, bytes: request.bytes };
    let always = request.kind.has(MapType::ALWAYS);
    // The contents of a range with attached pointers were copied before.
    let is_complete = !lacks_contents && entry.has_pointer_in(span);
    let copies = request.copies
        && !is_host
        && request.bytes != 0
        && (always || ((is_new || lacks_contents) && !is_complete));
    if is_new && !is_host {
        // As in LLVM's library, pointers to the new parent are attached.
        beginning.new.insert(span, true);
    }
    if !copies {
        let event = entry.copied.clone();
        drop(locked);
        if let Some(event) = event {
            beginning.stream.queue()?.wait_for(&event)?;
        }
        return Ok(mapped);
    }
    // SAFETY: the caller's promise.
    unsafe { copy(beginning, request, locked, number, target)? };
    Ok(mapped)
}

/// Maps a range without device memory: the device uses the host's memory.
fn map_shared(request: &Request, device: usize) -> Mapped {
    if request.bytes != 0 && wants(kinds::MAPPING_CHANGED) {
        info::shared_mapping(device, request.begin, request.bytes);
    }
    Mapped { target: request.begin, is_host: true, ..Mapped::default() }
}

/// Maps a range that is not mapped yet.
unsafe fn map_new(
    beginning: &mut Beginning<'_>,
    request: &Request,
    mut locked: Locked<'_>,
) -> Result<Mapped, Failure> {
    let pin = match &beginning.stream.device.gpu {
        // SAFETY: the program keeps mapped memory until the end of the mapping.
        Some(gpu) => unsafe {
            let device = &beginning.stream.device.device;
            Pin::new(device, gpu.pins, request.begin, request.bytes)?
        },
        None => None,
    };
    let bytes = request.padding + request.bytes;
    let mut scope = ompt::allocation(beginning.stream.device.number, request.begin, bytes);
    let memory = locked.pool.allocate(bytes)?;
    let allocation = memory.address();
    scope.allocated(allocation);
    drop(scope);
    let target = allocation + request.padding;
    let hold = request.kind.has(MapType::HOLD);
    let entry = Entry {
        base: request.base,
        begin: request.begin,
        end: request.begin + request.bytes,
        target,
        memory: Some(memory),
        name: request.name,
        dynamic: u64::from(!hold),
        hold: u64::from(hold),
        ending: 0,
        copying: 0,
        copied: None,
        shadows: BTreeMap::new(),
        pin,
    };
    if wants(kinds::MAPPING_CHANGED) {
        info::new_mapping(beginning.stream.device.number, &entry, allocation);
    }
    let number = table::insert(&mut locked, entry);
    let span = Span { begin: request.begin, bytes: request.bytes };
    beginning.new.insert(span, request.copies);
    if request.copies {
        // SAFETY: the caller's promise.
        unsafe { copy(beginning, request, locked, number, target)? };
    }
    Ok(Mapped {
        target,
        is_present: true,
        is_host: false,
        is_contained: false,
        entry: Some(number),
    })
}

/// Copies the contents of a range to the device. Other threads that map the range wait for a copy
/// that runs without the lock.
unsafe fn copy(
    beginning: &mut Beginning<'_>,
    request: &Request,
    mut locked: Locked<'_>,
    number: u32,
    target: u64,
) -> Result<(), Failure> {
    let device = beginning.stream.device;
    let (begin, bytes) = (request.begin, request.bytes);
    if wants(kinds::COPIES) {
        info::moved_to_device(device.number, begin, target, bytes, locked.get(number).name);
    }
    let entry = locked.get_mut(number);
    let copy = RangeCopy::new(entry, Span { begin, bytes }, target);
    if device.is_reachable && bytes <= COPIED_LOCKED {
        // SAFETY: the range is memory of the program, and the device's memory is at least as long.
        return unsafe { copy.submit(beginning.stream) };
    }
    let earlier = entry.begin_copy();
    drop(locked);
    // SAFETY: as above; the entry stays while its contents are being copied.
    let copy = |stream: &mut Stream| unsafe { copy.submit(stream) };
    in_turn(beginning.stream, number, earlier, copy).1
}

/// Returns the bytes in front of a partially mapped structure that keep its members aligned.
fn padding(base: u64, begin: u64) -> u64 {
    let alignment = (base & base.wrapping_neg()).clamp(1, MAX_ALIGNMENT);
    begin % alignment
}
