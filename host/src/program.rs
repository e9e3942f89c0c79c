//! Programs: images loaded on a device, their kernels and globals.

pub(crate) mod core;
mod life;
mod occupancy;
mod options;
mod suitable;
mod symbols;

pub use life::UnloadReport;
pub use options::LoadOptions;
pub use symbols::{Global, Kernel};

use crate::device::Device;
use crate::host_function;
use crate::image::Image;
use core::{ProgramCore, unloaded};
use longshore_plugin_api::{Error, ErrorCode, Module as _, Result, SymbolKind};
use std::sync::Arc;

/// An image loaded on a device. Cloning is cheap; the image is unloaded by [`Program::unload`],
/// when the last handle to it, its kernels and its globals is dropped, or when the device is
/// closed. LLVM: `ol_program_handle_t`.
///
/// ```no_run
/// # fn count(device: &longshore::Device) -> longshore::Result<()> {
/// let image = longshore::Image::read("counter.img")?;
/// // SAFETY: counter.img contains one kernel and one global variable, without constructors.
/// let program = unsafe { device.load(image)? };
/// for (name, kind) in program.symbols()? {
///     println!("{kind:?} {name}");
/// }
///
/// let queue = device.queue()?;
/// let count = program.global("count")?;
/// count.write(&queue, 7u32)?;
/// // SAFETY: the kernel takes no argument and increments `count`.
/// unsafe { queue.launch(&program.kernel("increment")?, longshore::Grid::default(), ())? };
/// assert_eq!(count.read::<u32>(&queue)?, 8);
///
/// drop(count);
/// let report = program.unload()?;
/// assert!(report.profile.is_empty());
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Program {
    shared: Arc<Shared>,
}

struct Shared {
    core: Arc<ProgramCore>,
    device: Device,
}

impl Device {
    /// Loads an image and runs its global constructors. A borrowed image is copied, so that its
    /// memory may go away at once. Of a container ([`Image::entries`]) that the device does not take
    /// as it is, the image that suits it best is loaded. Blocks. LLVM: `olCreateProgram`.
    ///
    /// # Errors
    /// `InvalidBinary` if it is malformed or not for this device; of a container the message says so
    /// for each image. `Unsupported` if it is valid and more than the backend, or for a container
    /// this library, can do, `LinkFailure` for undefined symbols, `Uninitialized` if the
    /// device was closed; those of the driver.
    ///
    /// # Safety
    /// An image is code, part of which can run from now on without any launch: constructors, resolvers
    /// of indirect functions and initializers of thread-local variables while it is loaded and used,
    /// destructors when it is unloaded. On the CPU this code runs in the program, and nothing checks
    /// it. The caller vouches that running it is sound in this process, as for a library that is opened;
    /// an image from an untrusted source is not. [`Device::load_verified`] needs no such promise.
    ///
    /// ```no_run
    /// # fn load(device: &longshore::Device) -> longshore::Result<()> {
    /// // SAFETY: the build made saxpy.img of kernels of this program, without constructors.
    /// let program = unsafe { device.load(longshore::Image::read("saxpy.img")?)? };
    /// # Ok(()) }
    /// ```
    ///
    /// Safe code cannot load it:
    ///
    /// ```compile_fail,E0133
    /// # fn load(device: &longshore::Device) -> longshore::Result<()> {
    /// let program = device.load(longshore::Image::read("saxpy.img")?)?;
    /// # Ok(()) }
    /// ```
    pub unsafe fn load(&self, image: impl Into<Image>) -> Result<Program> {
        Program::load(self, image.into(), &LoadOptions::new())
    }

    /// Loads an image as [`Device::load`] does if the backend verifies it entirely, so that its source
    /// need not be trusted: on Vulkan WGSL and, where there is a validator, SPIR-V without constructors and destructors. Launching
    /// its kernels stays `unsafe`. Blocks.
    ///
    /// # Errors
    /// As for [`Device::load`], and `Unsupported` for an image that the backend does not verify.
    pub fn load_verified(&self, image: impl Into<Image>) -> Result<Program> {
        Program::load(self, image.into(), &LoadOptions::new().with_verification(true))
    }

    /// Loads an image as [`Device::load`] does, with options. Blocks.
    ///
    /// # Errors
    /// As for [`Device::load`]; with [`LoadOptions::with_verification`] also `Unsupported` for an image
    /// that the backend does not verify. Of an image that is linked lazily they are those of the
    /// parts that are read now: a later error is one of the launch, with the same code, such as
    /// `LinkFailure` for undefined symbols and `InvalidBinary` for a damaged member. The program
    /// can be used further.
    ///
    /// # Safety
    /// As for [`Device::load`].
    ///
    /// ```no_run
    /// # fn load(device: &longshore::Device) -> longshore::Result<()> {
    /// let options = longshore::LoadOptions::new().with_lazy_linking(true);
    /// // SAFETY: the build made kernels.a of kernels of this program.
    /// let program = unsafe { device.load_with(longshore::Image::read("kernels.a")?, &options)? };
    /// # Ok(()) }
    /// ```
    pub unsafe fn load_with(
        &self,
        image: impl Into<Image>,
        options: &LoadOptions,
    ) -> Result<Program> {
        Program::load(self, image.into(), options)
    }
}

impl Program {
    fn load(device: &Device, image: Image, options: &LoadOptions) -> Result<Program> {
        let core = ProgramCore::load(device, image, options)?;
        Ok(Program { shared: Arc::new(Shared { core, device: device.clone() }) })
    }

