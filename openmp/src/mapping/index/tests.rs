use super::{Range, RangeIndex};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// A generator of pseudo-random numbers: xorshift64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn shuffled(&mut self, mut numbers: Vec<u64>) -> Vec<u64> {
        for at in (1..numbers.len()).rev() {
            numbers.swap(at, self.below(at + 1));
        }
        numbers
    }
}

/// Returns a range that shows whether its words belong together.
fn range(begin: u64, version: u64) -> Range {
    Range { begin, end: begin + 1 + version % 8, target: !begin, entry: begin * 31 + version }
}

fn check(range: Range) {
    assert_eq!(range, self::range(range.begin, range.entry - range.begin * 31), "torn");
}

/// An index, and the same ranges in a map of the standard library.
struct Twins<const L: usize, const I: usize> {
    index: RangeIndex<(), L, I>,
    map: BTreeMap<u64, Range>,
}

impl<const L: usize, const I: usize> Twins<L, I> {
    fn new() -> Self {
        Twins { index: RangeIndex::new(()), map: BTreeMap::new() }
    }

    fn insert(&mut self, range: Range) {
        assert_eq!(self.index.lock().insert(range), self.map.insert(range.begin, range));
    }

    fn remove(&mut self, begin: u64) {
        assert_eq!(self.index.lock().remove(begin), self.map.remove(&begin));
    }

    fn compare_at(&self, address: u64) {
        let floor = self.map.range(..=address).next_back().map(|(_, range)| *range);
        let above = self.map.range((Bound::Excluded(address), Bound::Unbounded)).next();
        let expected = (floor, above.map(|(_, range)| *range));
        assert_eq!(self.index.around(address), expected, "{address}");
        assert_eq!(self.index.lock().around(address), expected, "{address}");
    }

    fn compare(&self) {
        let mut ranges = Vec::new();
        self.index.lock().for_each(|range| ranges.push(range));
        assert!(ranges.iter().eq(self.map.values()));
    }
}

/// Inserts and removes at random, in phases in which the index grows or shrinks.
fn compare_with_a_map<const L: usize, const I: usize>() {
    let mut twins = Twins::<L, I>::new();
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let (phases, steps) = if cfg!(miri) { (4, 40) } else { (40, 2000) };
    for phase in 0..phases {
        let space = 1 + random.below(2 * steps);
        let inserted = if phase % 2 == 0 { 7 } else { 2 };
        for step in 0..steps {
            let begin = 3 * random.below(space) as u64;
            if random.below(10) < inserted {
                twins.insert(range(begin, step as u64));
            } else {
                let next = twins.map.range(begin..).next().map_or(begin, |(begin, _)| *begin);
                twins.remove(next);
            }
            twins.compare_at(random.below(4 * space) as u64);
        }
        twins.compare();
    }
    for begin in random.shuffled(twins.map.keys().copied().collect()) {
        twins.remove(begin);
        twins.compare_at(begin);
    }
    twins.compare();
}

#[test]
fn an_index_finds_the_same_ranges_as_a_map() {
    compare_with_a_map::<2, 2>();
    compare_with_a_map::<3, 3>();
    compare_with_a_map::<4, 4>();
    compare_with_a_map::<16, 4>();
    compare_with_a_map::<16, 64>();
}

#[test]
fn ranges_in_ascending_and_descending_order_are_found() {
    for descends in [false, true] {
        let mut twins = Twins::<4, 4>::new();
        let count = if cfg!(miri) { 50 } else { 2000 };
        let numbers = || (0..count).map(move |at| if descends { count - at } else { at });
        numbers().for_each(|begin| twins.insert(range(3 * begin, 1)));
        (0..3 * count).for_each(|address| twins.compare_at(address));
        numbers().for_each(|begin| {
            twins.remove(3 * begin);
            twins.compare_at(3 * begin);
        });
        twins.compare();
    }
}

