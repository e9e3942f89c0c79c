//! Exchange of packets with a client.

use super::layout::{PACKET_BYTES, PACKET_WORDS, Packet, Process};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use std::time::Duration;

/// Most bytes that the lanes of a port send together.
pub(super) const MOST_BYTES: u64 = 64 << 20;
/// Turns of a loop that waits for a client before the loop sleeps.
const TURNS: u32 = 200;
const PAUSE: Duration = Duration::from_micros(20);
/// Most lanes of a warp.
const MOST_LANES: u32 = 64;

/// The reason that a call cannot be answered to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// The server ends.
    Stopped,
    /// The client sends more than [`MOST_BYTES`].
    TooLong,
}

/// Bytes of each lane; inactive lanes have none.
pub(super) type Lanes<T> = Vec<Option<T>>;

/// An open port. The layout is LLVM's `rpc::Server::Port`, as callbacks of the program get it.
#[repr(C)]
pub(super) struct RawPort {
    process: *mut Process,
    lane_mask: u64,
    lane_count: u32,
    index: u32,
    out: u32,
    receives: bool,
    owns: bool,
}

const _: () = assert!(size_of::<RawPort>() == 32);

/// An open port of a server.
pub(super) struct Port<'a> {
    raw: RawPort,
    stop: &'a AtomicBool,
}

/// The packet of one lane.
pub(super) struct Slot(*mut Packet);

impl Slot {
    /// Reads a word; 0 beyond the packet.
    pub(super) fn get(&self, index: usize) -> u64 {
        if index >= PACKET_WORDS {
            return 0;
        }
        // SAFETY: the packet is part of the buffer; the device may write it at any time.
        unsafe { self.0.cast::<u64>().add(index).read_volatile() }
    }

    /// Writes a word; nothing beyond the packet.
    pub(super) fn set(&self, index: usize, value: u64) {
        if index < PACKET_WORDS {
            // SAFETY: as for `get`.
            unsafe { self.0.cast::<u64>().add(index).write_volatile(value) };
        }
    }

    /// Returns the bytes of the packet.
    pub(super) fn bytes(&self) -> [u8; PACKET_BYTES] {
        let mut bytes = [0; PACKET_BYTES];
        for (index, word) in bytes.chunks_exact_mut(8).enumerate() {
            word.copy_from_slice(&self.get(index).to_le_bytes());
        }
        bytes
    }

    /// Writes bytes from word `first` on, as many as fit.
    fn put(&self, first: usize, bytes: &[u8]) {
        for (index, chunk) in bytes.chunks(8).enumerate() {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.set(first + index, u64::from_le_bytes(word));
        }
    }
}

