//! Inputs. Numbers are small integers, so that sums of floats are exact in any order and whether or not a compiler
//! fuses a multiplication with an addition.

/// Integers from -8 to 8, the same for the same seed.
pub fn small_floats(seed: u32, n: usize) -> Vec<f32> {
    words(seed, n).map(|word| (word % 17) as f32 - 8.0).collect()
}

/// Any numbers; their sums wrap around.
pub fn integers(seed: u32, n: usize) -> Vec<u32> {
    words(seed, n).collect()
}

/// Any bytes, small ones more often than large ones.
pub fn bytes(seed: u32, n: usize) -> Vec<u8> {
    words(seed, n).map(|word| (word as u8).min((word >> 8) as u8)).collect()
}

/// Bodies in a cube of edge 2 around the origin: x, y, z and a mass.
pub fn bodies(seed: u32, n: usize) -> Vec<f32> {
    let unit = |word: u32| (word >> 8) as f32 / (1 << 24) as f32;
    let numbers = words(seed, 4 * n).zip([false, false, false, true].iter().cycle());
    numbers.map(|(word, mass)| if *mass { unit(word) } else { 2.0 * unit(word) - 1.0 }).collect()
}

/// Marsaglia's xorshift.
fn words(seed: u32, n: usize) -> impl Iterator<Item = u32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9) | 1;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state
    })
    .skip(16)
    .take(n)
}
