//! The total and free memory of this process.

use std::fs::read_to_string;
use std::path::{Path, PathBuf};

/// Returns the bytes of memory of the machine, or of the process's control group if it has less.
pub(crate) fn total_bytes() -> u64 {
    let machine = meminfo("MemTotal:").unwrap_or(u64::MAX);
    limits().into_iter().map(|limit| limit.bytes).fold(machine, u64::min)
}

/// Returns the number of free bytes of that memory. In a control group, its file cache does not
/// count as free.
pub(crate) fn free_bytes() -> u64 {
    let machine = meminfo("MemAvailable:").unwrap_or(0);
    limits().into_iter().map(|limit| limit.bytes.saturating_sub(limit.used)).fold(machine, u64::min)
}

/// The limit of a control group.
struct Limit {
    bytes: u64,
    used: u64,
}

/// Returns the limits of the process's control group and of all enclosing groups.
fn limits() -> Vec<Limit> {
    let groups = read_to_string("/proc/self/cgroup").unwrap_or_default();
    groups.lines().filter_map(memory_group).flat_map(|group| group.limits()).collect()
}

/// The hierarchy that limits memory, and the process's path in it.
#[derive(Debug, PartialEq, Eq)]
struct MemoryGroup {
    mount: &'static str,
    path: PathBuf,
    limit_file: &'static str,
    used_file: &'static str,
}

impl MemoryGroup {
    fn limits(&self) -> Vec<Limit> {
        let groups = self.path.ancestors().map(|path| Path::new(self.mount).join(path));
        groups
            .filter_map(|folder| {
                let bytes = read_number(&folder.join(self.limit_file))?;
                let used = read_number(&folder.join(self.used_file))?;
                Some(Limit { bytes, used })
            })
            .collect()
    }
}

/// Reads a line of `/proc/self/cgroup`: "0::/path" (version 2) or "4:memory:/path" (version 1).
fn memory_group(line: &str) -> Option<MemoryGroup> {
    let mut fields = line.splitn(3, ':');
    let (number, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
    let path = PathBuf::from(path.trim_start_matches('/'));
    if number == "0" && controllers.is_empty() {
        return Some(MemoryGroup {
            mount: "/sys/fs/cgroup",
            path,
            limit_file: "memory.max",
            used_file: "memory.current",
        });
    }
    controllers.split(',').any(|name| name == "memory").then_some(MemoryGroup {
        mount: "/sys/fs/cgroup/memory",
        path,
        limit_file: "memory.limit_in_bytes",
        used_file: "memory.usage_in_bytes",
    })
}

/// Returns the number in a file; `None` for "max" or an unreadable file.
fn read_number(file: &Path) -> Option<u64> {
    read_to_string(file).ok()?.trim().parse().ok()
}

/// Returns a field of `/proc/meminfo`, in bytes.
fn meminfo(field: &str) -> Option<u64> {
    let text = read_to_string("/proc/meminfo").ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix(field))?;
    let kib: u64 = value.trim().trim_end_matches("kB").trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_memory_and_no_more_is_free_than_there_is() {
        let (total, free) = (total_bytes(), free_bytes());
        assert!(total > 1 << 20 && total < u64::MAX);
        assert!(free <= total);
    }

    #[test]
    fn both_versions_of_control_groups_are_read() {
        let unified = memory_group("0::/user.slice/a:b").unwrap();
        assert_eq!(unified.path, Path::new("user.slice/a:b"));
        assert_eq!(unified.limit_file, "memory.max");
        let legacy = memory_group("4:hugetlb,memory:/x").unwrap();
        assert_eq!((legacy.path.to_str(), legacy.limit_file), (Some("x"), "memory.limit_in_bytes"));
        assert_eq!(memory_group("3:cpuset:/"), None);
        assert_eq!(memory_group("nonsense"), None);
    }
}
