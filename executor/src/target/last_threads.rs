//! The end of a program whose first thread has ended before the others.
//!
//! Such a process ends with its last thread. This one has threads that serve the controller, and that the program knows nothing of:
//! when no others are left, the process ends as if they were not there.

use std::ffi::c_void;
use std::fs;
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

/// Sees to it that the process ends with its last thread, if the calling one, its first, ends before.
pub(super) fn watch() {
    static KEY: OnceLock<libc::pthread_key_t> = OnceLock::new();
    let key = *KEY.get_or_init(|| {
        let mut key = 0;
        // SAFETY: the key can be written, and the function may be called at the end of any thread.
        unsafe { libc::pthread_key_create(&mut key, Some(first_has_ended)) };
        key
    });
    // Whatever is not null: it is called then. When `exit` ends the process, nothing is.
    // SAFETY: the key was made above.
    unsafe { libc::pthread_setspecific(key, std::ptr::dangling()) };
}

extern "C" fn first_has_ended(_: *mut c_void) {
    let waiting = thread::Builder::new().name(format!("{OURS}-end"));
    let _ = waiting.spawn(|| {
        while others_are_left() {
            thread::sleep(Duration::from_millis(2));
        }
        std::process::exit(0);
    });
}

/// How the names of threads begin that serve the controller.
pub(super) const OURS: &str = "longshore-rpc";

/// Whether there are threads that do not serve the controller, but for the first one, which cannot quite end.
fn others_are_left() -> bool {
    let Ok(threads) = fs::read_dir("/proc/self/task") else { return true };
    // By the numbers that `/proc` has, which need not be those that this process sees.
    let Ok(first) = fs::read_link("/proc/self") else { return true };
    threads.flatten().any(|thread| {
        let name = fs::read_to_string(thread.path().join("comm"));
        let is_ours = name.is_ok_and(|name| name.starts_with(OURS));
        !is_ours && thread.file_name() != first
    })
}
