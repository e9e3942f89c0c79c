//! What each request is answered with.

use std::sync::Arc;

use longshore_plugin_api::remote::{RemoteDevice, RemoteModule, RemotePlatform};
use longshore_plugin_api::{
    Device as _, DeviceInfo, Error, ErrorCode, Event as _, ImageBytes, ImageEntry, Module as _,
    Platform as _, PlatformInfo, Result, Span,
};
use parking_lot::Mutex;
use serde::Serialize;

use super::images::ImageBuffer;
use super::objects::{Device, Event, Kernel, Module, Queue, sole};
use super::{Server, library};
use crate::plugin::protocol::{
    Asked, Attributes, Connected, Failure, Id, Image, Request, Section, Sections, Symbols, encode,
    memory_kind, to_tracker,
};
use crate::plugin::values::Accepts;
use crate::rpc::Peer;

fn told<T: Serialize>(result: Result<T>) -> Vec<u8> {
    encode(&result.map_err(Failure::from))
}

impl Server {
    /// Does what is asked for and encodes the answer.
    pub(super) fn answer(&self, peer: &Arc<Peer>, request: Request<'_>) -> Vec<u8> {
        match request {
            Request::Connect { path, backend, log_level, settings } => {
                told(self.connect(peer, &library::Wanted { path, backend, log_level, settings }))
            }
            Request::Reserve { address, bytes } => told(self.memory.reserve(address, bytes)),
            Request::Map { address, offset, bytes } => told(self.map(peer, address, offset, bytes)),
            Request::Unmap { address, bytes } => told(self.memory.unmap(address, bytes)),
            Request::PlatformInfo { query } => told(self.platform_info(query)),
            Request::DeviceInfo { index, query } => told(self.device_info(index, query)),
            Request::Open { index } => told(self.open(index)),
            Request::Close { device } => told(self.close(device)),
            Request::Disconnect => told(self.disconnect()),
            Request::Upload { bytes } => told(self.uploads.begin(bytes)),
            Request::Chunk { upload, content } => told(self.uploads.add(upload, content)),
            request => self.answer_of_device(peer, request),
        }
    }

    fn answer_of_device(&self, peer: &Arc<Peer>, request: Request<'_>) -> Vec<u8> {
        let device = |id| self.devices.get(id);
        match request {
            Request::Accepts { device, image } => told(self.accepts(peer, device, image)),
            Request::Rank { device, image, triple, arch } => {
                told(self.rank(peer, device, image, triple, arch))
            }
            Request::Allocate { device: id, kind, bytes, alignment } => {
                told(device(id).and_then(|device| {
                    device.device.allocate(memory_kind(kind)?, bytes, alignment)
                }))
            }
            Request::Adopt { device, kind, address, bytes } => {
                told(self.adopt(device, kind, address, bytes))
            }
            Request::Free { device, kind, address } => told(self.free(device, kind, address)),
            Request::SetExtent { device, address, bytes } => {
                told(self.set_extent(device, address, bytes))
            }
            Request::Load { device, image, lazily } => told(self.load(peer, device, image, lazily)),
            Request::CreateQueue { device } => told(self.create_queue(device)),
            Request::CreateEvent { device, timing } => told(self.create_event(device, timing)),
            Request::CanAccess { device: id, peer } => {
                told(device(id).and_then(|found| found.device.can_access(&device(peer)?.device)))
            }
            Request::EnableAccess { device: id, peer } => {
                told(device(id).and_then(|found| found.device.enable_access(&device(peer)?.device)))
            }
            Request::OptimalGroupItems { device: id, kernel, shared_bytes } => {
                told(device(id).and_then(|device| {
                    let kernel = self.kernels.get(kernel)?;
                    device.device.optimal_group_items(&kernel.kernel, shared_bytes)
                }))
            }
            Request::MaxCooperativeGroups { device: id, kernel, items, shared_bytes } => {
                told(device(id).and_then(|device| {
                    let kernel = self.kernels.get(kernel)?;
                    device.device.max_cooperative_groups(&kernel.kernel, items, shared_bytes)
                }))
            }
            request => self.answer_of_module(peer, request),
        }
    }

