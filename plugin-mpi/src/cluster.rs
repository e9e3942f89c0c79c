//! The nodes of this process. All its hosts share them, until MPI is finalized.

mod collective;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use longshore_executor::plugin::{
    Address, Attached, Channel, Collective, Digest, Handler, Images, Record,
};
use longshore_executor::rpc::{CallError, EndReason};
use longshore_mpi::{Mpi, ThreadLevel};
use longshore_plugin_api::Error;
use parking_lot::{Mutex, RwLock};

use crate::collective::Sets;
use crate::endpoint::{Endpoint, MpiChannel, Options, Service};
use crate::hello::{self, Greeting, HELLO, Hello, LOG, LogRecord, MOST_PLUGINS, NODE, VERSION};
use crate::images::distribute;
use crate::launch::{self, Comms};
use crate::platform::log_record;
use crate::roles::{self, Crew};
use crate::settings::Settings;

/// The nodes of this process.
pub(crate) struct Cluster {
    mpi: &'static Mpi,
    endpoint: Arc<Endpoint>,
    program: Arc<Program>,
    nodes: Vec<Arc<Node>>,
    comms: Comms,
    sets: Sets,
    /// Held during a collective operation: all processes perform the operations in one order.
    collecting: Mutex<()>,
    sessions: Mutex<BTreeSet<u16>>,
    kept: Mutex<HashMap<Digest, HashSet<i32>>>,
}

/// A node that has said hello.
pub(crate) struct Node {
    pub(crate) rank: i32,
    pub(crate) hello: Hello,
}

/// The reason for having no nodes.
pub(crate) enum Absence {
    /// No MPI library.
    NoLibrary(String),
    /// A process without nodes.
    NoNodes(String),
    /// A failure while the nodes were joined.
    Failed(String),
}

/// The handlers of messages to this process.
struct Program {
    handlers: RwLock<HashMap<(i32, u16), Arc<dyn Handler>>>,
    /// The plugins of each node that receive its last words.
    attached: Mutex<HashMap<i32, Vec<Weak<Attached>>>>,
    names: RwLock<HashMap<i32, String>>,
    cluster: OnceLock<Weak<Cluster>>,
}

/// Number of hosts that one process may have at a time.
const MOST_SESSIONS: u16 = u16::MAX / MOST_PLUGINS - 1;

/// The MPI library that this backend has initialized, and so finalizes.
static OWNED: OnceLock<&Mpi> = OnceLock::new();
/// Whether this process is the only one of the program.
static IS_ALONE: AtomicBool = AtomicBool::new(false);
static CLUSTER: Mutex<Option<Arc<Cluster>>> = Mutex::new(None);
/// The failure of an attempt, after which the state of MPI is unknown.
static FAILURE: Mutex<Option<String>> = Mutex::new(None);

impl Cluster {
    /// Returns the nodes of this process, and joins them at the first call. Blocks until they are
    /// ready.
    pub(crate) fn get(settings: &Settings) -> Result<Arc<Self>, Absence> {
        let mut current = CLUSTER.lock();
        if let Some(cluster) = &*current {
            return Ok(Arc::clone(cluster));
        }
        if let Some(why) = &*FAILURE.lock() {
            return Err(Absence::Failed(why.clone()));
        }
        let cluster = Self::join(settings);
        match cluster {
            Ok(cluster) => {
                *current = Some(Arc::clone(&cluster));
                Ok(cluster)
            }
            Err(Absence::Failed(why)) => {
                *FAILURE.lock() = Some(why.clone());
                Err(Absence::Failed(why))
            }
            Err(why) => Err(why),
        }
    }

    /// Returns whether this process can expect nodes, without joining them.
    pub(crate) fn expected(settings: &Settings) -> Result<(), Absence> {
        Self::library(settings).map(drop)
    }

