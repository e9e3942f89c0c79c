//! Kernels that were launched and are not known to be done, which the error of a lost device names.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// Number of a queue's last launches whose kernels are known.
const SLOTS: usize = 16;
/// The number in place of a queue's, for launches of the backend itself.
const SERVICE: u64 = u64::MAX;
/// Most kernels that an error names.
const MOST_NAMED: usize = 8;

/// The last launches of a queue. Noting a launch takes no lock.
pub(crate) struct InFlight {
    /// The queue's number.
    pub(crate) queue: u64,
    /// Number of launches noted so far.
    noted: AtomicU64,
    /// Number of launches that the driver was given.
    handed: AtomicU64,
    /// Number of launches that are known to be done.
    done: AtomicU64,
    /// The numbers of the last kernels; launch `n` is at `n % SLOTS`.
    last: [AtomicU64; SLOTS],
}

impl InFlight {
    /// Notes a launch of the kernel of this number.
    #[inline]
    pub(crate) fn note(&self, kernel: u64) {
        let number = self.noted.fetch_add(1, Ordering::Relaxed);
        self.last[number as usize % SLOTS].store(kernel, Ordering::Relaxed);
    }

    /// Counts a noted launch that the driver was given, or has refused.
    #[inline]
    pub(crate) fn was_handed(&self) {
        self.handed.fetch_add(1, Ordering::Release);
    }

    /// Returns the number of launches that the driver was given until now, for
    /// [`InFlight::are_done`].
    #[inline]
    pub(crate) fn handed(&self) -> u64 {
        self.handed.load(Ordering::Acquire)
    }

    /// Marks as done the launches up to this result of [`InFlight::handed`].
    #[inline]
    pub(crate) fn are_done(&self, handed: u64) {
        self.done.fetch_max(handed, Ordering::Relaxed);
    }

    fn kernels(&self) -> impl Iterator<Item = u64> {
        let noted = self.noted.load(Ordering::Relaxed);
        let first = self.done.load(Ordering::Relaxed).max(noted.saturating_sub(SLOTS as u64));
        (first..noted).map(|number| self.last[number as usize % SLOTS].load(Ordering::Relaxed))
    }
}

/// The queues and the kernels of a device.
#[derive(Default)]
pub(crate) struct Registry {
    queues: Mutex<Vec<Weak<InFlight>>>,
    names: Mutex<HashMap<u64, Arc<str>>>,
    next_queue: AtomicU64,
    next_kernel: AtomicU64,
}

impl Registry {
    /// Adds a queue and returns its list of launches.
    pub(crate) fn add(&self) -> Arc<InFlight> {
        self.add_numbered(self.next_queue.fetch_add(1, Ordering::Relaxed))
    }

    /// Adds a list for launches of the backend itself; it is dropped after them.
    pub(crate) fn add_service(&self) -> Arc<InFlight> {
        self.add_numbered(SERVICE)
    }

    fn add_numbered(&self, queue: u64) -> Arc<InFlight> {
        let in_flight = Arc::new(InFlight {
            queue,
            noted: AtomicU64::new(0),
            handed: AtomicU64::new(0),
            done: AtomicU64::new(0),
            last: Default::default(),
        });
        let mut queues = self.queues.lock();
        queues.retain(|queue| queue.strong_count() > 0);
        queues.push(Arc::downgrade(&in_flight));
        in_flight
    }

    /// Assigns a number to a kernel of this name.
    pub(crate) fn name_kernel(&self, name: &Arc<str>) -> u64 {
        let number = self.next_kernel.fetch_add(1, Ordering::Relaxed);
        self.names.lock().insert(number, Arc::clone(name));
        number
    }

    /// Forgets a dropped kernel: none of its launches is in flight.
    pub(crate) fn forget_kernel(&self, number: u64) {
        self.names.lock().remove(&number);
    }

    /// Returns whether all launches are known to be done.
    pub(crate) fn is_idle(&self) -> bool {
        let is_idle = |queue: Arc<InFlight>| queue.kernels().next().is_none();
        self.queues.lock().iter().filter_map(Weak::upgrade).all(is_idle)
    }

    /// Lists the kernels in flight: "'saxpy' (queue 0), 'fill' (queue 2, 3 times)"; empty if no
    /// kernel is in flight.
    pub(crate) fn in_flight(&self) -> String {
        let names = self.names.lock();
        let mut counts: Vec<(u64, &str, usize)> = Vec::new();
        for queue in self.queues.lock().iter().filter_map(Weak::upgrade) {
            for kernel in queue.kernels() {
                let name = names.get(&kernel).map_or("a kernel", |name| name);
                let known = counts
                    .iter_mut()
                    .find(|(number, known, _)| *number == queue.queue && *known == name);
                match known {
                    Some((_, _, count)) => *count += 1,
                    None => counts.push((queue.queue, name, 1)),
                }
            }
        }
        let mut text = String::new();
        for (number, name, count) in counts.iter().take(MOST_NAMED) {
            let comma = if text.is_empty() { "" } else { ", " };
            let _ = match count {
                _ if *number == SERVICE => write!(text, "{comma}the {name}"),
                1 => write!(text, "{comma}'{name}' (queue {number})"),
                count => write!(text, "{comma}'{name}' (queue {number}, {count} times)"),
            };
        }
        match counts.len().saturating_sub(MOST_NAMED) {
            0 => {}
            more => _ = write!(text, " and {more} more"),
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launches_since_the_last_wait_are_in_flight() {
        let registry = Registry::default();
        let kernels = ["saxpy", "fill"].map(|name| registry.name_kernel(&name.into()));
        let queues = [registry.add(), registry.add()];
        assert_eq!(registry.in_flight(), "");
        queues[0].note(kernels[0]);
        queues[0].are_done(queues[0].handed());
        assert!(!registry.is_idle(), "the driver does not have it yet");
        queues[0].was_handed();
        queues[0].are_done(queues[0].handed());
        assert!(registry.is_idle());
        queues[0].note(kernels[1]);
        queues[1].note(kernels[0]);
        queues[1].note(kernels[0]);
        assert_eq!(registry.in_flight(), "'fill' (queue 0), 'saxpy' (queue 1, 2 times)");
        registry.forget_kernel(kernels[1]);
        drop(queues.into_iter().nth(1));
        assert_eq!(registry.in_flight(), "");
    }

    #[test]
    fn only_the_last_launches_are_known() {
        let registry = Registry::default();
        let queue = registry.add();
        for name in 0..40 {
            queue.note(registry.name_kernel(&format!("k{name}").into()));
        }
        let listed = registry.in_flight();
        assert!(
            listed.starts_with("'k24' (queue 0)") && listed.ends_with(" and 8 more"),
            "{listed}"
        );
    }
}
