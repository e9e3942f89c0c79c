//! Programs: images loaded on a device, their kernels and globals.

pub(crate) mod core;
mod life;
mod occupancy;
mod options;
mod source_names;
mod suitable;
mod symbols;
mod variant;

pub use life::UnloadReport;
pub use options::LoadOptions;
pub use source_names::{source_name, source_signature};
pub use symbols::{Global, Kernel};
pub use variant::KernelVariant;

use crate::device::Device;
use crate::host_function;
use crate::image::Image;
use core::{ProgramCore, unloaded};
use longshore_plugin_api::{Error, ErrorCode, Module as _, Result, SymbolKind};
use std::sync::Arc;

/// An image loaded on a device. Cloning is cheap. The image is unloaded by [`Program::unload`],
/// when the last handle to the program, its kernels and its globals is dropped, or when the device
/// is closed. Any thread may call the methods. LLVM: `ol_program_handle_t`.
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
    /// Loads an image and runs its global constructors. A borrowed image is copied, so the caller
    /// may free its memory afterwards. LLVM bitcode for [`Device::code_target`] is compiled first,
    /// or comes from the cache of compiled images. If the device does not accept the image itself
    /// and the image is a container ([`Image::entries`]), the entry with the highest score is
    /// loaded. Blocks. LLVM: `olCreateProgram`.
    ///
    /// # Errors
    /// `InvalidBinary` if the image is malformed or not for this device; for a container the
    /// message has the reason for each entry. `Unsupported` if a valid image needs a feature that
    /// the backend lacks, or a container one that this library lacks, and for bitcode of a newer
    /// LLVM. `HostToolNotFound` without `libLLVM` for bitcode, `CompileFailure` for bitcode that
    /// LLVM refuses, `BackendFailure` if the compiler's process fails. `LinkFailure` for undefined
    /// symbols, `Uninitialized` if the device was closed; errors of the driver.
    ///
    /// # Safety
    /// An image is code, and part of it can run without a launch. Constructors, resolvers of
    /// indirect functions and initializers of thread-local variables run while the image is loaded
    /// and used; destructors run when the image is unloaded. On the CPU this code runs unchecked
    /// inside the program. As for opening a library, the caller promises that running the code is
    /// sound in this process. Running an image from an untrusted source is not sound. The method
    /// [`Device::load_verified`] needs no such promise.
    ///
    /// ```no_run
    /// # fn load(device: &longshore::Device) -> longshore::Result<()> {
    /// // SAFETY: the build made saxpy.img of kernels of this program, without constructors.
    /// let program = unsafe { device.load(longshore::Image::read("saxpy.img")?)? };
    /// # Ok(()) }
    /// ```
    ///
    /// Safe code cannot load an image this way:
    ///
    /// ```compile_fail,E0133
    /// # fn load(device: &longshore::Device) -> longshore::Result<()> {
    /// let program = device.load(longshore::Image::read("saxpy.img")?)?;
    /// # Ok(()) }
    /// ```
    pub unsafe fn load(&self, image: impl Into<Image>) -> Result<Program> {
        Program::load(self, image.into(), &LoadOptions::new(), |_| Ok(()))
    }

    /// Loads an image as [`Device::load`] does, provided that the backend verifies all of it. The
    /// image's source need not be trusted. Vulkan verifies WGSL and, where a validator is
    /// available, SPIR-V without constructors and destructors. Launching the kernels remains
    /// `unsafe`. Blocks.
    ///
    /// # Errors
    /// As for [`Device::load`], and `Unsupported` for an image that the backend does not verify.
    pub fn load_verified(&self, image: impl Into<Image>) -> Result<Program> {
        let options = LoadOptions::new().with_verification(true);
        Program::load(self, image.into(), &options, |_| Ok(()))
    }

    /// Loads an image as [`Device::load`] does, with options. Blocks.
    ///
    /// # Errors
    /// As for [`Device::load`]; with [`LoadOptions::with_verification`] also `Unsupported` for an
    /// image that the backend does not verify. Lazy linking reports only errors of the parts that
    /// it reads at this time. A launch returns later errors with the same codes, such as
    /// `LinkFailure` for undefined symbols and `InvalidBinary` for a damaged member. The program
    /// remains usable after such an error.
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
        Program::load(self, image.into(), options, |_| Ok(()))
    }

    /// Loads an image as [`Device::load`] does, and calls `prepare` before the image's constructors
    /// run. There the caller sets globals that the constructors read. Blocks.
    ///
    /// # Errors
    /// As for [`Device::load`], and errors of `prepare`. After an error the image is unloaded.
    ///
    /// # Safety
    /// As for [`Device::load`]. Launches in `prepare` run kernels of an image without initialized
    /// globals.
    ///
    /// ```no_run
    /// # fn load(device: &longshore::Device, queue: &longshore::Queue) -> longshore::Result<()> {
    /// let image = longshore::Image::read("tables.img")?;
    /// let prepare = |program: &longshore::Program| program.global("size")?.write(queue, 1024u64);
    /// // SAFETY: the build made tables.img; its constructors read `size`.
    /// let program = unsafe { device.load_prepared(image, prepare)? };
    /// # Ok(()) }
    /// ```
    pub unsafe fn load_prepared(
        &self,
        image: impl Into<Image>,
        prepare: impl FnOnce(&Program) -> Result<()>,
    ) -> Result<Program> {
        Program::load(self, image.into(), &LoadOptions::new(), prepare)
    }
}