    /// Returns the MPI library of a process that can expect nodes.
    fn library(settings: &Settings) -> Result<&'static Mpi, Absence> {
        let variable = |name: &str| std::env::var(name).ok();
        let is_asked = settings.programs.is_some() || settings.spawn.is_some();
        if !is_asked && !roles::launcher_has_nodes() {
            return Err(Absence::NoNodes(no_nodes(variable)));
        }
        launch::library(settings).map_err(Absence::NoLibrary)
    }

    fn join(settings: &Settings) -> Result<Arc<Self>, Absence> {
        let mpi = Self::library(settings)?;
        // Open MPI sets the launcher's variables in a process without one.
        let is_launched = roles::is_launched(|name| std::env::var(name).ok());
        if let Some(why) = launch::cut_off() {
            return Err(Absence::NoNodes(why));
        }
        if settings.joined_file.as_ref().is_some_and(|file| file.exists()) {
            let why = "another process of this rank has used the nodes, and MPI admits one only: \
                       start a job for each program";
            return Err(Absence::NoNodes(why.to_owned()));
        }
        let failed = |error: longshore_mpi::MpiError| Absence::Failed(error.to_string());
        if mpi.is_finalized().map_err(failed)? {
            return Err(Absence::NoNodes("MPI is finalized in this process".to_owned()));
        }
        let (level, owns_mpi) = launch::initialize(mpi).map_err(failed)?;
        if let Some(file) = &settings.joined_file {
            // The file only spares nodes a wait.
            let _ = std::fs::File::create(file);
        }
        if owns_mpi {
            OWNED.get_or_init(|| mpi);
            finalize_at_exit();
        }
        let (comms, crew) = match settings.spawn {
            Some(count) => {
                let programs = mpi.size(mpi.world()).map_err(failed)?;
                IS_ALONE.store(programs == 1, Ordering::Relaxed);
                launch::spawn(mpi, settings, count).map_err(Absence::Failed)?
            }
            None => {
                let crew = Self::crew(mpi, settings, is_launched)?;
                let limit = Some(settings.connect_limit);
                let comms = launch::communicators(mpi, &crew, level, limit, settings.bells);
                (comms.map_err(Absence::Failed)?, crew)
            }
        };
        Self::open(mpi, comms, &crew, level, settings).map_err(Absence::Failed)
    }

    /// Returns the nodes that the launcher has started for this process.
    fn crew(mpi: &Mpi, settings: &Settings, is_launched: bool) -> Result<Crew, Absence> {
        let failed = |error: longshore_mpi::MpiError| Absence::Failed(error.to_string());
        let rank = mpi.rank(mpi.world()).map_err(failed)?;
        let size = mpi.size(mpi.world()).map_err(failed)?;
        let variable = |name: &str| std::env::var(name).ok();
        let programs = roles::programs(settings.programs, variable).unwrap_or(1);
        IS_ALONE.store(programs == 1, Ordering::Relaxed);
        let crew = roles::crew(rank, size, programs).filter(|crew| crew.program == rank);
        crew.ok_or_else(|| {
            Absence::NoNodes(match size {
                1 if is_launched => launch::alone(mpi),
                1 => no_nodes(variable),
                _ => format!(
                    "rank {rank} of {size} has no nodes: the first ranks, {programs} in number, \
                     are programs, and share the rest as nodes (LONGSHORE_MPI_PROGRAMS sets the \
                     number of programs)",
                ),
            })
        })
    }

    fn open(
        mpi: &'static Mpi,
        comms: Comms,
        crew: &Crew,
        level: ThreadLevel,
        settings: &Settings,
    ) -> Result<Arc<Self>, String> {
        let program = Arc::new(Program {
            handlers: RwLock::default(),
            attached: Mutex::default(),
            names: RwLock::default(),
            cluster: OnceLock::new(),
        });
        let options = Options { limit: settings.limit, spin: settings.spin, collects_posts: true };
        let service = Arc::clone(&program) as Arc<dyn Service>;
        let endpoint = Endpoint::new(mpi, &comms, level, service, options)?;
        let greeting = Greeting {
            version: VERSION,
            log_level: log::max_level().max(log::LevelFilter::Info) as u32,
            has_pulse: endpoint.is_threaded(),
        };
        let mut nodes = Vec::new();
        let greeting = hello::encode(&greeting);
        let requests: Vec<_> =
            (1..=crew.nodes.len() as i32).map(|rank| (rank, greeting.clone())).collect();
        let limit = Some(settings.connect_limit);
        let (mut meanwhile, mut on_failure) = (|| {}, || {});
        let replies =
            endpoint.call_all(NODE, HELLO, &requests, limit, &mut meanwhile, &mut on_failure);
        for ((rank, _), (reply, world_rank)) in
            requests.iter().zip(replies.into_iter().zip(&crew.nodes))
        {
            let rank = *rank;
            match read_hello(reply) {
                Ok(hello) => {
                    let node = Node { rank, hello };
                    program.names.write().insert(rank, node.name());
                    endpoint.watch(rank);
                    endpoint.watch_process(rank, node.hello.process, roles::NODE);
                    nodes.push(Arc::new(node));
                }
                Err(why) => log::error!("the node of rank {world_rank} is not used: {why}"),
            }
        }
        if nodes.is_empty() {
            return Err(format!("none of {} nodes has said hello", crew.nodes.len()));
        }
        mpi.on_finalize(shut_down).map_err(|error| error.to_string())?;
        let sessions = Mutex::new((0..MOST_SESSIONS).collect());
        let kept = Mutex::default();
        let cluster = Arc::new(Self {
            mpi,
            endpoint,
            program: Arc::clone(&program),
            nodes,
            comms,
            sets: Sets::default(),
            collecting: Mutex::default(),
            sessions,
            kept,
        });
        let _ = program.cluster.set(Arc::downgrade(&cluster));
        Ok(cluster)
    }

    /// Reports a lost node to the other nodes, which may exchange data with it. Does not block.
    fn report_lost(self: Arc<Self>, lost: i32) {
        let report = move || {
            for node in self.nodes.iter().filter(|node| node.rank != lost) {
                if let Some(channel) = self.endpoint.channel(node.rank, NODE) {
                    // A node that is lost as well needs no report.
                    let _ = channel.post(hello::LOST, &lost.to_le_bytes());
                }
            }
        };
        let thread = std::thread::Builder::new().name("longshore-mpi-lost".to_owned());
        if let Err(error) = thread.spawn(report) {
            log::warn!("no thread can be started to report a lost node: {error}");
        }
    }

    /// Ends the nodes and the endpoint. Returns whether MPI can be finalized.
    fn end(&self) -> bool {
        let ranks: Vec<i32> = self.nodes.iter().map(|node| node.rank).collect();
        let can_finalize = self.endpoint.end(&ranks, ENDING);
        if can_finalize {
            // The nodes do the same: see `launch::meet`.
            launch::meet(self.mpi, &self.comms);
        }
        can_finalize
    }

    pub(crate) fn nodes(&self) -> &[Arc<Node>] {
        &self.nodes
    }

    pub(crate) fn library_version(&self) -> String {
        self.mpi.version()
    }

    /// Takes a number for a host of this process, to distinguish its messages.
    pub(crate) fn take_session(&self) -> Option<u16> {
        let mut sessions = self.sessions.lock();
        if sessions.len() == usize::from(MOST_SESSIONS) && self.endpoint.is_threaded() {
            self.endpoint.wake();
            self.notify(hello::WAKE);
        }
        sessions.pop_first()
    }

    pub(crate) fn give_back_session(&self, session: u16) {
        let numbers = session * MOST_PLUGINS..(session + 1) * MOST_PLUGINS;
        self.program.handlers.write().retain(|(_, number), _| !numbers.contains(number));
        let mut sessions = self.sessions.lock();
        sessions.insert(session);
        if sessions.len() == usize::from(MOST_SESSIONS) && self.endpoint.is_threaded() {
            self.notify(hello::REST);
            self.endpoint.rest(ENDING);
        }
    }

    /// Sends all nodes a message about themselves. A lost node needs none.
    fn notify(&self, method: u32) {
        for node in &self.nodes {
            if let Some(channel) = self.endpoint.channel(node.rank, NODE) {
                let _ = channel.post(method, &[]);
            }
        }
    }

    /// Returns the channel to a plugin of a node, and has `handler` handle the node's calls.
    pub(crate) fn attach(
        &self,
        rank: i32,
        session: u16,
        plugin: u16,
        handler: Arc<dyn Handler>,
    ) -> Option<Arc<dyn Channel>> {
        if plugin >= MOST_PLUGINS {
            return None;
        }
        let number = session * MOST_PLUGINS + plugin;
        self.program.handlers.write().insert((rank, number), handler);
        self.endpoint.channel(rank, number)
    }

    /// Has a plugin receive the last words of its node.
    pub(crate) fn note_last_words(&self, rank: i32, attached: &Arc<Attached>) {
        let mut all = self.program.attached.lock();
        let of_node = all.entry(rank).or_default();
        of_node.retain(|attached| attached.strong_count() > 0);
        of_node.push(Arc::downgrade(attached));
    }

    /// Ensures that a node keeps an image: at its first use, all nodes get it.
    fn keep_image(&self, rank: i32, image: &[u8], is_gone: bool) -> Result<Digest, String> {
        let digest = Images::digest(image);
        let mut kept = self.kept.lock();
        let ranks = kept.entry(digest).or_default();
        if is_gone {
            ranks.remove(&rank);
        }
        if ranks.contains(&rank) {
            return Ok(digest);
        }
        let targets: Vec<i32> = match ranks.is_empty() && !is_gone {
            true => {
                let others = self.nodes.iter().map(|node| node.rank);
                let is_there = |rank: &i32| self.endpoint.is_there(*rank);
                [rank]
                    .into_iter()
                    .chain(others.filter(|other| *other != rank))
                    .filter(is_there)
                    .collect()
            }
            false => vec![rank],
        };
        ranks.extend(distribute(&self.endpoint, &targets, digest, image));
        match ranks.contains(&rank) {
            true => Ok(digest),
            false => Err("the node has not received the image".to_owned()),
        }
    }
}

