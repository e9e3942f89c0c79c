//! Launch shapes that a plugin has accepted, so that a similar launch need not wait for a reply.

use longshore_plugin_api::ArgumentPassing;
use parking_lot::Mutex;

/// The properties of a launch for which a plugin can refuse it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) kernel: u64,
    pub(super) groups: [u32; 3],
    pub(super) items: [u32; 3],
    pub(super) shared_bytes: u64,
    pub(super) passing: ArgumentPassing,
    /// A digest of the arguments' sizes.
    pub(super) sizes: u64,
}

/// Number of shapes remembered for each queue.
const KNOWN: usize = 8;

/// The last launch shapes that a queue has accepted.
#[derive(Debug, Default)]
pub(super) struct AcceptedShapes {
    known: Mutex<Vec<Shape>>,
}

impl AcceptedShapes {
    /// Returns whether the queue has accepted a launch with as many groups or more in each
    /// dimension, and all else the same.
    pub(super) fn has(&self, shape: &Shape) -> bool {
        self.known.lock().iter().any(|known| known.covers(shape))
    }

    /// Remembers an accepted launch.
    pub(super) fn add(&self, shape: Shape) {
        let mut known = self.known.lock();
        known.retain(|known| !shape.covers(known));
        if known.len() == KNOWN {
            known.remove(0);
        }
        known.push(shape);
    }
}

impl Shape {
    fn covers(&self, other: &Self) -> bool {
        let fewer = self.groups.iter().zip(other.groups).all(|(most, groups)| groups <= *most);
        fewer && Self { groups: other.groups, ..self.clone() } == *other
    }
}

/// Returns an FNV-1a digest of sizes.
pub(super) fn digest(sizes: impl Iterator<Item = usize>) -> u64 {
    sizes.fold(0xcbf2_9ce4_8422_2325, |digest, size| {
        (digest ^ (size as u64 + 1)).wrapping_mul(0x100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launch_is_known_with_fewer_groups_and_nothing_else_changed() {
        let accepted = AcceptedShapes::default();
        let shape = Shape {
            kernel: 1,
            groups: [4, 2, 1],
            items: [8; 3],
            shared_bytes: 0,
            passing: ArgumentPassing::Pointers,
            sizes: 3,
        };
        assert!(!accepted.has(&shape));
        accepted.add(shape.clone());
        assert!(accepted.has(&shape));
        assert!(accepted.has(&Shape { groups: [1, 2, 1], ..shape.clone() }));
        for other in [
            Shape { kernel: 2, ..shape.clone() },
            Shape { groups: [4, 3, 1], ..shape.clone() },
            Shape { items: [8, 8, 7], ..shape.clone() },
            Shape { shared_bytes: 1, ..shape.clone() },
            Shape { passing: ArgumentPassing::Words, ..shape.clone() },
            Shape { sizes: 4, ..shape.clone() },
        ] {
            assert!(!accepted.has(&other), "{other:?}");
        }
        for kernel in 10..30 {
            accepted.add(Shape { kernel, ..shape.clone() });
        }
        assert!(!accepted.has(&shape) && accepted.known.lock().len() == KNOWN);
    }

    #[test]
    fn sizes_in_another_order_have_another_digest() {
        let of = |sizes: &[usize]| digest(sizes.iter().copied());
        assert_ne!(of(&[4, 8]), of(&[8, 4]));
        assert_ne!(of(&[]), of(&[0]));
    }
}
