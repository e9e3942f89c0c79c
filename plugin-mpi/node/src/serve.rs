//! The work of a node.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use longshore::serving::ServedPlugin;
use longshore::{Host, PluginDescription};
use longshore_executor::plugin::{Address, Bulk, BulkTransfer, Channel, Images, PIECE};
use longshore_executor::rpc::EndReason;
use longshore_mpi::{Comm, Mpi, ThreadLevel};
use longshore_mpi_backend::collective::{Part, Sets};
use longshore_mpi_backend::endpoint::{self, Endpoint, MpiChannel, Service};
use longshore_mpi_backend::hello::{
    self, ABANDON, COLLECTIVE, Greeting, HELLO, Hello, HelloPlugin, LOST, NODE, REST, STORE, Store,
    VERSION, WAKE, plugin_of,
};
use longshore_mpi_backend::images::distribute;
use longshore_mpi_backend::launch::{self, Comms};
use longshore_mpi_backend::roles;
use longshore_mpi_backend::settings::{IS_NODE, Settings};
use parking_lot::{Condvar, Mutex};

use crate::collective::Work;
use crate::logger::{self, LOGGER};
use crate::selection;

/// The options of the command line.
pub(crate) struct Options {
    /// Whether the program has started this node by `MPI_Comm_spawn`.
    pub(crate) is_spawned: bool,
}

/// The node's plugins, and the state of its work.
struct Node {
    mpi: &'static Mpi,
    plugins: OnceLock<Plugins>,
    images: Arc<Images>,
    endpoint: OnceLock<Arc<Endpoint>>,
    state: (Mutex<State>, Condvar),
    /// The communicator of collective operations, and the communicators of parts of it.
    collectives: Comm,
    sets: Sets,
    /// Collective operations to give up.
    abandoned: Mutex<HashSet<u64>>,
}

#[derive(Default, PartialEq, Eq)]
struct State {
    is_ready: bool,
    is_over: bool,
}

struct Plugins {
    served: Vec<ServedPlugin>,
    absence: String,
    /// Kept until the served plugins are gone.
    _host: Option<Host>,
}

/// The backend whose devices are the program's alone.
const BACKEND: &str = "mpi";
/// The program's rank in the communicator of a node.
const PROGRAM: i32 = 0;
/// Time for the last messages.
const ENDING: Duration = Duration::from_secs(2);
/// Time for the end of MPI.
const FINALIZING: Duration = Duration::from_secs(5);

/// Serves until the program ends.
///
/// # Errors
/// The reason for a node that cannot begin.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    // SAFETY: no other thread runs yet.
    unsafe { selection::apply() };
    // The only logger of this process.
    let _ = log::set_logger(&LOGGER);
    log::set_max_level(logger::first_level());
    let settings = settings()?;
    // Open MPI sets the launcher's variables in a process without one.
    let is_launched = roles::is_launched(|name| std::env::var(name).ok());
    let mpi = launch::library(&settings)?;
    let text = |error: longshore_mpi::MpiError| error.to_string();
    let (level, _) = launch::initialize(mpi).map_err(text)?;
    if level != ThreadLevel::Multiple {
        return Err(format!(
            "'{}' does not permit calls of several threads (MPI_THREAD_MULTIPLE), which a node \
             needs",
            mpi.path().display()
        ));
    }
    let comms = join(mpi, options, &settings, is_launched)?;
    let node = Arc::new(Node {
        mpi,
        plugins: OnceLock::new(),
        images: Arc::default(),
        endpoint: OnceLock::new(),
        state: (Mutex::default(), Condvar::new()),
        collectives: comms.collectives,
        sets: Sets::default(),
        abandoned: Mutex::default(),
    });
    let endpoint = Endpoint::new(
        mpi,
        &comms,
        level,
        Arc::clone(&node) as Arc<dyn Service>,
        endpoint::Options { limit: settings.limit, spin: settings.spin, collects_posts: false },
    )?;
    let _ = node.endpoint.set(Arc::clone(&endpoint));
    node.find_plugins();
    node.wait_for_end();
    let can_finalize = endpoint.end(&[], ENDING);
    drop(node);
    if can_finalize {
        end_by(FINALIZING);
        launch::meet(mpi, &comms);
        mpi.finalize().map_err(text)?;
    }
    // Threads of drivers may still run.
    std::process::exit(0);
}

/// Ends this process after `limit`. MPICH over UCX's TCP may wait for ever in `MPI_Finalize`: the
/// launcher then ends the other processes, which wait there too.
fn end_by(limit: Duration) {
    let thread = std::thread::Builder::new().name("longshore-end".to_owned());
    let _ = thread.spawn(move || {
        std::thread::sleep(limit);
        eprintln!("longshore-node: MPI_Finalize has not returned within {limit:?}; the node ends");
        // SAFETY: the call ends this process without functions that wait for MPI.
        unsafe { libc::_exit(0) };
    });
}

fn settings() -> Result<Settings, String> {
    let setting = |name: &str| {
        let value = std::env::var(format!("LONGSHORE_MPI_{}", name.to_uppercase())).ok();
        value.filter(|value| !value.is_empty())
    };
    Settings::read(setting).map_err(|error| error.message().to_owned())
}

