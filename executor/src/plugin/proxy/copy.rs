//! Copies, by the place of their ends: on a device, in memory shared by both processes, or in
//! memory of the program alone.

use std::ffi::c_void;
use std::sync::Arc;

use longshore_plugin_api::{
    CopyRequest, Error, ErrorCode, HostFunction, PitchedSpan, Place, Queue, RectRequest, Result,
    abi,
};

use super::Isolated;
use super::bulk::{self, Apart, Remote, unreachable};
use super::device::IsolatedDevice;
use super::queue::IsolatedQueue;
use super::transfers::Memory;
use super::window::{STAGING, Staging};
use crate::plugin::protocol::{BulkCopy, CHUNK, Copy, Exchange, Id, Rect, Request, Transfer};

/// Greatest number of bytes of a copy that goes in one message.
const SMALL: u64 = 2 << 10;
/// Bytes of one piece of a waiting copy without shared memory.
const PIECE: u64 = 1 << 20;

/// The place of one end of a copy.
#[derive(Clone, Copy)]
enum End {
    Device(Id),
    /// A device of another process that this queue's process reaches.
    Elsewhere,
    /// Memory of the host that is shared with the executor.
    Shared,
    Private,
}

/// A copy between a device and memory of the program alone.
struct Private {
    device: Id,
    /// Address on the device.
    address: u64,
    /// Address in the program.
    memory: u64,
    bytes: u64,
    to_device: bool,
}

impl IsolatedQueue {
    pub(in crate::plugin) fn copy_there(
        &self,
        copy: &CopyRequest<'_, IsolatedDevice>,
    ) -> Result<()> {
        let (to, from, bytes) =
            (copy.destination.address(), copy.source.address(), copy.destination.bytes());
        let to_end = self.end(&copy.destination_place, to, bytes)?;
        let from_end = self.end(&copy.source_place, from, bytes)?;
        let private = |device, address, memory, to_device| Private {
            device,
            address,
            memory,
            bytes,
            to_device,
        };
        if matches!(to_end, End::Elsewhere) || matches!(from_end, End::Elsewhere) {
            return self.copy_elsewhere(copy);
        }
        match (to_end, from_end) {
            (End::Device(device), End::Private) if bytes > 0 => {
                self.copy_private(&private(device, to, from, true), copy.wait)
            }
            (End::Private, End::Device(device)) if bytes > 0 => {
                self.copy_private(&private(device, from, to, false), copy.wait)
            }
            (End::Device(_), _) | (_, End::Device(_)) => {
                let id = |end| if let End::Device(id) = end { Some(id) } else { None };
                let (to_device, from_device) = (id(to_end), id(from_end));
                let (queue, wait) = (self.id, copy.wait);
                self.copy_in_process(Copy { queue, to, to_device, from, from_device, bytes, wait })
            }
            _ => self.copy_here(to, from, bytes, copy.wait),
        }
    }

    /// Has the executor copy a rectangle, if it can reach both ends.
    ///
    /// # Errors
    /// `Unsupported` for memory of the program alone, whose rows go one by one.
    pub(in crate::plugin) fn copy_rect_there(
        &self,
        rect: &RectRequest<'_, IsolatedDevice>,
    ) -> Result<()> {
        let device = |place, memory: PitchedSpan| {
            let bytes = memory.span(&rect.extent).bytes();
            match self.end(place, memory.address(), bytes)? {
                End::Device(id) => Ok(Some(id)),
                End::Shared => Ok(None),
                End::Private | End::Elsewhere => {
                    let what = "rectangles in memory that the plugin's process does not share";
                    Err(Error::new(ErrorCode::Unsupported, what))
                }
            }
        };
        let (to, from) = (rect.destination, rect.source);
        let request = Request::Rect(Rect {
            queue: self.id,
            to: to.address(),
            to_pitch: to.pitch(),
            to_device: device(&rect.destination_place, to)?,
            from: from.address(),
            from_pitch: from.pitch(),
            from_device: device(&rect.source_place, from)?,
            extent: rect.extent,
        });
        self.queueing(|| self.link.ask(&request))
    }

