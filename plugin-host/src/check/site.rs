//! Sites: places of accesses in checked images.

use super::region::{Face, Record, Region};
use super::state::State;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char};
use std::fmt;

/// The place of an access, a variable of the image. Must match `jit/checks/src/places.rs`.
#[repr(C)]
pub(crate) struct Site {
    file: *const c_char,
    function: *const c_char,
    line: u32,
    column: u32,
    /// Alignment of the access's type, in bytes.
    pub(crate) alignment: u32,
    /// Number of the place; 0 before its first access.
    pub(crate) number: u32,
    /// The region of the last access. Valid while `version` is that of the session.
    pub(crate) region: *const Region,
    pub(crate) version: u64,
    /// The part of the region that the inlined check of `jit/checks/src/fast.rs` needs; null
    /// outside of checked launches.
    pub(crate) face: *const Face,
    pub(crate) state: *const State,
    /// A record of an access of a whole word, without its segment.
    pub(crate) record: Record,
}

/// A place in the program's sources.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) file: String,
    pub(crate) function: String,
    pub(crate) line: u32,
    pub(crate) column: u32,
}

/// Greatest number of a place in a record. It stands for all further places, which are unknown in
/// reports.
const MOST: u32 = (1 << 22) - 1;

static PLACES: Mutex<Places> = Mutex::new(Places { all: Vec::new(), numbers: BTreeMap::new() });

/// The known places, and their numbers from 1. Number 0 is the unknown place.
struct Places {
    all: Vec<Place>,
    numbers: BTreeMap<Place, u32>,
}

impl Site {
    /// Returns the number of the site's place.
    #[inline]
    pub(crate) fn number(&mut self) -> u32 {
        if self.number == 0 {
            self.number = self.enter();
        }
        self.number
    }

    /// Returns whether an address has the alignment of the access.
    #[inline]
    pub(crate) fn is_aligned(&self, address: u64) -> bool {
        address & u64::from(self.alignment.max(1) - 1) == 0
    }

    #[cold]
    fn enter(&self) -> u32 {
        // SAFETY: the pass makes both texts constants of the image.
        let text = |text| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
        let (file, function) = (text(self.file), text(self.function));
        let place = Place { file, function, line: self.line, column: self.column };
        let mut places = PLACES.lock();
        let Places { all, numbers } = &mut *places;
        let number = *numbers.entry(place).or_insert_with_key(|place| {
            all.push(place.clone());
            all.len() as u32
        });
        number.min(MOST)
    }
}

/// Returns the place of a number.
pub(crate) fn place(number: u32) -> Option<Place> {
    let index = number.checked_sub(1).filter(|_| number < MOST)? as usize;
    PLACES.lock().all.get(index).filter(|place| place.line != 0).cloned()
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { file, function, line, column } = self;
        write!(f, "{file}:{line}:{column} in '{function}'")
    }
}
