//! The functions that checked code calls. Their types must match `jit/checks` and
//! `longshore_device.h`.

use super::access::{bits_of, kind};
use super::heap;
use super::images;
use super::lookup::{Shown, harmless};
use super::races::Touch;
use super::ranges;
use super::region::{Kind, MoreCells, Record};
use super::report::{What, at, place_in};
use super::session::Session;
use super::site::Site;
use super::state::State;
use crate::kernel::abi::Work;
use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char};

/// Returns the address of a function, by its name without the prefix.
pub(crate) fn address_of(name: &str) -> Option<u64> {
    let address = match name {
        "read1" => usual::<1, false> as *const (),
        "read2" => usual::<2, false> as *const (),
        "read4" => usual::<4, false> as *const (),
        "read8" => usual::<8, false> as *const (),
        "write1" => usual::<1, true> as *const (),
        "write2" => usual::<2, true> as *const (),
        "write4" => usual::<4, true> as *const (),
        "write8" => usual::<8, true> as *const (),
        "access" => access as *const (),
        "bounds" => bounds as *const (),
        "private" => private as *const (),
        "begin_private" => begin_private as *const (),
        "end_private" => end_private as *const (),
        "copy" => copy as *const (),
        "fill" => fill as *const (),
        "mark" => mark as *const (),
        "fence" => fence as *const (),
        "wait" => wait as *const (),
        "shared" => shared as *const (),
        "malloc" => heap::allocate as *const (),
        "free" => heap::release as *const (),
        "begin_item" => begin_item as *const (),
        "state" => state as *const (),
        "begin_items" => begin_items as *const (),
        "end_items" => end_items as *const (),
        "group_barrier" => group_barrier as *const (),
        "ranges" => ranges::check as *const (),
        "rows" => ranges::check_rows as *const (),
        "register" => images::register as *const (),
        "unregister" => images::unregister as *const (),
        _ => return None,
    };
    Some(address as u64)
}

/// Checks an access of `BYTES` bytes with at least this alignment, and returns the address to use.
unsafe extern "C" fn usual<const BYTES: u64, const WRITES: bool>(
    address: u64,
    site: *mut Site,
) -> u64 {
    // SAFETY: no other reference is in use while checked code runs.
    let Some(session) = (unsafe { Session::running() }) else { return address };
    // SAFETY: the site is a variable of the image, which only checked code uses.
    let site = unsafe { &mut *site };
    let kind = if WRITES { kind::WRITE } else { 0 };
    if site.version != session.checker.version() {
        return session.access(address, BYTES, kind, site);
    }
    // SAFETY: the session holds the regions that sites of its version know.
    let region = unsafe { &*site.region };
    let offset = address.wrapping_sub(region.start);
    let is_inside = offset < region.bytes && region.bytes - offset >= BYTES;
    if !is_inside || !site.is_aligned(address) || region.is_fine.get() {
        return session.access(address, BYTES, kind, site);
    }
    let bits = ((1 << BYTES) - 1) as u8;
    let bits = if BYTES == 8 { 0xff } else { bits << (offset % 8) };
    if region.is_tracked {
        let written = region.written_bits(offset);
        // SAFETY: the offset is inside the region, and aligned like the address, as regions are
        // aligned to eight bytes.
        unsafe {
            if WRITES {
                *written |= bits;
            } else if *written & bits != bits {
                return session.access(address, BYTES, kind, site);
            }
        }
    }
    if session.kinds.races {
        let cells = region.cells();
        if !cells.is_null() {
            let touch = Touch {
                offset,
                bytes: BYTES,
                writes: WRITES,
                is_atomic: false,
                place: site.number,
            };
            let (segment, first) = (session.segment(), session.first.max(region.face.first.get()));
            let bytes = if BYTES >= 4 { 15 } else { ((1 << BYTES) - 1) << (offset % 4) };
            let new = Record::new(segment, bytes, false, site.number);
            for word in 0..BYTES.div_ceil(4) {
                // SAFETY: the region has a cell for each of its words.
                let cell = unsafe { &mut *cells.add((offset / 4 + word) as usize) };
                let is_past = |old: Record| {
                    let old_segment = old.segment();
                    (old_segment < first
                        || old_segment == segment
                        || session.group.is_before_barrier(old_segment))
                        && (BYTES >= 4 || old.bytes() == bytes || old_segment < first)
                };
                let more = || {
                    // SAFETY: as above.
                    unsafe { *region.more().add((offset / 4 + word) as usize) }
                };
                if !is_past(cell.write) {
                    session.touch(region, touch);
                    break;
                }
                if WRITES {
                    let is_free = is_past(cell.read)
                        && (!cell.read.has_more()
                            || is_past(more().other_read) && is_past(more().older_write));
                    if !is_free {
                        session.touch(region, touch);
                        break;
                    }
                    cell.write = new;
                    if cell.read.has_more() {
                        cell.read = cell.read.with_more(false);
                        // SAFETY: as above.
                        unsafe {
                            *region.more().add((offset / 4 + word) as usize) = MoreCells::NONE
                        };
                    }
                } else if is_past(cell.read) {
                    cell.read = new.with_more(cell.read.has_more());
                } else if session.is_read_by_older_group(cell.read, first)
                    || is_read_by_two(session, more().other_read)
                {
                    // The records race with any write that this read races with.
                } else if session.keeps_two_reads() && is_past(more().other_read) {
                    // SAFETY: as above.
                    let more = unsafe { &mut *region.more().add((offset / 4 + word) as usize) };
                    more.other_read = new;
                    cell.read = cell.read.with_more(true);
                } else {
                    session.touch(region, touch);
                    break;
                }
            }
        }
    }
    address
}

