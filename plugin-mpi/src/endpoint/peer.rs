//! The other processes, and how their ends are noticed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use longshore_executor::plugin::Channel;
use longshore_executor::rpc::EndReason;
use parking_lot::{Mutex, RwLock};

use super::Endpoint;
use super::channel::MpiChannel;
use super::outbox::Outbox;
use super::replies::Replies;

type Then = Box<dyn FnOnce() + Send>;

/// Another process.
pub(super) struct Peer {
    pub(super) outbox: Mutex<Outbox>,
    pub(super) replies: Replies,
    channels: RwLock<Vec<Option<Arc<MpiChannel>>>>,
    lost: OnceLock<EndReason>,
    /// Whether a message came since the last look of the monitor.
    has_spoken: AtomicBool,
    /// Whether the process sends signs of life.
    is_watched: AtomicBool,
    /// The process, if this one can see it.
    process: OnceLock<Seen>,
    /// The function to run at the end, for each channel.
    then: Mutex<HashMap<u16, Then>>,
}

/// A process of this machine.
struct Seen {
    number: u32,
    /// The time of its start: a later process of the same number has another.
    start: String,
}

impl Seen {
    /// Returns the process, if it runs `executable`.
    fn new(number: u32, executable: &str) -> Option<Self> {
        let name = std::fs::read_to_string(format!("/proc/{number}/comm")).ok()?;
        let start = start_of(number)?;
        (name.trim_end() == executable).then_some(Self { number, start })
    }

    fn has_ended(&self) -> bool {
        start_of(self.number).is_none_or(|start| start != self.start)
    }
}

/// Returns the time of a process's start; `None` for a process that has ended.
fn start_of(process: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ');
    let state = fields.next()?;
    // The 22nd field of the line, of which the state is the third.
    fields.nth(18).filter(|_| !matches!(state, "Z" | "X")).map(str::to_owned)
}

impl Peer {
    pub(super) fn new() -> Self {
        Self {
            outbox: Mutex::new(Outbox::new()),
            replies: Replies::default(),
            channels: RwLock::default(),
            lost: OnceLock::new(),
            has_spoken: AtomicBool::new(false),
            is_watched: AtomicBool::new(false),
            process: OnceLock::new(),
            then: Mutex::default(),
        }
    }

    pub(super) fn lost(&self) -> Option<&EndReason> {
        self.lost.get()
    }

    #[inline]
    pub(super) fn hear(&self) {
        if !self.has_spoken.load(Ordering::Relaxed) {
            self.has_spoken.store(true, Ordering::Relaxed);
        }
    }
}

/// Time between signs of life.
const BEAT: Duration = Duration::from_millis(500);

impl Endpoint {
    /// Returns the channel to a plugin of another process, or of this one.
    pub fn channel(self: &Arc<Self>, rank: i32, plugin: u16) -> Option<Arc<dyn Channel>> {
        Some(self.mpi_channel(rank, plugin)? as _)
    }

    /// Returns the channel to a plugin, in its own type.
    pub(crate) fn mpi_channel(self: &Arc<Self>, rank: i32, plugin: u16) -> Option<Arc<MpiChannel>> {
        let peer = self.peers.get(usize::try_from(rank).ok()?)?;
        let index = usize::from(plugin);
        if let Some(Some(channel)) = peer.channels.read().get(index) {
            return Some(Arc::clone(channel));
        }
        let mut channels = peer.channels.write();
        if channels.len() <= index {
            channels.resize_with(index + 1, || None);
        }
        let new = || Arc::new(MpiChannel { endpoint: Arc::clone(self), rank, plugin });
        Some(Arc::clone(channels[index].get_or_insert_with(new)))
    }

    /// Returns the reason if a process is lost, or this endpoint has ended.
    ///
    /// # Errors
    /// That reason.
    pub(super) fn check(&self, rank: i32) -> Result<(), EndReason> {
        let lost = self.peers.get(rank as usize).and_then(Peer::lost);
        match lost {
            Some(why) => Err(why.clone()),
            None if self.is_over() => Err(EndReason::Here),
            None if !super::is_here() => Err(EndReason::Forked),
            None => Ok(()),
        }
    }

    /// Gives a process up, unless it is lost already. Does not block.
    pub fn lose(&self, rank: i32, why: EndReason) {
        let Some(peer) = self.peers.get(rank as usize) else { return };
        if peer.lost.set(why.clone()).is_err() {
            return;
        }
        let then = std::mem::take(&mut *peer.then.lock());
        self.service.lost(rank, &why);
        // The functions may run functions of the program, which may block.
        let run = move || then.into_values().for_each(|then| then());
        let thread = std::thread::Builder::new().name("longshore-mpi-end".to_owned());
        if let Err(error) = thread.spawn(run) {
            log::error!("no thread can be started for the end of process {rank}: {error}");
        }
    }

