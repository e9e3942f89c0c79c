//! What a process holds, by which tests find what is left behind.

/// Memory that the C library's allocator may take, or not give back, for other reasons.
const OTHERS_KIB: usize = 1024;
/// It may map a little more or less, too; a leak of one per round is more.
pub const OTHERS_MAPPINGS: usize = 8;
/// Arenas of allocators grow in steps, of which one may be larger; a leak is there each time.
const TRIES: usize = 3;

/// What this process holds.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    /// Memory that is resident.
    pub resident_kib: usize,
    /// Open file descriptors.
    pub descriptors: usize,
    /// Mappings of memory.
    pub mappings: usize,
    /// Threads.
    pub threads: usize,
}

impl Held {
    /// At this moment.
    ///
    /// # Panics
    /// If the system does not say it, in `/proc`.
    pub fn now() -> Held {
        let read = |file: &str| std::fs::read_to_string(format!("/proc/self/{file}")).unwrap();
        let count =
            |folder: &str| std::fs::read_dir(format!("/proc/self/{folder}")).unwrap().count();
        let status = read("status");
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        Held {
            resident_kib: resident.trim().trim_end_matches(" kB").parse().unwrap(),
            descriptors: count("fd"),
            mappings: read("maps").lines().count(),
            threads: count("task"),
        }
    }

    fn has_more_memory_than(&self, before: &Held, others_mappings: usize) -> bool {
        self.mappings > before.mappings + others_mappings
            || self.resident_kib > before.resident_kib + OTHERS_KIB
    }
}

/// Asserts that `rounds` of something leave no descriptor and no memory behind, and prints what was measured. They
/// are many, so that a page or a mapping of each is more than what others may take: [`OTHERS_MAPPINGS`], or
/// more mappings where more is known to be taken once. If memory seems to be left, they are done again.
///
/// # Panics
/// If a descriptor is left, or memory each time.
pub fn assert_nothing_is_left_by(others_mappings: usize, mut rounds: impl FnMut()) {
    let is_left = (0..TRIES).all(|_| {
        let before = Held::now();
        rounds();
        let after = Held::now();
        println!("measured: before {before:?}; after {after:?}");
        assert_eq!(after.descriptors, before.descriptors, "descriptors");
        after.has_more_memory_than(&before, others_mappings)
    });
    assert!(!is_left, "each of {TRIES} times there was more memory afterwards");
}
