//! Results of the last compilations, for programs that load the same images again and again. A hit
//! needs neither a checksum nor a file: the bitcode itself is compared.

use super::JitLoad;
use crate::image::Image;
use longshore_plugin_api::CodeTarget;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

/// Most results that are kept.
const MOST: usize = 16;
/// Most bytes of bitcode and code that are kept.
const MOST_BYTES: usize = 32 << 20;

/// The last results, the latest one first.
#[derive(Default)]
pub(super) struct Recent {
    results: Mutex<VecDeque<Kept>>,
}

struct Kept {
    bitcode: Image,
    target: CodeTarget,
    load: JitLoad,
    code: Arc<Vec<u8>>,
}

impl Recent {
    /// Returns whether there is code for bitcode and a target.
    pub(super) fn knows(&self, bitcode: &Image, target: &CodeTarget) -> bool {
        self.results.lock().iter().any(|kept| kept.is_for(bitcode, target))
    }

    /// Returns the code for bitcode, a target and choices.
    pub(super) fn get(
        &self,
        bitcode: &Image,
        target: &CodeTarget,
        load: &JitLoad,
    ) -> Option<Arc<Vec<u8>>> {
        let mut results = self.results.lock();
        let is_same = |kept: &Kept| kept.load == *load && kept.is_for(bitcode, target);
        let index = results.iter().position(is_same)?;
        let kept = results.remove(index)?;
        let code = Arc::clone(&kept.code);
        results.push_front(kept);
        Some(code)
    }

    /// Keeps code, in place of the results that were not used for the longest time.
    pub(super) fn insert(
        &self,
        bitcode: &Image,
        target: &CodeTarget,
        load: &JitLoad,
        code: &Arc<Vec<u8>>,
    ) {
        let kept = Kept {
            bitcode: bitcode.clone(),
            target: target.clone(),
            load: load.clone(),
            code: Arc::clone(code),
        };
        let mut results = self.results.lock();
        results.push_front(kept);
        let mut bytes = 0;
        let fits = |kept: &Kept| {
            bytes += kept.bitcode.bytes().len() + kept.code.len();
            bytes <= MOST_BYTES
        };
        let count = results.iter().take(MOST).map(fits).take_while(|fits| *fits).count();
        results.truncate(count);
    }
}

impl Kept {
    fn is_for(&self, bitcode: &Image, target: &CodeTarget) -> bool {
        let (own, other) = (self.bitcode.bytes(), bitcode.bytes());
        self.target == *target && (std::ptr::eq(own, other) || own == other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target() -> CodeTarget {
        let [triple, processor, features] = ["x86_64-linux", "generic", ""].map(str::to_owned);
        CodeTarget { triple, processor, features }
    }

    #[test]
    fn the_latest_results_are_kept() {
        let recent = Recent::default();
        let image = |number: u8| Image::from(&[number; 4]);
        let (target, load) = (target(), JitLoad::default());
        for number in 0..=MOST as u8 {
            recent.insert(&image(number), &target, &load, &Arc::new(vec![number]));
            // The first one remains in use.
            assert_eq!(*recent.get(&image(0), &target, &load).unwrap(), [0]);
        }
        assert!(recent.get(&image(1), &target, &load).is_none());
        assert!(!recent.knows(&image(1), &target) && recent.knows(&image(2), &target));
        assert_eq!(*recent.get(&image(2), &target, &load).unwrap(), [2]);
        let other = CodeTarget { processor: "other".to_owned(), ..target.clone() };
        assert!(recent.get(&image(2), &other, &load).is_none());
        let level = JitLoad { level: Some(1), ..JitLoad::default() };
        assert!(recent.get(&image(2), &target, &level).is_none());
    }

    #[test]
    fn results_that_are_too_large_are_not_kept() {
        let recent = Recent::default();
        let (target, load) = (target(), JitLoad::default());
        let (one, two) = (Image::from(&[1]), Image::from(&[2]));
        recent.insert(&one, &target, &load, &Arc::new(vec![0; MOST_BYTES / 2]));
        recent.insert(&two, &target, &load, &Arc::new(vec![0; MOST_BYTES / 2]));
        assert!(recent.get(&one, &target, &load).is_none());
        assert!(recent.get(&two, &target, &load).is_some());
        recent.insert(&one, &target, &load, &Arc::new(vec![0; MOST_BYTES + 1]));
        assert!(recent.get(&one, &target, &load).is_none());
    }
}