    fn answer_of_module(&self, peer: &Arc<Peer>, request: Request<'_>) -> Vec<u8> {
        let module = |id| self.modules.get(id);
        match request {
            Request::Kernel { module, name } => told(self.kernel(module, name)),
            Request::Global { module: id, name } => told(
                module(id)
                    .and_then(|module| module.module.global(name))
                    .map(|global| (global.address, global.bytes)),
            ),
            Request::Symbols { module: id } => told(module(id).and_then(|module| {
                let symbols = module.module.symbols()?;
                let symbols = symbols.into_iter().map(|(name, kind)| (name, kind as u32));
                Ok(symbols.collect::<Symbols>())
            })),
            Request::RunConstructors { module: id } => {
                told(module(id).and_then(|module| module.module.run_constructors()))
            }
            Request::RunDestructors { module: id } => {
                told(module(id).and_then(|module| module.module.run_destructors()))
            }
            Request::PoolTracker { module: id } => told(
                module(id).and_then(|module| Ok(module.module.pool_tracker()?.map(to_tracker))),
            ),
            Request::Profile { module: id } => told(module(id).and_then(|module| {
                Ok(module.module.profile()?.into_iter().map(Section::from).collect::<Sections>())
            })),
            Request::Unload { module } => told(self.unload(module)),
            request => self.answer_of_queue(peer, request),
        }
    }

    fn answer_of_queue(&self, peer: &Arc<Peer>, request: Request<'_>) -> Vec<u8> {
        match request {
            Request::Launch(launch) => told(self.launch(&launch)),
            Request::Copy(copy) => told(self.copy(&copy)),
            Request::CopyIn { queue, device, address, content } => {
                told(self.copy_in(queue, device, address, content))
            }
            Request::CopyOut { queue, device, address, bytes } => {
                told(self.copy_out(queue, device, address, bytes))
            }
            Request::Transfer(transfer) => told(self.transfer(peer, &transfer)),
            Request::Fill { queue, address, bytes, pattern, wait } => {
                told(self.fill(queue, address, bytes, pattern, wait))
            }
            Request::HostFunction { queue, function } => {
                told(self.host_function(peer, queue, function))
            }
            Request::WaitEvent { queue, event } => told(self.wait_event(queue, event)),
            Request::RecordEvent { queue, event } => told(self.record_event(queue, event)),
            Request::Prefetch { queue, address, bytes, target } => {
                told(self.prefetch(queue, address, bytes, target))
            }
            Request::IsIdle { queue } => told(self.is_idle(queue)),
            Request::Synchronize { queue } => told(self.synchronize(queue)),
            Request::DestroyQueue { queue } => told(self.queues.take(queue).map(drop)),
            request => self.answer_of_event(request),
        }
    }

    fn answer_of_event(&self, request: Request<'_>) -> Vec<u8> {
        let event = |id| self.events.get(id);
        match request {
            Request::IsComplete { event: id } => {
                told(event(id).and_then(|event| event.event.is_complete()))
            }
            Request::SynchronizeEvent { event: id } => {
                told(event(id).and_then(|event| event.event.synchronize()))
            }
            Request::Elapsed { start, end } => {
                told(event(start).and_then(|start| start.event.elapsed_ns(&event(end)?.event)))
            }
            Request::DestroyEvent { event } => told(self.events.take(event).map(drop)),
            other => told::<()>(Err(Error::new(
                ErrorCode::Unimplemented,
                format!("the executor does not know the request {other:?}"),
            ))),
        }
    }

    fn connect(
        &self,
        peer: &Arc<Peer>,
        wanted: &library::Wanted<'_>,
    ) -> Result<(Connected, Asked)> {
        let _opening = self.opening.lock();
        if self.platform.read().is_some() {
            let problem = "this executor has a plugin already";
            return Err(Error::new(ErrorCode::InvalidArgument, problem));
        }
        let opened = library::open(peer, wanted)?;
        *self.platform.write() = opened.platform.map(Arc::new);
        Ok((opened.connected, opened.asked.into()))
    }

    fn disconnect(&self) -> Result<()> {
        let platform = self.platform.write().take().ok_or_else(unconnected)?;
        sole(platform, "platform").map(drop)
    }

    fn platform(&self) -> Result<Arc<RemotePlatform>> {
        self.platform.read().clone().ok_or_else(unconnected)
    }

    fn map(&self, peer: &Arc<Peer>, address: u64, offset: u64, bytes: u64) -> Result<()> {
        let file = peer
            .memory()
            .ok_or_else(|| Error::new(ErrorCode::InvalidArgument, "no memory is shared"))?;
        self.memory.map(file, address, offset, bytes)
    }

    fn platform_info(&self, query: u32) -> Result<String> {
        self.platform()?.info(PlatformInfo::from_raw(query)?)
    }

    fn device_info(&self, index: u32, query: u32) -> Result<Vec<u8>> {
        let value = self.platform()?.device_info(index, DeviceInfo::from_raw(query)?)?;
        Ok(value.to_bytes())
    }

    fn open(&self, index: u32) -> Result<Id> {
        let device = self.platform()?.open(index)?;
        Ok(self.devices.put(Device { device, pinned: Mutex::default() }))
    }

    fn close(&self, device: Id) -> Result<()> {
        RemoteDevice::close(sole(self.devices.take(device)?, "device")?.device)
    }

