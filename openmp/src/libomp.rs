//! Functions of libomp, found by name in the running process.
//!
//! A program can use this library without libomp, so each function may be missing.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A function of the process, found by name at its first use.
struct Symbol {
    name: &'static CStr,
    /// Address; 0 before the first look-up, [`MISSING`] without such a function.
    address: AtomicUsize,
}

const MISSING: usize = usize::MAX;

/// The greatest number of arguments of a parallel region.
pub(crate) const MOST_ARGUMENTS: usize = 8;

impl Symbol {
    const fn new(name: &'static CStr) -> Symbol {
        Symbol { name, address: AtomicUsize::new(0) }
    }

    #[inline]
    fn get(&self) -> Option<usize> {
        match self.address.load(Ordering::Relaxed) {
            0 => self.find(),
            MISSING => None,
            address => Some(address),
        }
    }

    #[cold]
    fn find(&self) -> Option<usize> {
        // SAFETY: the name ends with a zero byte.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, self.name.as_ptr()) } as usize;
        self.address.store(if found == 0 { MISSING } else { found }, Ordering::Relaxed);
        (found != 0).then_some(found)
    }
}

macro_rules! functions {
    ($( $(#[$doc:meta])* fn $name:ident = $symbol:literal
        ($($argument:ident: $kind:ty),*) $(-> $result:ty)?; )*) => { $(
        $(#[$doc])*
        #[inline]
        pub(crate) fn $name($($argument: $kind),*) -> Option<functions!(@ $($result)?)> {
            static SYMBOL: Symbol = Symbol::new($symbol);
            let address = SYMBOL.get()?;
            // SAFETY: libomp's function of this name has this type. Pointers come from libomp or
            // from the program.
            Some(unsafe {
                std::mem::transmute::<usize, unsafe extern "C" fn($($kind),*) $(-> $result)?>(
                    address,
                )($($argument),*)
            })
        }
    )* };
    (@) => { () };
    (@ $result:ty) => { $result };
}

/// Returns whether libomp has memory spaces of devices, as LLVM's has from 23 on.
#[inline]
pub(crate) fn has_memory_spaces_of_devices() -> bool {
    static SYMBOL: Symbol = Symbol::new(c"omp_get_device_memspace");
    SYMBOL.get().is_some()
}

/// Returns the address of the function that starts a tool: the tool's, or libomp's own.
pub(crate) fn start_tool() -> Option<usize> {
    static SYMBOL: Symbol = Symbol::new(c"ompt_start_tool");
    SYMBOL.get()
}

/// Returns the address of libomp's function that connects this library to a tool.
pub(crate) fn connect_function() -> Option<usize> {
    static SYMBOL: Symbol = Symbol::new(c"ompt_libomp_connect");
    SYMBOL.get()
}

functions! {
    /// Returns the policy: 0 disabled, 1 default, 2 mandatory.
    fn target_offload = c"__kmpc_get_target_offload"() -> i32;
    /// Returns the number of the default device (`OMP_DEFAULT_DEVICE`).
    fn default_device = c"omp_get_default_device"() -> i32;
    /// Returns the number of the calling thread.
    fn global_thread_number = c"__kmpc_global_thread_num"(location: *const c_void) -> i32;
    /// Returns whether the calling thread runs tasks of a team.
    fn has_task_team = c"__kmpc_omp_has_task_team"(thread: i32) -> bool;
    /// Returns the place of the handle of the current `nowait` task; null outside of such a task.
    fn async_handle = c"__kmpc_omp_get_target_async_handle_ptr"(thread: i32) -> *mut *mut c_void;
    /// Creates a task that a hidden helper thread runs.
    fn target_task_alloc = c"__kmpc_omp_target_task_alloc"(
        location: *const c_void,
        thread: i32,
        flags: i32,
        task_bytes: usize,
        shared_bytes: usize,
        entry: *const c_void,
        device: i64
    ) -> *mut c_void;
    /// Queues a task behind its dependences.
    fn task_with_deps = c"__kmpc_omp_task_with_deps"(
        location: *const c_void,
        thread: i32,
        task: *mut c_void,
        count: i32,
        dependences: *const c_void,
        unaliased_count: i32,
        unaliased: *const c_void
    ) -> i32;
    /// Waits for dependences.
    fn wait_deps = c"__kmpc_omp_wait_deps"(
        location: *const c_void,
        thread: i32,
        count: i32,
        dependences: *const c_void,
        unaliased_count: i32,
        unaliased: *const c_void
    );
    /// Returns the number of the calling thread in its team.
    fn thread_number = c"omp_get_thread_num"() -> i32;
    /// Returns the number of the calling thread's team.
    fn team_number = c"omp_get_team_num"() -> i32;
    /// Returns the number of teams.
    fn team_count = c"omp_get_num_teams"() -> i32;
    /// Sets the number of threads of the next team of a thread.
    fn push_num_threads = c"__kmpc_push_num_threads"(
        location: *const c_void,
        thread: i32,
        count: i32
    );
    /// Waits for all threads of the team.
    fn barrier = c"__kmpc_barrier"(location: *const c_void, thread: i32);
    /// Connects the tool interface of this library to libomp.
    fn ompt_connect = c"ompt_libomp_connect"(result: *mut c_void);
}

/// Calls a function in each thread of a new team, and waits for all of them.
///
/// # Safety
/// The function takes two pointers to thread numbers and `count` of the arguments.
pub(crate) unsafe fn fork_call(
    location: *const c_void,
    count: i32,
    function: *const c_void,
    arguments: [*mut c_void; MOST_ARGUMENTS],
) -> Option<()> {
    static SYMBOL: Symbol = Symbol::new(c"__kmpc_fork_call");
    let address = SYMBOL.get()?;
    // SAFETY: libomp's function of this name has this type.
    let fork = unsafe {
        std::mem::transmute::<usize, unsafe extern "C" fn(*const c_void, i32, *const c_void, ...)>(
            address,
        )
    };
    let [a, b, c, d, e, f, g, h] = arguments;
    // SAFETY: promised by the caller; libomp reads `count` of the arguments.
    unsafe { fork(location, count, function, a, b, c, d, e, f, g, h) };
    Some(())
}
