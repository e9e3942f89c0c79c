//! The sum of the memory-pool trackers of unloaded images.

use longshore_plugin_api::PoolTracker;

/// The sum of the trackers of all unloaded images.
#[derive(Default)]
pub(crate) struct PoolTotals {
    tracker: Option<PoolTracker>,
}

impl PoolTotals {
    /// Returns the sum; `None` if no image had a tracker.
    pub(crate) fn get(&self) -> Option<PoolTracker> {
        self.tracker
    }

    pub(crate) fn merge(&mut self, read: Option<PoolTracker>) {
        let Some(read) = read else { return };
        // Without allocations, `min_bytes` has the image's arbitrary initial value.
        let total = match &mut self.tracker {
            Some(total) if total.allocations > 0 => total,
            total => {
                *total = Some(read);
                return;
            }
        };
        if read.allocations == 0 {
            return;
        }
        // Saturating: the image's memory can hold any numbers.
        total.allocations = total.allocations.saturating_add(read.allocations);
        total.total_bytes = total.total_bytes.saturating_add(read.total_bytes);
        total.min_bytes = total.min_bytes.min(read.min_bytes);
        total.max_bytes = total.max_bytes.max(read.max_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_that_allocated_nothing_has_no_smallest_allocation() {
        let used = PoolTracker { allocations: 2, total_bytes: 48, min_bytes: 16, max_bytes: 32 };
        for min_bytes in [0, u64::MAX] {
            let unused = PoolTracker { allocations: 0, total_bytes: 0, min_bytes, max_bytes: 0 };
            for order in [[unused, used], [used, unused]] {
                let mut totals = PoolTotals::default();
                order.into_iter().for_each(|read| totals.merge(Some(read)));
                assert_eq!(totals.get(), Some(used));
            }
        }
    }

    #[test]
    fn trackers_of_any_content_add_up() {
        let most = PoolTracker {
            allocations: u64::MAX,
            total_bytes: u64::MAX,
            min_bytes: 3,
            max_bytes: 5,
        };
        let mut totals = PoolTotals::default();
        for read in [None, Some(most), Some(PoolTracker { min_bytes: 1, max_bytes: 9, ..most })] {
            totals.merge(read);
        }
        assert_eq!(totals.tracker, Some(PoolTracker { min_bytes: 1, max_bytes: 9, ..most }));
    }
}
