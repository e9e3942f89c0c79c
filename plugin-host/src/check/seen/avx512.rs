//! Summaries and changes of neighbouring records by the registers of AVX-512, which hold four
//! pairs.

use super::{Change, Kind, Pair, Seen, avx2};
use std::arch::x86_64::*;

/// Number of pairs in the two registers that a loop works on.
const TWO: usize = 8;

/// Returns whether the CPU has the registers, and there are pairs enough.
#[inline(always)]
pub(super) fn pays(count: usize) -> bool {
    count >= 4 * TWO && is_x86_feature_detected!("avx512f")
}

/// Returns a summary of neighbouring pairs.
///
/// # Safety
/// The pairs are readable.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn see_run<const OF_COMPLEMENTS: bool>(first: *const Pair, count: usize) -> Seen {
    let by = _mm512_set1_epi64(if OF_COMPLEMENTS { -1 } else { 0 });
    let (mut most, mut any) = ([_mm512_setzero_si512(); 2], [_mm512_setzero_si512(); 2]);
    let mut at = first;
    for _ in 0..count / TWO {
        for half in 0..2 {
            // SAFETY: four pairs have 64 bytes.
            let four = unsafe { _mm512_loadu_si512(at.add(half * TWO / 2).cast()) };
            let four = _mm512_xor_si512(four, by);
            most[half] = _mm512_max_epu32(most[half], four);
            any[half] = _mm512_or_si512(any[half], four);
        }
        at = at.wrapping_add(TWO);
    }
    let most = _mm512_max_epu32(most[0], most[1]);
    let any = _mm512_or_si512(any[0], any[1]);
    let halves = |four| [_mm512_castsi512_si256(four), _mm512_extracti64x4_epi64::<1>(four)];
    let seen = avx2::seen(halves(most), halves(any));
    match count % TWO {
        0 => seen,
        // SAFETY: the caller vouches for the pairs.
        rest => seen.and(unsafe { avx2::see_run::<OF_COMPLEMENTS>(at, rest) }),
    }
}

/// Changes neighbouring pairs. An item has `of_item` of them.
///
/// # Safety
/// The pairs are readable and writable.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn change_run(
    first: *mut Pair,
    count: usize,
    of_item: usize,
    Change { kind, first: bits }: Change,
) {
    // SAFETY: two numbers have 16 bytes.
    let four = |pair: &[u64; 2]| unsafe {
        _mm512_broadcast_i32x4(_mm_loadu_si128(std::ptr::from_ref(pair).cast()))
    };
    let Kind { stay, new, step } = kind;
    let [stay, new, step] = [stay, new, step].map(four);
    let [step_of_two, step_of_three] = {
        let two = _mm512_add_epi64(step, step);
        [two, _mm512_add_epi64(two, step)]
    };
    // Indices of the items of the four pairs: 0, 1, 2 and 3, or 0, 0, 1 and 1.
    let new = _mm512_and_si512(_mm512_set1_epi64(bits as i64), new);
    let (new, steps) = match of_item {
        1 => {
            let new = _mm512_mask_add_epi64(new, 0b0000_1100, new, step);
            let new = _mm512_mask_add_epi64(new, 0b0011_0000, new, step_of_two);
            let new = _mm512_mask_add_epi64(new, 0b1100_0000, new, step_of_three);
            (new, _mm512_add_epi64(step_of_two, step_of_two))
        }
        _ => (_mm512_mask_add_epi64(new, 0b1111_0000, new, step), step_of_two),
    };
    let (mut new, mut at) = (new, first);
    for _ in 0..count / 4 {
        // SAFETY: four pairs have 64 bytes.
        unsafe {
            let old = _mm512_and_si512(_mm512_loadu_si512(at.cast()), stay);
            _mm512_storeu_si512(at.cast(), _mm512_or_si512(old, new));
        }
        new = _mm512_add_epi64(new, steps);
        at = at.wrapping_add(4);
    }
    if !count.is_multiple_of(4) {
        let items = ((count - count % 4) / of_item) as u64;
        let by = kind.by_items(items);
        let change = Change { kind, first: bits.wrapping_add(by) };
        // SAFETY: the caller vouches for the pairs.
        unsafe { avx2::change_run(at, count % 4, of_item, change) };
    }
}
