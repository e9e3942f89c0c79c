//! The start of MPI and of the communicators of a program and its nodes.

use std::sync::mpsc::channel;
use std::time::Duration;

use longshore_mpi::{Comm, Implementation, Mpi, MpiError, ThreadLevel};

use crate::roles::Crew;
use crate::settings::Settings;

/// The communicators of a program and its nodes: the program has rank 0.
#[derive(Debug, Clone, Copy)]
pub struct Comms {
    /// The communicator of messages.
    pub messages: Comm,
    /// The communicator of bulk data.
    pub data: Comm,
    /// The communicator of collective operations.
    pub collectives: Comm,
}

/// Returns the process's MPI library, or opens one.
///
/// # Errors
/// The files tried, each with the reason.
pub fn library(settings: &Settings) -> Result<&'static Mpi, String> {
    if let Some(loaded) = Mpi::already_loaded() {
        return Ok(loaded);
    }
    let opened = match &settings.library {
        Some(path) => Mpi::open(path),
        None => Mpi::open_default(preferred()),
    };
    opened.map_err(|error| error.to_string())
}

/// Returns the implementation of the launcher that has started this process.
fn preferred() -> Option<Implementation> {
    let is_set = |name| std::env::var_os(name).is_some();
    if is_set("OMPI_COMM_WORLD_RANK") {
        Some(Implementation::OpenMpi)
    } else if is_set("PMI_RANK") || is_set("PMI_FD") {
        Some(Implementation::Mpich)
    } else {
        None
    }
}

/// Initializes MPI, unless the program has. Returns the thread level, and whether this call has
/// initialized MPI.
///
/// # Errors
/// A failure of MPI.
pub fn initialize(mpi: &Mpi) -> Result<(ThreadLevel, bool), MpiError> {
    if mpi.is_initialized()? {
        return Ok((mpi.query_thread()?, false));
    }
    Ok((mpi.init_thread(ThreadLevel::Multiple)?, true))
}

/// Creates the communicators of a program and its nodes. No message of other processes, or of the
/// program's own communicators, is involved. Blocks until all of them have called, for at most
/// `limit` if `level` permits another thread.
///
/// # Errors
/// A failure of MPI, or the passed time.
pub fn communicators(
    mpi: &'static Mpi,
    crew: &Crew,
    level: ThreadLevel,
    limit: Duration,
) -> Result<Comms, String> {
    let mut ranks = vec![crew.program];
    ranks.extend(&crew.nodes);
    let tag = crew.program;
    let create = move || -> Result<Comms, MpiError> {
        let world = mpi.group_of(mpi.world())?;
        let group = mpi.group_include(world, &ranks)?;
        let messages = mpi.create_group(mpi.world(), group, tag)?;
        mpi.free_group(group)?;
        mpi.free_group(world)?;
        duplicates(mpi, messages)
    };
    let text = |error: MpiError| error.to_string();
    if level != ThreadLevel::Multiple {
        return create().map_err(text);
    }
    let (send, created) = channel();
    let thread = std::thread::Builder::new().name("longshore-mpi-comm".to_owned());
    let spawned = thread.spawn(move || send.send(create()));
    spawned.map_err(|error| format!("starting a thread: {error}"))?;
    match created.recv_timeout(limit) {
        Ok(created) => created.map_err(text),
        Err(_) => Err(format!(
            "not all processes of the program and its nodes have joined within {limit:?}: rank {} \
             expects the nodes {:?}; was another number of programs started? \
             (LONGSHORE_MPI_PROGRAMS is their number)",
            crew.program, crew.nodes
        )),
    }
}

/// Returns all communicators that belong to one.
///
/// # Errors
/// A failure of MPI.
pub fn duplicates(mpi: &Mpi, messages: Comm) -> Result<Comms, MpiError> {
    let (data, collectives) = (mpi.dup(messages)?, mpi.dup(messages)?);
    for comm in [messages, data, collectives] {
        mpi.return_errors(comm)?;
    }
    Ok(Comms { messages, data, collectives })
}

/// Waits for the program and all its nodes, before they finalize MPI. A library may still exchange
/// messages with a process that waits in `MPI_Finalize` for the others, and then waits for ever.
pub fn meet(mpi: &Mpi, comms: Comms) {
    if let Err(error) = mpi.barrier(comms.collectives) {
        log::debug!("the processes do not meet before the end of MPI: {error}");
    }
}

/// Starts `count` nodes for this process alone, and returns the communicators with them.
///
/// # Errors
/// A failure of MPI or of the launcher, or a node that is not found.
pub fn spawn(mpi: &Mpi, settings: &Settings, count: usize) -> Result<(Comms, Crew), String> {
    let node = settings.node.clone().or_else(node_path).ok_or_else(|| {
        format!("'{}' is not found; set LONGSHORE_MPI_NODE to its path", crate::roles::NODE)
    })?;
    let node = node.to_str().ok_or("the path of the nodes' executable is not UTF-8")?;
    let text = |error: MpiError| error.to_string();
    let (between, codes) =
        mpi.spawn(node, &[SPAWNED], count, None, 0, mpi.self_comm()).map_err(text)?;
    if let Some(code) = codes.iter().find(|code| **code != 0) {
        return Err(format!("MPI_Comm_spawn of '{node}': error {code}"));
    }
    let merged = mpi.merge(between, false).map_err(text)?;
    let comms = duplicates(mpi, merged).map_err(text)?;
    let nodes = (1..=count as i32).collect();
    Ok((comms, Crew { program: 0, nodes }))
}

/// The argument of nodes that a program has started by `MPI_Comm_spawn`.
pub const SPAWNED: &str = "--spawned";

/// Returns the path of the nodes' executable, as installed beside this library.
fn node_path() -> Option<std::path::PathBuf> {
    let folders = std::env::split_paths(&std::env::var_os("PATH")?).collect::<Vec<_>>();
    folders.into_iter().map(|folder| folder.join(crate::roles::NODE)).find(|path| path.is_file())
}
