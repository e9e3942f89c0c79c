//! Entry points of clang 11 and older, which have neither source locations nor mappers, and further
//! names of newer entry points.

use super::data;
use super::older;
use super::regions::{self, RUN_ON_HOST};
use crate::abi::{FLAG_NOWAIT, Ident, KernelArguments};
use crate::message;
use crate::region::Region;
use std::ffi::{c_char, c_void};
use std::ptr::null;

/// The result of a function that failed.
const FAILURE: i32 = -1;

macro_rules! regions {
    ($( $(#[$doc:meta])* fn $name:ident($($extra:ident: $kind:ty),*) = $newer:ident; )*) => { $(
        $(#[$doc])*
        ///
        /// Blocks until the region is done. Returns 0 if the region ran on a device; otherwise the
        /// caller runs the host's version. A failure ends the program.
        ///
        /// # Safety
        /// The arguments describe the region as clang compiled it.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            device: i64,
            region: *const c_void,
            count: i32,
            bases: *mut *mut c_void,
            begins: *mut *mut c_void,
            sizes: *const i64,
            types: *const i64,
            $($extra: $kind),*
        ) -> i32 {
            let (location, names, mappers) = (null(), null(), null());
            // SAFETY: promised by the caller.
            unsafe {
                older::$newer(
                    location, device, region, count, bases, begins, sizes, types, names, mappers,
                    $($extra),*
                )
            }
        }
    )* };
}

regions! {
    /// Runs a target region. LLVM: `__tgt_target`.
    fn __tgt_target() = __tgt_target_mapper;
    /// Runs a target region in a task. LLVM: `__tgt_target_nowait`.
    fn __tgt_target_nowait() = __tgt_target_nowait_mapper;
    /// Runs a target region with teams. LLVM: `__tgt_target_teams`.
    fn __tgt_target_teams(teams: i32, thread_limit: i32) = __tgt_target_teams_mapper;
    /// Runs a target region with teams in a task. LLVM: `__tgt_target_teams_nowait`.
    fn __tgt_target_teams_nowait(teams: i32, thread_limit: i32) = __tgt_target_teams_nowait_mapper;
}

macro_rules! data_constructs {
    ($( $(#[$doc:meta])* $name:ident = $newer:ident; )*) => { $(
        $(#[$doc])*
        ///
        /// Blocks until the copies are done. A failure ends the program.
        ///
        /// # Safety
        /// The arguments describe memory of the program.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            device: i64,
            count: i32,
            bases: *mut *mut c_void,
            begins: *mut *mut c_void,
            sizes: *const i64,
            types: *const i64,
        ) {
            let (location, names, mappers) = (null(), null(), null());
            // SAFETY: promised by the caller.
            unsafe {
                data::$newer(location, device, count, bases, begins, sizes, types, names, mappers);
            }
        }
    )* };
}

data_constructs! {
    /// Maps data to a device. LLVM: `__tgt_target_data_begin`.
    __tgt_target_data_begin = __tgt_target_data_begin_mapper;
    /// Maps data to a device in a task. LLVM: `__tgt_target_data_begin_nowait`.
    __tgt_target_data_begin_nowait = __tgt_target_data_begin_nowait_mapper;
    /// Ends mappings. LLVM: `__tgt_target_data_end`.
    __tgt_target_data_end = __tgt_target_data_end_mapper;
    /// Ends mappings in a task. LLVM: `__tgt_target_data_end_nowait`.
    __tgt_target_data_end_nowait = __tgt_target_data_end_nowait_mapper;
    /// Copies mapped data. LLVM: `__tgt_target_data_update`.
    __tgt_target_data_update = __tgt_target_data_update_mapper;
    /// Copies mapped data in a task. LLVM: `__tgt_target_data_update_nowait`.
    __tgt_target_data_update_nowait = __tgt_target_data_update_nowait_mapper;
}

/// Runs a target region in a task, whose dependences libomp has waited for. Otherwise as
/// `__tgt_target_kernel`. LLVM: `__tgt_target_kernel_nowait`.
///
/// # Safety
/// The arguments describe the region as clang compiled it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __tgt_target_kernel_nowait(
    location: *const Ident,
    device: i64,
    teams: i32,
    thread_limit: i32,
    region: *const c_void,
    arguments: *const KernelArguments,
) -> i32 {
    // SAFETY: promised by the caller.
    unsafe {
        let mut region = Region::read(location, region as usize, teams, thread_limit, arguments);
        // Arguments of version 1 have no flags.
        region.request.flags |= FLAG_NOWAIT;
        regions::run(device, &region)
    }
}

/// Fails: this library records no launches. Returns -1 and prints the reason. LLVM:
/// `__tgt_activate_record_replay`.
#[unsafe(no_mangle)]
pub extern "C" fn __tgt_activate_record_replay(
    device: i64,
    _bytes: u64,
    _address: *const c_void,
    _is_record: bool,
    _saves_output: bool,
    _last: *const c_char,
) -> i32 {
    message::error(format_args!(
        "__tgt_activate_record_replay for device {device}: Longshore has no recording of kernel \
         launches; record and replay with LLVM's libomptarget"
    ));
    FAILURE
}

/// Fails: this library replays no launches. Returns -1 and prints the reason. LLVM:
/// `__tgt_target_kernel_replay`.
#[unsafe(no_mangle)]
pub extern "C" fn __tgt_target_kernel_replay(
    _location: *const Ident,
    device: i64,
    _region: *const c_void,
) -> i32 {
    message::error(format_args!(
        "__tgt_target_kernel_replay for device {device}: Longshore has no replay of recorded \
         kernel launches; record and replay with LLVM's libomptarget"
    ));
    RUN_ON_HOST
}