/// Joins the program and its other nodes.
fn join(
    mpi: &'static Mpi,
    options: &Options,
    settings: &Settings,
    is_launched: bool,
) -> Result<Comms, String> {
    let text = |error: longshore_mpi::MpiError| error.to_string();
    if options.is_spawned {
        let parent = mpi.parent().map_err(text)?;
        let parent = parent.ok_or("no program has started this node by MPI_Comm_spawn")?;
        let merged = mpi.merge(parent, true).map_err(text)?;
        return launch::duplicates(mpi, merged, settings.bells).map_err(text);
    }
    let rank = mpi.rank(mpi.world()).map_err(text)?;
    let size = mpi.size(mpi.world()).map_err(text)?;
    let variable = |name: &str| std::env::var(name).ok();
    let programs = roles::programs(settings.programs, variable).unwrap_or(1);
    let crew = roles::crew(rank, size, programs).filter(|crew| crew.nodes.contains(&rank));
    let crew = crew.ok_or_else(|| match size {
        1 if is_launched => launch::alone(mpi),
        1 => "no program has started beside this node. A launcher of MPI starts both, as in \
              `longshore mpirun --nodes 8 program` or `mpirun -n 1 program : -n 8 longshore-node`"
            .to_owned(),
        _ => format!(
            "rank {rank} of {size} serves no program. Start nodes after the program, as in \
             `mpirun -n 1 program : -n 8 longshore-node`; with several ranks of the program, set \
             LONGSHORE_MPI_PROGRAMS to their number"
        ),
    })?;
    // The program may open its first host at any time.
    launch::communicators(mpi, &crew, ThreadLevel::Multiple, None, settings.bells)
}

impl Node {
    /// Finds the plugins and their devices. Blocks while drivers start.
    fn find_plugins(&self) {
        let plugins = match Host::builder().with_setting(BACKEND, IS_NODE, "1").build() {
            Ok(host) => Plugins {
                absence: match host.devices().is_empty() {
                    true => host.why_no_device(),
                    false => String::new(),
                },
                served: host.served_plugins(&self.images, |plugin| is_aware(self.mpi, plugin)),
                _host: Some(host),
            },
            Err(error) => {
                let absence = error.message().to_owned();
                Plugins { served: Vec::new(), absence, _host: None }
            }
        };
        let _ = self.plugins.set(plugins);
        self.change(|state| state.is_ready = true);
    }

    fn wait_for_end(&self) {
        let mut state = self.state.0.lock();
        while !state.is_over {
            self.state.1.wait(&mut state);
        }
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.0.lock());
        self.state.1.notify_all();
    }

    fn hello(&self, channel: &Arc<MpiChannel>, argument: &[u8]) -> Result<Vec<u8>, String> {
        let greeting: Greeting =
            hello::decode(argument).map_err(|error| error.message().to_owned())?;
        let mut state = self.state.0.lock();
        while !state.is_ready && !state.is_over {
            self.state.1.wait(&mut state);
        }
        drop(state);
        LOGGER.send_to(Arc::clone(channel) as Arc<dyn Channel>, greeting.log_level);
        if let Some(endpoint) = self.endpoint.get().filter(|_| greeting.has_pulse) {
            endpoint.watch(PROGRAM);
        }
        let plugins = self.plugins.get().ok_or("the node ends")?;
        let described = plugins.served.iter().map(|plugin| HelloPlugin {
            backend: plugin.description().backend.clone(),
            version: plugin.description().version.clone(),
            devices: plugin.devices().to_vec(),
        });
        Ok(hello::encode(&Hello {
            version: VERSION,
            host: host_name(self.mpi),
            process: std::process::id(),
            plugins: described.collect(),
            absence: plugins.absence.clone(),
        }))
    }

    /// Receives an image, keeps it and sends it on. Returns the ranks that have it.
    fn store(&self, channel: &Arc<MpiChannel>, argument: &[u8]) -> Result<Vec<u8>, String> {
        let store: Store = hello::decode(argument).map_err(|error| error.message().to_owned())?;
        let endpoint = self.endpoint.get().ok_or("the node begins")?;
        let bulk = channel.bulk().ok_or("the channel has no transfers")?;
        let mut content = Vec::new();
        let bytes = usize::try_from(store.bytes).map_err(|error| error.to_string())?;
        if let Err(error) = content.try_reserve_exact(bytes) {
            // The sender's transfer ends only when it is received.
            discard(bulk, &store)?;
            return Err(error.to_string());
        }
        content.resize(bytes, 0);
        // SAFETY: the buffer stays in place until the transfer is dropped.
        let received = unsafe { bulk.receive(store.number, content.as_mut_ptr(), bytes) };
        let received: Result<Box<dyn BulkTransfer + '_>, _> = received;
        received.and_then(|mut received| received.wait()).map_err(|error| error.to_string())?;
        let mut ranks = distribute(endpoint, &store.followers, store.digest, &content);
        let kept = self.images.keep(store.digest, content);
        kept.map_err(|error| error.message().to_owned())?;
        ranks.push(endpoint.rank());
        Ok(hello::encode(&ranks))
    }

    /// Performs this node's part of a collective operation.
    fn collective(&self, channel: &Arc<MpiChannel>, argument: &[u8]) -> Result<Vec<u8>, String> {
        let part: Part = hello::decode(argument).map_err(|error| error.message().to_owned())?;
        if part.members.is_empty() {
            return Err("an operation without a member of this node".to_owned());
        }
        let endpoint = self.endpoint.get().ok_or("the node begins")?;
        let is_over = || {
            let why = "another node is lost".to_owned();
            let is_abandoned = self.abandoned.lock().contains(&part.number);
            if is_abandoned { Some(EndReason::Stream(why)) } else { endpoint.why_lost(PROGRAM) }
        };
        let performed = Work {
            endpoint,
            program: &**channel,
            sets: &self.sets,
            among: self.collectives,
            part: &part,
            plugin: &|number| self.plugin(number),
            is_over: &is_over,
        }
        .perform();
        self.abandoned.lock().remove(&part.number);
        performed.map(|()| Vec::new())
    }

    /// Takes a message about this node itself.
    fn take_notice(&self, method: u32, argument: &[u8]) {
        let Some(endpoint) = self.endpoint.get() else { return };
        match method {
            ABANDON => {
                if let Ok(number) = argument.try_into() {
                    self.abandoned.lock().insert(u64::from_le_bytes(number));
                }
            }
            LOST => {
                if let Ok(rank) = argument.try_into() {
                    let why = EndReason::Stream("the program has given the node up".to_owned());
                    endpoint.lose(i32::from_le_bytes(rank), why);
                }
            }
            REST => endpoint.unwatch(PROGRAM),
            WAKE => endpoint.watch(PROGRAM),
            _ => {}
        }
    }

    fn plugin(&self, number: u16) -> Option<&ServedPlugin> {
        self.plugins.get()?.served.get(usize::from(plugin_of(number)))
    }
}