/// Returns whether a second read is by an item of the current group since the last barrier.
#[inline]
fn is_read_by_two(session: &Session, other: Record) -> bool {
    let group = &session.group;
    group.epoch_first != 0
        && other.segment() >= group.epoch_first
        && !group.has_exchanges
        && other.bytes() == 15
        && !other.is_atomic()
}

unsafe extern "C" fn access(address: u64, bytes: u64, kind: u32, site: *mut Site) -> u64 {
    // SAFETY: as in `usual`.
    unsafe {
        match Session::running() {
            Some(session) => session.access(address, bytes, kind, &mut *site),
            None => address,
        }
    }
}

/// Checks that an access by the name of a variable stays inside it.
unsafe extern "C" fn bounds(
    start: u64,
    size: u64,
    address: u64,
    bytes: u64,
    kind: u32,
    site: *mut Site,
) -> u64 {
    let offset = address.wrapping_sub(start);
    if offset < size && size - offset >= bytes {
        return address;
    }
    // SAFETY: as in `usual`.
    let Some(session) = (unsafe { Session::running() }).filter(|session| session.kinds.memory)
    else {
        return address;
    };
    // SAFETY: as in `usual`.
    let place = unsafe { (*site).number() };
    session.report(What::OutOfBounds, [place, 0], |session| {
        let verb = if kind & kind::WRITE != 0 { "writes" } else { "reads" };
        let place_of = match images::variable_at(start) {
            Some(region) => place_in(&region, address, bytes),
            None => format!("outside of a variable of {size} bytes"),
        };
        format!("{} {verb} {bytes} bytes, {place_of}; {}", session.who(), at(place))
    });
    harmless()
}

/// Checks an access of a variable on the item's stack.
unsafe extern "C" fn private(
    start: u64,
    size: u64,
    address: u64,
    bytes: u64,
    kind: u32,
    site: *mut Site,
) -> u64 {
    // SAFETY: as in `usual`.
    let Some(session) = (unsafe { Session::running() }) else { return address };
    let offset = address.wrapping_sub(start);
    let is_inside = offset < size && size - offset >= bytes;
    let writes = kind & kind::WRITE != 0;
    // SAFETY: as in `usual`.
    let is_aligned = unsafe { (*site).is_aligned(address) };
    if is_inside && is_aligned && offset % 8 + bytes <= 8 && kind >> kind::PARTS_SHIFT == 0 {
        let bits = (((1_u16 << bytes) - 1) << (offset % 8)) as u8;
        // SAFETY: the pass has put the bits behind the variable.
        unsafe {
            let written = bits_of(start, size).add((offset / 8) as usize);
            if writes {
                *written |= bits;
                return address;
            }
            if *written & bits == bits {
                return address;
            }
        }
    }
    // SAFETY: as in `usual`.
    let place = unsafe { (*site).number() };
    let shown = Shown { address, bytes, writes, place };
    if !is_aligned && session.kinds.memory {
        // SAFETY: as in `usual`.
        session.report_misaligned(unsafe { &*site }, shown);
    }
    if is_inside {
        session.access_private(start, size, shown, kind);
        return address;
    }
    if !session.kinds.memory {
        return address;
    }
    session.report(What::OutOfBounds, [place, 0], |session| {
        let verb = if writes { "writes" } else { "reads" };
        let place_of = match address < start {
            true => format!("{} bytes before", start - address),
            false => format!("{} bytes past the end of", offset.saturating_sub(size)),
        };
        format!(
            "{} {verb} {bytes} bytes, {place_of} a private variable of {size} bytes; {}",
            session.who(),
            at(place)
        )
    });
    harmless()
}