    fn image(&self, peer: &Arc<Peer>, image: Image<'_>) -> Result<ImageBuffer> {
        ImageBuffer::of(image, &self.uploads, peer.memory())
    }

    fn accepts(&self, peer: &Arc<Peer>, device: Id, image: Image<'_>) -> Result<Accepts> {
        let (device, image) = (self.devices.get(device)?, self.image(peer, image)?);
        device.device.accepts(image.bytes()).map(Accepts::from)
    }

    fn rank(
        &self,
        peer: &Arc<Peer>,
        device: Id,
        image: Image<'_>,
        triple: &str,
        arch: &str,
    ) -> Result<u32> {
        let (device, image) = (self.devices.get(device)?, self.image(peer, image)?);
        device.device.rank(&ImageEntry { bytes: image.bytes(), triple, arch })
    }

    /// A plugin that cannot adopt memory may pin it; that is enough if the device has it at the same address then.
    fn adopt(&self, device: Id, kind: u32, address: u64, bytes: u64) -> Result<()> {
        self.memory.check(address, bytes)?;
        let (device, kind) = (self.devices.get(device)?, memory_kind(kind)?);
        // SAFETY: the range is mapped, and stays so until the host has freed it.
        let span = unsafe { Span::new(address, bytes) };
        match device.device.adopt(kind, span) {
            Err(error) if error.code() == ErrorCode::Unsupported => {}
            adopted => return adopted,
        }
        let reached = device.device.pin(span).map_err(|error| match error.code() {
            ErrorCode::Unsupported => Error::new(
                ErrorCode::Unsupported,
                format!("{kind:?} memory of an isolated device needs a plugin that adopts or pins memory: {}", error.message()),
            ),
            _ => error,
        })?;
        if reached == address {
            device.pinned.lock().push(address);
            return Ok(());
        }
        device.device.unpin(address)?;
        let message = format!(
            "{kind:?} memory of an isolated device: the device has the host's memory at other addresses"
        );
        Err(Error::new(ErrorCode::Unsupported, message))
    }

    fn free(&self, device: Id, kind: u32, address: u64) -> Result<()> {
        let (device, kind) = (self.devices.get(device)?, memory_kind(kind)?);
        let mut pinned = device.pinned.lock();
        if let Some(index) = pinned.iter().position(|known| *known == address) {
            pinned.swap_remove(index);
            drop(pinned);
            return device.device.unpin(address);
        }
        drop(pinned);
        device.device.free(kind, address)
    }

    fn set_extent(&self, device: Id, address: u64, bytes: u64) -> Result<()> {
        let device = self.devices.get(device)?;
        if device.pinned.lock().contains(&address) {
            return Ok(());
        }
        device.device.set_extent(address, bytes)
    }

    fn load(&self, peer: &Arc<Peer>, device: Id, image: Image<'_>, lazily: bool) -> Result<Id> {
        let (device, image) = (self.devices.get(device)?, self.image(peer, image)?);
        // SAFETY: the buffer's bytes stay in place until the module was dropped, which lies before it.
        let bytes = unsafe { ImageBytes::new(image.bytes()) };
        let module = match lazily {
            true => device.device.load_lazily(bytes)?,
            false => device.device.load(bytes)?,
        };
        let kernels = Mutex::default();
        Ok(self.modules.put(Module { module, kernels, _image: image, device }))
    }

    fn kernel(&self, module: Id, name: &str) -> Result<(Id, Attributes)> {
        let module = self.modules.get(module)?;
        let (kernel, attributes) = module.module.kernel(name)?;
        let id = self.kernels.put(Kernel { kernel, _module: Arc::clone(&module) });
        module.kernels.lock().push(id);
        Ok((id, attributes.into()))
    }

    fn unload(&self, module: Id) -> Result<()> {
        let module = self.modules.take(module)?;
        for kernel in module.kernels.lock().drain(..) {
            drop(self.kernels.take(kernel));
        }
        let Module { module, _image: image, device, .. } = sole(module, "module")?;
        let unloaded = RemoteModule::unload(module);
        drop((image, device));
        unloaded
    }

    fn create_queue(&self, device: Id) -> Result<Id> {
        let device = self.devices.get(device)?;
        let queue = device.device.create_queue()?;
        Ok(self.queues.put(Queue { queue, deferred: Mutex::default(), _device: device }))
    }

    fn create_event(&self, device: Id, timing: bool) -> Result<Id> {
        let device = self.devices.get(device)?;
        let event = device.device.create_event(timing)?;
        Ok(self.events.put(Event { event, _device: device }))
    }
}

fn unconnected() -> Error {
    Error::new(ErrorCode::Uninitialized, "this executor has no plugin")
}
