//! MPI's own figures between two processes. One leads and takes the time; the other follows.

use crate::pages::Pages;
use anyhow::{Result, ensure};
use longshore_mpi::{Comm, Mpi, Source, Tag};
use std::time::{Duration, Instant};

/// Messages that are under way at a time.
pub(crate) const WINDOW: usize = 64;
const TAG: i32 = 1;
/// The tag of messages about the figures.
const CONTROL: i32 = 2;
/// Time between looks of a process that waits without keeping a processor busy.
const NAP: Duration = Duration::from_micros(200);

/// A figure.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A message there and another one back.
    RoundTrip,
    /// Messages in windows, each window acknowledged.
    Windows,
    /// A message to the follower, acknowledged.
    To,
    /// A message from the follower, which a request of no bytes starts.
    From,
    /// A broadcast of rank 0 to all helpers, and a barrier.
    Broadcast,
}

/// A request to take part in a figure.
#[derive(Clone, Copy)]
pub(crate) struct Order {
    pub kind: Kind,
    pub bytes: usize,
    /// Number of repetitions: of windows for [`Kind::Windows`].
    pub count: usize,
    /// The rank of the other process.
    pub with: i32,
    pub is_leader: bool,
}

/// The processes of the figures: rank 0 is the program, and all other ranks are helpers.
#[derive(Clone, Copy)]
pub(crate) struct Peers {
    mpi: &'static Mpi,
    comm: Comm,
}

impl Order {
    const BYTES: usize = 40;

    fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let words = [
            self.kind as usize,
            self.bytes,
            self.count,
            self.with as usize,
            usize::from(self.is_leader),
        ];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let word =
            |at: usize| Some(usize::from_le_bytes(bytes.get(8 * at..8 * at + 8)?.try_into().ok()?));
        let kind = match word(0)? {
            0 => Kind::RoundTrip,
            1 => Kind::Windows,
            2 => Kind::To,
            3 => Kind::From,
            4 => Kind::Broadcast,
            _ => return None,
        };
        let (bytes, count, with) = (word(1)?, word(2)?, word(3)? as i32);
        Some(Self { kind, bytes, count, with, is_leader: word(4)? != 0 })
    }
}

impl Peers {
    /// Creates the communicator of rank 0 and the last `helpers` ranks. All of them call.
    pub(crate) fn join(mpi: &'static Mpi, helpers: usize) -> Result<Self> {
        let size = mpi.size(mpi.world())?;
        let ranks: Vec<i32> = [0].into_iter().chain(size - helpers as i32..size).collect();
        let world = mpi.group_of(mpi.world())?;
        let group = mpi.group_include(world, &ranks)?;
        Ok(Self { mpi, comm: mpi.create_group(mpi.world(), group, 77)? })
    }

    /// Runs a figure with a helper, and returns the time of one repetition.
    pub(crate) fn measure(
        &self,
        kind: Kind,
        bytes: usize,
        count: usize,
        helper: i32,
    ) -> Result<Duration> {
        let order = Order { kind, bytes, count, with: 0, is_leader: false };
        self.mpi.send(&order.to_bytes(), helper, CONTROL, self.comm)?;
        self.mpi.recv(&mut [0; 1], Source::Rank(helper), Tag::Number(CONTROL), self.comm)?;
        self.run(&Order { with: helper, is_leader: true, ..order })
    }

    /// Runs a figure with all helpers, and returns the time of one repetition.
    pub(crate) fn measure_all(&self, kind: Kind, bytes: usize, count: usize) -> Result<Duration> {
        let order = Order { kind, bytes, count, with: 0, is_leader: false };
        let helpers = 1..self.mpi.size(self.comm)?;
        for helper in helpers.clone() {
            self.mpi.send(&order.to_bytes(), helper, CONTROL, self.comm)?;
        }
        for helper in helpers {
            self.mpi.recv(&mut [0; 1], Source::Rank(helper), Tag::Number(CONTROL), self.comm)?;
        }
        self.run(&Order { is_leader: true, ..order })
    }

    /// Runs a figure between two helpers, and returns the time of one repetition.
    pub(crate) fn measure_between(
        &self,
        kind: Kind,
        bytes: usize,
        count: usize,
        (leader, follower): (i32, i32),
    ) -> Result<Duration> {
        let order = Order { kind, bytes, count, with: leader, is_leader: false };
        self.mpi.send(&order.to_bytes(), follower, CONTROL, self.comm)?;
        self.receive_patiently(follower)?;
        let order = Order { with: follower, is_leader: true, ..order };
        self.mpi.send(&order.to_bytes(), leader, CONTROL, self.comm)?;
        self.receive_patiently(leader)?;
        let took = self.receive_patiently(leader)?;
        let took: [u8; 8] = took[..].try_into()?;
        Ok(Duration::from_nanos(u64::from_le_bytes(took)))
    }

