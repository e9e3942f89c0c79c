//! Ranges of the host.

/// A range of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) begin: u64,
    pub(super) bytes: u64,
}

impl Span {
    pub(super) fn end(self) -> u64 {
        self.begin.saturating_add(self.bytes)
    }

    pub(super) fn contains(self, other: Span) -> bool {
        self.begin <= other.begin && other.end() <= self.end()
    }

    pub(super) fn overlaps(self, other: Span) -> bool {
        self.begin < other.end() && other.begin < self.end()
    }

    /// Returns the part inside another range; an empty range if the two do not overlap.
    pub(super) fn within(self, other: Span) -> Span {
        let begin = self.begin.max(other.begin);
        Span { begin, bytes: self.end().min(other.end()).saturating_sub(begin) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_clipped() {
        let (a, b) = (Span { begin: 10, bytes: 20 }, Span { begin: 25, bytes: 50 });
        assert_eq!(a.within(b), Span { begin: 25, bytes: 5 });
        assert_eq!(a.within(Span { begin: 40, bytes: 5 }).bytes, 0);
    }
}
