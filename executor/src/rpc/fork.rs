//! Distinguishing a process from its forked children.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};

/// The process that created the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CreatorProcess(u32);

impl CreatorProcess {
    /// Returns the value for the calling process.
    pub(crate) fn here() -> Self {
        let page = page();
        let here = std::process::id();
        page.store(here, Ordering::Relaxed);
        Self(here)
    }

    /// Returns whether the calling process created the value. A forked child did not. Costs a load.
    pub(crate) fn is_here(self) -> bool {
        page().load(Ordering::Relaxed) == self.0
    }
}

/// Returns a word that is zero in a forked child.
fn page() -> &'static AtomicU32 {
    static PAGE: OnceLock<&'static AtomicU32> = OnceLock::new();
    PAGE.get_or_init(|| {
        let size = rustix::param::page_size();
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice, which is never unmapped.
        unsafe {
            let page = mmap_anonymous(std::ptr::null_mut(), size, access, MapFlags::PRIVATE)
                .expect("a process has room for a page");
            madvise(page, size, Advice::LinuxWipeOnFork).expect("Linux has it since 4.14");
            &*page.cast::<AtomicU32>()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forked_child_is_not_here() {
        let creator = CreatorProcess::here();
        assert!(creator.is_here());
        // SAFETY: the child only loads a word and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let code = i32::from(creator.is_here());
            // SAFETY: the call ends the child at once.
            unsafe { libc::_exit(code) };
        }
        let mut status = 0;
        // SAFETY: the call waits for the child made above.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0);
        assert!(creator.is_here());
    }
}