    fn end(&self, place: &Place<'_, IsolatedDevice>, address: u64, bytes: u64) -> Result<End> {
        match place {
            Place::Device(device) if Arc::ptr_eq(device.link(), &self.link) => {
                Ok(End::Device(device.id()))
            }
            Place::Device(device) => {
                let reach = [device.link(), &self.link].map(|link| link.channel().address());
                let are_reachable = reach.iter().all(Option::is_some);
                if are_reachable { Ok(End::Elsewhere) } else { Err(unreachable()) }
            }
            Place::Host if self.link.window().is_some_and(|window| window.has(address, bytes)) => {
                Ok(End::Shared)
            }
            Place::Host => Ok(End::Private),
        }
    }

    /// Copies between a device of another process and any other place.
    fn copy_elsewhere(&self, copy: &CopyRequest<'_, IsolatedDevice>) -> Result<()> {
        let (to, from, bytes) =
            (copy.destination.address(), copy.source.address(), copy.destination.bytes());
        let remote = |device: &IsolatedDevice, address| Remote {
            link: Arc::clone(device.link()),
            device: device.id(),
            address,
        };
        let is_ours = |device: &IsolatedDevice| Arc::ptr_eq(device.link(), &self.link);
        let private = |device, address, memory, to_device| {
            let end = remote(device, address);
            self.copy_apart(Apart::Private { end, memory, bytes, to_device }, copy.wait)
        };
        match (&copy.destination_place, &copy.source_place) {
            (Place::Device(there), Place::Device(here)) if is_ours(there) || is_ours(here) => {
                let to_device = is_ours(there);
                let (ours, other) = if to_device { (there, here) } else { (here, there) };
                let (address, other_address) = if to_device { (to, from) } else { (from, to) };
                let exchange = Request::Exchange(Exchange {
                    queue: Some(self.id),
                    device: ours.id(),
                    address,
                    bytes,
                    other: other.link().channel().address().ok_or_else(unreachable)?,
                    other_device: other.id(),
                    other_address,
                    to_device,
                    wait: copy.wait,
                });
                match copy.wait {
                    true => self.waiting(|| self.link.ask_and_finish(&exchange)),
                    false => self.queueing(|| self.link.post(&exchange)),
                }
            }
            (Place::Device(there), Place::Device(here)) => {
                let (to, from) = (remote(there, to), remote(here, from));
                self.copy_apart(Apart::Between { to, from, bytes }, copy.wait)
            }
            (Place::Device(there), Place::Host) => private(there, to, from, true),
            (Place::Host, Place::Device(here)) => private(here, from, to, false),
            (Place::Host, Place::Host) => self.copy_here(to, from, bytes, copy.wait),
        }
    }

    /// Has the executor copy; it can reach both ends.
    fn copy_in_process(&self, copy: Copy) -> Result<()> {
        if copy.wait {
            return self.waiting(|| self.link.ask_and_finish(&Request::Copy(copy)));
        }
        self.queueing(|| self.link.ask(&Request::Copy(copy)))
    }

    /// Copies in the memory of this process, in the queue's order.
    fn copy_here(&self, to: u64, from: u64, bytes: u64, wait: bool) -> Result<()> {
        let (to, from, bytes) = (to as *mut u8, from as *const u8, bytes as usize);
        if wait && self.is_known_idle() {
            return self.waiting(|| {
                // SAFETY: the caller that queues the copy guarantees both ranges.
                unsafe { std::ptr::copy(from, to, bytes) };
                Ok(())
            });
        }
        let boxed = Box::into_raw(Box::new(Ranges { to, from, bytes }));
        // SAFETY: `call` may run once, on any thread: the ranges are valid until the copy is done.
        let function = unsafe {
            HostFunction::from_raw(abi::HostFunction { context: boxed.cast(), call: copy_ranges })
        };
        let queued = Queue::<Isolated>::host_function(self, function);
        if queued.is_err() {
            // SAFETY: a refused function was not run and never will be.
            drop(unsafe { Box::from_raw(boxed) });
        }
        queued?;
        if wait { Queue::<Isolated>::synchronize(self) } else { Ok(()) }
    }

    fn copy_private(&self, copy: &Private, wait: bool) -> Result<()> {
        if self.link.channel().bulk().is_some() {
            return self.copy_by_channel(copy, wait);
        }
        if !wait {
            return self.transfer(copy);
        }
        self.waiting(|| {
            let before = self.synchronize_for(copy);
            let copied = match copy.bytes {
                0..=SMALL => self.copy_in_message(copy, 0, copy.bytes),
                _ => match (self.link.staging()?, copy.to_device) {
                    (None, _) => self.copy_in_messages(copy),
                    (Some(staging), _) if copy.bytes <= STAGING => self.copy_staged(copy, &staging),
                    (Some(staging), true) => self.stage_to_device(copy, [staging, self.second()?]),
                    (Some(staging), false) => {
                        self.stage_from_device(copy, [staging, self.second()?])
                    }
                },
            };
            before.and(copied)
        })
    }

