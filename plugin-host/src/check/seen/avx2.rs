//! Summaries and changes of records by the registers of AVX2, which hold two pairs.

use super::{Change, Kind, Pair, Record, Seen};
use std::arch::x86_64::*;

/// Summaries of pairs, for the halves of records: the lower halves are segments.
struct Sums {
    most: __m256i,
    any: __m256i,
}

impl Sums {
    #[target_feature(enable = "avx2")]
    #[inline]
    fn new() -> Sums {
        let zeros = _mm256_setzero_si256();
        Sums { most: zeros, any: zeros }
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn add<const OF_COMPLEMENTS: bool>(&mut self, two: __m256i) {
        let by = if OF_COMPLEMENTS { _mm256_set1_epi8(-1) } else { _mm256_setzero_si256() };
        let two = _mm256_xor_si256(two, by);
        self.most = _mm256_max_epu32(self.most, two);
        self.any = _mm256_or_si256(self.any, two);
    }
}

/// Returns a summary from the sums of registers.
#[target_feature(enable = "avx2")]
#[inline]
pub(super) fn seen(most: [__m256i; 2], any: [__m256i; 2]) -> Seen {
    let most = _mm256_max_epu32(most[0], most[1]);
    let most = _mm_max_epu32(low(most), _mm256_extracti128_si256::<1>(most));
    let any = _mm256_or_si256(any[0], any[1]);
    let any = _mm_or_si128(low(any), _mm256_extracti128_si256::<1>(any));
    let segments = _mm_cvtsi128_si64(_mm_shuffle_epi32::<0b1000>(most)) as u64;
    let any = Record::from_bits(_mm_extract_epi64::<1>(any) as u64);
    Seen { latest: [segments as u32, (segments >> 32) as u32], any }
}

#[target_feature(enable = "avx2")]
#[inline]
fn low(two: __m256i) -> __m128i {
    _mm256_castsi256_si128(two)
}

/// # Safety
/// The pair is readable.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn load_twice(at: *const Pair) -> __m256i {
    // SAFETY: a pair has 16 bytes.
    _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(at.cast()) })
}

/// Returns a summary of neighbouring pairs.
///
/// # Safety
/// The pairs are readable.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn see_run<const OF_COMPLEMENTS: bool>(first: *const Pair, count: usize) -> Seen {
    let (mut sums, mut others, mut at) = (Sums::new(), Sums::new(), first);
    // SAFETY: two pairs have 32 bytes.
    unsafe {
        for _ in 0..count / 4 {
            sums.add::<OF_COMPLEMENTS>(_mm256_loadu_si256(at.cast()));
            others.add::<OF_COMPLEMENTS>(_mm256_loadu_si256(at.add(2).cast()));
            at = at.add(4);
        }
        if count & 2 != 0 {
            sums.add::<OF_COMPLEMENTS>(_mm256_loadu_si256(at.cast()));
            at = at.add(2);
        }
        if count & 1 != 0 {
            others.add::<OF_COMPLEMENTS>(load_twice(at));
        }
    }
    seen([sums.most, others.most], [sums.any, others.any])
}

/// Returns a summary of the pairs of a row.
///
/// # Safety
/// The pairs are readable.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn see<const OF_COMPLEMENTS: bool>(
    row: *const Pair,
    items: usize,
    of_item: usize,
    step: isize,
) -> Seen {
    let (mut sums, mut at) = (Sums::new(), row);
    // SAFETY: two pairs have 32 bytes.
    unsafe {
        if of_item == 1 {
            for _ in 0..items {
                sums.add::<OF_COMPLEMENTS>(load_twice(at));
                at = at.wrapping_offset(step);
            }
        } else {
            for _ in 0..items {
                sums.add::<OF_COMPLEMENTS>(_mm256_loadu_si256(at.cast()));
                at = at.wrapping_offset(step);
            }
        }
    }
    seen([sums.most; 2], [sums.any; 2])
}

/// The registers of a change, in whose halves the pairs are of the same or the next item.
struct Registers {
    stay: __m256i,
    new: __m256i,
    /// The difference for the next item.
    step: __m256i,
}

impl Registers {
    #[target_feature(enable = "avx2")]
    #[inline]
    fn new(Change { kind, first }: Change) -> Registers {
        let Kind { stay, new, step } = kind;
        // SAFETY: two numbers have 16 bytes.
        let both = |pair: &[u64; 2]| unsafe { load_twice(std::ptr::from_ref(pair).cast()) };
        let [stay, new, step] = [stay, new, step].map(both);
        let new = _mm256_and_si256(_mm256_set1_epi64x(first as i64), new);
        Registers { stay, new, step }
    }

    /// # Safety
    /// Two pairs are readable and writable.
    #[target_feature(enable = "avx2")]
    #[inline]
    unsafe fn change_two(&self, at: *mut Pair) {
        // SAFETY: two pairs have 32 bytes.
        unsafe {
            let old = _mm256_and_si256(_mm256_loadu_si256(at.cast()), self.stay);
            _mm256_storeu_si256(at.cast(), _mm256_or_si256(old, self.new));
        }
    }

    /// # Safety
    /// The pair is readable and writable.
    #[target_feature(enable = "avx2")]
    #[inline]
    unsafe fn change_one(&self, at: *mut Pair) {
        // SAFETY: a pair has 16 bytes.
        unsafe {
            let old = _mm_and_si128(_mm_loadu_si128(at.cast()), low(self.stay));
            _mm_storeu_si128(at.cast(), _mm_or_si128(old, low(self.new)));
        }
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn go_on(&mut self, step: __m256i) {
        self.new = _mm256_add_epi64(self.new, step);
    }
}

/// Changes neighbouring pairs.
///
/// # Safety
/// The pairs are readable and writable.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn change_run(first: *mut Pair, count: usize, of_item: usize, change: Change) {
    let (mut registers, mut at) = (Registers::new(change), first);
    let mut step = registers.step;
    if of_item == 1 {
        let next = _mm256_blend_epi32::<0b1111_0000>(_mm256_setzero_si256(), step);
        registers.go_on(next);
        step = _mm256_add_epi64(step, step);
    }
    // SAFETY: the caller vouches for the pairs.
    unsafe {
        for _ in 0..count / 2 {
            registers.change_two(at);
            registers.go_on(step);
            at = at.add(2);
        }
        if count & 1 != 0 {
            registers.change_one(at);
        }
    }
}

/// Changes the pairs of a row.
///
/// # Safety
/// The pairs are readable and writable.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn change(
    row: *mut Pair,
    (items, of_item, by_item): (usize, usize, isize),
    change: Change,
) {
    let (mut registers, mut at) = (Registers::new(change), row);
    let step = registers.step;
    for _ in 0..items {
        // SAFETY: the caller vouches for the pairs.
        unsafe {
            match of_item {
                1 => registers.change_one(at),
                _ => registers.change_two(at),
            }
        }
        registers.go_on(step);
        at = at.wrapping_offset(by_item);
    }
}
