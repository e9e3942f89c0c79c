//! Programs: images loaded on a device, their kernels and globals.

mod life;
pub(crate) mod suitable;
mod symbols;

pub use life::UnloadReport;
pub use symbols::{Global, Kernel};

pub(crate) use life::{Loading, ProgramCore};

use crate::device::Device;
use crate::host_function;
use crate::image::Image;
use longshore_plugin_api::{Error, ErrorCode, Module as _, Result, SymbolKind};
use std::sync::Arc;

/// An image loaded on a device. Cloning is cheap; the image is unloaded by [`Program::unload`],
/// when the last handle to it, its kernels and its globals is dropped, or when the device is
/// closed. LLVM: `ol_program_handle_t`.
#[derive(Clone)]
pub struct Program {
    shared: Arc<Shared>,
}

struct Shared {
    core: Arc<ProgramCore>,
    device: Device,
}

impl Program {
    pub(crate) fn load(device: &Device, image: Image, loading: Loading) -> Result<Program> {
        let core = ProgramCore::load(device, image, loading)?;
        Ok(Program { shared: Arc::new(Shared { core, device: device.clone() }) })
    }

    /// The device that it is loaded on.
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
    /// program was unloaded, `InvalidQueue` in a host function of a queue of the device.
    pub fn synchronize(&self) -> Result<()> {
        host_function::refuse_inside(self.device().id(), "waiting for a program")?;
        let _loaded = self.core().module.enter(0).ok_or_else(unloaded)?;
        self.device().inner().wait_for_users(self.core().id)
    }

    /// Unloads the image: waits for the queues that use it, runs its destructors, reads its
    /// memory-pool tracker and profile, and gives everything back. All steps are taken whatever
    /// fails. Blocks. LLVM: `olDestroyProgram`.
    ///
    /// # Errors
    /// The first error of any step; the others are logged. `Uninitialized` if it was unloaded
    /// before. `InvalidQueue` in a host function of a queue of the device, where nothing is done
    /// but that dropping the last handle unloads it on another thread.
    pub fn unload(self) -> Result<UnloadReport> {
        host_function::refuse_inside(self.device().id(), "unloading a program")?;
        self.device().inner().unload(self.core())
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
    match device.inner().unload(core) {
        // Its device is being closed, which unloads it.
        Err(error) if error.code() == ErrorCode::Uninitialized => {}
        Err(error) => log::error!("unloading a dropped program: {error}"),
        Ok(_) => {}
    }
}

/// The error for a program that is not loaded any more.
#[cold]
pub(crate) fn unloaded() -> Error {
    Error::new(ErrorCode::Uninitialized, "the program was unloaded")
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
