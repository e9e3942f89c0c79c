//! A device of another process.

use std::collections::HashMap;
use std::sync::Arc;

use longshore_plugin_api::{
    Acceptance, CollectiveMember, CollectiveRequest, Error, ErrorCode, ImageBytes, ImageEntry,
    Loading, MemoryKind, Result, Span, bounds,
};
use parking_lot::Mutex;

use super::event::IsolatedEvent;
use super::link::Link;
use super::module::IsolatedModule;
use super::window::Block;
use crate::plugin::channel::{Collective, RemoteMember};
use crate::plugin::interface::messages::DeviceCall;
use crate::plugin::protocol::{Id, Image, MOST_EVENTS, Request};

/// An open device. After the end of its process, releasing an object succeeds silently, and every
/// other call fails.
pub struct IsolatedDevice {
    link: Arc<Link>,
    id: Id,
    /// Shared allocations by address.
    shared: Mutex<HashMap<u64, (MemoryKind, Block)>>,
    /// Events that no caller has got yet, without and with timing.
    events: Mutex<[SpareEvents; 2]>,
}

/// Events that were created ahead, so that few of many need a call of the other process.
#[derive(Default)]
struct SpareEvents {
    ids: Vec<Id>,
    /// Number of events to create next.
    next: u32,
}

impl IsolatedDevice {
    pub(in crate::plugin) fn new(link: Arc<Link>, id: Id) -> Self {
        Self { link, id, shared: Mutex::default(), events: Mutex::default() }
    }

    pub(in crate::plugin) fn link(&self) -> &Arc<Link> {
        &self.link
    }

    pub(super) fn id(&self) -> Id {
        self.id
    }

    /// Returns the plugin's name, for errors.
    pub fn plugin(&self) -> &str {
        self.link.backend()
    }

    pub(in crate::plugin) fn request<'a>(&self, call: DeviceCall<'a>) -> Request<'a> {
        Request::Device(self.id, call)
    }

    /// Returns the device's number, for a request to the same process over `link`.
    ///
    /// # Errors
    /// `Unsupported` for a device of another process.
    pub(in crate::plugin) fn id_for(&self, link: &Arc<Link>) -> Result<Id> {
        if Arc::ptr_eq(&self.link, link) {
            return Ok(self.id);
        }
        let problem = "the devices are in different processes";
        Err(Error::new(ErrorCode::Unsupported, problem))
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
        self.link.ask::<()>(&Request::ImportMemory { device: self.id, kind, address, bytes })?;
        self.shared.lock().insert(address, (kind, block));
        Ok(address)
    }

    fn allocate_in_process(&self, kind: MemoryKind, bytes: u64, alignment: u64) -> Result<u64> {
        let request = self.request(DeviceCall::Allocate { kind, bytes, alignment });
        let address = self.link.ask(&request)?;
        let (plugin, place) = (self.link.backend(), "longshore.device, allocate");
        bounds::allocation(plugin, place, address, bytes, alignment).map(|()| address)
    }
}

/// Greatest alignment of shared memory in bytes.
const GREATEST_ALIGNMENT: u64 = 1 << 30;

/// Returns the result of releasing an object; success if its process is gone, since the end of the
/// process has released the object.
pub(in crate::plugin) fn given_up(link: &Link, result: Result<()>) -> Result<()> {
    if link.is_here() && link.is_alive() { result } else { Ok(()) }
}