impl Program {
    fn load(
        device: &Device,
        image: Image,
        options: &LoadOptions,
        prepare: impl FnOnce(&Program) -> Result<()>,
    ) -> Result<Program> {
        let mut program = None;
        ProgramCore::load(device, image, options, |core| {
            let shared = Shared { core: Arc::clone(core), device: device.clone() };
            prepare(program.insert(Program { shared: Arc::new(shared) }))
        })?;
        Ok(program.expect("a loaded program was prepared"))
    }

    /// Returns the device that the program is loaded on.
    pub fn device(&self) -> &Device {
        &self.shared.device
    }

    /// Returns the kernel with this symbol, or with this name in a source in C++, CUDA or HIP, such
    /// as `saxpy`, `ns::scale<float, 4>` or `saxpy(float, float const*, float*, int)`.
    /// LLVM: `olGetSymbol` with `OL_SYMBOL_KIND_KERNEL`.
    ///
    /// # Errors
    /// `NotFound` if the program has no kernel of this name; the message lists existing kernels,
    /// the most similar names first. `SymbolKind` if the name is that of a global, `Uninitialized`
    /// if the program was unloaded; errors of the driver.
    pub fn kernel(&self, name: &str) -> Result<Kernel> {
        let found = self.by_any_name(name, SymbolKind::Kernel, |name| Kernel::find(self, name));
        found.map_err(|error| self.name_others(name, SymbolKind::Kernel, error))
    }

    /// Returns the global variable with this symbol, or with this name in a source in C++.
    /// LLVM: `olGetSymbol` with `OL_SYMBOL_KIND_GLOBAL_VARIABLE`.
    ///
    /// # Errors
    /// `NotFound` if the program has no global of this name; the message lists existing globals,
    /// the most similar names first. `SymbolKind` if the name is that of a kernel, `Uninitialized`
    /// if the program was unloaded; errors of the driver.
    pub fn global(&self, name: &str) -> Result<Global> {
        let found = self.by_any_name(name, SymbolKind::Global, |name| Global::find(self, name));
        found.map_err(|error| self.name_others(name, SymbolKind::Global, error))
    }

    /// Returns the names and kinds of all kernels and globals, sorted by name.
    ///
    /// # Errors
    /// `Uninitialized` if the program was unloaded; errors of the driver.
    pub fn symbols(&self) -> Result<Vec<(String, SymbolKind)>> {
        let module = self.core().module.enter(0).ok_or_else(unloaded)?;
        let mut symbols = module.symbols()?;
        symbols.retain(|(name, _)| !self.core().variants.has_symbol(name));
        symbols.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(symbols)
    }

    /// Blocks until all queued work is done on the queues that have launched this program's
    /// kernels. A call before [`Program::unload`] separates failures of that work, after which the
    /// program is still loaded, from failures of unloading.
    ///
    /// # Errors
    /// The first failure of that work that no earlier call has reported. The failure stays pending
    /// for the queue's own next synchronization; this method reports it once. `Uninitialized` if
    /// the program was unloaded, `Unsupported` in a host function of a queue of the device.
    pub fn synchronize(&self) -> Result<()> {
        host_function::refuse_inside(self.device().id(), "waiting for a program")?;
        let _loaded = self.core().module.enter(0).ok_or_else(unloaded)?;
        self.device().core().wait_for_users(self.core().id)
    }

    /// Returns whether a call of another thread is inside the image at this moment: a launch that
    /// it waits for, or a query. Queued work does not count, and the answer may be outdated.
    /// [`Program::unload`] waits for such calls. LLVM has no such function. Does not block.
    pub fn is_in_use(&self) -> bool {
        self.core().module.is_in_use()
    }

