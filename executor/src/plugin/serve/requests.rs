//! The execution of requests and the encoding of their replies.

use std::sync::Arc;

use longshore_plugin_api::{
    Acceptance, Backend, Device as _, DeviceInfo, Error, ErrorCode, ImageBytes, ImageEntry,
    InfoValue, KernelAttributes, Loading, MemoryKind, Module as _, Platform as _, Result, Span,
};
use parking_lot::Mutex;
use serde::Serialize;

use super::images::ImageBuffer;
use super::objects::{Device, Event, Kernel, Module, Queue, sole};
use super::{Server, SharedPlatform, library};
use crate::plugin::channel::Channel;
use crate::plugin::interface::messages::PlatformCall;
use crate::plugin::protocol::{
    Connected, Id, Image, MOST_EVENTS, Request, RequestedSettings, encode,
};

pub(in crate::plugin) fn encode_reply<T: Serialize>(result: Result<T>) -> Vec<u8> {
    encode(&result)
}

impl<B: Backend> Server<B> {
    /// Executes a request and encodes the reply.
    pub(super) fn reply(&self, peer: &Arc<dyn Channel>, request: Request<'_>) -> Vec<u8> {
        // Copies that follow a wait, and records, come as posts.
        drop(self.last_wait(&request));
        match request {
            Request::Connect { path, backend, log_level, settings } => encode_reply(
                self.connect(peer, &library::OpenRequest { path, backend, log_level, settings }),
            ),
            Request::Reserve { address, bytes } => {
                encode_reply(self.memory.reserve(address, bytes))
            }
            Request::Map { address, offset, bytes } => {
                encode_reply(self.map(peer, address, offset, bytes))
            }
            Request::Unmap { address, bytes } => encode_reply(self.memory.unmap(address, bytes)),
            Request::Platform(PlatformCall::Open { index }) => encode_reply(self.open(index)),
            Request::Platform(call) => self.serve_platform(0, call),
            Request::Device(id, call) => self.serve_device(id, call),
            Request::Module(id, call) => self.serve_module(id, call),
            Request::Queue(id, call) => self.serve_queue(id, call),
            Request::Event(id, call) => self.serve_event(id, call),
            Request::Close { device } => encode_reply(self.close(device)),
            Request::Disconnect => encode_reply(self.disconnect()),
            Request::Upload { bytes } => encode_reply(self.uploads.begin(bytes)),
            Request::Chunk { upload, content } => encode_reply(self.uploads.add(upload, content)),
            request => self.reply_by_hand(peer, request),
        }
    }

    fn reply_by_hand(&self, peer: &Arc<dyn Channel>, request: Request<'_>) -> Vec<u8> {
        match request {
            Request::Accepts { device, image } => encode_reply(self.accepts(peer, device, image)),
            Request::Score { device, image, triple, arch } => {
                encode_reply(self.score(peer, device, image, triple, arch))
            }
            Request::ImportMemory { device, kind, address, bytes } => {
                encode_reply(self.import_memory(device, kind, address, bytes))
            }
            Request::Free { device, kind, address } => {
                encode_reply(self.free(device, kind, address))
            }
            Request::SetLogicalSize { device, address, bytes } => {
                encode_reply(self.set_logical_size(device, address, bytes))
            }
            Request::Load { device, image, loading } => {
                encode_reply(self.load(peer, device, image, loading))
            }
            Request::Kernel { module, name } => encode_reply(self.kernel(module, name)),
            Request::Unload { module } => encode_reply(self.unload(module)),
            Request::Launch(launch) => encode_reply(self.launch(&launch)),
            Request::Copy(copy) => encode_reply(self.copy(&copy)),
            Request::Rect(rect) => encode_reply(self.copy_rect(&rect)),
            Request::CopyIn { queue, device, address, content } => {
                encode_reply(self.copy_in(queue, device, address, content))
            }
            Request::CopyOut { queue, device, address, bytes } => {
                let content = self.copy_out(queue, device, address, bytes);
                encode_reply(content.map(serde_bytes::ByteBuf::from))
            }
            Request::Transfer(transfer) => encode_reply(self.transfer(peer, &transfer)),
            Request::Bulk(copy) => encode_reply(self.copy_in_bulk(peer, &copy)),
            Request::CreateEvents { device, timing, count } => {
                encode_reply(self.create_events(device, timing, count))
            }
            Request::Exchange(exchange) => encode_reply(self.exchange(peer, &exchange)),
            Request::WaitEvent { queue, event } => encode_reply(self.wait_event(queue, event)),
            Request::Announce { event, to, signal } => {
                encode_reply(self.announce(peer, event, to, signal))
            }
            Request::AwaitSignal { queue, signal, from, to } => {
                encode_reply(self.await_signal(peer, queue, signal, (from, to)))
            }
            Request::Fill { queue, address, bytes, pattern, wait } => {
                encode_reply(self.fill(queue, address, bytes, pattern, wait))
            }
            Request::HostFunction { queue, function } => {
                encode_reply(self.host_function(peer, queue, function))
            }
            other => encode_reply::<()>(Err(Error::new(
                ErrorCode::Unimplemented,
                format!("the executor does not know the request {other:?}"),
            ))),
        }
    }

