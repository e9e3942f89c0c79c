//! The start of an executor.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::ptr::null_mut;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Pid;

use super::Child;
use crate::arena::Arena;
use crate::protocol::NO_SANDBOX;
use crate::readiness::is_ready_within;
use crate::rpc::{Connection, EndReason, Options, Peer, Service, Transport};

/// The settings for starting an executor.
#[derive(Debug, Clone)]
pub struct Spawn {
    executable: PathBuf,
    shares_memory: bool,
    is_apart: bool,
    limits: Vec<OsString>,
    options: Options,
    ending: Duration,
}

/// The reason for a failure to start an executor.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// Failure to start the executable.
    #[error("starting '{}': {source}", path.display())]
    Start {
        /// The executable.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The process has ended because the kernel does not support the required sandbox.
    #[error("'{}' cannot set up the required sandbox; its standard error names the missing part (Landlock is needed)", path.display())]
    Sandbox {
        /// The executable.
        path: PathBuf,
    },
    /// The process was started, but no connection came about.
    #[error("'{}' was started, but: {why}", path.display())]
    Greeting {
        /// The executable.
        path: PathBuf,
        /// The end of the connection or the process.
        why: EndReason,
    },
}

/// A process that executes, and the connection to it. Dropping it asks the process to end, and
/// kills the process if it takes too long.
pub struct Executor {
    // The order matters: the connection sends its farewell before the process is waited for.
    connection: Option<Connection>,
    child: Arc<Child>,
    arena: Option<Arc<Arena>>,
    ending: Duration,
}

impl Spawn {
    /// Creates the settings for this executable, which is `longshore-executor` or behaves like it.
    pub fn new(executable: impl Into<PathBuf>) -> Self {
        let options = Options { name: "longshore-exec", ..Options::default() };
        let ending = Duration::from_secs(2);
        Self {
            executable: executable.into(),
            shares_memory: true,
            is_apart: false,
            limits: Vec::new(),
            options,
            ending,
        }
    }

    /// Sets whether both sides share memory; the default is to share. Without shared memory all
    /// data goes through the stream.
    pub fn with_shared_memory(mut self, shares: bool) -> Self {
        self.shares_memory = shares;
        self
    }

    /// Sets the time for which a waiting thread of either side spins before it sleeps: see
    /// [`Options::spin`].
    pub fn with_spin(mut self, spin: Duration) -> Self {
        self.options.spin = spin;
        self
    }

    /// Sets the time in which the process must end once asked to; the default is 2 s. Afterwards
    /// the process is killed.
    pub fn with_ending_limit(mut self, limit: Duration) -> Self {
        self.ending = limit;
        self
    }

    /// Adds an option of the executable, as described in its help: `--no-exec`, or `--memory` and a
    /// number.
    pub fn with_argument(mut self, argument: impl Into<OsString>) -> Self {
        self.limits.push(argument.into());
        self
    }

    /// Has the executor be no child of this process, which may then wait until it has no children
    /// left.
    pub fn apart_from_children(mut self) -> Self {
        self.is_apart = true;
        self
    }

