//! A device of another process.

use std::collections::HashMap;
use std::sync::Arc;

use longshore_plugin_api::{
    Acceptance, Device, Error, ErrorCode, ImageBytes, ImageEntry, MemoryKind, Result, Span, bounds,
};
use parking_lot::Mutex;

use super::Isolated;
use super::event::IsolatedEvent;
use super::link::Link;
use super::module::{IsolatedKernel, IsolatedModule};
use super::queue::IsolatedQueue;
use super::window::Block;
use crate::plugin::protocol::{Id, Image, Request};
use crate::plugin::values::{Accepts, check_text};

/// An open device. Once its process is gone, what gives something up succeeds without a word, and all else fails.
pub struct IsolatedDevice {
    link: Arc<Link>,
    id: Id,
    /// What both processes have, by its address.
    shared: Mutex<HashMap<u64, (MemoryKind, Block)>>,
}

impl IsolatedDevice {
    pub(super) fn new(link: Arc<Link>, id: Id) -> Self {
        Self { link, id, shared: Mutex::default() }
    }

    pub(super) fn link(&self) -> &Arc<Link> {
        &self.link
    }

    pub(super) fn id(&self) -> Id {
        self.id
    }

    fn allocate_shared(&self, kind: MemoryKind, bytes: u64, alignment: u64) -> Result<u64> {
        if alignment > GREATEST_ALIGNMENT {
            let message = format!(
                "an allocation at a multiple of {alignment} bytes, expected at most {GREATEST_ALIGNMENT}"
            );
            return Err(Error::new(ErrorCode::Unsupported, message));
        }
        let block = self.link.block(bytes, alignment)?;
        let address = block.address();
        self.link.ask::<()>(&Request::Adopt {
            device: self.id,
            kind: kind as u32,
            address,
            bytes,
        })?;
        self.shared.lock().insert(address, (kind, block));
        Ok(address)
    }

    fn allocate_there(&self, kind: MemoryKind, bytes: u64, alignment: u64) -> Result<u64> {
        let (device, kind) = (self.id, kind as u32);
        let address = self.link.ask(&Request::Allocate { device, kind, bytes, alignment })?;
        let (plugin, place) = (self.link.backend(), "longshore.device, allocate");
        bounds::allocation(plugin, place, address, bytes, alignment).map(|()| address)
    }

    fn load_image(&self, image: &[u8], lazily: bool) -> Result<IsolatedModule> {
        let (id, piece) = self.link.with_image(image, |image: Image<'_>| {
            self.link.ask(&Request::Load { device: self.id, image, lazily })
        })?;
        Ok(IsolatedModule::new(Arc::clone(&self.link), id, piece))
    }

    fn same_process(&self, peer: &Self) -> bool {
        Arc::ptr_eq(&self.link, &peer.link)
    }
}

/// Of memory that both processes have.
const GREATEST_ALIGNMENT: u64 = 1 << 30;

/// The result of giving something up: what a process had that is gone, is given up.
pub(super) fn given_up(link: &Link, result: Result<()>) -> Result<()> {
    if link.is_here() && link.is_alive() { result } else { Ok(()) }
}

impl Device<Isolated> for IsolatedDevice {
    fn accepts(&self, image: &[u8]) -> Result<Acceptance> {
        let (accepts, _) = self.link.with_image(image, |image: Image<'_>| {
            self.link.ask::<Accepts>(&Request::Accepts { device: self.id, image })
        })?;
        if let Accepts::Refused(why) = &accepts {
            let (plugin, place) = (self.link.backend(), "longshore.device, accepts, reason");
            check_text(plugin, place, why, bounds::REASON_BYTES)?;
        }
        Ok(accepts.into())
    }

    fn allocate(&self, kind: MemoryKind, bytes: u64, alignment: u64) -> Result<u64> {
        match kind {
            MemoryKind::Host | MemoryKind::Managed => self.allocate_shared(kind, bytes, alignment),
            MemoryKind::Device => self.allocate_there(kind, bytes, alignment),
        }
    }

    fn free(&self, kind: MemoryKind, address: u64) -> Result<()> {
        if !self.link.is_here() {
            return Ok(());
        }
        let mut shared = self.shared.lock();
        let is_ours = shared.get(&address).is_some_and(|(known, _)| *known == kind);
        let block = is_ours.then(|| shared.remove(&address)).flatten();
        drop(shared);
        let freed = self.link.ask(&Request::Free { device: self.id, kind: kind as u32, address });
        drop(block);
        given_up(&self.link, freed)
    }

    fn load(&self, image: ImageBytes) -> Result<IsolatedModule> {
        self.load_image(image.get(), false)
    }

    fn load_lazily(&self, image: ImageBytes) -> Result<IsolatedModule> {
        self.load_image(image.get(), true)
    }

    fn create_queue(&self) -> Result<IsolatedQueue> {
        let id = self.link.ask(&Request::CreateQueue { device: self.id })?;
        Ok(IsolatedQueue::new(Arc::clone(&self.link), id))
    }

    fn create_event(&self, timing: bool) -> Result<IsolatedEvent> {
        let id = self.link.ask(&Request::CreateEvent { device: self.id, timing })?;
        Ok(IsolatedEvent::new(Arc::clone(&self.link), id))
    }

    fn close(self) -> Result<()> {
        given_up(&self.link, self.link.ask(&Request::Close { device: self.id }))
    }

    /// Memory of the program alone is not in the other process, so there is nothing that its device could reach.
    fn pin(&self, _: Span) -> Result<u64> {
        let problem = "an isolated device cannot reach memory of the program, as it is another process's: allocate host memory on the device, which both have";
        Err(Error::new(ErrorCode::Unsupported, problem))
    }

    fn unpin(&self, address: u64) -> Result<()> {
        let message = format!("nothing is pinned at {address:#x}: isolated devices pin nothing");
        Err(Error::new(ErrorCode::InvalidArgument, message))
    }

    fn can_access(&self, peer: &Self) -> Result<bool> {
        if !self.same_process(peer) {
            return Ok(false);
        }
        self.link.ask(&Request::CanAccess { device: self.id, peer: peer.id })
    }

    fn enable_access(&self, peer: &Self) -> Result<()> {
        if !self.same_process(peer) {
            let problem = "the devices are in different processes";
            return Err(Error::new(ErrorCode::Unsupported, problem));
        }
        self.link.ask(&Request::EnableAccess { device: self.id, peer: peer.id })
    }

    fn optimal_group_items(&self, kernel: &IsolatedKernel, shared_bytes: u64) -> Result<u32> {
        let kernel = kernel.id();
        let request = Request::OptimalGroupItems { device: self.id, kernel, shared_bytes };
        let items = self.link.ask(&request)?;
        bounds::group_items(self.link.backend(), items).map(|()| items)
    }

    fn max_cooperative_groups(
        &self,
        kernel: &IsolatedKernel,
        items: [u32; 3],
        shared_bytes: u64,
    ) -> Result<u32> {
        let kernel = kernel.id();
        self.link.ask(&Request::MaxCooperativeGroups {
            device: self.id,
            kernel,
            items,
            shared_bytes,
        })
    }

    fn rank(&self, entry: &ImageEntry<'_>) -> Result<u32> {
        let (triple, arch) = (entry.triple, entry.arch);
        let (rank, _) = self.link.with_image(entry.bytes, |image: Image<'_>| {
            self.link.ask(&Request::Rank { device: self.id, image, triple, arch })
        })?;
        Ok(rank)
    }

    fn set_extent(&self, address: u64, bytes: u64) -> Result<()> {
        self.link.ask(&Request::SetExtent { device: self.id, address, bytes })
    }
}
