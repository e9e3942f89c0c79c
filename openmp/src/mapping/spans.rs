//! The ranges of one construct. Most constructs have few; a structure with a mapper may have
//! thousands.

use super::span::Span;
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// Most ranges that are searched one by one.
const MOST_FEW: usize = 32;

/// Ranges of the host, each with a value.
pub(crate) struct Spans<V> {
    few: SmallVec<[(Span, V); 4]>,
    /// All ranges, by their first address, once there are many. None contains another.
    many: BTreeMap<u64, (Span, V)>,
}

impl<V> Default for Spans<V> {
    fn default() -> Spans<V> {
        Spans { few: SmallVec::new(), many: BTreeMap::new() }
    }
}

impl<V: Copy> Spans<V> {
    /// Adds a range. A range inside another one may be left out.
    #[inline]
    pub(super) fn insert(&mut self, span: Span, value: V) {
        if self.many.is_empty() && self.few.len() < MOST_FEW {
            self.few.push((span, value));
        } else {
            self.insert_sorted(span, value);
        }
    }

    #[cold]
    fn insert_sorted(&mut self, span: Span, value: V) {
        let few = std::mem::take(&mut self.few);
        for (span, value) in few.into_iter().chain([(span, value)]) {
            if self.last_from(span.begin).is_some_and(|(known, _)| known.contains(span)) {
                continue;
            }
            self.take_sorted(span);
            self.many.insert(span.begin, (span, value));
        }
    }

    /// Returns the last of many ranges that begins at an address or before. As no range contains
    /// another, no earlier one ends behind it.
    fn last_from(&self, address: u64) -> Option<(Span, V)> {
        self.many.range(..=address).next_back().map(|(_, known)| *known)
    }

    /// Returns whether a range contains `span`.
    #[inline]
    pub(super) fn contains(&self, span: Span) -> bool {
        self.contains_with(span, |_| true)
    }

    /// Returns whether a range contains `span` and has a value that `is_wanted`.
    #[inline]
    pub(super) fn contains_with(&self, span: Span, is_wanted: impl Fn(V) -> bool) -> bool {
        let fits = |(known, value): &(Span, V)| known.contains(span) && is_wanted(*value);
        self.few.iter().any(fits)
            || (!self.many.is_empty() && self.last_from(span.begin).as_ref().is_some_and(fits))
    }

    /// Removes the ranges inside `whole`, and returns them.
    #[inline]
    pub(super) fn take_within(&mut self, whole: Span) -> SmallVec<[Span; 2]> {
        if !self.many.is_empty() {
            return self.take_sorted(whole);
        }
        let mut taken = SmallVec::new();
        self.few.retain(|(span, _)| {
            let is_inside = whole.contains(*span);
            if is_inside {
                taken.push(*span);
            }
            !is_inside
        });
        taken
    }

    fn take_sorted(&mut self, whole: Span) -> SmallVec<[Span; 2]> {
        let known = self.many.range(whole.begin..whole.end()).map(|(_, (span, _))| *span);
        let taken: SmallVec<[Span; 2]> = known.filter(|span| whole.contains(*span)).collect();
        for span in &taken {
            self.many.remove(&span.begin);
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(begin: u64, bytes: u64) -> Span {
        Span { begin, bytes }
    }

    /// Returns 100 ranges of 8 bytes with gaps, in an order that is not sorted.
    fn many() -> Spans<bool> {
        let mut spans = Spans::default();
        for number in 0..100 {
            let place = number * 37 % 100;
            spans.insert(span(place * 10, 8), place % 2 == 0);
        }
        spans
    }

    #[test]
    fn few_and_many_ranges_are_found_alike() {
        let mut few = Spans::default();
        few.insert(span(10, 8), false);
        few.insert(span(20, 8), true);
        for spans in [few, many()] {
            assert!(spans.contains(span(10, 8)) && spans.contains(span(22, 6)));
            assert!(!spans.contains(span(18, 1)) && !spans.contains(span(22, 7)));
            assert!(spans.contains_with(span(25, 1), |value| value));
            assert!(!spans.contains_with(span(15, 1), |value| value));
        }
    }

    #[test]
    fn ranges_inside_another_are_taken() {
        let mut spans = many();
        let mut taken = spans.take_within(span(15, 40));
        taken.sort_unstable_by_key(|span| span.begin);
        assert_eq!(taken[..], [span(20, 8), span(30, 8), span(40, 8)]);
        assert!(!spans.contains(span(30, 1)) && spans.contains(span(50, 8)));
        let mut few = Spans::default();
        few.insert(span(20, 8), ());
        few.insert(span(50, 8), ());
        assert_eq!(few.take_within(span(15, 40))[..], [span(20, 8)]);
        assert!(few.take_within(span(15, 40)).is_empty());
    }

    #[test]
    fn a_range_around_others_takes_their_place() {
        let mut spans = many();
        spans.insert(span(0, 55), true);
        assert!(spans.contains(span(8, 40)) && spans.contains(span(50, 8)));
        spans.insert(span(12, 3), false);
        assert!(spans.contains_with(span(12, 1), |value| value));
    }
}