/// Methods written by hand.
impl IsolatedDevice {
    pub(in crate::plugin) fn accepts_there(&self, image: &[u8]) -> Result<Acceptance> {
        let (acceptance, _) = self.link.with_image(image, |image: Image<'_>| {
            self.link.ask(&Request::Accepts { device: self.id, image })
        })?;
        if let Acceptance::Refused(why) = &acceptance {
            let (plugin, place) = (self.link.backend(), "longshore.device, accepts, reason");
            bounds::text(plugin, place, why, bounds::REASON_BYTES)?;
        }
        Ok(acceptance)
    }

    pub(in crate::plugin) fn allocate_there(
        &self,
        kind: MemoryKind,
        bytes: u64,
        alignment: u64,
    ) -> Result<u64> {
        match kind {
            MemoryKind::Host | MemoryKind::Managed => self.allocate_shared(kind, bytes, alignment),
            // The plugin answers for a kind that this version does not know, too.
            _ => self.allocate_in_process(kind, bytes, alignment),
        }
    }

    pub(in crate::plugin) fn free_there(&self, kind: MemoryKind, address: u64) -> Result<()> {
        if !self.link.is_here() {
            return Ok(());
        }
        let mut shared = self.shared.lock();
        let is_ours = shared.get(&address).is_some_and(|(known, _)| *known == kind);
        let block = is_ours.then(|| shared.remove(&address)).flatten();
        drop(shared);
        let freed = self.link.ask(&Request::Free { device: self.id, kind, address });
        drop(block);
        given_up(&self.link, freed)
    }

    pub(in crate::plugin) fn load_there(
        &self,
        image: ImageBytes,
        loading: Loading,
    ) -> Result<IsolatedModule> {
        let (id, piece) = self.link.with_image(image.get(), |image: Image<'_>| {
            self.link.ask(&Request::Load { device: self.id, image, loading })
        })?;
        Ok(IsolatedModule::new(Arc::clone(&self.link), id, piece))
    }

    pub(in crate::plugin) fn create_event_there(&self, timing: bool) -> Result<IsolatedEvent> {
        let mut events = self.events.lock();
        let spare = &mut events[usize::from(timing)];
        if spare.ids.is_empty() || !self.link.is_here() {
            let count = spare.next.clamp(1, MOST_EVENTS);
            let request = Request::CreateEvents { device: self.id, timing, count };
            spare.ids = self.link.ask(&request)?;
            spare.ids.truncate(count as usize);
            spare.ids.reverse();
            spare.next = 2 * count;
        }
        let none = || Error::new(ErrorCode::BackendFailure, "the executor has created no event");
        Ok(IsolatedEvent::new(Arc::clone(&self.link), spare.ids.pop().ok_or_else(none)?))
    }

    pub(in crate::plugin) fn close_there(self) -> Result<()> {
        let spare = self.events.into_inner();
        for id in spare.into_iter().flat_map(|spare| spare.ids) {
            drop(IsolatedEvent::new(Arc::clone(&self.link), id));
        }
        given_up(&self.link, self.link.ask(&Request::Close { device: self.id }))
    }

    /// Refuses: the other process has no access to memory of the program alone, so its device could
    /// not reach it.
    pub(in crate::plugin) fn pin_there(&self, _: Span) -> Result<u64> {
        let problem = "an isolated device cannot reach memory of the program, which belongs to another process: allocate host memory on the device, which both processes share";
        Err(Error::new(ErrorCode::Unsupported, problem))
    }

    pub(in crate::plugin) fn unpin_there(&self, address: u64) -> Result<()> {
        let message = format!("nothing is pinned at {address:#x}: isolated devices pin nothing");
        Err(Error::new(ErrorCode::InvalidArgument, message))
    }

    /// Refuses: a handle of the driver is valid in the other process alone.
    pub(in crate::plugin) fn driver_device_there(&self) -> Result<u64> {
        Err(no_handle("device"))
    }

    /// Refuses: a handle of the driver is valid in the other process alone.
    pub(in crate::plugin) fn driver_context_there(&self) -> Result<u64> {
        Err(no_handle("context"))
    }

    /// Refuses: the other process has no access to memory of the program alone.
    pub(in crate::plugin) fn import_memory_there(&self, _: MemoryKind, _: Span) -> Result<()> {
        let problem = "an isolated device cannot import memory of the program";
        Err(Error::new(ErrorCode::Unsupported, problem))
    }

    pub(in crate::plugin) fn can_access_there(&self, peer: &Self) -> Result<bool> {
        match peer.id_for(&self.link) {
            Ok(peer) => self.link.ask(&self.request(DeviceCall::CanAccess { peer })),
            Err(_) => Ok(false),
        }
    }

    /// Has the channel perform the operation, if all members are behind channels that can.
    pub(in crate::plugin) fn collective_there(
        &self,
        operation: &CollectiveRequest<'_, Self>,
    ) -> Result<()> {
        let unsupported = || Error::new(ErrorCode::Unsupported, "collective operations");
        let member = |member: &CollectiveMember<'_, Self>| {
            let at = member.device.link.channel().address()?;
            let (source, destination) = (member.source, member.destination);
            Some(RemoteMember { at, device: member.device.id, source, destination })
        };
        let members = operation.members.iter().map(member).collect::<Option<Vec<_>>>();
        let members = members.ok_or_else(unsupported)?;
        let collective = Collective {
            kind: operation.kind,
            root: operation.root,
            reduction: operation.reduction,
            bytes: operation.bytes,
            members: &members,
        };
        let performed = self.link.channel().collective(&collective).ok_or_else(unsupported)?;
        performed.inspect_err(|_| {
            if self.link.is_gone() {
                self.link.callbacks.wait_until_finished();
            }
        })
    }

    pub(in crate::plugin) fn score_there(&self, entry: &ImageEntry<'_>) -> Result<u32> {
        let (triple, arch) = (entry.triple, entry.arch);
        let (score, _) = self.link.with_image(entry.bytes, |image: Image<'_>| {
            self.link.ask(&Request::Score { device: self.id, image, triple, arch })
        })?;
        Ok(score)
    }

    pub(in crate::plugin) fn set_logical_size_there(&self, address: u64, bytes: u64) -> Result<()> {
        self.link.ask(&Request::SetLogicalSize { device: self.id, address, bytes })
    }
}

/// Returns the error for a handle of the driver in another process.
pub(super) fn no_handle(of: &str) -> Error {
    let message = format!(
        "an isolated plugin has no handle of a {of} for the program: its driver is in another \
         process"
    );
    Error::new(ErrorCode::Unsupported, message)
}
