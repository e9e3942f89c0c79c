//! Work of this library in tasks of libomp.

use crate::libomp;
use std::ffi::c_void;

/// A dependence of a task. LLVM: `kmp_depend_info_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dependence {
    /// Address of the variable; in the header of a depend object, the number of dependences.
    address: u64,
    bytes: u64,
    flags: u8,
}

/// A task of libomp. LLVM: `kmp_task_t`.
#[repr(C)]
struct Task {
    shared: *mut c_void,
    entry: *const c_void,
    part: i32,
    data: [u64; 2],
}

/// The work of a task.
type Work = Box<dyn FnOnce() + Send>;

/// Reads the dependences of depend objects.
///
/// # Safety
/// `objects` points at `count` depend objects, which clang's `depobj` construct has initialized.
pub(crate) unsafe fn dependences(count: i32, objects: *const *const c_void) -> Vec<Dependence> {
    let mut all = Vec::new();
    if objects.is_null() {
        return all;
    }
    for index in 0..count.max(0) as usize {
        // SAFETY: promised by the caller. A header with the number precedes the dependences.
        unsafe {
            let first = (*objects.add(index)).cast::<Dependence>();
            if let Some(header) = first.as_ref().map(|_| first.sub(1).read()) {
                all.extend((0..header.address as usize).map(|place| first.add(place).read()));
            }
        }
    }
    all
}

/// Runs work in a task behind its dependences. Without libomp, runs the work at once.
pub(crate) fn spawn(work: impl FnOnce() + Send + 'static, dependences: &[Dependence]) {
    let Some(thread) = libomp::global_thread_number(std::ptr::null()) else { return work() };
    let entry = run as extern "C" fn(i32, *mut Task) -> i32;
    let (bytes, device) = (size_of::<Task>(), -1);
    let task = libomp::target_task_alloc(
        std::ptr::null(),
        thread,
        0,
        bytes,
        0,
        entry as *const c_void,
        device,
    );
    let Some(task) = task.filter(|task| !task.is_null()) else { return work() };
    let work: Box<Work> = Box::new(Box::new(work));
    // SAFETY: libomp has allocated the task with the size of the structure.
    unsafe { (*task.cast::<Task>()).shared = Box::into_raw(work).cast() };
    let (count, list) = (dependences.len() as i32, dependences.as_ptr().cast());
    libomp::task_with_deps(std::ptr::null(), thread, task, count, list, 0, std::ptr::null());
}

/// Runs the work of a task. libomp calls it once for each task.
extern "C" fn run(_thread: i32, task: *mut Task) -> i32 {
    // SAFETY: `spawn` has put the work into the task, and libomp runs a task once.
    let work = unsafe { Box::from_raw((*task).shared.cast::<Work>()) };
    work();
    0
}

#[cfg(test)]
mod tests {
    use super::{Dependence, Task, dependences};

    #[test]
    fn structures_have_the_sizes_of_libomp() {
        assert_eq!((size_of::<Dependence>(), size_of::<Task>()), (24, 40));
    }

    #[test]
    fn a_depend_object_lists_as_many_dependences_as_its_header_says() {
        let at = |address| Dependence { address, bytes: 8, flags: 1 };
        let (two, one) = ([at(2), at(10), at(11)], [at(1), at(12)]);
        let objects = [(&raw const two[1]).cast(), (&raw const one[1]).cast(), std::ptr::null()];
        // SAFETY: each object is preceded by a header.
        let found = unsafe { dependences(3, objects.as_ptr()) };
        assert_eq!(found, [at(10), at(11), at(12)]);
    }
}
