//! Entry points of clang 14 and older.

use super::regions::{self, RAN, RUN_ON_HOST};
use crate::abi::{FLAG_NOWAIT, Ident, LaunchRequest, MapArguments};
use crate::region::Region;
use std::cell::Cell;
use std::ffi::c_void;

thread_local! {
    /// The number of iterations for the thread's next region.
    static TRIP_COUNT: Cell<u64> = const { Cell::new(0) };
}

/// Notes the number of iterations of the loop of the thread's next region. LLVM:
/// `__kmpc_push_target_tripcount_mapper`.
#[unsafe(no_mangle)]
pub extern "C" fn __kmpc_push_target_tripcount_mapper(
    _location: *const Ident,
    _device: i64,
    count: u64,
) {
    TRIP_COUNT.set(count);
}

/// Notes the number of iterations of the loop of the thread's next region. LLVM:
/// `__kmpc_push_target_tripcount`.
#[unsafe(no_mangle)]
pub extern "C" fn __kmpc_push_target_tripcount(_device: i64, count: u64) {
    TRIP_COUNT.set(count);
}

/// Runs a region without a structure of arguments.
unsafe fn run(
    location: *const Ident,
    device: i64,
    address: *const c_void,
    arguments: MapArguments,
    (teams, thread_limit): (i32, i32),
    flags: u64,
) -> i32 {
    let region = Region {
        location,
        address: address as usize,
        version: 0,
        teams,
        thread_limit,
        trip_count: TRIP_COUNT.take(),
        request: LaunchRequest { flags, ..LaunchRequest::default() },
        arguments,
    };
    // SAFETY: the callers' promise.
    let ran = unsafe { regions::run(device, &region) };
    debug_assert!(ran == RAN || ran == RUN_ON_HOST);
    ran
}

macro_rules! arguments {
    ($count:ident, $bases:ident, $begins:ident, $sizes:ident, $types:ident, $names:expr,
     $mappers:expr) => {
        MapArguments {
            count: $count.max(0) as usize,
            bases: $bases,
            begins: $begins,
            sizes: $sizes,
            types: $types,
            names: $names,
            mappers: $mappers,
        }
    };
}

macro_rules! regions {
    ($( $(#[$doc:meta])* fn $name:ident($($extra:ident: $kind:ty),*) = $shape:expr, $flags:expr; )*) => { $(
        $(#[$doc])*
        ///
        /// Blocks until the region is done. Returns 0 if the region ran on a device; otherwise the
        /// caller runs the host's version. A failure ends the program.
        ///
        /// # Safety
        /// The arguments describe the region as clang compiled it.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            location: *const Ident,
            device: i64,
            region: *const c_void,
            count: i32,
            bases: *mut *mut c_void,
            begins: *mut *mut c_void,
            sizes: *const i64,
            types: *const i64,
            names: *const *mut c_void,
            mappers: *const *mut c_void,
            $($extra: $kind),*
        ) -> i32 {
            let arguments = arguments!(count, bases, begins, sizes, types, names, mappers);
            // SAFETY: promised by the caller.
            unsafe { run(location, device, region, arguments, $shape, $flags) }
        }
    )* };
}

regions! {
    /// Runs a target region. LLVM: `__tgt_target_mapper`.
    fn __tgt_target_mapper() = (-1, 0), 0;
    /// Runs a target region in a task. LLVM: `__tgt_target_nowait_mapper`.
    fn __tgt_target_nowait_mapper() = (-1, 0), FLAG_NOWAIT;
    /// Runs a target region with teams. LLVM: `__tgt_target_teams_mapper`.
    fn __tgt_target_teams_mapper(teams: i32, thread_limit: i32) = (teams, thread_limit), 0;
    /// Runs a target region with teams in a task. LLVM: `__tgt_target_teams_nowait_mapper`.
    fn __tgt_target_teams_nowait_mapper(teams: i32, thread_limit: i32) =
        (teams, thread_limit), FLAG_NOWAIT;
}
