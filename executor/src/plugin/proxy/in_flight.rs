//! Launched kernels that are not known to be done, for the report of a process's end.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

/// Number of a queue's last launches that are remembered.
const SLOTS: usize = 8;
/// Greatest number of kernels that a description names.
const MOST_NAMED: usize = 8;

/// The last launches of a queue. Noting a launch takes no lock.
#[derive(Debug, Default)]
pub(super) struct Launches {
    noted: AtomicU64,
    done: AtomicU64,
    /// The numbers of the last kernels; the kernel of launch number `n` is at `n % SLOTS`.
    last: [AtomicU64; SLOTS],
}

impl Launches {
    pub(super) fn note(&self, kernel: u64) {
        let number = self.noted.fetch_add(1, Ordering::Relaxed);
        self.last[number as usize % SLOTS].store(kernel, Ordering::Relaxed);
    }

    /// Returns the number of launches so far, for [`Launches::are_done`].
    pub(super) fn noted(&self) -> u64 {
        self.noted.load(Ordering::Relaxed)
    }

    /// Records that the first `noted` launches are done.
    pub(super) fn are_done(&self, noted: u64) {
        self.done.fetch_max(noted, Ordering::Relaxed);
    }

    fn kernels(&self) -> impl Iterator<Item = u64> {
        let noted = self.noted();
        let first = self.done.load(Ordering::Relaxed).max(noted.saturating_sub(SLOTS as u64));
        (first..noted).map(|number| self.last[number as usize % SLOTS].load(Ordering::Relaxed))
    }
}

/// The queues and kernels of a process.
#[derive(Debug, Default)]
pub(super) struct Registry {
    queues: Mutex<Vec<Weak<Launches>>>,
    names: Mutex<HashMap<u64, Arc<str>>>,
}

impl Registry {
    /// Creates the record of launches of a new queue.
    pub(super) fn queue(&self) -> Arc<Launches> {
        let launches = Arc::new(Launches::default());
        let mut queues = self.queues.lock();
        queues.retain(|queue| queue.strong_count() > 0);
        queues.push(Arc::downgrade(&launches));
        launches
    }

    /// Remembers a kernel's name.
    pub(super) fn name(&self, kernel: u64, name: &str) {
        self.names.lock().insert(kernel, name.into());
    }

    /// Forgets the names of kernels that are gone.
    pub(super) fn forget(&self, kernels: &[u64]) {
        let mut names = self.names.lock();
        for kernel in kernels {
            names.remove(kernel);
        }
    }

    /// Returns a text for a message: "no kernel was in flight", or the kernels' names and counts.
    pub(super) fn description(&self) -> String {
        let queues: Vec<_> = self.queues.lock().iter().filter_map(Weak::upgrade).collect();
        let names = self.names.lock();
        let mut counts: Vec<(Arc<str>, usize)> = Vec::new();
        for kernel in queues.iter().flat_map(|queue| queue.kernels()) {
            let name = names.get(&kernel).cloned().unwrap_or_else(|| "of an unloaded image".into());
            match counts.iter_mut().find(|(known, _)| *known == name) {
                Some((_, count)) => *count += 1,
                None => counts.push((name, 1)),
            }
        }
        if counts.is_empty() {
            return "no kernel was in flight".to_owned();
        }
        let mut description = "in flight were".to_owned();
        for (index, (name, count)) in counts.iter().take(MOST_NAMED).enumerate() {
            let before = if index == 0 { " " } else { ", " };
            let times = if *count > 1 { format!(" ({count} times)") } else { String::new() };
            let _ = write!(description, "{before}'{name}'{times}");
        }
        if counts.len() > MOST_NAMED {
            let _ = write!(description, " and {} more", counts.len() - MOST_NAMED);
        }
        description
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_that_are_not_done_are_named_with_how_often() {
        let registry = Registry::default();
        let (one, other) = (registry.queue(), registry.queue());
        registry.name(1, "saxpy");
        registry.name(2, "sum");
        assert_eq!(registry.description(), "no kernel was in flight");
        one.note(1);
        one.note(1);
        other.note(2);
        assert_eq!(registry.description(), "in flight were 'saxpy' (2 times), 'sum'");
        one.are_done(one.noted());
        assert_eq!(registry.description(), "in flight were 'sum'");
        drop(other);
        assert_eq!(registry.description(), "no kernel was in flight");
    }
}