    /// Copies by a message or a transfer of the channel.
    fn copy_by_channel(&self, copy: &Private, wait: bool) -> Result<()> {
        let is_small = copy.bytes <= bulk::SMALL;
        if !wait {
            if is_small && copy.to_device && self.leaves_host_alone() {
                return self.send_ahead(copy);
            }
            return self.transfer(copy);
        }
        self.waiting(|| {
            // The process orders its own work; work of the program's functions may write the
            // memory that is read now.
            let is_ordered = !copy.to_device || self.leaves_host_alone();
            let before = if is_ordered { Ok(()) } else { Queue::<Isolated>::synchronize(self) };
            let copied = match is_small {
                true => self.copy_in_message(copy, 0, copy.bytes),
                false => {
                    let request = BulkCopy {
                        queue: Some(self.id),
                        device: copy.device,
                        address: copy.address,
                        bytes: copy.bytes,
                        number: 0,
                        to_device: copy.to_device,
                    };
                    // SAFETY: the caller that queues the copy guarantees the range.
                    unsafe { self.link.copy_in_bulk(request, copy.memory) }
                }
            };
            before.and(copied)
        })
    }

    /// Queues a copy to the device by a message without a reply. The memory is read now: no queued
    /// work writes it.
    fn send_ahead(&self, copy: &Private) -> Result<()> {
        let (from, bytes) = (copy.memory as *const u8, copy.bytes as usize);
        // SAFETY: the caller that queues the copy guarantees the range.
        let content = unsafe { std::slice::from_raw_parts(from, bytes) };
        let (queue, device, address) = (self.id, copy.device, copy.address);
        self.queueing(|| self.link.post(&Request::CopyIn { queue, device, address, content }))
    }

    /// Waits for queued work, which may write the memory that is read now. For copies from the
    /// device of one piece or less, the executor waits.
    fn synchronize_for(&self, copy: &Private) -> Result<()> {
        if (copy.to_device || copy.bytes > STAGING) && !self.is_known_idle() {
            return Queue::<Isolated>::synchronize(self);
        }
        Ok(())
    }

    fn second(&self) -> Result<Staging> {
        let staging = self.link.staging()?;
        Ok(staging.expect("it was shared a moment ago"))
    }

    fn copy_in_messages(&self, copy: &Private) -> Result<()> {
        let pieces = (0..copy.bytes).step_by(PIECE as usize);
        pieces
            .map(|at| (at, (copy.bytes - at).min(PIECE)))
            .try_for_each(|(at, bytes)| self.copy_in_message(copy, at, bytes))
    }

    fn copy_in_message(&self, copy: &Private, at: u64, bytes: u64) -> Result<()> {
        let (queue, device, address) = (self.id, copy.device, copy.address + at);
        if copy.to_device {
            // SAFETY: the caller that queues the copy guarantees the range, which is read now.
            let content = unsafe {
                std::slice::from_raw_parts((copy.memory + at) as *const u8, bytes as usize)
            };
            return self.link.ask(&Request::CopyIn { queue, device, address, content });
        }
        let content: serde_bytes::ByteBuf =
            self.link.ask_and_finish(&Request::CopyOut { queue, device, address, bytes })?;
        if content.len() as u64 != bytes {
            let message =
                format!("the executor's reply has {} bytes, expected {bytes}", content.len());
            return Err(Error::new(ErrorCode::BackendFailure, message));
        }
        // SAFETY: the caller that queues the copy guarantees the range, which is written now.
        unsafe {
            let to = (copy.memory + at) as *mut u8;
            std::ptr::copy_nonoverlapping(content.as_ptr(), to, content.len());
        }
        Ok(())
    }

    /// Copies all bytes in one piece.
    fn copy_staged(&self, copy: &Private, staging: &Staging) -> Result<()> {
        if copy.to_device {
            copy.load(0, copy.bytes, staging);
            return self.link.ask_and_finish(&self.piece(copy, 0, copy.bytes, staging));
        }
        self.link.ask_and_finish::<()>(&self.piece(copy, 0, copy.bytes, staging))?;
        copy.store(0, copy.bytes, staging);
        Ok(())
    }