    /// Ends the channels to all processes: callers that wait for messages return.
    pub(super) fn end_channels(&self) {
        let ended = self.peers.iter().filter(|peer| peer.lost.set(EndReason::Here).is_ok());
        let then: Vec<_> = ended.flat_map(|peer| std::mem::take(&mut *peer.then.lock())).collect();
        let run = move || then.into_iter().for_each(|(_, then)| then());
        let thread = std::thread::Builder::new().name("longshore-mpi-end".to_owned());
        if let Err(error) = thread.spawn(run) {
            log::error!("no thread can be started for the end of the channels: {error}");
        }
    }

    /// Has a thread run `then` when a process is lost, in place of the channel's earlier function;
    /// now if it is lost already.
    pub(super) fn when_lost(&self, rank: i32, plugin: u16, then: Then) {
        let Some(peer) = self.peers.get(rank as usize) else { return };
        let mut all = peer.then.lock();
        if peer.lost().is_none() {
            all.insert(plugin, then);
            return;
        }
        drop(all);
        let thread = std::thread::Builder::new().name("longshore-mpi-end".to_owned());
        if let Err(error) = thread.spawn(then) {
            log::error!("no thread can be started for the end of process {rank}: {error}");
        }
    }

    #[inline]
    pub(super) fn hear(&self, rank: i32) {
        if let Some(peer) = self.peers.get(rank as usize) {
            peer.hear();
        }
    }

    /// Expects signs of life of a process from now on, and sends some.
    pub fn watch(&self, rank: i32) {
        if let Some(peer) = self.peers.get(rank as usize) {
            peer.has_spoken.store(true, Ordering::Relaxed);
            peer.is_watched.store(true, Ordering::Relaxed);
        }
    }

    /// Ends [`Endpoint::watch`]: this process neither expects nor sends signs of life any more.
    pub fn unwatch(&self, rank: i32) {
        if let Some(peer) = self.peers.get(rank as usize) {
            peer.is_watched.store(false, Ordering::Relaxed);
        }
    }

    /// Looks at the process itself from now on, whose end is noticed before its silence, if it is
    /// one of this machine that runs `executable`.
    pub fn watch_process(&self, rank: i32, number: u32, executable: &str) {
        let Some(peer) = self.peers.get(rank as usize) else { return };
        if let Some(seen) = Seen::new(number, executable) {
            let _ = peer.process.set(seen);
        }
    }

    /// Starts the thread that sends signs of life, and gives silent processes up.
    pub(super) fn start_monitor(self: &Arc<Self>) -> std::io::Result<()> {
        let endpoint = Arc::downgrade(self);
        let thread = std::thread::Builder::new().name("longshore-mpi-life".to_owned());
        thread.spawn(move || monitor(&endpoint)).map(drop)
    }

    /// Does the monitor's work, if it is due: for callers that wait without a monitor.
    pub(super) fn look_after_peers(&self) {
        if let Some(mut life) = self.life.try_lock()
            && life.looked.is_none_or(|looked| looked.elapsed() >= BEAT)
        {
            self.look(&mut life);
        }
    }

    /// Sends signs of life, and gives up processes that have been silent for too long.
    fn look(&self, life: &mut Life) {
        if self.is_over() {
            return;
        }
        if self.is_resting() {
            life.looked = None;
            return;
        }
        let now = Instant::now();
        // This process was stopped itself, or had no processor: no time has passed for it.
        let was_away = life.looked.is_none_or(|looked| now.duration_since(looked) > 4 * BEAT);
        life.looked = Some(now);
        life.spoke.resize(self.peers.len(), now);
        for (rank, peer) in self.peers.iter().enumerate() {
            if !peer.is_watched.load(Ordering::Relaxed) || peer.lost().is_some() {
                continue;
            }
            if let Some(seen) = peer.process.get().filter(|seen| seen.has_ended()) {
                let why = format!("its process {} has ended", seen.number);
                self.lose(rank as i32, EndReason::Stream(why));
                continue;
            }
            self.beat(rank as i32);
            if peer.has_spoken.swap(false, Ordering::Relaxed) || was_away {
                life.spoke[rank] = now;
            } else if now.duration_since(life.spoke[rank]) > self.options.limit {
                self.lose(rank as i32, EndReason::Silent { limit: self.options.limit });
            }
        }
    }
}

/// The last signs of life of the other processes.
#[derive(Default)]
pub(super) struct Life {
    looked: Option<Instant>,
    spoke: Vec<Instant>,
}

fn monitor(endpoint: &Weak<Endpoint>) {
    loop {
        std::thread::sleep(BEAT);
        let Some(endpoint) = endpoint.upgrade().filter(|endpoint| !endpoint.is_over()) else {
            return;
        };
        endpoint.look(&mut endpoint.life.lock());
    }
}