impl Node {
    /// Returns the node for messages: "node 'n003' (rank 3)".
    pub(crate) fn name(&self) -> String {
        format!("node '{}' (rank {})", self.hello.host, self.rank)
    }
}

impl Service for Program {
    fn call(
        &self,
        channel: &Arc<MpiChannel>,
        method: u32,
        argument: &[u8],
    ) -> Result<Vec<u8>, String> {
        let to = channel.to();
        let key = (to.rank as i32, to.plugin as u16);
        let handler = self.handlers.read().get(&key).cloned();
        handler.ok_or("the program has no handler for the call")?.call(method, argument)
    }

    fn post(&self, from: Address, method: u32, argument: &[u8]) {
        let (rank, plugin) = (from.rank as i32, from.plugin as u16);
        if plugin == NODE {
            if method == LOG {
                self.take_record(rank, argument);
            }
            return;
        }
        let handler = self.handlers.read().get(&(rank, plugin)).cloned();
        if let Some(handler) = handler {
            handler.post(method, argument);
        }
    }

    fn lost(&self, rank: i32, why: &EndReason) {
        if let Some(name) = self.names.read().get(&rank)
            && !matches!(why, EndReason::Here)
        {
            log::error!("{name} is lost: {why}");
        }
        if let Some(cluster) = self.cluster.get().and_then(Weak::upgrade) {
            cluster.report_lost(rank);
        }
    }

