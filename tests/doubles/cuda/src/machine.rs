//! The devices, and all memory.

use crate::blocks::Blocks;
use crate::code::{Answer, Code};
use crate::context::{Context, Primary};
use longshore_cuda_image::Arch;
use longshore_double_gpu::window::{self, MOST_DEVICES};
use longshore_double_gpu::{Settings, Window};
use parking_lot::Mutex;
use std::ffi::CStr;
use std::io::{self, Error};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What is there after `cuInit`.
pub(crate) struct Machine {
    pub(crate) devices: Vec<Device>,
    /// Host memory that devices reach.
    pub(crate) shared: Window,
    pub(crate) blocks: Blocks,
    /// All contexts that live.
    pub(crate) contexts: Mutex<Vec<Arc<Context>>>,
    /// The program of GPU processes.
    program: PathBuf,
    pub(crate) version: (u32, u32),
    pub(crate) capability: (u32, u32),
    pub(crate) multiprocessors: u32,
    pub(crate) has_pools: bool,
    pub(crate) has_managed: bool,
    pub(crate) has_peers: bool,
    /// Where twins are.
    pub(crate) twins: Option<PathBuf>,
}

/// A device.
pub(crate) struct Device {
    pub(crate) window: Window,
    pub(crate) primary: Mutex<Primary>,
    /// The handle of its default pool, once it was asked for.
    pub(crate) default_pool: Mutex<usize>,
}

impl Machine {
    /// What the settings say.
    ///
    /// # Errors
    /// If memory or addresses are not to be had.
    pub(crate) fn new(settings: &Settings) -> io::Result<Machine> {
        let memory = settings.number("memory", 8 << 30);
        let count = settings.number("devices", 1).min(MOST_DEVICES as u64) as usize;
        let device = |index| {
            let window = Window::new(window::device_base(index), memory)?;
            Ok(Device { window, primary: Mutex::default(), default_pool: Mutex::default() })
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
            version: settings.version("driver", (12, 8)),
            capability: settings.version("capability", (9, 0)),
            multiprocessors: settings.number("multiprocessors", 4) as u32,
            has_pools: settings.has("pools"),
            has_managed: settings.has("managed"),
            has_peers: settings.has("peer"),
            twins: settings.get("twins").map(PathBuf::from),
        })
    }

    /// A device by its number.
    ///
    /// # Errors
    /// `INVALID_DEVICE`.
    pub(crate) fn device(&self, index: i32) -> Answer<&Device> {
        usize::try_from(index)
            .ok()
            .and_then(|index| self.devices.get(index))
            .ok_or(Code::INVALID_DEVICE)
    }

    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    /// The windows that a GPU process has.
    pub(crate) fn windows(&self) -> impl Iterator<Item = &Window> {
        self.devices.iter().map(|device| &device.window).chain([&self.shared])
    }

    /// What devices run.
    pub(crate) fn arch(&self) -> Arch {
        Arch::new(self.capability.0, self.capability.1)
    }

    /// Waits for all that was given to a device.
    pub(crate) fn wait_for_device(&self, device: usize) {
        let contexts = self.contexts.lock().clone();
        for context in contexts.iter().filter(|context| context.device == device) {
            context.wait();
        }
    }
}

/// The program in the folder of this library's file, or in the one above it, where cargo puts programs.
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
    // SAFETY: an address of this library, and a place for the answer.
    if unsafe { libc::dladdr(here as *const libc::c_void, &mut info) } == 0 {
        return Err(Error::other("the loader does not know this library"));
    }
    // SAFETY: the loader's text, which lives as long as this library.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    Ok(PathBuf::from(std::ffi::OsStr::from_bytes(name.to_bytes())))
}
