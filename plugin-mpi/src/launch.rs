//! The start of MPI and of the communicators of a program and its nodes.

use std::ffi::{CStr, OsStr, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use longshore_mpi::{Comm, Implementation, Mpi, MpiError, ThreadLevel};

use crate::bells::Bells;
use crate::roles::Crew;
use crate::settings::Settings;

/// The communicators of a program and its nodes: the program has rank 0.
#[derive(Debug, Clone)]
pub struct Comms {
    /// The communicator of messages.
    pub messages: Comm,
    /// The communicator of bulk data.
    pub data: Comm,
    /// The communicator of collective operations.
    pub collectives: Comm,
    /// The bells of the processes.
    pub bells: Arc<Bells>,
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

/// Returns the reason why this process cannot reach its launcher, if it has lost the connection
/// that the launcher gave it, as in the process of an isolated plugin.
pub fn cut_off() -> Option<String> {
    let descriptor: i32 = std::env::var("PMI_FD").ok()?.parse().ok()?;
    // SAFETY: the call only queries a descriptor.
    let is_open = unsafe { libc::fcntl(descriptor, libc::F_GETFD) } != -1;
    (!is_open).then(|| {
        "this process has not inherited the launcher's connection (PMI_FD): leave the backend out of \
         LONGSHORE_ISOLATE, and have the process that the launcher starts keep its descriptors"
            .to_owned()
    })
}

/// Explains a process that is alone in MPI's view, although a launcher has started it.
pub fn alone(mpi: &Mpi) -> String {
    let version = mpi.version();
    let version = version.split(',').next().unwrap_or_default().replace('\t', " ");
    format!(
        "MPI in '{}' ({version}) sees this process alone: the launcher is of another MPI, or has started \
         only this process. Use the launcher of this library, or set LONGSHORE_MPI_LIBRARY to the \
         launcher's",
        mpi.path().display()
    )
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
/// program's own communicators, is involved. Blocks until all of them have called: for at most
/// `limit`, if there is one and `level` permits another thread.
///
/// # Errors
/// A failure of MPI, or the passed time.
pub fn communicators(
    mpi: &'static Mpi,
    crew: &Crew,
    level: ThreadLevel,
    limit: Option<Duration>,
    has_bell: bool,
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
        duplicates(mpi, messages, has_bell)
    };
    let text = |error: MpiError| error.to_string();
    let Some(limit) = limit.filter(|_| level == ThreadLevel::Multiple) else {
        return create().map_err(text);
    };
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

/// Returns all communicators that belong to one. Blocks until all its processes have called.
///
/// # Errors
/// A failure of MPI.
pub fn duplicates(mpi: &Mpi, messages: Comm, has_bell: bool) -> Result<Comms, MpiError> {
    let (data, collectives) = (mpi.dup(messages)?, mpi.dup(messages)?);
    for comm in [messages, data, collectives] {
        mpi.return_errors(comm)?;
    }
    let bells = Arc::new(Bells::join(mpi, collectives, has_bell)?);
    Ok(Comms { messages, data, collectives, bells })
}

/// Waits for the program and all its nodes, before they finalize MPI. A library may still exchange
/// messages with a process that waits in `MPI_Finalize` for the others, and then waits for ever.
pub fn meet(mpi: &Mpi, comms: &Comms) {
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
        format!(
            "'{}' is neither beside the plugin or the program nor in a folder of PATH; set \
             LONGSHORE_MPI_NODE to its path",
            crate::roles::NODE
        )
    })?;
    let node = node.to_str().ok_or("the path of the nodes' executable is not UTF-8")?;
    let text = |error: MpiError| error.to_string();
    // A failure on the process's own communicator would end the program.
    let own = mpi.dup(mpi.self_comm()).map_err(text)?;
    mpi.return_errors(own).map_err(text)?;
    let (between, codes) = mpi.spawn(node, &[SPAWNED], count, 0, own).map_err(|error| {
        format!(
            "{error}: the launcher has no room for {count} more processes, or this MPI starts none; \
             start the nodes with the program, as in `longshore mpirun --nodes {count} program`"
        )
    })?;
    if let Some(code) = codes.iter().find(|code| **code != 0) {
        return Err(format!("MPI_Comm_spawn of '{node}': error {code}"));
    }
    let merged = mpi.merge(between, false).map_err(text)?;
    let comms = duplicates(mpi, merged, settings.bells).map_err(text)?;
    let nodes = (1..=count as i32).collect();
    Ok((comms, Crew { program: 0, nodes }))
}

/// The argument of nodes that a program has started by `MPI_Comm_spawn`.
pub const SPAWNED: &str = "--spawned";

/// Returns the path of the nodes' executable: in the installation of this library, beside the
/// program, or in a folder of `PATH`.
fn node_path() -> Option<PathBuf> {
    let library = own_file();
    let folder = library.as_deref().and_then(Path::parent);
    let installation = folder.and_then(Path::parent).and_then(Path::parent);
    let mut folders: Vec<PathBuf> =
        installation.map(|prefix| prefix.join("bin")).into_iter().collect();
    folders.extend(folder.map(Path::to_owned));
    let program = std::env::current_exe().ok();
    folders.extend(program.as_deref().and_then(Path::parent).map(Path::to_owned));
    folders.extend(std::env::var_os("PATH").iter().flat_map(std::env::split_paths));
    folders.into_iter().map(|folder| folder.join(crate::roles::NODE)).find(|path| path.is_file())
}

/// Returns the file that contains this code, if the loader knows it by an absolute path.
fn own_file() -> Option<PathBuf> {
    let mut found = libc::Dl_info {
        dli_fname: std::ptr::null(),
        dli_fbase: std::ptr::null_mut(),
        dli_sname: std::ptr::null(),
        dli_saddr: std::ptr::null_mut(),
    };
    let address = own_file as *const c_void;
    // SAFETY: the output is a local variable, and any address is accepted.
    if unsafe { libc::dladdr(address, &raw mut found) } == 0 || found.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader's name of a loaded file is a string.
    let name = unsafe { CStr::from_ptr(found.dli_fname) };
    let path = Path::new(OsStr::from_bytes(name.to_bytes()));
    path.is_absolute().then(|| path.canonicalize().ok())?
}
