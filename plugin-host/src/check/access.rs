//! The checks of an access, on the way that every access can take.

use super::lookup::{Object, Shown, harmless};
use super::order::Operation;
use super::races::{Touch, value};
use super::region::{Record, Region};
use super::report::{What, at, place_in};
use super::session::Session;
use super::site::Site;
use std::sync::Arc;

/// Bits of an access's kind.
pub(crate) mod kind {
    pub(crate) const WRITE: u32 = 1;
    pub(crate) const ATOMIC: u32 = 2;
    pub(crate) const ANY_CONTENTS: u32 = 4;
    pub(crate) const BOTH: u32 = 8;
    pub(crate) const ORDER_SHIFT: u32 = 8;
}

impl Session {
    /// Checks any access, and returns the address to use.
    #[cold]
    #[inline(never)]
    pub(crate) fn access(&mut self, address: u64, bytes: u64, kind: u32, site: &mut Site) -> u64 {
        let place = site.number();
        let writes = kind & kind::WRITE != 0;
        let shown = Shown { address, bytes, writes, place };
        if self.kinds.memory && !address.is_multiple_of(u64::from(site.alignment.max(1))) {
            self.report_misaligned(site, shown);
        }
        if let Some(region) = self.known(address, bytes, site) {
            self.access_region(region, shown, kind);
            return address;
        }
        let region = match self.find(address, bytes) {
            Object::Region(region) => region,
            Object::Private { start, bytes: size } => {
                self.access_private(start, size, shown, kind);
                return address;
            }
            Object::Other => return address,
            Object::None if self.kinds.memory => {
                self.report_outside(shown);
                return harmless();
            }
            Object::None => return address,
        };
        if region.is_freed.get() {
            if self.kinds.memory {
                self.report_freed(&region, shown);
            }
            return harmless();
        }
        self.remember(&region, site);
        self.access_region(&region, shown, kind);
        address
    }

    /// Returns the region that a site knows, if all bytes of the access are inside.
    fn known<'a>(&self, address: u64, bytes: u64, site: &Site) -> Option<&'a Region> {
        if site.version != self.checker.version() {
            return None;
        }
        // SAFETY: the session holds the regions that sites of its version know.
        let region = unsafe { &*site.region };
        (region.contains(address, bytes) && !region.is_freed.get()).then_some(region)
    }

    /// Checks and records an access of a region.
    fn access_region(&mut self, region: &Region, shown: Shown, kind: u32) {
        let Shown { address, bytes, writes, place } = shown;
        let offset = address - region.start;
        let reads = !writes || kind & kind::BOTH != 0;
        if reads && kind & kind::ANY_CONTENTS == 0 {
            self.check_written(region, shown);
        }
        if writes {
            region.mark(offset, bytes);
        }
        let is_atomic = kind & kind::ATOMIC != 0;
        if is_atomic {
            let (order, item) = (kind >> kind::ORDER_SHIFT, self.item());
            let operation = Operation { address, order, reads, writes };
            self.order.operate(&mut self.group, item, operation);
            self.update_order();
        }
        let touch = Touch { offset, bytes, writes, is_atomic, place };
        if self.kinds.races && !(is_atomic && self.touch_atomically(region, touch)) {
            self.touch(region, touch);
        }
    }

    /// Lets a site find its region quickly from now on.
    fn remember(&mut self, region: &Arc<Region>, site: &mut Site) {
        let key = Arc::as_ptr(region);
        self.held.entry(key).or_insert_with(|| Arc::clone(region));
        (site.region, site.version) = (key, self.checker.version());
        if self.is_exact && self.kinds.races {
            region.show(self.first);
            if site.face.is_null() {
                self.sites.push(site);
            }
            site.state = &raw const *self.state;
            site.record = Record::new(0, 15, false, site.number);
            site.face = &raw const region.face;
        }
    }

    fn check_written(&mut self, region: &Region, shown: Shown) {
        let offset = shown.address - region.start;
        let (all, any) = region.is_written(offset, shown.bytes);
        let is_wrong = !any || !all && shown.bytes <= 8;
        if region.is_tracked && is_wrong {
            self.report(What::Uninitialized, [shown.place, 0], |session| {
                format!(
                    "{} reads {}, which nothing has written{}; {}",
                    session.who(),
                    place_in(region, shown.address, shown.bytes),
                    value(region, offset, shown.bytes),
                    at(shown.place)
                )
            });
        }
    }

    /// Checks that bytes of a variable on the stack are written, or marks them.
    pub(crate) fn access_private(&mut self, start: u64, size: u64, shown: Shown, kind: u32) {
        let Shown { address, bytes, writes, place } = shown;
        let offset = address - start;
        let has = |at: u64| is_private_written(start, size, at);
        let reads = !writes || kind & kind::BOTH != 0;
        let is_any = kind & kind::ANY_CONTENTS != 0;
        if reads && !is_any && self.kinds.initialized && !(offset..offset + bytes).any(has) {
            self.report(What::Uninitialized, [place, 0], |session| {
                format!(
                    "{} reads bytes {offset} to {} of a private variable of {size} bytes, which \
                     nothing has written; {}",
                    session.who(),
                    offset + bytes,
                    at(place)
                )
            });
        }
        if writes {
            set_private(start, size, offset..offset + bytes, true);
        }
    }

    /// Copies the marks of bytes, or sets them without a source.
    pub(crate) fn copy_marks(&mut self, to: u64, bytes: u64, from: Option<u64>) {
        self.changes += 1;
        let source = from.map(|from| (self.find(from, bytes), from));
        let is_written = match &source {
            Some((Object::Region(source), from)) => source.is_written(from - source.start, bytes).1,
            Some((Object::Private { start, bytes: size }, from)) => {
                let offset = from - start;
                (offset..offset + bytes).any(|at| is_private_written(*start, *size, at))
            }
            _ => true,
        };
        match (self.find(to, bytes), &source) {
            (Object::Region(region), Some((Object::Region(source), from))) => {
                let marks = Some((&**source, from - source.start));
                region.copy_marks(to - region.start, marks, bytes);
            }
            (Object::Region(region), _) => {
                region.set_written(to - region.start, bytes, is_written);
            }
            (Object::Private { start, bytes: size }, _) => {
                set_private(start, size, to - start..to - start + bytes, is_written);
            }
            (Object::Other | Object::None, _) => {}
        }
    }
}

/// Returns the bits of a variable on the stack.
pub(crate) fn bits_of(start: u64, size: u64) -> *mut u8 {
    (start + size.next_multiple_of(8)) as *mut u8
}

fn is_private_written(start: u64, size: u64, offset: u64) -> bool {
    // SAFETY: the pass has put the bits behind the variable.
    unsafe { *bits_of(start, size).add((offset / 8) as usize) >> (offset % 8) & 1 == 1 }
}

fn set_private(start: u64, size: u64, offsets: std::ops::Range<u64>, is_written: bool) {
    for at in offsets {
        // SAFETY: the pass has put the bits behind the variable.
        unsafe {
            let bits = bits_of(start, size).add((at / 8) as usize);
            match is_written {
                true => *bits |= 1 << (at % 8),
                false => *bits &= !(1 << (at % 8)),
            }
        }
    }
}