    fn connect(
        &self,
        peer: &Arc<dyn Channel>,
        wanted: &library::OpenRequest<'_>,
    ) -> Result<(Connected, RequestedSettings)> {
        let _opening = self.opening.lock();
        if self.platform.read().is_some() {
            let problem = "this executor has a plugin already";
            return Err(Error::new(ErrorCode::InvalidArgument, problem));
        }
        let open = self.open.ok_or_else(unconnected)?;
        let opened = open(peer, wanted)?;
        *self.platform.write() = opened.platform;
        Ok((opened.connected, RequestedSettings(opened.asked)))
    }

    fn disconnect(&self) -> Result<()> {
        if self.open.is_none() {
            // The platform belongs to the process that serves it.
            return Ok(());
        }
        let platform = self.platform.write().take().ok_or_else(unconnected)?;
        drop(platform);
        Ok(())
    }

    pub(in crate::plugin) fn platform(&self) -> Result<SharedPlatform<B>> {
        self.platform.read().clone().ok_or_else(unconnected)
    }

    fn map(&self, peer: &Arc<dyn Channel>, address: u64, offset: u64, bytes: u64) -> Result<()> {
        let file = peer
            .memory()
            .ok_or_else(|| Error::new(ErrorCode::InvalidArgument, "no memory is shared"))?;
        self.memory.map(file, address, offset, bytes)
    }

    pub(in crate::plugin) fn keep_device(&self, _: &SharedPlatform<B>, device: B::Device) -> Id {
        self.devices.put(Device::new(device, false, false))
    }

    /// Opens a device. Its memory is accessible here if the plugin is in this process and says so.
    fn open(&self, index: u32) -> Result<Id> {
        let platform = self.platform()?;
        let device = platform.open(index)?;
        let access = platform.device_info(index, DeviceInfo::HostAccess);
        let is_accessible = matches!(access, Ok(InfoValue::Bool(true)));
        let is_transferable = is_accessible || self.are_transferable;
        Ok(self.devices.put(Device::new(device, is_accessible, is_transferable)))
    }

    pub(in crate::plugin) fn keep_queue(&self, device: &Arc<Device<B>>, queue: B::Queue) -> Id {
        self.queues.put(Queue::new(queue, device))
    }

    pub(in crate::plugin) fn keep_event(&self, device: &Arc<Device<B>>, event: B::Event) -> Id {
        self.events.put(Event { event, device: Arc::clone(device), records: Arc::default() })
    }

    /// Creates events: at least one, and as many as there are without a failure.
    fn create_events(&self, device: Id, timing: bool, count: u32) -> Result<Vec<Id>> {
        let device = self.devices.get(device)?;
        let mut ids = vec![self.keep_event(&device, device.device.create_event(timing)?)];
        for _ in 1..count.min(MOST_EVENTS) {
            let Ok(event) = device.device.create_event(timing) else { break };
            ids.push(self.keep_event(&device, event));
        }
        Ok(ids)
    }

    fn close(&self, device: Id) -> Result<()> {
        sole(self.devices.take(device)?, "device")?.close()
    }

