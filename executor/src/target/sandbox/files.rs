//! Landlock: other processes, and files by which the system is changed.

use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};

/// File systems by which the kernel is asked and told things.
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

/// Restricts this thread, which is to be the only one. `false` if the kernel has no Landlock.
///
/// Files stay within reach, as far as the user may use them, but for those of the kernel, which can be read, and for raw devices.
/// Being in a domain of Landlock suffices to be kept out of processes that are not.
pub(super) fn restrict() -> Result<bool, RulesetError> {
    // Rights unknown to the running kernel are left out.
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
    /// Grants what is in a folder that cannot be granted as a whole.
    fn below(&mut self, folder: &Path) {
        self.add(folder, AccessFs::ReadDir.into());
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            // The target of a link is granted where it is.
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
        // Memory that programs share lies there as well.
        let has_devices = folder.starts_with("/dev") && folder != Path::new("/dev/shm");
        has_devices || self.kernel.iter().any(|exception| exception.starts_with(folder))
    }

    /// A file that is gone or that rules cannot be about has none.
    fn add(&mut self, path: &Path, access: BitFlags<AccessFs>) {
        let Ok(file) = PathFd::new(path) else { return };
        let rules = self.rules.take().expect("it is put back");
        let added = rules.add_rule(PathBeneath::new(file, access));
        self.rules = Some(added.expect("the rule is about a file, with rights that are handled"));
    }
}

/// Disks, and the memory, ports and messages of the kernel.
fn is_raw(facts: &Metadata) -> bool {
    const MEMORY: u32 = 1;
    let (major, minor) = (rustix::fs::major(facts.rdev()), rustix::fs::minor(facts.rdev()));
    let is_memory = major == MEMORY && matches!(minor, 1 | 2 | 4 | 11);
    facts.file_type().is_block_device() || (facts.file_type().is_char_device() && is_memory)
}

/// Where the kernel's file systems are mounted.
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

/// A name without the escapes of that file: three octal digits after a backslash.
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
