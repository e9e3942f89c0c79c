//! The devices, and all memory.

use super::blocks::Blocks;
use super::context::{Context, Primary};
use super::state::print_error;
use super::{Code, Driver, DriverResult, driver};
use crate::Window;
use crate::window::{self, MOST_DEVICES};
use parking_lot::Mutex;
use std::ffi::CStr;
use std::io::{self, Error};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

static MACHINE: OnceLock<Machine> = OnceLock::new();

/// The devices and all memory, which exist once the driver is initialised.
pub struct Machine {
    /// The devices, by their numbers.
    pub devices: Vec<Device>,
    /// Host memory that devices reach.
    pub(crate) shared: Window,
    pub(crate) blocks: Blocks,
    /// All live contexts.
    pub(crate) contexts: Mutex<Vec<Arc<Context>>>,
    /// The program of GPU processes.
    program: PathBuf,
    /// Multiprocessors of each device.
    pub multiprocessors: u32,
    /// Whether devices have memory pools.
    pub has_pools: bool,
    /// Whether devices have managed memory.
    pub has_managed: bool,
    /// Whether kernels reach pageable memory of the host, as the driver reports it.
    pub has_pageable: bool,
    /// Whether devices reach each other's memory.
    pub has_peers: bool,
    /// Folder of the twins.
    pub(crate) twins: Option<PathBuf>,
}

/// A device.
pub struct Device {
    pub(crate) window: Window,
    /// The device's only context, or the primary context, which programs share.
    pub primary: Mutex<Primary>,
    /// Handle of its default pool, once a program requested it.
    pub(crate) default_pool: Mutex<usize>,
    /// Limits of the device.
    pub limits: Limits,
}

/// The limits of a device.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum number of items in a group.
    pub items: u32,
    /// Maximum number of items in each dimension.
    pub items_by_dimension: [u32; 3],
    /// Maximum number of groups in each dimension.
    pub groups: [u32; 3],
    /// Items of a group that run in lockstep.
    pub sub_group: u32,
    /// Shared memory of a group in bytes, static and dynamic, without a raised attribute.
    pub shared_bytes: u32,
    /// Items that run on a multiprocessor at a time.
    pub items_of_multiprocessor: u32,
    /// Groups that run on a multiprocessor at a time.
    pub groups_of_multiprocessor: u32,
    /// Registers of a multiprocessor.
    pub registers_of_multiprocessor: u32,
    /// Shared memory of a multiprocessor in bytes.
    pub shared_bytes_of_multiprocessor: u32,
}

/// Returns the devices and their memory.
///
/// # Errors
/// `NOT_INITIALIZED`.
pub fn machine() -> DriverResult<&'static Machine> {
    MACHINE.get().ok_or(Code::NOT_INITIALIZED)
}

/// Returns whether the driver is initialised.
pub(crate) fn is_initialized() -> bool {
    MACHINE.get().is_some()
}

/// Creates the devices, once.
///
/// # Errors
/// `OPERATING_SYSTEM` if their memory or addresses are not available.
pub fn initialize() -> DriverResult {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock();
    if !is_initialized() {
        let machine = Machine::new(driver()).map_err(|error| {
            print_error(&error);
            Code::OPERATING_SYSTEM
        })?;
        let _ = MACHINE.set(machine);
    }
    Ok(())
}

impl Machine {
    /// Creates the machine that the settings describe.
    ///
    /// # Errors
    /// Memory or addresses that are not available.
    pub(crate) fn new(driver: &Driver) -> io::Result<Machine> {
        let settings = &driver.settings;
        let memory = settings.number("memory", 8 << 30);
        let count = settings.number("devices", 1).min(MOST_DEVICES as u64) as usize;
        let device = |index| {
            Ok(Device {
                window: Window::new(window::device_base(index), memory)?,
                primary: Mutex::default(),
                default_pool: Mutex::default(),
                limits: driver.vendor.limits(settings, index),
            })
        };
        window::reserve_code_windows()?;
        Ok(Machine {
            devices: (0..count).map(device).collect::<io::Result<_>>()?,
            shared: Window::new(window::shared_base(), window::WINDOW_BYTES)?,
            blocks: Blocks::default(),
            contexts: Mutex::default(),
            program: settings
                .get("gpu")
                .map_or_else(beside_this_library, |path| Ok(path.into()))?,
            multiprocessors: settings.number("multiprocessors", 4) as u32,
            has_pools: settings.has("pools"),
            has_managed: settings.has("managed"),
            has_pageable: settings.number("pageable", 0) != 0,
            has_peers: settings.has("peer"),
            twins: settings.get("twins").map(PathBuf::from),
        })
    }

    /// Returns a device by its number.
    ///
    /// # Errors
    /// `INVALID_DEVICE`.
    pub fn device(&self, index: i32) -> DriverResult<&Device> {
        usize::try_from(index)
            .ok()
            .and_then(|index| self.devices.get(index))
            .ok_or(Code::INVALID_DEVICE)
    }

    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    /// Returns the windows that a GPU process maps.
    pub(crate) fn windows(&self) -> impl Iterator<Item = &Window> {
        self.devices.iter().map(|device| &device.window).chain([&self.shared])
    }

    /// Waits for all work of a device.
    pub(crate) fn wait_for_device(&self, device: usize) {
        let contexts = self.contexts.lock().clone();
        for context in contexts.iter().filter(|context| context.device == device) {
            context.wait();
        }
    }
}

/// Returns the program in the folder of this library's file, or in the parent folder, where cargo
/// puts programs.
fn beside_this_library() -> io::Result<PathBuf> {
    let path = std::fs::canonicalize(path_of_this_library()?)?;
    let folders = path.ancestors().skip(1).take(2);
    let mut programs = folders.map(|folder| folder.join("longshore-double-gpu"));
    let found = programs.find(|program| program.is_file());
    found.ok_or_else(|| Error::other("there is no longshore-double-gpu beside this library"))
}

fn path_of_this_library() -> io::Result<PathBuf> {
    // SAFETY: plain data, for which zeros are a value.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    let here = path_of_this_library as fn() -> io::Result<PathBuf>;
    // SAFETY: an address of this library, and a place for the result.
    if unsafe { libc::dladdr(here as *const libc::c_void, &mut info) } == 0 {
        return Err(Error::other("the loader does not know this library"));
    }
    // SAFETY: the loader's text, which lives as long as this library.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    Ok(PathBuf::from(std::ffi::OsStr::from_bytes(name.to_bytes())))
}
