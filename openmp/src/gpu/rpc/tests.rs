//! Calls of a double of device code: a client in threads of the host, which follows LLVM's client.

use super::layout::{Header, Layout, PACKET_BYTES, Packet};
use super::memory::DeviceMemory;
use super::server::Running;
use super::users::Users;
use parking_lot::Mutex;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering, fence};

const LIBC: u32 = (b'c' as u32) << 24;
const OFFLOAD: u32 = (b'o' as u32) << 24;
const LANES: u32 = 32;

/// Memory that hands out numbers.
#[derive(Default)]
struct Numbers(Mutex<(u64, Vec<u64>)>);

impl DeviceMemory for Arc<Numbers> {
    fn allocate(&self, bytes: u64) -> u64 {
        let mut state = self.0.lock();
        state.0 += 0x1000;
        if bytes < 1 << 40 { state.0 } else { 0 }
    }

    fn free(&self, address: u64) {
        self.0.lock().1.push(address);
    }
}

/// A server with a buffer in this process.
struct World {
    buffer: Box<[u64]>,
    layout: Layout,
    memory: Arc<Numbers>,
    users: Arc<Users>,
    server: Option<Running>,
}

impl World {
    fn new(ports: u32) -> World {
        let layout = Layout { ports, lanes: LANES };
        let mut buffer = vec![0u64; layout.bytes().div_ceil(8) as usize].into_boxed_slice();
        let (memory, users) = (Arc::<Numbers>::default(), Arc::<Users>::default());
        let source = Box::new(Arc::clone(&memory));
        // SAFETY: the buffer has the layout's size, and is dropped after the server.
        let server = unsafe { Running::start(layout, buffer.as_mut_ptr().cast(), source, &users) };
        World { buffer, layout, memory, users, server: Some(server) }
    }

    /// Reads the structure that the image's client gets.
    fn client(&self) -> Client {
        let bytes = self.layout.client(self.buffer.as_ptr() as u64);
        let words: Vec<u64> =
            bytes.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
        Client {
            ports: words[0] as u32,
            inbox: words[1],
            outbox: words[2],
            headers: words[3],
            packets: words[4],
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        drop(self.server.take());
    }
}

/// A double of LLVM's `rpc::Client`, with the lanes of a warp in one thread.
#[derive(Clone, Copy)]
struct Client {
    ports: u32,
    inbox: u64,
    outbox: u64,
    headers: u64,
    packets: u64,
}

struct ClientPort {
    client: Client,
    index: u32,
    mask: u64,
    out: u32,
    owns: bool,
    receives: bool,
}

impl Client {
    fn mailbox(&self, base: u64, index: u32) -> &AtomicU32 {
        assert!(index < self.ports);
        // SAFETY: the mailbox is part of the buffer.
        unsafe { &*(base as *const AtomicU32).add(index as usize) }
    }

    /// Opens a port, which the caller alone uses. LLVM 19 writes opcodes of 16 bits.
    fn open(self, index: u32, opcode: u32, mask: u64) -> ClientPort {
        // SAFETY: the header is part of the buffer, and the client owns the port.
        unsafe {
            let header = (self.headers as *mut Header).add(index as usize);
            (&raw mut (*header).mask).write_volatile(mask);
            match opcode >> 16 {
                0 => (&raw mut (*header).opcode).cast::<u16>().write_volatile(opcode as u16),
                _ => (&raw mut (*header).opcode).write_volatile(opcode),
            }
        }
        let out = self.mailbox(self.outbox, index).load(Ordering::Relaxed);
        ClientPort { client: self, index, mask, out, owns: true, receives: false }
    }
}

impl ClientPort {
    fn lanes(&self) -> impl Iterator<Item = (usize, *mut Packet)> + use<> {
        let (mask, client) = (self.mask, self.client);
        let first = (client.packets as *mut Packet).wrapping_add((self.index * LANES) as usize);
        let lanes = (0..LANES as usize).filter(move |lane| mask >> lane & 1 == 1);
        lanes.map(move |lane| (lane, first.wrapping_add(lane)))
    }

