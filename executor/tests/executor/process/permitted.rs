//! The namespaces that this system permits.

/// Returns whether a process may have all namespaces of the sandbox.
pub(crate) fn has_namespaces() -> bool {
    let namespaces = libc::CLONE_NEWUSER | libc::CLONE_NEWPID | libc::CLONE_NEWIPC;
    // SAFETY: the child makes system calls and ends.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::_exit(libc::unshare(namespaces));
        }
        let mut status = -1;
        assert_eq!(libc::waitpid(child, &mut status, 0), child);
        status == 0
    }
}