    /// Unloads the image: waits for the queues that use it, runs its destructors, reads its
    /// memory-pool tracker and profile, and frees its memory. An error does not stop the remaining
    /// steps. Blocks. LLVM: `olDestroyProgram`.
    ///
    /// # Errors
    /// The first error of any step; later errors are logged. `Uninitialized` if the program was
    /// unloaded before. `Unsupported` in a host function of a queue of the device: the image then
    /// stays loaded until its last handle is dropped, and another thread unloads it.
    pub fn unload(self) -> Result<UnloadReport> {
        host_function::refuse_inside(self.device().id(), "unloading a program")?;
        self.device().core().unload(self.core())
    }

    pub(crate) fn core(&self) -> &ProgramCore {
        &self.shared.core
    }

    /// Finds a symbol by its own name, then by that of the source.
    fn by_any_name<T>(
        &self,
        name: &str,
        kind: SymbolKind,
        find: impl Fn(&str) -> Result<T>,
    ) -> Result<T> {
        match find(name) {
            Err(error) if error.code() == ErrorCode::NotFound => {
                let symbol = source_names::find(self, name, kind)?;
                symbol.map_or(Err(error), |symbol| find(&symbol))
            }
            found => found,
        }
    }

    /// Adds the existing names to a `NotFound`, the most similar ones first.
    fn name_others(&self, name: &str, kind: SymbolKind, error: Error) -> Error {
        const SHOWN: usize = 8;
        /// Most names that are compared: one comparison takes microseconds.
        const LOOKED_AT: usize = 10_000;
        if error.code() != ErrorCode::NotFound {
            return error;
        }
        let mut names = self.symbols().unwrap_or_default();
        names.retain(|(_, known)| *known == kind);
        let count = names.len();
        names.truncate(LOOKED_AT);
        names.sort_by_cached_key(|(known, _)| distance(known, name));
        let shown = distinct(names.into_iter().take(SHOWN).map(|(known, _)| known).collect());
        let listed = match count {
            0 => "the program has none".to_owned(),
            _ if count <= SHOWN => format!("the program has {}", shown.join(", ")),
            _ => format!("the program has {}, and {} more", shown.join(", "), count - SHOWN),
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
        // If no thread can be started, the program stays loaded until its device is closed.
        let (device, core) = (self.device.clone(), Arc::clone(&self.core));
        host_function::do_elsewhere("dropping a program", move || unload_dropped(&device, &core));
    }
}

fn unload_dropped(device: &Device, core: &ProgramCore) {
    match device.core().unload(core) {
        // The device is being closed, which unloads the program.
        Err(error) if error.code() == ErrorCode::Uninitialized => {}
        Err(error) => log::error!("unloading a dropped program: {error}"),
        Ok(_) => {}
    }
}

/// Returns the source names of symbols, with their parameters where several have the same name.
fn distinct(symbols: Vec<String>) -> Vec<String> {
    let names: Vec<String> =
        symbols.iter().map(|it| source_name(it).unwrap_or_else(|| it.clone())).collect();
    let distinct = symbols.iter().zip(&names).map(|(symbol, name)| {
        let is_shared = names.iter().filter(|other| *other == name).count() > 1;
        is_shared.then(|| source_signature(symbol)).flatten().unwrap_or_else(|| name.clone())
    });
    distinct.collect()
}

/// Returns the number of letters to insert, remove or change to get from one name to the other.
/// Only the first 256 bytes of long names are compared, as the cost is the product of the lengths.
fn distance(from: &str, to: &str) -> usize {
    const COMPARED: usize = 256;
    let [from, to] = [from, to].map(|name| &name[..name.floor_char_boundary(COMPARED)]);
    strsim::levenshtein(from, to)
}

#[cfg(test)]
mod tests {
    use super::{distance, distinct};

    #[test]
    fn symbols_with_one_source_name_have_their_parameters() {
        let symbols = ["_Z5scalePf", "_Z5scalePKfPf", "_Z4fillv", "plain"].map(str::to_owned);
        let names = ["scale(float*)", "scale(float const*, float*)", "fill", "plain"];
        assert_eq!(distinct(symbols.to_vec()), names);
    }

    #[test]
    fn the_distance_of_names_counts_changed_letters() {
        assert_eq!(distance("saxpy", "saxpy"), 0);
        assert_eq!(distance("saxpi", "saxpy"), 1);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kernel", "colonel"), 4);
        assert!(distance("abc", &"x".repeat(1 << 30)) < 1000);
    }
}
