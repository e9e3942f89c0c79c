//! The calling thread's own stack.

use std::ptr::null_mut;

/// Returns the size of this thread's stack in bytes, if an access to this address overflowed it.
pub(crate) fn overflow(address: u64) -> Option<usize> {
    let (_, bytes, _) = bounds()?;
    let (start, end) = end()?;
    (start..end).contains(&address).then_some(bytes)
}

/// Returns the addresses at which an access overflows this thread's stack: its guard and its lowest
/// page. The first thread's stack has no guard of its own, and its limit is rounded to a page.
pub(crate) fn end() -> Option<(u64, u64)> {
    let (limit, _, guard_bytes) = bounds()?;
    let page = rustix::param::page_size();
    Some((limit.saturating_sub(guard_bytes.max(page) as u64), limit + page as u64))
}

/// Returns the addresses of this thread's stack; all if the system does not tell.
pub(crate) fn range() -> std::ops::Range<u64> {
    thread_local!(static RANGE: std::cell::OnceCell<(u64, u64)> = const { std::cell::OnceCell::new() });
    let find = || bounds().map_or((0, u64::MAX), |(start, bytes, _)| (start, start + bytes as u64));
    // An ending thread has lost its variables.
    let (start, end) = RANGE.try_with(|range| *range.get_or_init(find)).unwrap_or_else(|_| find());
    start..end
}

/// Returns the lowest address of this thread's stack, its size, and the size of the guard below it.
fn bounds() -> Option<(u64, usize, usize)> {
    // SAFETY: the attributes are filled for this thread before they are read, and destroyed once.
    unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        if libc::pthread_getattr_np(libc::pthread_self(), &raw mut attributes) != 0 {
            return None;
        }
        let (mut limit, mut bytes, mut guard_bytes) = (null_mut(), 0, 0);
        let stack =
            libc::pthread_attr_getstack(&raw const attributes, &raw mut limit, &raw mut bytes);
        let guard = libc::pthread_attr_getguardsize(&raw const attributes, &raw mut guard_bytes);
        libc::pthread_attr_destroy(&raw mut attributes);
        (stack == 0 && guard == 0).then(|| (limit.addr() as u64, bytes, guard_bytes))
    }
}
