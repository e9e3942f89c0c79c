//! The end of a program whose first thread ends before the others.
//!
//! Such a process ends with its last thread. An executor also has threads that serve the
//! controller, unknown to the program. When no other threads are left, the process ends as if these
//! threads did not exist.

use std::ffi::c_void;
use std::fs;
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

/// Has the process end with the program's last thread, if the calling thread, the process's first,
/// ends before. Threads of this crate do not count as threads of the program.
pub fn end_with_last_thread() {
    static KEY: OnceLock<libc::pthread_key_t> = OnceLock::new();
    let key = *KEY.get_or_init(|| {
        let mut key = 0;
        // SAFETY: the key is writable, and the function may be called at the end of any thread.
        unsafe { libc::pthread_key_create(&mut key, Some(first_has_ended)) };
        key
    });
    // The value only has to be non-null for the destructor to run. No destructor runs when `exit`
    // ends the process.
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

/// Prefix of the names of the threads that serve the controller.
pub(super) const OURS: &str = "longshore-rpc";

/// Prefixes of the names of all threads of this crate, also in a controller.
const ALL_OURS: [&str; 3] = [OURS, "longshore-exec", "longshore-keep"];

/// Returns whether threads of the program are left, other than the first one, which remains as a
/// zombie.
fn others_are_left() -> bool {
    let Ok(threads) = fs::read_dir("/proc/self/task") else { return true };
    // Compares numbers of `/proc`, which may belong to another namespace than the process's own.
    let Ok(first) = fs::read_link("/proc/self") else { return true };
    threads.flatten().any(|thread| {
        let name = fs::read_to_string(thread.path().join("comm"));
        let is_ours = name.is_ok_and(|name| ALL_OURS.iter().any(|ours| name.starts_with(ours)));
        !is_ours && thread.file_name() != first
    })
}
