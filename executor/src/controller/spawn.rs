//! Starting an executor.

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
use rustix::process::Pid;

use super::Child;
use crate::arena::Arena;
use crate::protocol::NO_SANDBOX;
use crate::readiness::is_ready_within;
use crate::rpc::{Connection, Ended, Options, Peer, Service, Transport};

/// How an executor is started.
#[derive(Debug, Clone)]
pub struct Spawn {
    executable: PathBuf,
    shares_memory: bool,
    limits: Vec<OsString>,
    options: Options,
    ending: Duration,
}

/// Why there is no executor.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// It could not be started.
    #[error("starting '{}': {source}", path.display())]
    Start {
        /// The executable.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// It was started, and has ended since the kernel cannot hold the sandbox that is required.
    #[error("'{}' cannot hold the sandbox that is required; its standard error says which part (Landlock is needed)", path.display())]
    Sandbox {
        /// The executable.
        path: PathBuf,
    },
    /// It was started, and there is no connection to it.
    #[error("'{}' was started, but: {why}", path.display())]
    Greeting {
        /// The executable.
        path: PathBuf,
        /// What became of it.
        why: Ended,
    },
}

/// A process that executes, and the connection to it. Dropping it ends the process: it is asked to, and killed if it takes too
/// long.
pub struct Executor {
    // The order matters: the connection says farewell before the process is waited for.
    connection: Option<Connection>,
    child: Arc<Child>,
    arena: Option<Arc<Arena>>,
    ending: Duration,
}

impl Spawn {
    /// Starts this executable, which is `longshore-executor` or behaves as it does.
    pub fn new(executable: impl Into<PathBuf>) -> Self {
        let options = Options { name: "longshore-exec", ..Options::default() };
        let ending = Duration::from_secs(2);
        Self {
            executable: executable.into(),
            shares_memory: true,
            limits: Vec::new(),
            options,
            ending,
        }
    }

    /// Whether both sides have memory together: they have, unless said otherwise. Else everything goes through the stream.
    pub fn with_shared_memory(mut self, shares: bool) -> Self {
        self.shares_memory = shares;
        self
    }

    /// How long who waits for the other side, on either side, looks for it before it sleeps: see [`Options::spin`].
    pub fn with_spin(mut self, spin: Duration) -> Self {
        self.options.spin = spin;
        self
    }

    /// How long it may take to end when it was asked to: 2 s, unless said otherwise. Then it is killed.
    pub fn with_ending_limit(mut self, limit: Duration) -> Self {
        self.ending = limit;
        self
    }

    /// Adds an option of the executable, as its help describes them: `--no-exec`, or `--memory` and a number.
    pub fn with_argument(mut self, argument: impl Into<OsString>) -> Self {
        self.limits.push(argument.into());
        self
    }

    /// Starts it and waits until it is ready. `service` is what it can call.
    ///
    /// The process is in a session of its own. It has the standard streams and the environment of this process, and no other
    /// descriptor.
    ///
    /// # Errors
    /// Why it did not start, or did not greet. Nothing is left of it then.
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
        let transport = transport.watch(watched, move || asked.why());
        let told = Arc::clone(&child);
        let transport = transport.on_server(move |process| told.serves(process));
        let opened = Connection::open(transport, self.options.clone(), service);
        match opened {
            Ok(connection) => {
                let arena = arena.filter(|_| connection.shares_memory());
                Ok(Executor { connection: Some(connection), child, arena, ending: self.ending })
            }
            Err(why) => Err(self.refusal(why)),
        }
    }

    fn refusal(&self, why: Ended) -> SpawnError {
        let path = self.executable.clone();
        match &why {
            Ended::Died(death) if death.0.code() == Some(NO_SANDBOX) => {
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
        arguments.extend(self.limits.iter().map(OsString::as_os_str));
        let program = Program::new(&self.executable, &arguments)?;
        spawn_by_keeper(program, socket)
    }
}

impl Executor {
    /// The other side of the connection.
    pub fn peer(&self) -> &Arc<Peer> {
        self.connection.as_ref().expect("it is there until this is dropped").peer()
    }

    /// The process.
    pub fn child(&self) -> &Child {
        &self.child
    }

    /// What kills the process, for who may outlive this.
    pub(crate) fn killer(&self) -> impl Fn() + Send + Sync + 'static {
        let child = Arc::downgrade(&self.child);
        move || {
            if let Some(child) = child.upgrade() {
                child.kill();
            }
        }
    }

    /// The memory that both sides have, if they share some.
    pub fn arena(&self) -> Option<&Arc<Arena>> {
        self.arena.as_ref()
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        if !self.peer().is_here() {
            // In a forked child: neither the connection nor the process is its.
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

    /// Starts it with a socket as its descriptor 3, in a session of its own, with no signal blocked.
    fn spawn(&self, socket: &OwnedFd) -> io::Result<Child> {
        let arguments = self.arguments.iter().map(|argument| argument.as_ptr().cast_mut());
        let pointers: Vec<*mut libc::c_char> = arguments.chain([null_mut()]).collect();
        let mut plan = Plan::new()?;
        plan.move_to(socket.as_raw_fd(), 3)?;
        plan.leave_session_and_signals()?;
        let mut pid = 0;
        // SAFETY: all pointers are to what lives here, the lists end with null, and the environment is the process's.
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

/// Starts a program on a thread that ends after it.
///
/// The kernel kills an executor when the thread that has started it ends. The calling thread may end long before the executor.
fn spawn_by_keeper(program: Program, socket: OwnedFd) -> io::Result<Child> {
    let (answer, answered) = mpsc::sync_channel(1);
    let keeper = thread::Builder::new().name("longshore-keep".to_owned()).stack_size(128 << 10);
    let keeper = keeper.spawn(move || {
        leave_signals_to_others();
        let child = program.spawn(&socket);
        drop((program, socket));
        let file = child.as_ref().ok().map(Child::shared_file);
        // The caller waits for it.
        let _ = answer.send(child);
        if let Some(file) = file {
            while !is_ready_within(&mut [PollFd::new(&file, PollFlags::IN)], None) {}
        }
    })?;
    let child =
        answered.recv().map_err(|_| io::Error::other("the thread that starts it has ended"))?;
    child.map(|child| child.kept_by(keeper))
}

/// Blocks all signals: handlers of the program may need more than this thread's stack.
fn leave_signals_to_others() {
    // SAFETY: changes the signals of this thread, which is the library's.
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
    // SAFETY: the C library's variable; who changes the environment while others read it breaks std's rules already.
    unsafe { environ }
}

/// What is done between the start of a process and that of its program.
struct Plan {
    actions: libc::posix_spawn_file_actions_t,
    attributes: libc::posix_spawnattr_t,
}

impl Plan {
    fn new() -> io::Result<Self> {
        let mut plan = std::mem::MaybeUninit::<Self>::uninit();
        // SAFETY: both are initialised by these functions, which fail for want of memory alone.
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