    /// Has the helpers end.
    pub(crate) fn dismiss(&self) -> Result<()> {
        for helper in 1..self.mpi.size(self.comm)? {
            self.mpi.send(&[], helper, CONTROL, self.comm)?;
        }
        Ok(())
    }

    /// Carries out the program's orders until it dismisses this process.
    pub(crate) fn obey(&self) -> Result<()> {
        loop {
            let words = self.receive_patiently(0)?;
            let Some(order) = Order::from_bytes(&words) else { return Ok(()) };
            self.mpi.send(&[0], 0, CONTROL, self.comm)?;
            let took = self.run(&order)?;
            if order.is_leader {
                let took = took.as_nanos() as u64;
                self.mpi.send(&took.to_le_bytes(), 0, CONTROL, self.comm)?;
            }
        }
    }

    /// Receives a message about figures. The process sleeps meanwhile.
    fn receive_patiently(&self, from: i32) -> Result<Vec<u8>> {
        let (source, tag) = (Source::Rank(from), Tag::Number(CONTROL));
        let status = loop {
            match self.mpi.iprobe(source, tag, self.comm)? {
                Some(status) => break status,
                None => std::thread::sleep(NAP),
            }
        };
        let mut content = vec![0; status.bytes];
        self.mpi.recv(&mut content, source, tag, self.comm)?;
        Ok(content)
    }

    fn run(&self, order: &Order) -> Result<Duration> {
        let mut memory = Pages::new(order.bytes);
        // Both processes are there, and their memory is mapped.
        self.repeat(&Order { count: 1, ..*order }, &mut memory)?;
        let start = Instant::now();
        self.repeat(order, &mut memory)?;
        Ok(start.elapsed() / order.count as u32)
    }

    fn repeat(&self, order: &Order, memory: &mut [u8]) -> Result<()> {
        for _ in 0..order.count {
            match (order.kind, order.is_leader) {
                (Kind::RoundTrip, true) => {
                    self.send(order, memory)?;
                    self.receive(order, memory)?;
                }
                (Kind::RoundTrip, false) => {
                    self.receive(order, memory)?;
                    self.send(order, memory)?;
                }
                (Kind::Windows, true) => self.send_window(order, memory)?,
                (Kind::Windows, false) => self.receive_window(order, memory)?,
                (Kind::To, true) => {
                    self.send(order, memory)?;
                    self.receive(order, &mut [])?;
                }
                (Kind::To, false) => {
                    self.receive(order, memory)?;
                    self.send(order, &[])?;
                }
                (Kind::From, true) => {
                    self.send(order, &[])?;
                    self.receive(order, memory)?;
                }
                (Kind::From, false) => {
                    self.receive(order, &mut [])?;
                    self.send(order, memory)?;
                }
                (Kind::Broadcast, _) => {
                    let (data, bytes) = (memory.as_mut_ptr(), memory.len());
                    // SAFETY: the call does not keep the bytes.
                    unsafe { self.mpi.bcast(data, bytes, 0, self.comm) }?;
                    self.mpi.barrier(self.comm)?;
                }
            }
        }
        Ok(())
    }

    fn send(&self, order: &Order, memory: &[u8]) -> Result<()> {
        Ok(self.mpi.send(memory, order.with, TAG, self.comm)?)
    }

    fn receive(&self, order: &Order, memory: &mut [u8]) -> Result<()> {
        let from = Source::Rank(order.with);
        let status = self.mpi.recv(memory, from, Tag::Number(TAG), self.comm)?;
        ensure!(status.bytes == memory.len(), "{} bytes, not {}", status.bytes, memory.len());
        Ok(())
    }

    fn send_window(&self, order: &Order, memory: &[u8]) -> Result<()> {
        let send = |_| {
            let (from, bytes) = (memory.as_ptr(), memory.len());
            // SAFETY: the bytes stay in place until the requests are waited for below.
            unsafe { self.mpi.isend(from, bytes, order.with, TAG, self.comm) }
        };
        let sends = (0..WINDOW).map(send).collect::<Result<Vec<_>, _>>()?;
        for mut request in sends {
            self.mpi.wait(&mut request)?;
        }
        self.receive(order, &mut [])
    }

    fn receive_window(&self, order: &Order, memory: &mut [u8]) -> Result<()> {
        let (from, tag) = (Source::Rank(order.with), Tag::Number(TAG));
        let bytes = memory.len();
        let mut memory = vec![0; bytes * WINDOW];
        let to = memory.as_mut_ptr();
        let receive = |at: usize| {
            // SAFETY: each receive has a part of the memory, which stays in place until the
            // requests are waited for below.
            unsafe { self.mpi.irecv(to.add(at * bytes), bytes, from, tag, self.comm) }
        };
        let receives = (0..WINDOW).map(receive).collect::<Result<Vec<_>, _>>()?;
        for mut request in receives {
            self.mpi.wait(&mut request)?;
        }
        self.send(order, &[])
    }
}
