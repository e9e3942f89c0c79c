//! What a process holds, by which tests find what is left behind.

/// Memory that the C library's allocator may take, or not give back, for other reasons.
const OTHERS_KIB: usize = 1024;
/// It may map a little more or less, too; a leak of one per round is more.
const OTHERS_MAPPINGS: usize = 8;

/// What this process holds.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    /// Memory that is resident.
    pub resident_kib: usize,
    /// Open file descriptors.
    pub descriptors: usize,
    /// Mappings of memory.
    pub mappings: usize,
}

impl Held {
    /// At this moment.
    ///
    /// # Panics
    /// If the system does not say it, in `/proc`.
    pub fn now() -> Held {
        let read = |file: &str| std::fs::read_to_string(format!("/proc/self/{file}")).unwrap();
        let status = read("status");
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        Held {
            resident_kib: resident.trim().trim_end_matches(" kB").parse().unwrap(),
            descriptors: std::fs::read_dir("/proc/self/fd").unwrap().count(),
            mappings: read("maps").lines().count(),
        }
    }

    /// Asserts that it is no more than there was before.
    ///
    /// # Panics
    /// If it is.
    pub fn assert_no_more_than(&self, before: &Held) {
        let both = format!("before {before:?}, after {self:?}");
        assert_eq!(self.descriptors, before.descriptors, "{both}");
        assert!(self.mappings <= before.mappings + OTHERS_MAPPINGS, "{both}");
        assert!(self.resident_kib <= before.resident_kib + OTHERS_KIB, "{both}");
    }
}