#[test]
fn the_greatest_addresses_are_found_and_the_greatest_begin_is_refused() {
    let index = RangeIndex::<()>::new(());
    let last = Range { begin: u64::MAX - 1, end: u64::MAX, target: 1, entry: 2 };
    let refused = Range { begin: u64::MAX, ..last };
    let mut writer = index.lock();
    assert_eq!((writer.insert(refused), writer.around(u64::MAX)), (None, (None, None)));
    assert_eq!(writer.insert(last), None);
    assert_eq!((writer.insert(refused), writer.remove(u64::MAX)), (None, None));
    assert_eq!(writer.around(u64::MAX), (Some(last), None));
    assert_eq!(writer.around(u64::MAX - 2), (None, Some(last)));
    drop(writer);
    assert_eq!(index.around(u64::MAX), (Some(last), None));
}

#[test]
fn a_thread_with_the_lock_may_use_the_lookup_without_it() {
    let index = RangeIndex::<u32, 2, 2, 1>::new(5);
    let mut writer = index.lock();
    for begin in 0..20 {
        writer.insert(range(begin, 0));
        assert_eq!(index.around(begin), (Some(range(begin, 0)), None));
    }
    *writer += 1;
    assert_eq!(*writer, 6);
}

#[test]
fn removed_ranges_leave_memory_for_later_ones() {
    let index = RangeIndex::<(), 4, 4>::new(());
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut most = 0;
    for round in 0..if cfg!(miri) { 3 } else { 50 } {
        let begins = random.shuffled((0..if cfg!(miri) { 40 } else { 1000 }).collect());
        let mut writer = index.lock();
        begins.iter().for_each(|begin| assert_eq!(writer.insert(range(*begin, 0)), None));
        begins.iter().rev().for_each(|begin| assert!(writer.remove(*begin).is_some()));
        let nodes = writer.state.tree.nodes();
        // Chunks at most double the memory; random orders differ in their need of it.
        most = if round == 0 { 2 * nodes } else { most };
        assert!(nodes <= most, "{nodes} {most}");
    }
}

/// Has a writer and readers at work at once. Multiples of 100 always begin a range, and other
/// ranges come and go between them.
fn read_during_changes<const L: usize, const I: usize, const TRIES: usize>(rounds: usize) {
    let index = RangeIndex::<(), L, I, TRIES>::new(());
    let lasting: u64 = if cfg!(miri) { 5 } else { 40 };
    (0..lasting).for_each(|at| assert_eq!(index.lock().insert(range(100 * at, 0)), None));
    let is_done = AtomicBool::new(false);
    let read = |seed| {
        let mut random = Random(seed);
        let mut count = 0;
        while !is_done.load(Ordering::Relaxed) || count < 100 {
            let address = random.below(100 * lasting as usize) as u64;
            let (floor, above) = index.around(address);
            let floor = floor.expect("the range at 0 lasts");
            check(floor);
            above.into_iter().for_each(check);
            let lasts = address / 100 * 100;
            assert!((lasts..=address).contains(&floor.begin), "{address} {floor:?}");
            let next = if lasts + 100 < 100 * lasting { lasts + 100 } else { u64::MAX };
            let above = above.map_or(u64::MAX, |above| above.begin);
            assert!(address < above && above <= next, "{address} {above}");
            count += 1;
        }
    };
    thread::scope(|scope| {
        for seed in [1, 2] {
            scope.spawn(move || read(seed));
        }
        let mut random = Random(3);
        for round in 0..rounds {
            let place = random.below(lasting as usize) as u64;
            let begins = random.shuffled((1..100).step_by(9).collect());
            let version = round as u64;
            let begins = begins.into_iter().map(|begin| 100 * place + begin);
            begins.clone().for_each(|begin| _ = index.lock().insert(range(begin, version)));
            begins.for_each(|begin| _ = index.lock().remove(begin));
        }
        is_done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn readers_never_see_a_range_that_did_not_exist() {
    let rounds = if cfg!(miri) { 3 } else { 3000 };
    read_during_changes::<2, 2, 64>(rounds);
    read_during_changes::<4, 4, 1>(rounds);
    read_during_changes::<16, 64, 64>(rounds);
}
