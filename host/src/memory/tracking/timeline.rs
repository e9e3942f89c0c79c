//! Live bytes over time, in bounded memory.

use super::memory_use::KINDS;
use longshore_plugin_api::MemoryKind;
use std::time::Duration;

/// Number of points at which the timeline is thinned out.
const MOST_POINTS: usize = 4096;
/// Number of neighbouring points that thinning replaces by at most five.
const NEIGHBOURS: usize = 8;

/// The live bytes from one time on, until the next point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TimelinePoint {
    /// Time since the creation of the host, by a monotonic clock.
    pub at: Duration,
    pub(super) live_bytes: [u64; KINDS],
}

impl TimelinePoint {
    /// Returns the live bytes of one kind.
    pub fn bytes(&self, kind: MemoryKind) -> u64 {
        self.live_bytes[kind as usize]
    }

    /// Returns the live bytes of all kinds together.
    pub fn total_bytes(&self) -> u64 {
        self.live_bytes.iter().fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }
}

/// Points in the order of time. Once there are too many, points between the highs and lows of their
/// neighbours are removed. The peaks, of each kind and of all kinds together, are kept exactly.
#[derive(Clone, Default)]
pub(super) struct Timeline {
    points: Vec<TimelinePoint>,
}

impl Timeline {
    pub(super) fn push(&mut self, at: Duration, live_bytes: [u64; KINDS]) {
        if self.points.len() >= MOST_POINTS {
            self.points = thinned(&self.points);
        }
        self.points.push(TimelinePoint { at, live_bytes });
    }

    pub(super) fn into_points(self) -> Vec<TimelinePoint> {
        self.points
    }
}

/// Returns a part of the points: from each few neighbours the highest of each kind, and the highest
/// and the lowest of all kinds together.
pub(super) fn thinned(points: &[TimelinePoint]) -> Vec<TimelinePoint> {
    points.chunks(NEIGHBOURS).flat_map(extremes).collect()
}

fn extremes(points: &[TimelinePoint]) -> impl Iterator<Item = TimelinePoint> {
    let indices = 0..points.len();
    let highest_of = |kind: usize| indices.clone().max_by_key(|i| points[*i].live_bytes[kind]);
    let highest = indices.clone().max_by_key(|i| points[*i].total_bytes());
    let lowest = indices.clone().min_by_key(|i| points[*i].total_bytes());
    let mut kept: Vec<usize> =
        (0..KINDS).filter_map(highest_of).chain(highest).chain(lowest).collect();
    kept.sort_unstable();
    kept.dedup();
    kept.into_iter().map(|i| points[i])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns pseudo-random but repeatable sizes.
    fn course(len: u64) -> Vec<[u64; KINDS]> {
        let noise = |i: u64, salt: u64| (i + salt).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 44;
        (0..len).map(|i| [noise(i, 1), noise(i, 2), noise(i, 3)]).collect()
    }

    fn peaks(points: impl Iterator<Item = [u64; KINDS]>) -> [u64; KINDS + 1] {
        points.fold([0; KINDS + 1], |peaks, [a, b, c]| {
            let [x, y, z, all] = peaks;
            [x.max(a), y.max(b), z.max(c), all.max(a + b + c)]
        })
    }

    #[test]
    fn a_long_timeline_is_bounded_and_keeps_all_peaks() {
        let course = course(100_000);
        let mut timeline = Timeline::default();
        for (i, live) in course.iter().enumerate() {
            timeline.push(Duration::from_nanos(i as u64), *live);
        }
        let points = timeline.into_points();
        assert!(points.len() <= MOST_POINTS, "{} points", points.len());
        assert!(points.windows(2).all(|pair| pair[0].at < pair[1].at));
        let kept = peaks(points.iter().map(|point| point.live_bytes));
        assert_eq!(kept, peaks(course.iter().copied()));
        assert_eq!(points.last().unwrap().live_bytes, *course.last().unwrap());
    }

    #[test]
    fn a_short_timeline_is_kept_as_it_is() {
        let mut timeline = Timeline::default();
        let course = course(MOST_POINTS as u64);
        course.iter().for_each(|live| timeline.push(Duration::ZERO, *live));
        let points = timeline.into_points();
        assert!(points.iter().map(|point| point.live_bytes).eq(course));
    }
}