    fn keep_image(&self, rank: i32, image: &[u8], is_gone: bool) -> Option<Result<Digest, String>> {
        let cluster = self.cluster.get()?.upgrade()?;
        Some(cluster.keep_image(rank, image, is_gone))
    }

    fn collective(&self, operation: &Collective<'_>) -> Option<Result<(), Error>> {
        self.cluster.get()?.upgrade()?.collective(operation)
    }
}

impl Program {
    fn take_record(&self, rank: i32, argument: &[u8]) {
        let record = match hello::decode::<LogRecord>(argument) {
            Ok(record) => record,
            Err(error) => return log::error!("from the node of rank {rank}: {error}"),
        };
        for attached in self.attached.lock().get(&rank).into_iter().flatten() {
            if let Some(attached) = attached.upgrade() {
                attached.note(&record.message);
            }
        }
        let name = self.names.read().get(&rank).cloned();
        let name = name.unwrap_or_else(|| format!("rank {rank}"));
        let LogRecord { level, target, message } = &record;
        log_record(&name, Record { level: *level, target, message });
    }
}

fn read_hello(reply: Result<Vec<u8>, CallError>) -> Result<Hello, String> {
    let hello: Hello = hello::decode(&reply.map_err(|error| error.to_string())?)
        .map_err(|error| error.message().to_owned())?;
    match hello.version {
        VERSION => Ok(hello),
        theirs => Err(format!(
            "'longshore-node' has version {theirs} of the messages, the plugin version {VERSION}: \
             use both of one release"
        )),
    }
}

