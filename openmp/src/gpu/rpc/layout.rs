//! The shared buffer, and the structures of both sides. LLVM: `rpc::Process`.

use std::sync::atomic::AtomicU32;

/// Greatest number of ports.
pub(super) const MOST_PORTS: u32 = 4096;
/// Words of a packet of one lane.
pub(super) const PACKET_WORDS: usize = 8;
/// Size in bytes of a packet of one lane.
pub(super) const PACKET_BYTES: usize = 8 * PACKET_WORDS;

const HEADER_BYTES: u64 = size_of::<Header>() as u64;
const MAILBOX_BYTES: u64 = 4;
const ALIGNMENT: u64 = 8;

/// The header of a port. LLVM 19 has an opcode of 16 bits, with zeros behind it.
#[repr(C)]
pub(super) struct Header {
    /// Active lanes.
    pub(super) mask: u64,
    pub(super) opcode: u32,
}

/// The packet of one lane.
pub(super) type Packet = [u64; PACKET_WORDS];

/// The server's view of the buffer. The layout is LLVM's, as callbacks of the program get it.
#[repr(C)]
pub(super) struct Process {
    pub(super) port_count: u32,
    pub(super) inbox: *const AtomicU32,
    pub(super) outbox: *const AtomicU32,
    pub(super) headers: *mut Header,
    pub(super) packets: *mut Packet,
    locks: [u32; MOST_PORTS as usize / 32],
}

const _: () = assert!(size_of::<Header>() == 16 && size_of::<Process>() == 552);

/// The places of a buffer's parts, for a number of ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) ports: u32,
    pub(super) lanes: u32,
}

impl Layout {
    /// Returns the size of the buffer in bytes.
    pub(super) fn bytes(self) -> u64 {
        self.packets() + u64::from(self.ports) * u64::from(self.lanes) * PACKET_BYTES as u64
    }

    /// Returns the offset of the second mailboxes: the server's inbox, and the client's outbox.
    fn second(self) -> u64 {
        u64::from(self.ports) * MAILBOX_BYTES
    }

    fn headers(self) -> u64 {
        (2 * self.second()).next_multiple_of(ALIGNMENT)
    }

    fn packets(self) -> u64 {
        self.headers() + u64::from(self.ports) * HEADER_BYTES
    }

    /// Returns the beginning of the client's structure, for a buffer at a device address. Locks
    /// follow, which begin as zeros.
    pub(super) fn client(self, buffer: u64) -> Vec<u8> {
        let second = buffer + self.second();
        let words = [
            u64::from(self.ports),
            buffer,
            second,
            buffer + self.headers(),
            buffer + self.packets(),
        ];
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// Returns the server's structure, for a buffer of the host.
    pub(super) fn server(self, buffer: *mut u8) -> Process {
        let at = |offset: u64| buffer.wrapping_add(offset as usize);
        Process {
            port_count: self.ports,
            inbox: at(self.second()).cast(),
            outbox: at(0).cast(),
            headers: at(self.headers()).cast(),
            packets: at(self.packets()).cast(),
            locks: [0; MOST_PORTS as usize / 32],
        }
    }
}
