//! Expected results.

/// Returns `y` after `y = factor x + y`.
pub fn saxpy(factor: f32, x: &[f32], y: &[f32]) -> Vec<f32> {
    x.iter().zip(y).map(|(x, y)| factor * x + y).collect()
}

/// Returns `b + factor c`.
pub fn triad(factor: f32, b: &[f32], c: &[f32]) -> Vec<f32> {
    b.iter().zip(c).map(|(b, c)| b + factor * c).collect()
}

/// Returns each element plus its neighbours.
pub fn stencil(x: &[f32]) -> Vec<f32> {
    let at = |i: usize| x.get(i).copied().unwrap_or(0.0);
    (0..x.len()).map(|i| at(i.wrapping_sub(1)) + x[i] + at(i + 1)).collect()
}

/// Returns the sums of the elements at most `radius` away from each element.
pub fn wide_stencil(x: &[f32], radius: usize) -> Vec<f32> {
    let near = |i: usize| i.saturating_sub(radius)..(i + radius + 1).min(x.len());
    (0..x.len()).map(|i| x[near(i)].iter().sum()).collect()
}

/// Returns the product of an m x k and a k x n matrix.
pub fn matmul(a: &[f32], b: &[f32], [m, n, k]: [usize; 3]) -> Vec<f32> {
    let mut c = vec![0.0; m * n];
    for row in 0..m {
        let c = &mut c[row * n..][..n];
        for j in 0..k {
            let factor = a[row * k + j];
            c.iter_mut().zip(&b[j * n..][..n]).for_each(|(c, b)| *c += factor * b);
        }
    }
    c
}

/// Returns the sum of all elements.
pub fn reduce(x: &[f32]) -> f32 {
    x.iter().map(|x| f64::from(*x)).sum::<f64>() as f32
}

/// Returns the sum of each block of `block` elements; the last block may have fewer.
pub fn block_sums(x: &[f32], block: usize) -> Vec<f32> {
    x.chunks(block).map(reduce).collect()
}

/// Sorts each block of `block` elements; the last block may have fewer.
pub fn sorted_blocks(x: &[u32], block: usize) -> Vec<u32> {
    let mut sorted = x.to_vec();
    sorted.chunks_mut(block).for_each(<[u32]>::sort_unstable);
    sorted
}

/// Returns the number of occurrences of each byte.
pub fn histogram(x: &[u8]) -> Vec<u32> {
    let mut bins = vec![0; 256];
    x.iter().for_each(|byte| bins[usize::from(*byte)] += 1);
    bins
}

/// Returns the sum of all elements up to and including each element.
pub fn prefix_sum(x: &[u32]) -> Vec<u32> {
    let add = |sum: &mut u32, x: &u32| {
        *sum = sum.wrapping_add(*x);
        Some(*sum)
    };
    x.iter().scan(0, add).collect()
}

/// A coordinate of a body's acceleration, and the permitted error of a computation with 32 bits.
#[derive(Clone, Copy, Debug, Default)]
pub struct PullBound {
    /// Value, computed with 64 bits.
    pub value: f64,
    /// Largest permitted distance from the value.
    pub tolerance: f64,
}

/// Returns the coordinates x, y and z of all bodies' accelerations.
pub fn nbody(bodies: &[f32]) -> Vec<[PullBound; 3]> {
    nbody_bounds(bodies, 0..bodies.len() / 4)
}

/// Returns the accelerations of some of the bodies.
///
/// The relative errors of a term's roundings add up to less than 20 units in the last place. They
/// come from three differences, a sum of squares under a root, a division, and five products.
/// Adding `n` terms in any order adds at most `n - 1` times half a unit of the sum of their sizes.
pub fn nbody_bounds(bodies: &[f32], which: std::ops::Range<usize>) -> Vec<[PullBound; 3]> {
    const SOFTENING: f64 = 1e-3_f32 as f64;
    let wide = |body: &[f32]| [0, 1, 2, 3].map(|i| f64::from(body[i]));
    let roundings = bodies.len() as f64 / 4.0 + 20.0;
    let tolerance = roundings * f64::from(f32::EPSILON) / 2.0;
    let mut pulls = vec![[PullBound::default(); 3]; which.len()];
    for (own, pull) in bodies.chunks(4).skip(which.start).map(wide).zip(&mut pulls) {
        for other in bodies.chunks(4).map(wide) {
            let way = [0, 1, 2].map(|d| other[d] - own[d]);
            let square = way.iter().map(|d| d * d).sum::<f64>() + SOFTENING;
            let strength = other[3] / (square * square.sqrt());
            for (pull, way) in pull.iter_mut().zip(way) {
                pull.value += strength * way;
                pull.tolerance += (strength * way).abs() * tolerance;
            }
        }
    }
    pulls
}
