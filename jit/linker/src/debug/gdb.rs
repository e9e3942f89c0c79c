//! The GDB JIT interface, by which gdb and lldb (`settings set plugin.jit-loader.gdb.enable on`)
//! learn of linked objects.
//!
//! The interface is a list of objects, which a debugger finds by the name of a variable, and a
//! function by whose name the debugger sets a breakpoint. It is the only state of this crate that
//! belongs to the process and not to a value.
//!
//! The debugger fixes both names, and LLVM and other users of the interface define them as well. So
//! they are weak here: in a program that statically links several definitions, the system's linker
//! takes one, and all users share its list. The names are also hidden: each shared library has a
//! list of its own. They are in the symbol table that debuggers read, and go when that table is
//! stripped.
//!
//! gdb reads the lists of all libraries, lldb that of the first one. So if the executable contains
//! this crate too, a library uses the executable's list (`gdb/program.rs`).
//!
//! A lock beside the list guards it. Users of another definition have a lock of their own, so a
//! program that statically links LLVM's JIT too must not register objects with both at the same
//! time.

mod program;

use std::arch::global_asm;
use std::hint;
use std::ptr::{self, NonNull};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

// Rust cannot define weak symbols. The compiler does not know the function's body, so it never
// inlines the function; and the linker keeps both symbols because `announce` uses them.
global_asm!(
    ".pushsection .text.__jit_debug_register_code, \"ax\", @progbits",
    ".weak __jit_debug_register_code",
    ".hidden __jit_debug_register_code",
    ".type __jit_debug_register_code, @function",
    ".p2align 4",
    "__jit_debug_register_code:",
    "ret",
    ".size __jit_debug_register_code, 1",
    ".popsection",
    ".pushsection .data.__jit_debug_descriptor, \"aw\", @progbits",
    ".weak __jit_debug_descriptor",
    ".hidden __jit_debug_descriptor",
    ".type __jit_debug_descriptor, @object",
    ".p2align 3",
    "__jit_debug_descriptor:",
    ".4byte 1, 0",
    ".8byte 0, 0",
    ".size __jit_debug_descriptor, 24",
    ".popsection",
    ".pushsection .data.longshore_debug_list_lock, \"aw\", @progbits",
    ".weak longshore_debug_list_lock",
    ".hidden longshore_debug_list_lock",
    ".type longshore_debug_list_lock, @object",
    ".p2align 2",
    "longshore_debug_list_lock:",
    ".4byte 0",
    ".size longshore_debug_list_lock, 4",
    ".popsection",
);

unsafe extern "C" {
    static mut __jit_debug_descriptor: Descriptor;
    fn __jit_debug_register_code();
    static longshore_debug_list_lock: AtomicU32;
}

/// The addresses of a library's list, its function and its lock.
#[derive(Debug, Clone, Copy)]
struct List {
    descriptor: *mut Descriptor,
    register: unsafe extern "C" fn(),
    lock: &'static AtomicU32,
}

// SAFETY: every thread uses the descriptor only with the list locked.
unsafe impl Send for List {}
// SAFETY: as above.
unsafe impl Sync for List {}

/// A locked list. Dropping it unlocks the list.
struct Locked(List);

impl List {
    /// Locks the list of this process.
    fn lock() -> Locked {
        static LIST: OnceLock<List> = OnceLock::new();
        let list = *LIST.get_or_init(|| program::list().unwrap_or_else(List::own));
        // Code of several libraries uses the lock, so it is one word without a queue.
        while list.lock.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            hint::spin_loop();
            thread::yield_now();
        }
        Locked(list)
    }

    /// Returns this library's list.
    fn own() -> List {
        let descriptor = &raw mut __jit_debug_descriptor;
        // SAFETY: the lock is initialized data of this library.
        let lock = unsafe { &longshore_debug_list_lock };
        List { descriptor, register: __jit_debug_register_code, lock }
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        self.0.lock.store(0, Ordering::Release);
    }
}

/// Registers an object with debuggers until the registration is dropped. The object is relocatable
/// and contains the addresses of its sections, as [`with_addresses`](super::object::with_addresses)
/// makes it.
///
/// Any thread may call the function. It waits for an attached debugger to read the object. LLVM's
/// counterpart is `GDBJITDebugInfoRegistrationPlugin`.
pub fn register(object: Vec<u8>) -> GdbRegistration {
    let object = object.into_boxed_slice();
    let entry = Entry {
        next: ptr::null_mut(),
        previous: ptr::null_mut(),
        object: object.as_ptr(),
        object_size: object.len() as u64,
    };
    let entry = NonNull::from(Box::leak(Box::new(entry)));
    let list = List::lock();
    // SAFETY: the entry is new, and the entry and the object live until `drop` of the registration
    // takes them off the list.
    unsafe {
        list.insert(entry.as_ptr());
        list.announce(Action::Register, entry.as_ptr());
    }
    GdbRegistration { entry, _object: object }
}

/// An object registered with debuggers. Dropping it removes the object, and waits for an attached
/// debugger to do so.
#[derive(Debug)]
#[must_use = "dropping it takes the object from the debugger"]
pub struct GdbRegistration {
    entry: NonNull<Entry>,
    _object: Box<[u8]>,
}