    fn wait(&self) {
        while !self.owns
            && self.client.mailbox(self.client.inbox, self.index).load(Ordering::Relaxed)
                != self.out
        {
            std::thread::yield_now();
        }
        fence(Ordering::Acquire);
    }

    fn give(&mut self) {
        self.out ^= 1;
        let outbox = self.client.mailbox(self.client.outbox, self.index);
        outbox.store(self.out, Ordering::Release);
        self.owns = false;
    }

    fn send(&mut self, mut fill: impl FnMut(usize, &mut Packet)) {
        self.wait();
        // SAFETY: the client owns the packets.
        self.lanes().for_each(|(lane, packet)| fill(lane, unsafe { &mut *packet }));
        self.give();
        self.receives = false;
    }

    fn receive(&mut self, mut take: impl FnMut(usize, &Packet)) {
        if self.receives {
            self.give();
        }
        self.wait();
        // SAFETY: the client owns the packets.
        self.lanes().for_each(|(lane, packet)| take(lane, unsafe { &*packet }));
        (self.receives, self.owns) = (true, true);
    }

    fn send_bytes(&mut self, of: impl Fn(usize) -> Vec<u8>) {
        let most = self.lanes().map(|(lane, _)| of(lane).len()).max().unwrap_or(0);
        let put = |packet: &mut Packet, first: usize, bytes: &[u8]| {
            for (index, chunk) in bytes.chunks(8).enumerate() {
                let mut word = [0; 8];
                word[..chunk.len()].copy_from_slice(chunk);
                packet[first + index] = u64::from_le_bytes(word);
            }
        };
        self.send(|lane, packet| {
            let bytes = of(lane);
            packet[0] = bytes.len() as u64;
            put(packet, 1, &bytes[..bytes.len().min(PACKET_BYTES - 8)]);
        });
        for start in (PACKET_BYTES - 8..most).step_by(PACKET_BYTES) {
            self.send(|lane, packet| {
                let bytes = of(lane);
                let rest = bytes.get(start..).unwrap_or_default();
                put(packet, 0, &rest[..rest.len().min(PACKET_BYTES)]);
            });
        }
    }
}

/// Returns the numbers of both generations for a call of libc: LLVM 19's, and LLVM 20's and newer.
fn both(number: u32) -> [u32; 2] {
    [number, LIBC | number]
}

/// Prints from all lanes of a port, each lane with its own arguments, to a file.
/// Returns the results.
fn print(
    mut port: ClientPort,
    file: u64,
    format: &str,
    arguments: impl Fn(usize) -> Vec<u8>,
    strings: &[(u64, &str)],
) -> Vec<u64> {
    port.send(|_, packet| packet[0] = file);
    let format = [format.as_bytes(), b"\0"].concat();
    port.send_bytes(|_| format.clone());
    let mut size = 0;
    port.receive(|lane, packet| {
        assert_eq!(packet[0], arguments(lane).len() as u64);
        size = packet[0];
    });
    port.send_bytes(&arguments);
    loop {
        let mut wanted = [0u64; LANES as usize];
        let mut results = vec![0; LANES as usize];
        port.receive(|lane, packet| (results[lane], wanted[lane]) = (packet[0], packet[1]));
        if wanted.iter().all(|address| *address == 0) {
            return results;
        }
        port.send_bytes(|lane| {
            let string = strings.iter().find(|(address, _)| *address == wanted[lane]);
            string.map_or(Vec::new(), |(_, text)| [text.as_bytes(), b"\0"].concat())
        });
    }
}

/// Opens a file through the server, and returns its handle.
fn open(client: Client, opcode: u32, path: &str) -> u64 {
    let mut port = client.open(0, opcode, 1);
    port.send_bytes(|_| [path.as_bytes(), b"\0"].concat());
    port.send(|_, packet| packet[0] = u64::from(b'w'));
    let mut handle = 0;
    port.receive(|_, packet| handle = packet[0]);
    handle
}

/// Makes a call with one word for one lane, and returns the answer's first word.
fn call(client: Client, opcode: u32, words: &[u64]) -> u64 {
    let mut port = client.open(0, opcode, 1);
    port.send(|_, packet| packet[..words.len()].copy_from_slice(words));
    let mut answer = 0;
    port.receive(|_, packet| answer = packet[0]);
    answer
}

#[test]
fn all_lanes_print_to_files_by_both_generations_of_the_protocol() {
    let world = World::new(4);
    let _serving = world.users.begin().expect("there is a server");
    let client = world.client();
    let folder = std::env::temp_dir().join(format!("longshore-rpc-{}", std::process::id()));
    let path = folder.to_str().unwrap();
    for (print_it, (open_it, close)) in both(26).into_iter().zip(both(8).into_iter().zip(both(9))) {
        let handle = open(client, open_it, path);
        assert_ne!(handle, 0);
        let text =
            "lane %d of %s and %s: %5.1f, a text that needs more than a packet of words %c\n";
        let arguments = |lane: usize| {
            let strings = [0x100u64, if lane == 1 { 0 } else { 0x200 }];
            [
                &(lane as u32).to_le_bytes()[..],
                &strings[0].to_le_bytes(),
                &strings[1].to_le_bytes(),
                &(lane as f64 / 2.0).to_le_bytes(),
                &u32::from(b'z').to_le_bytes(),
            ]
            .concat()
        };
        let strings = [(0x100, "first"), (0x200, "second")];
        let results = print(client.open(3, print_it, 0b1011), handle, text, arguments, &strings);
        assert_eq!(call(client, close, &[handle]), 0);
        assert_eq!(call(client, close, &[handle]) as i32, -1);
        let written = std::fs::read_to_string(&folder).unwrap();
        let lines: Vec<_> = written.lines().collect();
        assert_eq!(lines.len(), 3);
        for (line, lane) in lines.iter().zip([0, 1, 3]) {
            let second = if lane == 1 { "(null)" } else { "second" };
            let half = lane as f64 / 2.0;
            let expected = format!(
                "lane {lane} of first and {second}: {half:5.1}, a text that needs more than a \
                 packet of words z"
            );
            assert_eq!(*line, expected);
            assert_eq!(results[lane], expected.len() as u64 + 1);
        }
    }
    std::fs::remove_file(&folder).unwrap();
}

#[test]
fn arguments_with_their_alignment_are_as_large_as_the_server_says() {
    let world = World::new(1);
    let _serving = world.users.begin().unwrap();
    let arguments = |_| [&1u32.to_le_bytes()[..], &[0; 4], &2.5f64.to_le_bytes()].concat();
    // The handle of no file: nothing is written.
    let port = world.client().open(0, LIBC | 23, 1);
    let results = print(port, 0x70, "%d %g", arguments, &[]);
    assert_eq!(results[0], 0);
}

#[test]
fn memory_is_allocated_and_freed() {
    let world = World::new(2);
    let _serving = world.users.begin().unwrap();
    for (malloc, free) in both(10).into_iter().zip(both(11)) {
        let address = call(world.client(), malloc, &[64]);
        assert_ne!(address, 0);
        assert_eq!(call(world.client(), malloc, &[u64::MAX]), 0);
        let mut port = world.client().open(1, free, 1);
        port.send(|_, packet| packet[0] = address);
        port.wait();
        assert_eq!(world.memory.0.lock().1.last(), Some(&address));
    }
}

unsafe extern "C" fn sum(words: *mut c_void) -> u64 {
    // SAFETY: the test passes two words.
    unsafe { *words.cast::<u64>() + *words.cast::<u64>().add(1) }
}

#[test]
fn host_functions_get_the_bytes_of_each_lane() {
    let world = World::new(1);
    let _serving = world.users.begin().unwrap();
    for opcode in [12, LIBC | 12, OFFLOAD] {
        let mut port = world.client().open(0, opcode, 0x8000_0005);
        let words = |lane: usize| [lane as u64, 100].iter().flat_map(|w| w.to_le_bytes()).collect();
        port.send_bytes(words);
        port.send(|_, packet| packet[0] = sum as *const () as u64);
        let mut results = Vec::new();
        port.receive(|lane, packet| results.push((lane, packet[0])));
        assert_eq!(results, [(0, 100), (2, 102), (31, 131)]);
    }
}

/// The port of LLVM's server, as a callback of the program sees it.
#[repr(C)]
struct SeenPort {
    process: *const SeenProcess,
    lane_mask: u64,
    lane_size: u32,
    index: u32,
    out: u32,
    receives: bool,
    owns: bool,
}

#[repr(C)]
struct SeenProcess {
    port_count: u32,
    inbox: *const u32,
    outbox: *const u32,
    headers: *const Header,
    packets: *mut Packet,
}

/// Answers opcode 1234 as LLVM's `recv` would: changes the packet that the server owns.
unsafe extern "C" fn triple(port: *mut c_void, lanes: u32) -> u32 {
    // SAFETY: the library promises LLVM's layout.
    unsafe {
        let port = &mut *port.cast::<SeenPort>();
        let process = &*port.process;
        if (*process.headers.add(port.index as usize)).opcode != 1234 << 8 {
            return 0x1001;
        }
        assert_eq!((lanes, port.lane_size, port.lane_mask), (LANES, LANES, 1));
        assert!(port.owns && !port.receives && process.port_count > port.index);
        let packet = process.packets.add((port.index * lanes) as usize);
        (*packet)[0] *= 3;
    }
    0
}

#[test]
fn functions_of_the_program_answer_before_the_library() {
    let world = World::new(3);
    let _serving = world.users.begin().unwrap();
    super::register(triple);
    super::register(triple);
    assert_eq!(call(world.client(), 1234 << 8, &[14]), 42);
    assert_ne!(call(world.client(), LIBC | 10, &[14]), 0);
}

#[test]
fn many_threads_call_at_once() {
    const PORTS: u32 = 16;
    let world = World::new(PORTS);
    let _serving = world.users.begin().unwrap();
    let client = world.client();
    std::thread::scope(|scope| {
        for index in 0..PORTS {
            scope.spawn(move || {
                for turn in 0..200u64 {
                    let mut port = client.open(index, LIBC | 12, u64::MAX);
                    let words = |lane: usize| {
                        [lane as u64, turn].iter().flat_map(|word| word.to_le_bytes()).collect()
                    };
                    port.send_bytes(words);
                    port.send(|_, packet| packet[0] = sum as *const () as u64);
                    port.receive(|lane, packet| assert_eq!(packet[0], lane as u64 + turn));
                }
            });
        }
    });
}

#[test]
fn any_contents_of_the_buffer_leave_the_server_alive() {
    let mut state = 1u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    // No call that ends the process, runs a command, changes a file, calls a function or reads
    // standard input.
    const CALLS: [u32; 15] = [0, 4, 7, 9, 10, 11, 14, 15, 17, 18, 20, 23, 26, 30, 99];
    for round in 0..60 {
        let world = World::new(8);
        let serving = world.users.begin().unwrap();
        for index in 0..8u32 {
            let opcode = CALLS[random() as usize % CALLS.len()];
            let opcode = if random() % 2 == 0 { opcode } else { LIBC | opcode };
            let mut port = world.client().open(index, opcode, u64::MAX);
            for _ in 0..random() % 5 {
                port.send(|_, packet| {
                    packet.iter_mut().for_each(|word| *word = random() >> (random() % 64) & !3);
                });
                // The server may be done, and own nothing: the client does not wait for it.
                port.owns = true;
            }
        }
        drop(serving);
        assert!(world.server.is_some(), "round {round}");
        // The drop waits for the server's thread.
    }
}

#[test]
fn a_server_without_launches_sleeps_and_ends() {
    let world = World::new(1);
    let mut port = world.client().open(0, LIBC | 10, 1);
    port.send(|_, packet| packet[0] = 1);
    std::thread::sleep(std::time::Duration::from_millis(20));
    let inbox = world.client().mailbox(world.client().inbox, 0).load(Ordering::Relaxed);
    assert_eq!(inbox, 0, "nothing is answered before a launch");
    let serving = world.users.begin();
    port.wait();
    drop(serving);
}
