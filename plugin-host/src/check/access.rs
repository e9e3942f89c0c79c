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
    /// Place of the bits for the parts of the access that are read or written; all are without one.
    pub(crate) const PARTS_SHIFT: u32 = 16;

    /// Most parts of an access.
    const MOST: u64 = 16;

    /// Returns the ranges of bytes that an access reads or writes, from its beginning.
    pub(crate) fn ranges(kind: u32, bytes: u64) -> impl Iterator<Item = std::ops::Range<u64>> {
        let parts = kind >> PARTS_SHIFT;
        let size = if parts == 0 { bytes.max(1) } else { bytes.div_ceil(MOST) };
        let counts = move |part: &u64| parts == 0 || parts >> part & 1 == 1;
        (0..bytes.div_ceil(size)).filter(counts).map(move |part| part * size..(part + 1) * size)
    }
}

impl Session {
    /// Checks any access, and returns the address to use.
    #[cold]
    #[inline(never)]
    pub(crate) fn access(&mut self, address: u64, bytes: u64, kind: u32, site: &mut Site) -> u64 {
        let place = site.number();
        let writes = kind & kind::WRITE != 0;
        let shown = Shown { address, bytes, writes, place };
        if self.kinds.memory && !site.is_aligned(address) {
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
            self.check_written(region, shown, kind);
        }
        if writes {
            kind::ranges(kind, bytes)
                .for_each(|it| region.mark(offset + it.start, it.end - it.start));
        }
        let is_atomic = kind & kind::ATOMIC != 0;
        let touch = Touch { offset, bytes, writes, is_atomic, place };
        if is_atomic {
            let order = kind >> kind::ORDER_SHIFT;
            self.operate(region, touch, Operation { address, order, reads, writes });
        } else if self.kinds.races {
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

    fn check_written(&mut self, region: &Region, shown: Shown, kind: u32) {
        let offset = shown.address - region.start;
        let is_written =
            |it: std::ops::Range<u64>| region.is_written(offset + it.start, it.end - it.start).0;
        if region.is_tracked && !kind::ranges(kind, shown.bytes).all(is_written) {
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
        let has = |at: u64| is_private_written(start, size, offset + at);
        let reads = !writes || kind & kind::BOTH != 0;
        let is_any = kind & kind::ANY_CONTENTS != 0;
        let is_written = || kind::ranges(kind, bytes).flatten().all(has);
        if reads && !is_any && self.kinds.initialized && !is_written() {
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
        for it in kind::ranges(kind, bytes).filter(|_| writes) {
            set_private(start, size, offset + it.start..offset + it.end, true);
        }
    }

    /// Copies the marks of bytes, or sets them without a source.
    pub(crate) fn copy_marks(&mut self, to: u64, bytes: u64, from: Option<u64>) {
        self.changes += 1;
        let source = from.map(|from| (self.find(from, bytes), from));
        match (self.find(to, bytes), &source) {
            (Object::Region(region), Some((Object::Region(source), from))) => {
                let marks = Some((&**source, from - source.start));
                region.copy_marks(to - region.start, marks, bytes);
            }
            (Object::Region(region), _) => {
                let offset = to - region.start;
                match marks_of_private(source.as_ref(), bytes) {
                    Some(marks) => (offset..)
                        .zip(marks)
                        .for_each(|(at, is_written)| region.set_written(at, 1, is_written)),
                    None => region.mark(offset, bytes),
                }
            }
            (Object::Private { start, bytes: size }, _) => {
                let offset = to - start;
                match marks_of(source.as_ref(), bytes) {
                    Some(marks) => (offset..).zip(marks).for_each(|(at, is_written)| {
                        set_private(start, size, at..at + 1, is_written)
                    }),
                    None => set_private(start, size, offset..offset + bytes, true),
                }
            }
            (Object::Other | Object::None, _) => {}
        }
    }
}

/// Returns whether each byte of a copy's source is written; `None` if all are.
fn marks_of(source: Option<&(Object, u64)>, bytes: u64) -> Option<Vec<bool>> {
    let (Object::Region(region), from) = source? else { return marks_of_private(source, bytes) };
    let offset = from - region.start;
    let is_whole = region.is_written(offset, bytes).0;
    let is_written = |at| region.is_written(at, 1).0;
    (!is_whole).then(|| (offset..offset + bytes).map(is_written).collect())
}

fn marks_of_private(source: Option<&(Object, u64)>, bytes: u64) -> Option<Vec<bool>> {
    let (Object::Private { start, bytes: size }, from) = source? else { return None };
    let offset = from - start;
    let is_written = |at| is_private_written(*start, *size, at);
    Some((offset..offset + bytes).map(is_written).collect())
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
