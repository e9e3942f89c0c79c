//! Inputs. Numbers are small integers, so that sums of floats are exact in any order, with or
//! without fused multiplication and addition.

/// Returns integers from -8 to 8, which depend on the seed alone.
pub fn small_floats(seed: u32, n: usize) -> Vec<f32> {
    words(seed, n).map(|word| (word % 17) as f32 - 8.0).collect()
}

/// Returns integers of any size; their sums wrap around.
pub fn integers(seed: u32, n: usize) -> Vec<u32> {
    words(seed, n).collect()
}

/// Returns bytes of any value, small ones more often than large ones.
pub fn bytes(seed: u32, n: usize) -> Vec<u8> {
    words(seed, n).map(|word| (word as u8).min((word >> 8) as u8)).collect()
}

/// Returns bodies in a cube of edge 2 around the origin: x, y, z and a mass.
pub fn bodies(seed: u32, n: usize) -> Vec<f32> {
    let unit = |word: u32| (word >> 8) as f32 / (1 << 24) as f32;
    let numbers = words(seed, 4 * n).zip([false, false, false, true].iter().cycle());
    numbers.map(|(word, mass)| if *mass { unit(word) } else { 2.0 * unit(word) - 1.0 }).collect()
}

/// Generates random words by Marsaglia's xorshift.
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