    /// Starts the executor and waits until it is ready. `service` serves its calls.
    ///
    /// The process runs in a session of its own. It has the standard streams and the environment of
    /// this process, and no other descriptor.
    ///
    /// # Errors
    /// The reason for the failure to start or to greet. No process remains then.
    pub fn start(&self, service: Arc<dyn Service>) -> Result<Executor, SpawnError> {
        let failed = |source| SpawnError::Start { path: self.executable.clone(), source };
        let (ours, theirs) = UnixStream::pair().map_err(failed)?;
        let arena = match self.shares_memory.then(Arena::new).transpose() {
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                log::warn!("the executor shares no memory with this process: {error}");
                None
            }
            arena => arena.map_err(failed)?,
        };
        let child = Arc::new(self.spawn(theirs.into()).map_err(failed)?);
        let memory = arena.as_ref().map(|arena| arena.file().try_clone_to_owned()).transpose();
        let (watched, asked) = (child.shared_file(), Arc::clone(&child));
        let transport = Transport::controller(ours, memory.map_err(failed)?);
        let transport = match self.is_apart {
            // The started process ends at once.
            true => transport.with_why(move || asked.why()),
            false => transport.watch(watched, move || asked.why()),
        };
        let reported = Arc::clone(&child);
        let transport = transport.on_server(move |process| reported.serves(process));
        let opened = Connection::open(transport, self.options.clone(), service);
        match opened {
            Ok(connection) => {
                let arena = arena.filter(|_| connection.shares_memory());
                Ok(Executor { connection: Some(connection), child, arena, ending: self.ending })
            }
            Err(why) => Err(self.refusal(why)),
        }
    }

    fn refusal(&self, why: EndReason) -> SpawnError {
        let path = self.executable.clone();
        match &why {
            EndReason::Died(death) if death.0.code() == Some(NO_SANDBOX) => {
                SpawnError::Sandbox { path }
            }
            _ => SpawnError::Greeting { path, why },
        }
    }

    fn spawn(&self, socket: OwnedFd) -> io::Result<Child> {
        let spin = self.options.spin.as_nanos().to_string();
        let mut arguments: Vec<&OsStr> =
            vec![self.executable.as_os_str(), OsStr::new("--fd"), OsStr::new("3")];
        if !self.options.spin.is_zero() {
            arguments.extend([OsStr::new("--spin"), OsStr::new(&spin)]);
        }
        if self.is_apart {
            arguments.extend([OsStr::new("--report"), OsStr::new("4")]);
        }
        arguments.extend(self.limits.iter().map(OsString::as_os_str));
        let program = Program::new(&self.executable, &arguments)?;
        if !self.is_apart {
            return spawn_by_keeper(program, socket, None);
        }
        let (status, report) = pipe_with(PipeFlags::CLOEXEC)?;
        // A number that none of the numbers in the process takes.
        let report = fcntl_dupfd_cloexec(report, 5)?;
        Ok(spawn_by_keeper(program, socket, Some(report))?.leaves(status))
    }
}

impl Executor {
    /// Returns the other side of the connection.
    pub fn peer(&self) -> &Arc<Peer> {
        self.connection.as_ref().expect("it is there until this is dropped").peer()
    }

    /// Returns the process.
    pub fn child(&self) -> &Child {
        &self.child
    }

    /// Returns a function that kills the process, for callers that may outlive this `Executor`.
    pub(crate) fn killer(&self) -> impl Fn() + Send + Sync + 'static {
        let child = Arc::downgrade(&self.child);
        move || {
            if let Some(child) = child.upgrade() {
                child.kill();
            }
        }
    }

    /// Returns the memory that both sides share, if there is any.
    pub fn arena(&self) -> Option<&Arc<Arena>> {
        self.arena.as_ref()
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        if !self.peer().is_here() {
            // In a forked child: connection and process belong to the parent.
            std::mem::forget(Arc::clone(&self.child));
            return;
        }
        drop(self.connection.take());
        self.child.wait(self.ending);
        self.child.end();
    }
}

/// A program to start.
struct Program {
    path: CString,
    arguments: Vec<CString>,
}

impl Program {
    fn new(path: &Path, arguments: &[&OsStr]) -> io::Result<Self> {
        let text = |text: &OsStr| CString::new(text.as_bytes()).map_err(io::Error::from);
        let arguments = arguments.iter().map(|argument| text(argument));
        Ok(Self { path: text(path.as_os_str())?, arguments: arguments.collect::<Result<_, _>>()? })
    }