    /// Returns the device that it is loaded on.
    pub fn device(&self) -> &Device {
        &self.shared.device
    }

    /// Finds a kernel. LLVM: `olGetSymbol`.
    ///
    /// # Errors
    /// `NotFound` if there is none of this name (the message names those that there are),
    /// `SymbolKind` if it is a global, `Uninitialized` if the program was unloaded.
    pub fn kernel(&self, name: &str) -> Result<Kernel> {
        let found = Kernel::find(self, name);
        found.map_err(|error| self.name_others(name, SymbolKind::Kernel, error))
    }

    /// Finds a global variable. LLVM: `olGetSymbol`.
    ///
    /// # Errors
    /// As for [`Program::kernel`], with the kinds exchanged.
    pub fn global(&self, name: &str) -> Result<Global> {
        let found = Global::find(self, name);
        found.map_err(|error| self.name_others(name, SymbolKind::Global, error))
    }

    /// Names and kinds of all kernels and globals, sorted.
    ///
    /// # Errors
    /// `Uninitialized` if the program was unloaded; those of the driver.
    pub fn symbols(&self) -> Result<Vec<(String, SymbolKind)>> {
        let module = self.core().module.enter(0).ok_or_else(unloaded)?;
        let mut symbols = module.symbols()?;
        symbols.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(symbols)
    }

    /// Blocks until all is done that is queued now on queues that have launched this program's
    /// kernels. Before [`Program::unload`], it tells apart failures of that work, after which the
    /// program is still loaded, from those of unloading.
    ///
    /// # Errors
    /// The first failure among that work that nobody was told of; the queue's own next
    /// synchronization answers it as well, this method does not again. `Uninitialized` if the
    /// program was unloaded, `Unsupported` in a host function of a queue of the device.
    pub fn synchronize(&self) -> Result<()> {
        host_function::refuse_inside(self.device().id(), "waiting for a program")?;
        let _loaded = self.core().module.enter(0).ok_or_else(unloaded)?;
        self.device().core().wait_for_users(self.core().id)
    }

    /// Unloads the image: waits for the queues that use it, runs its destructors, reads its
    /// memory-pool tracker and profile, and gives everything back. All steps are taken whatever
    /// fails. Blocks. LLVM: `olDestroyProgram`.
    ///
    /// # Errors
    /// The first error of any step; the others are logged. `Uninitialized` if it was unloaded
    /// before. `Unsupported` in a host function of a queue of the device, where nothing is done
    /// but that dropping the last handle unloads it on another thread.
    pub fn unload(self) -> Result<UnloadReport> {
        host_function::refuse_inside(self.device().id(), "unloading a program")?;
        self.device().core().unload(self.core())
    }

    pub(crate) fn core(&self) -> &ProgramCore {
        &self.shared.core
    }

    /// Adds to a `NotFound` what names there are, the most similar ones first.
    fn name_others(&self, name: &str, kind: SymbolKind, error: Error) -> Error {
        const SHOWN: usize = 8;
        /// As looking at one takes microseconds.
        const LOOKED_AT: usize = 10_000;
        if error.code() != ErrorCode::NotFound {
            return error;
        }
        let mut names = self.symbols().unwrap_or_default();
        names.retain(|(_, known)| *known == kind);
        let count = names.len();
        names.truncate(LOOKED_AT);
        names.sort_by_cached_key(|(known, _)| distance(known, name));
        let shown: Vec<_> = names.into_iter().take(SHOWN).map(|(known, _)| known).collect();
        let listed = match count {
            0 => "there is none".to_owned(),
            _ if count <= SHOWN => format!("there are {}", shown.join(", ")),
            _ => format!("there are {}, and {} more", shown.join(", "), count - SHOWN),
        };
        Error::new(ErrorCode::NotFound, format!("{}; {listed}", error.message()))
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if self.core.module.is_closed() {
            return;
        }
        if !host_function::is_inside(self.device.id()) {
            return unload_dropped(&self.device, &self.core);
        }
        // Without a thread it stays loaded until its device is closed.
        let (device, core) = (self.device.clone(), Arc::clone(&self.core));
        host_function::do_elsewhere("dropping a program", move || unload_dropped(&device, &core));
    }
}

fn unload_dropped(device: &Device, core: &ProgramCore) {
    match device.core().unload(core) {
        // Its device is being closed, which unloads it.
        Err(error) if error.code() == ErrorCode::Uninitialized => {}
        Err(error) => log::error!("unloading a dropped program: {error}"),
        Ok(_) => {}
    }
}

/// Returns the number of letters to insert, remove or change to get from one name to the other. The beginnings of long
/// names are compared, as the cost is the product of the lengths.
fn distance(from: &str, to: &str) -> usize {
    const COMPARED: usize = 256;
    let [from, to] = [from, to].map(|name| &name[..name.floor_char_boundary(COMPARED)]);
    strsim::levenshtein(from, to)
}

#[cfg(test)]
mod tests {
    use super::distance;

    #[test]
    fn the_distance_of_names_counts_changed_letters() {
        assert_eq!(distance("saxpy", "saxpy"), 0);
        assert_eq!(distance("saxpi", "saxpy"), 1);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kernel", "colonel"), 4);
        assert!(distance("abc", &"x".repeat(1 << 30)) < 1000);
    }
}