impl<'a> Port<'a> {
    /// Opens a port if its client has sent something.
    ///
    /// # Safety
    /// The process describes a live buffer with `lanes` lanes in each port, and no other thread
    /// serves it.
    pub(super) unsafe fn open(
        process: *mut Process,
        lanes: u32,
        index: u32,
        stop: &'a AtomicBool,
    ) -> Option<Port<'a>> {
        let (lane_count, out) = (lanes.min(MOST_LANES), 0);
        let raw =
            RawPort { process, lane_mask: 1, lane_count, index, out, receives: false, owns: true };
        let mut port = Port { raw, stop };
        port.raw.out = port.outbox().load(Ordering::Relaxed);
        (port.inbox().load(Ordering::Acquire) != port.raw.out).then_some(port)
    }

    fn inbox(&self) -> &AtomicU32 {
        // SAFETY: promised to `open`.
        unsafe { &*(*self.raw.process).inbox.add(self.raw.index as usize) }
    }

    fn outbox(&self) -> &AtomicU32 {
        // SAFETY: promised to `open`.
        unsafe { &*(*self.raw.process).outbox.add(self.raw.index as usize) }
    }

    /// Returns the opcode of the call.
    pub(super) fn opcode(&self) -> u32 {
        // SAFETY: promised to `open`; the device may write the header.
        unsafe {
            let header = (*self.raw.process).headers.add(self.raw.index as usize);
            (&raw const (*header).opcode).read_volatile()
        }
    }

    /// Returns the port in LLVM's layout.
    pub(super) fn raw(&mut self) -> &mut RawPort {
        &mut self.raw
    }

    /// Returns the number of lanes.
    pub(super) fn lane_count(&self) -> u32 {
        self.raw.lane_count
    }

    /// Returns the packets of all active lanes.
    fn slots(&self) -> impl Iterator<Item = (usize, Slot)> + use<> {
        let (index, lanes) = (self.raw.index as usize, self.raw.lane_count as usize);
        // SAFETY: promised to `open`; the device may write the header.
        let (mask, first) = unsafe {
            let process = &*self.raw.process;
            let mask = (&raw const (*process.headers.add(index)).mask).read_volatile();
            (mask, process.packets.add(index * lanes))
        };
        let is_active = move |lane: &usize| mask >> lane & 1 == 1;
        (0..lanes).filter(is_active).map(move |lane| (lane, Slot(first.wrapping_add(lane))))
    }

    /// Waits until the server owns the packets.
    fn wait(&self) -> Result<(), Broken> {
        let mut turns = 0;
        while !self.raw.owns && self.inbox().load(Ordering::Relaxed) == self.raw.out {
            if self.stop.load(Ordering::Relaxed) {
                return Err(Broken::Stopped);
            }
            turns += 1;
            match turns {
                ..TURNS => std::hint::spin_loop(),
                _ => std::thread::sleep(PAUSE),
            }
        }
        fence(Ordering::Acquire);
        Ok(())
    }

    /// Gives the packets to the client.
    fn give(&mut self) {
        self.raw.out = u32::from(self.raw.out == 0);
        self.outbox().store(self.raw.out, Ordering::Release);
        self.raw.owns = false;
    }

    /// Fills the packet of each active lane, and sends the packets.
    pub(super) fn send(&mut self, mut fill: impl FnMut(usize, &Slot)) -> Result<(), Broken> {
        self.wait()?;
        self.slots().for_each(|(lane, slot)| fill(lane, &slot));
        self.give();
        self.raw.receives = false;
        Ok(())
    }

    /// Receives packets, and calls a function with that of each active lane. The packets stay the
    /// server's.
    pub(super) fn receive(&mut self, mut take: impl FnMut(usize, &Slot)) -> Result<(), Broken> {
        if self.raw.receives {
            self.give();
        }
        self.wait()?;
        self.slots().for_each(|(lane, slot)| take(lane, &slot));
        (self.raw.receives, self.raw.owns) = (true, true);
        Ok(())
    }

    /// Receives packets, changes them, and sends them back.
    pub(super) fn exchange(&mut self, work: impl FnMut(usize, &Slot)) -> Result<(), Broken> {
        self.receive(work)?;
        self.send(|_, _| {})
    }

    /// Receives bytes of any length from each lane: the length, then the bytes in packets.
    pub(super) fn receive_bytes(&mut self) -> Result<Lanes<Vec<u8>>, Broken> {
        const FIRST: usize = PACKET_BYTES - 8;
        let mut found: Lanes<Vec<u8>> = vec![None; self.lane_count() as usize];
        let mut sizes = vec![0; found.len()];
        self.receive(|lane, slot| {
            sizes[lane] = slot.get(0);
            let bytes = slot.bytes();
            let count = sizes[lane].min(FIRST as u64) as usize;
            found[lane] = Some(bytes[8..8 + count].to_vec());
        })?;
        if sizes.iter().fold(0, |sum: u64, size| sum.saturating_add(*size)) > MOST_BYTES {
            return Err(Broken::TooLong);
        }
        let most = sizes.iter().copied().max().unwrap_or(0) as usize;
        for start in (FIRST..most).step_by(PACKET_BYTES) {
            self.receive(|lane, slot| {
                let rest = (sizes[lane] as usize).saturating_sub(start).min(PACKET_BYTES);
                if let Some(bytes) = &mut found[lane] {
                    bytes.extend_from_slice(&slot.bytes()[..rest]);
                }
            })?;
        }
        Ok(found)
    }

    /// Sends bytes to each lane, in the form of [`Port::receive_bytes`].
    pub(super) fn send_bytes(&mut self, lanes: &Lanes<Vec<u8>>) -> Result<(), Broken> {
        const FIRST: usize = PACKET_BYTES - 8;
        let of = |lane: usize| lanes.get(lane).and_then(Option::as_deref).unwrap_or_default();
        self.send(|lane, slot| {
            slot.set(0, of(lane).len() as u64);
            slot.put(1, &of(lane)[..of(lane).len().min(FIRST)]);
        })?;
        let most = lanes.iter().flatten().map(Vec::len).max().unwrap_or(0);
        for start in (FIRST..most).step_by(PACKET_BYTES) {
            self.send(|lane, slot| {
                let rest = of(lane).get(start..).unwrap_or_default();
                slot.put(0, &rest[..rest.len().min(PACKET_BYTES)]);
            })?;
        }
        Ok(())
    }

    /// Closes the port: the client may use it for another call.
    pub(super) fn close(mut self) {
        if self.raw.owns {
            self.give();
        }
    }
}