    /// Starts the program with `socket` as its descriptor 3 and `report` as its descriptor 4, in a
    /// session of its own, with no signal blocked.
    fn spawn(&self, socket: &OwnedFd, report: Option<&OwnedFd>) -> io::Result<Child> {
        let arguments = self.arguments.iter().map(|argument| argument.as_ptr().cast_mut());
        let pointers: Vec<*mut libc::c_char> = arguments.chain([null_mut()]).collect();
        let mut plan = Plan::new()?;
        plan.move_to(socket.as_raw_fd(), 3)?;
        if let Some(report) = report {
            plan.move_to(report.as_raw_fd(), 4)?;
        }
        plan.leave_session_and_signals()?;
        let mut pid = 0;
        // SAFETY: all pointers are to live values, the lists end with null, and the environment is
        // the process's.
        let code = unsafe {
            libc::posix_spawn(
                &mut pid,
                self.path.as_ptr(),
                &plan.actions,
                &plan.attributes,
                pointers.as_ptr(),
                environment(),
            )
        };
        check(code)?;
        Child::new(Pid::from_raw(pid).expect("a process has a number"))
    }
}

/// Starts a program on a keeper thread, which ends after the program.
///
/// The kernel kills an executor when the thread that started it ends, and the calling thread may
/// end long before the executor.
fn spawn_by_keeper(
    program: Program,
    socket: OwnedFd,
    report: Option<OwnedFd>,
) -> io::Result<Child> {
    let (reply, replied) = mpsc::sync_channel(1);
    let keeper = thread::Builder::new().name("longshore-keep".to_owned()).stack_size(128 << 10);
    let keeper = keeper.spawn(move || {
        leave_signals_to_others();
        let child = program.spawn(&socket, report.as_ref());
        drop((program, socket, report));
        let file = child.as_ref().ok().map(Child::shared_file);
        // The caller waits for the message, so `send` cannot fail.
        let _ = reply.send(child);
        if let Some(file) = file {
            while !is_ready_within(&mut [PollFd::new(&file, PollFlags::IN)], None) {}
        }
    })?;
    let child =
        replied.recv().map_err(|_| io::Error::other("the thread that starts it has ended"))?;
    child.map(|child| child.kept_by(keeper))
}

/// Blocks all signals on this thread: the program's signal handlers may need more than its stack.
fn leave_signals_to_others() {
    // SAFETY: changes the signal mask of this thread only, and the thread belongs to the library.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, null_mut());
    }
}

fn environment() -> *const *mut libc::c_char {
    unsafe extern "C" {
        static environ: *const *mut libc::c_char;
    }
    // SAFETY: the C library's variable. Changing the environment during another thread's read
    // already breaks std's rules.
    unsafe { environ }
}

/// The actions between the start of a process and the start of its program.
struct Plan {
    actions: libc::posix_spawn_file_actions_t,
    attributes: libc::posix_spawnattr_t,
}

impl Plan {
    fn new() -> io::Result<Self> {
        let mut plan = std::mem::MaybeUninit::<Self>::uninit();
        // SAFETY: both are initialised by these functions, which fail only for want of memory.
        unsafe {
            let place = plan.as_mut_ptr();
            check(libc::posix_spawn_file_actions_init(&raw mut (*place).actions))?;
            check(libc::posix_spawnattr_init(&raw mut (*place).attributes))?;
            Ok(plan.assume_init())
        }
    }

    fn move_to(&mut self, from: i32, to: i32) -> io::Result<()> {
        // SAFETY: the actions are initialised.
        check(unsafe { libc::posix_spawn_file_actions_adddup2(&mut self.actions, from, to) })
    }

    fn leave_session_and_signals(&mut self) -> io::Result<()> {
        let flags = libc::POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSID;
        // SAFETY: the attributes are initialised; all zeroes are an empty set of signals.
        unsafe {
            let none: libc::sigset_t = std::mem::zeroed();
            check(libc::posix_spawnattr_setsigmask(&mut self.attributes, &none))?;
            check(libc::posix_spawnattr_setflags(&mut self.attributes, flags as libc::c_short))
        }
    }
}

const POSIX_SPAWN_SETSID: i32 = 0x80;

impl Drop for Plan {
    fn drop(&mut self) {
        // SAFETY: both are initialised.
        unsafe {
            libc::posix_spawn_file_actions_destroy(&mut self.actions);
            libc::posix_spawnattr_destroy(&mut self.attributes);
        }
    }
}

fn check(code: i32) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(code)) }
}
