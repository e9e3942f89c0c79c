//! Sites: places of accesses in checked images.

use super::region::{Face, Record, Region};
use super::state::State;
use parking_lot::Mutex;
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) file: String,
    pub(crate) function: String,
    pub(crate) line: u32,
    pub(crate) column: u32,
}

/// Greatest number of a place in a record. Later places are unknown in reports of races.
const MOST: u32 = (1 << 22) - 1;

/// The known places. The first is the unknown place.
static PLACES: Mutex<Vec<Place>> = Mutex::new(Vec::new());

impl Site {
    /// Returns the number of the site's place.
    #[inline]
    pub(crate) fn number(&mut self) -> u32 {
        if self.number == 0 {
            self.number = self.enter();
        }
        self.number
    }

    #[cold]
    fn enter(&self) -> u32 {
        // SAFETY: the pass makes both texts constants of the image.
        let text = |text| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
        let (file, function) = (text(self.file), text(self.function));
        let place = Place { file, function, line: self.line, column: self.column };
        let mut places = PLACES.lock();
        if places.is_empty() {
            let (file, function) = (String::new(), String::new());
            places.push(Place { file, function, line: 0, column: 0 });
        }
        let known = places.iter().position(|known| *known == place);
        let number = known.unwrap_or_else(|| {
            places.push(place);
            places.len() - 1
        });
        (number as u32).min(MOST)
    }
}

/// Returns the place of a number.
pub(crate) fn place(number: u32) -> Option<Place> {
    let places = PLACES.lock();
    places.get(number as usize).filter(|place| place.line != 0).cloned()
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { file, function, line, column } = self;
        write!(f, "{file}:{line}:{column} in '{function}'")
    }
}
