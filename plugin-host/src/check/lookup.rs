//! The search for the object at an address, and reports of wrong addresses.

use super::images;
use super::region::{Kind, Region};
use super::report::{What, at, place_in};
use super::session::Session;
use super::site::Site;
use std::cell::UnsafeCell;
use std::sync::Arc;

/// Size of the memory that takes the place of a wrong address.
const HARMLESS_BYTES: usize = 4096;

/// Memory for wrong accesses, which reads as zero at first.
#[repr(align(64))]
struct Harmless(UnsafeCell<[u8; HARMLESS_BYTES]>);

// SAFETY: only wrong code uses the contents, by raw addresses.
unsafe impl Sync for Harmless {}

static HARMLESS: Harmless = Harmless(UnsafeCell::new([0; HARMLESS_BYTES]));

/// The object at an address.
pub(crate) enum Object {
    Region(Arc<Region>),
    /// A registered variable on the item's stack.
    Private {
        start: u64,
        bytes: u64,
    },
    /// Other memory that is right.
    Other,
    None,
}

/// An access, for reports.
#[derive(Clone, Copy)]
pub(crate) struct Shown {
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    pub(crate) writes: bool,
    pub(crate) place: u32,
}

/// Returns the address of harmless memory, in place of a wrong address.
pub(crate) fn harmless() -> u64 {
    // SAFETY: the memory is writable; contents of earlier wrong accesses are cleared.
    unsafe { (*HARMLESS.0.get()).fill(0) };
    HARMLESS.0.get() as u64
}

impl Session {
    /// Finds the object that contains all bytes of an access.
    pub(crate) fn find(&mut self, address: u64, bytes: u64) -> Object {
        let group = &*self.group;
        let shared = group.shared.iter().find(|region| region.contains(address, bytes));
        if let Some(region) = shared {
            return Object::Region(Arc::clone(region));
        }
        if self.is_in_unnamed_shared(address) {
            return self.find(address, bytes);
        }
        let found = self.checker.region_of(address).or_else(|| images::variable_at(address));
        if let Some(region) = found.filter(|region| region.contains(address, bytes)) {
            return Object::Region(region);
        }
        self.find_on_stack(address, bytes)
    }

    /// Enters the memory for all shared variables as one variable, if the image does not tell of
    /// them. Returns whether the address is in it.
    fn is_in_unnamed_shared(&mut self, address: u64) -> bool {
        // SAFETY: the work is that of the running item or group.
        let (start, bytes) = unsafe { ((*self.work).fixed as u64, (*self.work).fixed_bytes) };
        let is_inside = |at: u64| at.wrapping_sub(start) < bytes;
        let is_named = self.group.shared.iter().any(|region| is_inside(region.start));
        let is_unnamed = !is_named && is_inside(address);
        if is_unnamed {
            self.share(start, bytes, Kind::Shared("LONGSHORE_SHARED".to_owned()));
        }
        is_unnamed
    }

    fn find_on_stack(&mut self, address: u64, bytes: u64) -> Object {
        /// Bytes around a variable with the bits of its bytes, by `jit/checks`.
        const GAP: u64 = 32;
        let harmless = HARMLESS.0.get() as u64;
        if address.wrapping_sub(harmless) < HARMLESS_BYTES as u64 {
            return Object::Other;
        }
        for private in self.group.privates().iter().rev() {
            let end = private.start + private.bytes;
            if address >= private.start && address + bytes <= end {
                return Object::Private { start: private.start, bytes: private.bytes };
            }
            let behind = private.bytes.next_multiple_of(8) + private.bytes.div_ceil(8) + GAP;
            if address + bytes > private.start - GAP && address < private.start + behind {
                return Object::None;
            }
        }
        let shared = self.group.shared.iter();
        if shared.into_iter().any(|region| is_at_end(region, address)) {
            return Object::None;
        }
        if self.stack.contains(&address) { Object::Other } else { Object::None }
    }

    /// Reports a wrong address.
    #[cold]
    pub(crate) fn report_outside(&mut self, shown: Shown) {
        let Shown { address, bytes, writes, place } = shown;
        self.report(What::OutOfBounds, [place, 0], |session| {
            let place_of = session.describe_outside(address, bytes);
            let verb = if writes { "writes" } else { "reads" };
            format!("{} {verb} {bytes} bytes {place_of}; {}", session.who(), at(place))
        });
    }

    fn describe_outside(&self, address: u64, bytes: u64) -> String {
        const NULL_BYTES: u64 = 64 << 10;
        /// Bytes around a private variable that belong to it.
        const GAP: u64 = 40;
        /// Most distance of an address that counts as near.
        const NEAR_BYTES: u64 = 1 << 30;
        if address < NULL_BYTES {
            let hint = match self.dynamic_bytes {
                0 => "; the launch gives no dynamic shared memory",
                _ => "",
            };
            return format!("at {address:#x}, next to the null pointer{hint}");
        }
        for private in self.group.all_privates() {
            let end = private.start + private.bytes;
            if address.wrapping_add(GAP) >= private.start && address < end + private.bytes / 8 + GAP
            {
                let place = match address < private.start {
                    true => format!("{} bytes before", private.start - address),
                    false => format!("{} bytes past the end of", address.saturating_sub(end)),
                };
                return format!("{place} a private variable of {} bytes", private.bytes);
            }
        }
        let shared = self.group.shared.iter().find(|region| is_at_end(region, address));
        let found = shared.cloned().or_else(|| {
            let partly = images::variable_at(address).or_else(|| self.checker.region_of(address));
            partly.or_else(|| self.checker.nearest(address))
        });
        let near = found.filter(|region| {
            address.abs_diff(region.start).min(address.abs_diff(region.start + region.bytes))
                < NEAR_BYTES
        });
        match near {
            Some(region) => format!("at {address:#x}, {}", place_in(&region, address, bytes)),
            None => format!("at {address:#x}, far from any allocation"),
        }
    }

    /// Reports an access of a freed allocation.
    #[cold]
    pub(crate) fn report_freed(&mut self, region: &Region, shown: Shown) {
        let Shown { address, bytes, writes, place } = shown;
        self.report(What::UseAfterFree, [place, 0], |session| {
            let verb = if writes { "writes" } else { "reads" };
            let place_of = place_in(region, address, bytes);
            format!("{} {verb} {place_of}; {}", session.who(), at(place))
        });
    }

    /// Reports an address that is no multiple of the type's alignment.
    #[cold]
    pub(crate) fn report_misaligned(&mut self, site: &Site, shown: Shown) {
        let Shown { address, bytes, writes, place } = shown;
        let alignment = site.alignment;
        self.report(What::Misaligned, [place, 0], |session| {
            let verb = if writes { "writes" } else { "reads" };
            format!(
                "{} {verb} {bytes} bytes at {address:#x}, expected a multiple of {alignment}; {}",
                session.who(),
                at(place)
            )
        });
    }
}

/// Returns whether an address is in a region of shared memory, or in the gap around it.
fn is_at_end(region: &Region, address: u64) -> bool {
    /// The gap of the header, and the bytes of an access.
    const GAP: u64 = 64;
    address.wrapping_add(GAP) >= region.start && address < region.start + region.bytes + GAP
}