unsafe extern "C" fn begin_private(start: u64, bytes: u64, _site: *mut Site) {
    // SAFETY: as in `usual`.
    if let Some(session) = unsafe { Session::running() } {
        session.group.begin_private(start, bytes);
    }
}

unsafe extern "C" fn end_private(start: u64) {
    // SAFETY: as in `usual`.
    if let Some(session) = unsafe { Session::running() } {
        session.group.end_private(start);
    }
}

/// Checks a copy, and returns the number of bytes to copy: 0 if a range is wrong.
unsafe extern "C" fn copy(
    to: u64,
    from: u64,
    bytes: u64,
    site: *mut Site,
    source: *mut Site,
) -> u64 {
    // SAFETY: as in `usual`.
    let Some(session) = (unsafe { Session::running() }) else { return bytes };
    if bytes == 0 {
        return 0;
    }
    // SAFETY: as in `usual`; one site at a time is in use.
    let mut access =
        |at, kind, site: *mut Site| unsafe { session.access(at, bytes, kind, &mut *site) };
    // The source's contents may be unwritten, and so may the target's then.
    let is_right =
        access(from, kind::ANY_CONTENTS, source) == from && access(to, kind::WRITE, site) == to;
    if !is_right {
        return 0;
    }
    session.copy_marks(to, bytes, Some(from));
    bytes
}

/// Checks a fill, and returns the number of bytes to fill: 0 if the range is wrong.
unsafe extern "C" fn fill(to: u64, bytes: u64, site: *mut Site) -> u64 {
    // SAFETY: as in `usual`.
    let Some(session) = (unsafe { Session::running() }) else { return bytes };
    // SAFETY: as in `usual`.
    if bytes == 0 || session.access(to, bytes, kind::WRITE, unsafe { &mut *site }) != to {
        return 0;
    }
    bytes
}

/// Marks memory that the header's code writes.
unsafe extern "C" fn mark(to: u64, bytes: u64) {
    // SAFETY: as in `usual`.
    if let Some(session) = unsafe { Session::running() } {
        session.copy_marks(to, bytes, None);
    }
}

unsafe extern "C" fn fence() {
    // SAFETY: as in `usual`.
    if let Some(session) = unsafe { Session::running() } {
        session.pass_fence();
    }
}

/// Notes the place at which the current item is about to wait, or to end the launch.
unsafe extern "C" fn wait(site: *mut Site) {
    // SAFETY: as in `usual`.
    if let Some(session) = unsafe { Session::running() } {
        // SAFETY: as in `usual`.
        let place = unsafe { (*site).number() };
        session.group.note_wait(place);
    }
}

/// Enters a variable that the items of the group share, and returns its address.
unsafe extern "C" fn shared(_work: *mut Work, start: u64, bytes: u64, name: *const c_char) -> u64 {
    // SAFETY: as in `usual`; the name is a constant of the image.
    if let Some(session) = unsafe { Session::running() } {
        let is_known = session.group.shared.iter().any(|region| region.start == start);
        if !is_known {
            // SAFETY: the name is a constant of the image.
            let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
            session.share(start, bytes, Kind::Shared(name));
        }
    }
    start
}

/// Returns the state in which loops by the pass of `jit/work-items` keep the current segment.
unsafe extern "C" fn state(_work: *mut Work) -> *mut State {
    /// The state of loops that run without checks, maybe on several threads.
    struct Unused(UnsafeCell<State>);
    // SAFETY: nothing reads the state but the code that writes it, by raw addresses.
    unsafe impl Sync for Unused {}
    static UNUSED: Unused = Unused(UnsafeCell::new(State::NONE));
    // SAFETY: as in `usual`.
    match unsafe { Session::running() } {
        Some(session) => &raw mut *session.state,
        None => UNUSED.0.get(),
    }
}

/// Notes that the next item of a loop begins, which `work` has.
unsafe extern "C" fn begin_item(_work: *mut Work) {
    // SAFETY: as in `usual`.
    if let Some(session) = unsafe { Session::running() } {
        session.begin_item();
    }
}

unsafe extern "C" fn begin_items(_work: *mut Work) -> u32 {
    // SAFETY: as in `usual`.
    if let Some(session) = unsafe { Session::running() } {
        session.set_in_loop(true);
    }
    0
}

unsafe extern "C" fn end_items(_work: *mut Work, has_barrier: u32) -> u32 {
    // SAFETY: as in `usual`.
    if let Some(session) = unsafe { Session::running() } {
        session.set_in_loop(false);
        if has_barrier != 0 {
            session.pass_barrier();
        }
    }
    0
}

unsafe extern "C" fn group_barrier(_work: *mut Work) {
    // SAFETY: as in `usual`.
    if let Some(session) = unsafe { Session::running() } {
        session.pass_barrier();
    }
}
