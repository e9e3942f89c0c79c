//! An open device.

use crate::check::Checker;
use crate::cpu::Cpu;
use crate::execute::{Engine, Pool};
use crate::kernel::Code;
use crate::memory::{Allocations, PinnedRanges};
use crate::{
    HostBackend, HostEvent, HostKernel, HostModule, HostQueue, LinkSettings, module, suitability,
};
use longshore_plugin_api::{
    Acceptance, CodeTarget, Device, ImageBytes, ImageEntry, Loading, MemoryKind, Result, Span,
    is_bitcode,
};
use std::sync::Arc;

/// The CPU, opened as a device. Several devices share the CPU, each with its own allocations.
///
/// LLVM: `ol_device_handle_t` of the host platform.
pub struct HostDevice {
    index: u32,
    cpu: Arc<Cpu>,
    allocations: Arc<Allocations>,
    pinned: PinnedRanges,
    links: LinkSettings,
    engine: Arc<Engine>,
    checker: Option<Arc<Checker>>,
}

impl HostDevice {
    /// Creates device `index` of the platform.
    pub(crate) fn new(
        index: u32,
        cpu: Arc<Cpu>,
        links: LinkSettings,
        pool: Arc<Pool>,
        checker: Option<Arc<Checker>>,
    ) -> HostDevice {
        let allocations = Arc::new(Allocations::new(checker.clone()));
        let pinned = PinnedRanges::default();
        let engine = Engine::new(pool, Arc::clone(&allocations), checker.clone());
        let engine = Arc::new(engine);
        HostDevice { index, cpu, allocations, pinned, links, engine, checker }
    }
}

impl Device<HostBackend> for HostDevice {
    fn accepts(&self, image: &[u8]) -> Result<Acceptance> {
        Ok(module::accepts(image))
    }

    /// Allocates ordinary memory for every kind, at a multiple of at least 64 bytes.
    fn allocate(&self, kind: MemoryKind, bytes: u64, alignment: u64) -> Result<u64> {
        self.allocations.allocate(kind, bytes, alignment, self.cpu.memory_bytes())
    }

    fn free(&self, kind: MemoryKind, address: u64) -> Result<()> {
        self.allocations.free(kind, address)
    }

    /// Imports memory. Kernels reach all memory of this process.
    fn import_memory(&self, kind: MemoryKind, memory: Span) -> Result<()> {
        self.allocations.import_memory(kind, memory)
    }

    /// Loads an image. Relocatable objects and archives can be linked lazily; a shared object is
    /// loaded at once, as by the system's loader.
    fn load(&self, image: ImageBytes, loading: Loading) -> Result<HostModule> {
        let module = match loading {
            Loading::Lazily => HostModule::load_lazily(image, &self.links),
            // Work that a later version defers may also be done at once.
            _ => HostModule::load(image, &self.links),
        }?;
        if self.checker.is_some() && !module.has_checks() {
            log::warn!(
                "the kernels of an image run unchecked: compile it by `longshore cc --check`, or \
                 load its bitcode"
            );
        }
        Ok(module)
    }

    fn create_queue(&self) -> Result<HostQueue> {
        Ok(HostQueue::new(Arc::clone(&self.engine)))
    }

    fn create_event(&self, timing: bool) -> Result<HostEvent> {
        Ok(HostEvent::new(self.index, timing))
    }

    /// Records the range and returns its own address. No page is locked, because the CPU needs no
    /// locked pages.
    fn pin(&self, range: Span) -> Result<u64> {
        let address = self.pinned.pin(range)?;
        if let Some(checker) = &self.checker {
            checker.pinned(address, range.bytes());
        }
        Ok(address)
    }

    fn unpin(&self, address: u64) -> Result<()> {
        self.pinned.unpin(address)?;
        if let Some(checker) = &self.checker {
            checker.removed(address);
        }
        Ok(())
    }

    /// Returns `true`: all devices share one address space.
    fn can_access(&self, _peer: &HostDevice) -> Result<bool> {
        Ok(true)
    }

    fn enable_access(&self, _peer: &HostDevice) -> Result<()> {
        Ok(())
    }

    /// Returns the kernel's required group size, or 256 work-items. That default is enough for
    /// loops over work-items, leaves enough groups to spread over the cores, and is usual for GPUs.
    fn optimal_group_items(&self, kernel: &HostKernel, _shared_bytes: u64) -> Result<u32> {
        let required = match kernel.code() {
            Code::Groups(code) => code.required_group.iter().product(),
            Code::Host(_) => 0,
        };
        Ok(if required == 0 { 256 } else { required })
    }

    /// Returns 1 for LLVM's host form: a kernel that is called once has no groups that could wait
    /// for each other.
    fn max_cooperative_groups(
        &self,
        kernel: &HostKernel,
        items: [u32; 3],
        _shared_bytes: u64,
    ) -> Result<u32> {
        Ok(match kernel.code() {
            Code::Host(_) => 1,
            Code::Groups(code) => Engine::most_cooperative_groups(code, items),
        })
    }

    fn score(&self, entry: &ImageEntry<'_>) -> Result<u32> {
        let is_code = is_bitcode(entry.bytes) || module::accepts(entry.bytes).is_accepted();
        Ok(if is_code { suitability::score(entry) } else { 0 })
    }

    fn code_target(&self) -> Result<CodeTarget> {
        Ok(suitability::code_target())
    }
}