    fn image(&self, peer: &Arc<dyn Channel>, image: Image<'_>) -> Result<ImageBuffer> {
        ImageBuffer::new(image, &self.uploads, peer.memory(), self.images.as_deref())
    }

    fn accepts(&self, peer: &Arc<dyn Channel>, device: Id, image: Image<'_>) -> Result<Acceptance> {
        let (device, image) = (self.devices.get(device)?, self.image(peer, image)?);
        device.device.accepts(image.bytes())
    }

    fn score(
        &self,
        peer: &Arc<dyn Channel>,
        device: Id,
        image: Image<'_>,
        triple: &str,
        arch: &str,
    ) -> Result<u32> {
        let (device, image) = (self.devices.get(device)?, self.image(peer, image)?);
        device.device.score(&ImageEntry::new(image.bytes(), triple, arch))
    }

    /// Imports shared memory. Pinning replaces importing if the plugin cannot import; the device
    /// must then have the memory at the same address.
    fn import_memory(&self, device: Id, kind: MemoryKind, address: u64, bytes: u64) -> Result<()> {
        self.memory.check(address, bytes)?;
        let device = self.devices.get(device)?;
        // SAFETY: the range is mapped, and stays mapped until the host has freed it.
        let span = unsafe { Span::new(address, bytes) };
        match device.device.import_memory(kind, span) {
            Err(error) if error.code() == ErrorCode::Unsupported => {}
            imported => return imported,
        }
        let reached = device.device.pin(span).map_err(|error| match error.code() {
            ErrorCode::Unsupported => Error::new(
                ErrorCode::Unsupported,
                format!("{kind:?} memory of an isolated device needs a plugin that imports or pins memory: {}", error.message()),
            ),
            _ => error,
        })?;
        if reached == address {
            device.pinned.lock().push(address);
            return Ok(());
        }
        device.device.unpin(address)?;
        let message = format!(
            "{kind:?} memory of an isolated device cannot be provided: the device has the host's memory at another address, expected the same"
        );
        Err(Error::new(ErrorCode::Unsupported, message))
    }

    fn free(&self, device: Id, kind: MemoryKind, address: u64) -> Result<()> {
        let device = self.devices.get(device)?;
        let mut pinned = device.pinned.lock();
        if let Some(index) = pinned.iter().position(|known| *known == address) {
            pinned.swap_remove(index);
            drop(pinned);
            return device.device.unpin(address);
        }
        drop(pinned);
        device.device.free(kind, address)
    }

    fn set_logical_size(&self, device: Id, address: u64, bytes: u64) -> Result<()> {
        let device = self.devices.get(device)?;
        if device.pinned.lock().contains(&address) {
            return Ok(());
        }
        device.device.set_logical_size(address, bytes)
    }

    fn load(
        &self,
        peer: &Arc<dyn Channel>,
        device: Id,
        image: Image<'_>,
        loading: Loading,
    ) -> Result<Id> {
        let (device, image) = (self.devices.get(device)?, self.image(peer, image)?);
        // SAFETY: the buffer's bytes stay in place until the module is dropped; the module precedes
        // the buffer in `Module`.
        let bytes = unsafe { ImageBytes::new(image.bytes()) };
        let module = device.device.load(bytes, loading)?;
        let kernels = Mutex::default();
        Ok(self.modules.put(Module { module, kernels, _image: image, device }))
    }

    fn kernel(&self, module: Id, name: &str) -> Result<(Id, KernelAttributes)> {
        let module = self.modules.get(module)?;
        let (kernel, attributes) = module.module.kernel(name)?;
        let id = self.kernels.put(Kernel { kernel, _module: Arc::clone(&module) });
        module.kernels.lock().push(id);
        Ok((id, attributes))
    }

    fn unload(&self, module: Id) -> Result<()> {
        let module = self.modules.take(module)?;
        for kernel in module.kernels.lock().drain(..) {
            drop(self.kernels.take(kernel));
        }
        let Module { module, _image: image, device, .. } = sole(module, "module")?;
        let unloaded = module.unload();
        drop((image, device));
        unloaded
    }
}

fn unconnected() -> Error {
    Error::new(ErrorCode::Uninitialized, "this executor has no plugin")
}