    /// Copies in pieces: while the executor copies one piece to the device, this thread loads the
    /// next.
    fn stage_to_device(&self, copy: &Private, mut staging: [Staging; 2]) -> Result<()> {
        copy.load(0, STAGING, &staging[0]);
        let mut at = 0;
        while at < copy.bytes {
            let bytes = (copy.bytes - at).min(STAGING);
            let next = at + bytes;
            let ahead = (copy.bytes - next).min(STAGING);
            let request = self.piece(copy, at, bytes, &staging[0]);
            self.link.ask_while::<()>(&request, || copy.load(next, ahead, &staging[1]))?;
            staging.swap(0, 1);
            at = next;
        }
        Ok(())
    }

    /// Copies in pieces: while the executor copies one piece from the device, this thread stores
    /// the one before.
    fn stage_from_device(&self, copy: &Private, mut staging: [Staging; 2]) -> Result<()> {
        let (mut at, mut before) = (0, None);
        while at < copy.bytes {
            let bytes = (copy.bytes - at).min(STAGING);
            let request = self.piece(copy, at, bytes, &staging[0]);
            self.link.ask_while::<()>(&request, || {
                if let Some((at, bytes)) = before {
                    copy.store(at, bytes, &staging[1]);
                }
            })?;
            before = Some((at, bytes));
            staging.swap(0, 1);
            at += bytes;
        }
        if let Some((at, bytes)) = before {
            copy.store(at, bytes, &staging[1]);
        }
        Ok(())
    }

    fn piece(&self, copy: &Private, at: u64, bytes: u64, staging: &Staging) -> Request<'static> {
        let (on_device, staged) =
            ((copy.address + at, Some(copy.device)), (staging.address(), None));
        let ((to, to_device), (from, from_device)) =
            if copy.to_device { (on_device, staged) } else { (staged, on_device) };
        Request::Copy(Copy { queue: self.id, to, to_device, from, from_device, bytes, wait: true })
    }

    /// Queues a copy without waiting for it. The executor accesses the memory when the queue comes
    /// to the copy.
    fn transfer(&self, copy: &Private) -> Result<()> {
        if !copy.to_device {
            self.touches_host();
        }
        let staging = if copy.bytes > CHUNK as u64 { self.link.staging()? } else { None };
        let place = staging.as_ref().map(|staging| (staging.address(), staging.bytes()));
        // SAFETY: the caller that queues the copy guarantees the range until it is done.
        let memory = unsafe { Memory::new(copy.memory, copy.bytes, copy.to_device, staging) };
        let transfers = &self.link.callbacks.transfers;
        let transfer = transfers.add(memory);
        let request = Request::Transfer(Transfer {
            queue: self.id,
            transfer,
            device: copy.device,
            address: copy.address,
            bytes: copy.bytes,
            to_device: copy.to_device,
            staging: place,
        });
        self.queueing(|| self.link.ask::<()>(&request)).inspect_err(|_| transfers.give_up(transfer))
    }
}

impl Private {
    /// Copies a piece of the program's memory into staging memory.
    fn load(&self, at: u64, bytes: u64, staging: &Staging) {
        // SAFETY: the caller that queues the copy guarantees the range; staging memory has room for
        // a piece, and no other thread uses it.
        unsafe {
            let (from, to) = ((self.memory + at) as *const u8, staging.address() as *mut u8);
            std::ptr::copy_nonoverlapping(from, to, bytes as usize);
        }
    }

    /// Copies a piece from staging memory into the program's memory.
    fn store(&self, at: u64, bytes: u64, staging: &Staging) {
        // SAFETY: as in `load`.
        unsafe {
            let (from, to) = (staging.address() as *const u8, (self.memory + at) as *mut u8);
            std::ptr::copy_nonoverlapping(from, to, bytes as usize);
        }
    }
}

struct Ranges {
    to: *mut u8,
    from: *const u8,
    bytes: usize,
}

unsafe extern "C" fn copy_ranges(context: *mut c_void) {
    // SAFETY: the context is the box made in `copy_here`, and the function is called once. The
    // caller that queued the copy guarantees both ranges.
    unsafe {
        let Ranges { to, from, bytes } = *Box::from_raw(context.cast::<Ranges>());
        std::ptr::copy(from, to, bytes);
    }
}
