//! Data regions: `target data`, `target enter data`, `target exit data`, `target update`.

use crate::abi::{Ident, MapArguments};
use crate::device::OmpDevice;
use crate::mapping::begin::{self, Beginning};
use crate::mapping::mapper::List;
use crate::mapping::{Failure, attach, end, simple, update};
use crate::settings::is_observed;
use crate::stream::Stream;
use crate::{construct, info, ompt, profile};
use std::ffi::c_void;

/// The direction of a data construct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Construct {
    Begin,
    End,
    Update,
}

impl Construct {
    fn event(self) -> ompt::Construct {
        match self {
            Construct::Begin => ompt::Construct::EnterData,
            Construct::End => ompt::Construct::ExitData,
            Construct::Update => ompt::Construct::Update,
        }
    }

    fn title(self, is_nowait: bool) -> &'static str {
        match (self, is_nowait) {
            (Construct::Begin, false) => "Entering OpenMP data region with being_mapper",
            (Construct::Begin, true) => "Entering OpenMP data region with being_nowait_mapper",
            (Construct::End, false) => "Exiting OpenMP data region with end_mapper",
            (Construct::End, true) => "Exiting OpenMP data region with end_nowait_mapper",
            (Construct::Update, false) => {
                "Updating data within the OpenMP data region with update_mapper"
            }
            (Construct::Update, true) => {
                "Updating data within the OpenMP data region with update_nowait_mapper"
            }
        }
    }
}

/// Carries out a data construct. Blocks until its copies are done.
///
/// # Safety
/// The arguments describe memory of the program.
#[inline]
pub(crate) unsafe fn run(
    construct: Construct,
    is_nowait: bool,
    location: *const Ident,
    device: i64,
    arguments: &MapArguments,
) {
    // SAFETY: promised by the caller.
    let describe = |device| unsafe {
        info::arguments(device, construct.title(is_nowait), location, arguments);
    };
    // SAFETY: as above.
    let Some(device) = (unsafe { construct::device(device, location, describe) }) else { return };
    // SAFETY: promised by the caller.
    if device.is_reachable && !is_observed() && unsafe { shortcut(construct, device, arguments) } {
        return;
    }
    // SAFETY: promised by the caller.
    unsafe { run_on(construct, device, location, arguments) }
}

/// Carries out a data construct on a device.
///
/// # Safety
/// As for [`run`].
#[inline(never)]
unsafe fn run_on(
    construct: Construct,
    device: &'static OmpDevice,
    location: *const Ident,
    arguments: &MapArguments,
) {
    let name = "Runtime: Data Copy";
    // SAFETY: promised by the caller.
    let _profile =
        unsafe { profile::construct(name, location, || format!("NumArgs={}", arguments.count)) };
    let mut stream = Stream::new(device);
    let _scope = ompt::construct(construct.event(), device.number);
    // SAFETY: promised by the caller.
    let result = unsafe { carry_out(construct, &mut stream, arguments) };
    let result = result.and_then(|()| Ok(stream.synchronize()?));
    // SAFETY: promised by the caller.
    result.unwrap_or_else(|failure| unsafe { construct::fail(&failure, location) });
    // SAFETY: as above.
    unsafe { construct::succeed(location) };
}

/// Carries out a construct whose arguments are small plain variables. Returns false for others.
#[inline]
unsafe fn shortcut(construct: Construct, device: &OmpDevice, arguments: &MapArguments) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        match construct {
            Construct::Begin => simple::begin(device, arguments),
            Construct::End => simple::end(device, arguments),
            Construct::Update => simple::update(device, arguments),
        }
    }
}

#[inline]
unsafe fn carry_out(
    construct: Construct,
    stream: &mut Stream,
    arguments: &MapArguments,
) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    unsafe {
        match construct {
            Construct::Begin => {
                let mut beginning = Beginning::new(stream);
                begin::begin(&mut beginning, arguments)?;
                attach::process(&mut beginning)
            }
            Construct::End => end::end(stream, arguments),
            Construct::Update => update::update(stream, arguments),
        }
    }
}

macro_rules! data_constructs {
    ($( $(#[$doc:meta])* $name:ident: $construct:ident, $is_nowait:literal; )*) => { $(
        $(#[$doc])*
        ///
        /// Blocks until the copies are done. Any thread may call it. A failure ends the program.
        ///
        /// # Safety
        /// The arguments describe memory of the program.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            location: *const Ident,
            device: i64,
            count: i32,
            bases: *mut *mut c_void,
            begins: *mut *mut c_void,
            sizes: *const i64,
            types: *const i64,
            names: *const *mut c_void,
            mappers: *const *mut c_void,
        ) {
            let count = count.max(0) as usize;
            let arguments = MapArguments { count, bases, begins, sizes, types, names, mappers };
            // SAFETY: promised by the caller.
            unsafe { run(Construct::$construct, $is_nowait, location, device, &arguments) }
        }
    )* };
}

// A task calls the forms for `nowait`. Newer compilers pass further arguments to them: the forms
// do not read them.
data_constructs! {
    /// Maps data to a device: `target enter data`, and the beginning of `target data`. LLVM:
    /// `__tgt_target_data_begin_mapper`.
    __tgt_target_data_begin_mapper: Begin, false;
    /// Maps data to a device in a task. LLVM: `__tgt_target_data_begin_nowait_mapper`.
    __tgt_target_data_begin_nowait_mapper: Begin, true;
    /// Ends mappings: `target exit data`, and the end of `target data`. LLVM:
    /// `__tgt_target_data_end_mapper`.
    __tgt_target_data_end_mapper: End, false;
    /// Ends mappings in a task. LLVM: `__tgt_target_data_end_nowait_mapper`.
    __tgt_target_data_end_nowait_mapper: End, true;
    /// Copies mapped data: `target update`. LLVM: `__tgt_target_data_update_mapper`.
    __tgt_target_data_update_mapper: Update, false;
    /// Copies mapped data in a task. LLVM: `__tgt_target_data_update_nowait_mapper`.
    __tgt_target_data_update_nowait_mapper: Update, true;
}

/// Returns the number of components that a mapper has listed. LLVM: `__tgt_mapper_num_components`.
///
/// # Safety
/// The handle is the one that the mapper got, or the address of a vector with LLVM's components.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __tgt_mapper_num_components(handle: *mut c_void) -> i64 {
    // SAFETY: promised by the caller.
    unsafe { (*handle.cast::<List>()).len() as i64 }
}

/// Adds a component of the value that a mapper lists. LLVM: `__tgt_push_mapper_component`.
///
/// # Safety
/// The handle is the one that the mapper got, or the address of a vector with LLVM's components.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __tgt_push_mapper_component(
    handle: *mut c_void,
    base: *mut c_void,
    begin: *mut c_void,
    size: i64,
    kind: i64,
    name: *mut c_void,
) {
    // SAFETY: promised by the caller.
    unsafe { (*handle.cast::<List>()).push(base, begin, size, kind, name) }
}