/// Returns whether the MPI library says that it transfers memory of the plugin's driver.
fn is_aware(mpi: &Mpi, plugin: &PluginDescription) -> bool {
    let answers = [
        ("libcuda.", mpi.query_cuda_support()),
        ("libamdhip64.", mpi.query_rocm_support()),
        ("libze_loader.", mpi.query_ze_support()),
    ];
    answers
        .iter()
        .any(|(driver, is_aware)| plugin.driver.starts_with(driver) && *is_aware == Some(true))
}

/// Receives the data of an image for which there is no memory.
fn discard(bulk: &dyn Bulk, store: &Store) -> Result<(), String> {
    let mut space = vec![0; PIECE];
    let mut left = store.bytes;
    while left > 0 {
        let bytes = left.min(PIECE as u64);
        // SAFETY: the buffer stays in place until the transfer is dropped.
        let received = unsafe { bulk.receive(store.number, space.as_mut_ptr(), bytes as usize) };
        let received: Result<Box<dyn BulkTransfer + '_>, _> = received;
        received.and_then(|mut received| received.wait()).map_err(|error| error.to_string())?;
        left -= bytes;
    }
    Ok(())
}

fn host_name(mpi: &Mpi) -> String {
    mpi.processor_name().unwrap_or_else(|_| "unknown".to_owned())
}

impl Service for Node {
    fn call(
        &self,
        channel: &Arc<MpiChannel>,
        method: u32,
        argument: &[u8],
    ) -> Result<Vec<u8>, String> {
        let number = channel.to().plugin as u16;
        match (number, method) {
            (NODE, HELLO) => self.hello(channel, argument),
            (NODE, STORE) => self.store(channel, argument),
            (NODE, COLLECTIVE) => self.collective(channel, argument),
            (NODE, other) => Err(format!("a node has no method {other}")),
            _ => {
                let channel = Arc::clone(channel) as Arc<dyn Channel>;
                let plugin = self.plugin(number);
                plugin.ok_or("the node has no such plugin")?.call(&channel, argument)
            }
        }
    }

    fn post(&self, from: Address, method: u32, argument: &[u8]) {
        if from.plugin == u32::from(NODE) {
            return self.take_notice(method, argument);
        }
        if let Some(plugin) = self.plugin(from.plugin as u16) {
            let sender = || {
                let endpoint = self.endpoint.get()?;
                endpoint.channel(i32::try_from(from.rank).ok()?, from.plugin as u16)
            };
            plugin.post(&sender, argument);
        }
    }

    fn lost(&self, rank: i32, why: &EndReason) {
        if rank == PROGRAM && *why != EndReason::Here {
            eprintln!("longshore-node: the program is lost ({why}); the node ends");
            // No process waits for this one any more, and MPI may never finalize.
            // SAFETY: the call ends the process.
            unsafe { libc::_exit(3) };
        }
    }

    fn bye(&self, rank: i32) {
        if rank == PROGRAM {
            self.change(|state| state.is_over = true);
        }
    }
}
