//! Landlock rules: the protection of other processes, and of files that change the system.

use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};

/// File systems by which the kernel is queried and configured.
const OF_THE_KERNEL: &[&str] = &[
    "binfmt_misc",
    "bpf",
    "cgroup",
    "cgroup2",
    "configfs",
    "debugfs",
    "efivarfs",
    "fusectl",
    "nfsd",
    "proc",
    "pstore",
    "resctrl",
    "rpc_pipefs",
    "securityfs",
    "selinuxfs",
    "smackfs",
    "sysfs",
    "tracefs",
];

/// Restricts this thread, which must be the only one. Returns false if the kernel has no Landlock.
///
/// Files remain accessible within the user's rights, except the kernel's, which become read-only,
/// and raw devices. A process in a Landlock domain cannot access processes outside it.
pub(super) fn restrict() -> Result<bool, RulesetError> {
    // Landlock leaves out rights unknown to the running kernel.
    let rules = Ruleset::default()
        .handle_access(AccessFs::from_all(ABI::V5))?
        .handle_access(AccessNet::from_all(ABI::V4))?
        .scope(Scope::from_all(ABI::V6))?
        .create()?;
    let mut grants = Grants { rules: Some(rules), kernel: kernel_folders() };
    grants.below(Path::new("/"));
    grants.add(Path::new("/proc/self"), AccessFs::WriteFile | AccessFs::Truncate);
    let status = grants.rules.expect("it is put back").restrict_self()?;
    Ok(status.ruleset != RulesetStatus::NotEnforced)
}

struct Grants {
    rules: Option<RulesetCreated>,
    kernel: Vec<PathBuf>,
}

impl Grants {
    /// Grants the entries of a folder that cannot be granted as a whole.
    fn below(&mut self, folder: &Path) {
        self.add(folder, AccessFs::ReadDir.into());
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            // The target of a link is granted at its own path.
            let Some(facts) = path.symlink_metadata().ok().filter(|facts| !facts.is_symlink())
            else {
                continue;
            };
            if self.kernel.contains(&path) {
                self.add(&path, AccessFs::ReadFile | AccessFs::ReadDir);
            } else if facts.is_dir() && self.has_exceptions(&path) {
                self.below(&path);
            } else if !is_raw(&facts) {
                self.add(&path, AccessFs::from_all(ABI::V5));
            }
        }
    }

    fn has_exceptions(&self, folder: &Path) -> bool {
        // `/dev/shm` also holds memory shared by programs.
        let has_devices = folder.starts_with("/dev") && folder != Path::new("/dev/shm");
        has_devices || self.kernel.iter().any(|exception| exception.starts_with(folder))
    }

    /// Adds a rule for a file. Skips a file that is gone or that cannot be opened.
    fn add(&mut self, path: &Path, access: BitFlags<AccessFs>) {
        let Ok(file) = PathFd::new(path) else { return };
        let rules = self.rules.take().expect("it is put back");
        let added = rules.add_rule(PathBeneath::new(file, access));
        self.rules = Some(added.expect("the rule is about a file, with rights that are handled"));
    }
}

/// Returns whether a file is a disk, or the kernel's memory, ports or messages.
fn is_raw(facts: &Metadata) -> bool {
    const MEMORY: u32 = 1;
    let (major, minor) = (rustix::fs::major(facts.rdev()), rustix::fs::minor(facts.rdev()));
    let is_memory = major == MEMORY && matches!(minor, 1 | 2 | 4 | 11);
    facts.file_type().is_block_device() || (facts.file_type().is_char_device() && is_memory)
}

/// Returns the mount points of the kernel's file systems.
fn kernel_folders() -> Vec<PathBuf> {
    let mut folders = vec![PathBuf::from("/proc"), PathBuf::from("/sys")];
    for line in fs::read("/proc/self/mountinfo").unwrap_or_default().split(|byte| *byte == b'\n') {
        let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        let separator = fields.iter().position(|field| *field == b"-");
        let kind = separator.and_then(|at| fields.get(at + 1));
        if let (Some(place), Some(kind)) = (fields.get(4), kind)
            && OF_THE_KERNEL.iter().any(|known| known.as_bytes() == *kind)
        {
            folders.push(PathBuf::from(OsString::from_vec(plain(place))));
        }
    }
    folders
}

/// Returns a name without the escapes of `mountinfo`: three octal digits after a backslash.
fn plain(name: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((&first, after)) = rest.split_first() {
        let code = after.get(..3).and_then(|code| std::str::from_utf8(code).ok());
        let code = code.filter(|_| first == b'\\');
        match code.and_then(|code| u8::from_str_radix(code, 8).ok()) {
            Some(byte) => {
                plain.push(byte);
                rest = &after[3..];
            }
            None => {
                plain.push(first);
                rest = after;
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_mount_points_are_read_with_their_escapes() {
        assert_eq!(plain(b"/a\\040b\\134c"), b"/a b\\c");
        assert_eq!(plain(b"/a\\04"), b"/a\\04");
        assert!(kernel_folders().iter().any(|folder| folder == Path::new("/proc")));
    }

    #[test]
    fn disks_and_the_memory_of_the_system_are_raw_and_null_is_not() {
        assert!(!is_raw(&fs::metadata("/dev/null").unwrap()));
        if let Ok(facts) = fs::metadata("/dev/kmsg") {
            assert!(is_raw(&facts));
        }
    }
}