// SAFETY: every thread uses the entry only with the list locked.
unsafe impl Send for GdbRegistration {}
// SAFETY: a shared reference gives access to nothing.
unsafe impl Sync for GdbRegistration {}

impl Drop for GdbRegistration {
    fn drop(&mut self) {
        let list = List::lock();
        // SAFETY: `register` has leaked the entry from a box and put it in the list, and only this
        // function removes it.
        unsafe {
            list.remove(self.entry.as_ptr());
            list.announce(Action::Unregister, self.entry.as_ptr());
            drop(Box::from_raw(self.entry.as_ptr()));
        }
    }
}

/// gdb's `jit_descriptor`.
#[repr(C)]
struct Descriptor {
    version: u32,
    action: Action,
    relevant: *mut Entry,
    first: *mut Entry,
}

/// gdb's `jit_actions_t`.
#[repr(u32)]
#[expect(dead_code, reason = "`Nothing` is the initial value of the descriptor")]
enum Action {
    Nothing,
    Register,
    Unregister,
}

/// gdb's `jit_code_entry`.
#[derive(Debug)]
#[repr(C)]
struct Entry {
    next: *mut Entry,
    previous: *mut Entry,
    object: *const u8,
    object_size: u64,
}

impl Locked {
    /// Inserts an entry at the front of the list.
    ///
    /// # Safety
    /// The entry is valid, in no list, and stays valid until it is removed.
    unsafe fn insert(&self, entry: *mut Entry) {
        let descriptor = self.0.descriptor;
        // SAFETY: the descriptor is initialized data of the process, and the lock makes this its
        // only user. Entries in the list are valid, because their owners keep them.
        unsafe {
            let first = (*descriptor).first;
            (*entry).next = first;
            if let Some(first) = first.as_mut() {
                first.previous = entry;
            }
            (*descriptor).first = entry;
        }
    }

    /// Removes an entry from the list.
    ///
    /// # Safety
    /// The entry is in the list.
    unsafe fn remove(&self, entry: *mut Entry) {
        let descriptor = self.0.descriptor;
        // SAFETY: as in `insert`; the neighbours of an entry are entries in the list.
        unsafe {
            let Entry { next, previous, .. } = *entry;
            match previous.as_mut() {
                Some(previous) => previous.next = next,
                None => (*descriptor).first = next,
            }
            if let Some(next) = next.as_mut() {
                next.previous = previous;
            }
        }
    }

    /// Notifies the debugger of an action.
    ///
    /// # Safety
    /// The entry is valid.
    unsafe fn announce(&self, action: Action, entry: *mut Entry) {
        let List { descriptor, register, .. } = self.0;
        // SAFETY: as in `insert`. The function is one `ret`, or another definition of the same
        // interface.
        unsafe {
            (*descriptor).action = action;
            (*descriptor).relevant = entry;
            register();
            (*descriptor).relevant = ptr::null_mut();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Walks the list as a debugger does, and leaves out the entries of other tests.
    fn listed(ours: &[&[u8]]) -> Vec<Vec<u8>> {
        let list = List::lock();
        // SAFETY: the list is locked, and the entries and objects in it are valid while they are
        // listed.
        unsafe {
            let descriptor = list.0.descriptor.cast_const();
            assert_eq!((*descriptor).version, 1);
            let mut objects = Vec::new();
            let (mut entry, mut previous) = ((*descriptor).first, ptr::null_mut());
            while let Some(current) = entry.as_ref() {
                assert_eq!(current.previous, previous);
                objects.push(
                    std::slice::from_raw_parts(current.object, current.object_size as usize)
                        .to_vec(),
                );
                (previous, entry) = (entry, current.next);
            }
            objects.retain(|object| ours.contains(&object.as_slice()));
            objects
        }
    }

    #[test]
    fn objects_are_listed_until_their_registrations_are_dropped_in_any_order() {
        let ours: [&[u8]; 3] = [b"first of three", b"second of three", b"third of three"];
        let [first, second, third] = ours.map(|object| register(object.to_vec()));
        assert_eq!(listed(&ours), [ours[2], ours[1], ours[0]]);
        drop(second);
        assert_eq!(listed(&ours), [ours[2], ours[0]]);
        drop(third);
        assert_eq!(listed(&ours), [ours[0]]);
        drop(first);
        assert_eq!(listed(&ours), [[0_u8; 0]; 0]);
    }

    #[test]
    fn many_threads_register_at_once() {
        let ours: Vec<Vec<u8>> =
            (0..8).map(|thread| format!("of thread {thread}").into_bytes()).collect();
        let views: Vec<&[u8]> = ours.iter().map(Vec::as_slice).collect();
        std::thread::scope(|scope| {
            for object in &ours {
                scope.spawn(|| (0..100).for_each(|_| drop(register(object.clone()))));
            }
            (0..100).for_each(|_| assert!(listed(&views).len() <= ours.len()));
        });
        assert_eq!(listed(&views), [[0_u8; 0]; 0]);
    }
}