fn no_nodes(variable: impl Fn(&str) -> Option<String>) -> String {
    let how = "start the program with nodes, as `longshore mpirun --nodes 4 program` does";
    match roles::is_launched(variable) {
        true => format!(
            "the launcher of this process has started no '{}', as far as this process sees ({how}, \
             or set LONGSHORE_MPI_PROGRAMS to the number of program processes)",
            roles::NODE
        ),
        false => format!("no MPI launcher has started this process: {how}"),
    }
}

/// Time for the last messages.
const ENDING: Duration = Duration::from_secs(2);

/// Ends the nodes. MPI calls this at the beginning of `MPI_Finalize`.
fn shut_down() {
    let Some(cluster) = CLUSTER.lock().take() else { return };
    cluster.end();
}

/// Time for the end of MPI at the program's end. The nodes take less.
const FINALIZING: Duration = Duration::from_secs(8);

/// Ends this process after `limit`: a library may wait for ever in `MPI_Finalize` for a process
/// that has ended.
fn end_by(limit: Duration, status: c_int) {
    let thread = std::thread::Builder::new().name("longshore-mpi-end".to_owned());
    let _ = thread.spawn(move || {
        std::thread::sleep(limit);
        log::error!("MPI_Finalize has not returned within {limit:?}; the process ends without");
        // SAFETY: the calls write the streams of the C library and end this process.
        unsafe {
            libc::fflush(std::ptr::null_mut());
            libc::_exit(status);
        }
    });
}

fn finalize_at_exit() {
    unsafe extern "C" {
        fn on_exit(
            function: extern "C" fn(status: c_int, argument: *mut c_void),
            argument: *mut c_void,
        ) -> c_int;
    }
    extern "C" fn finalize(status: c_int, _: *mut c_void) {
        let Some(mpi) = OWNED.get().filter(|_| crate::endpoint::is_here()) else { return };
        if !matches!(mpi.is_finalized(), Ok(false)) {
            return;
        }
        let cluster = CLUSTER.lock().take();
        let is_whole = match cluster {
            Some(cluster) => cluster.end(),
            None => FAILURE.lock().is_none(),
        };
        if is_whole {
            end_by(FINALIZING, status);
            let _ = mpi.finalize();
        } else if IS_ALONE.load(Ordering::Relaxed) {
            // A lost process never finalizes MPI. Its launcher would wait for it.
            // SAFETY: all streams of the C library are written.
            unsafe { libc::fflush(std::ptr::null_mut()) };
            mpi.abort(mpi.world(), status);
        }
    }
    // SAFETY: the function may run at the end of the process: this library is never unloaded.
    unsafe { on_exit(finalize, std::ptr::null_mut()) };
}
