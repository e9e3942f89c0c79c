//! The process that executes linked code: this one, or another one that is controlled from here
//! (ORC's `ExecutorProcessControl`, with its `MemoryAccess` and `DylibManager`).
//!
//! A process runs `longshore-orc-rt`, and offers its functions by their
//! [names](longshore_orc_rt::bootstrap_symbols). The linker does all its work there by calls of
//! these functions; so a process is controlled as soon as functions can be called in it.

mod in_process;
mod service;

use std::collections::HashMap;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use longshore_orc_rt::ProcessTls;
use longshore_orc_rt::service::{libraries, memory, run};
use serde_bytes::ByteBuf;

use crate::lookup::Lookup;
use crate::memory::{MemoryManager, Pending};
use crate::{Architecture, Error, Result, Undefined};

pub use in_process::InProcess;
pub(crate) use service::address_of;
pub use service::call_service;

/// The constant properties of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The process's triple, such as `x86_64-unknown-linux-gnu`.
    pub triple: String,
    /// The instruction set of its code.
    pub architecture: Architecture,
    /// The size of its pages in bytes.
    pub page_size: u64,
    /// Whether it is the linking process, so that its addresses are valid here.
    pub is_this_process: bool,
    /// Addresses by name: [`longshore_orc_rt::bootstrap_symbols`], and the process's further
    /// symbols.
    pub symbols: HashMap<String, u64>,
}

/// A library that a process has opened, by its number there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ProcessLibrary(u64);

impl ProcessLibrary {
    /// The process's global scope: the program, and the libraries that it was linked with or has
    /// opened globally.
    pub const GLOBAL: Self = Self(0);
}

/// Names to look up in a library of a process.
#[derive(Debug, Clone, Copy)]
pub struct SymbolRequest<'a> {
    /// The library.
    pub library: ProcessLibrary,
    /// The names.
    pub names: &'a [SymbolQuery<'a>],
}

/// A name to look up in a library of a process.
#[derive(Debug, Clone, Copy)]
pub struct SymbolQuery<'a> {
    /// The name. A version may follow after an at sign.
    pub name: &'a str,
    /// Whether the symbol is a thread-local variable.
    pub thread_local: bool,
    /// Whether the library must have it.
    pub lookup: Lookup,
}

/// The definition of a name in a library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessSymbol {
    /// The address of a function or of data.
    Address(u64),
    /// A thread-local variable.
    ThreadLocal(ProcessTls),
}

/// A function that replies to calls from code of a process: see [`TargetProcess::serve`].
pub type Handler = Arc<dyn Fn(&[u8]) -> Result<Vec<u8>> + Send + Sync>;

/// Calls into a process that executes linked code. Any thread may make calls, many at once.
///
/// A method sends its request before it returns, in the order of the calls of one thread. Replies
/// may come later, in any order. Only waiting for the reply blocks, unless the process is this one:
/// then a method does all the work, on the calling thread, before it returns.
///
/// Every call can fail with [`Error::Call`], and with [`Error::ProcessGone`]. When the process
/// ends, all outstanding and later calls fail with the latter. All addresses are of the process.
pub trait ProcessCalls: Send + Sync {
    /// Returns the process's properties.
    fn facts(&self) -> &Facts;

    /// Calls a [wrapper function](longshore_orc_rt::wrapper::WrapperFunction), on a thread of the
    /// process, and returns its reply.
    ///
    /// # Safety
    /// The address must be that of a wrapper function of the process that may be called with these
    /// bytes.
    unsafe fn call(&self, function: u64, argument: &[u8]) -> Pending<Vec<u8>>;
}

/// A process that executes linked code. Any thread may use it, many at once.
///
/// Requests and replies follow the rules of [`ProcessCalls`]. No method blocks except
/// [`disconnect`](Self::disconnect), unless the process is this one.
pub trait TargetProcess: ProcessCalls {
    /// Returns the process's memory for linked code: the same manager each time. The manager
    /// documents how long it needs the process.
    fn memory(&self) -> Arc<dyn MemoryManager>;

    /// Registers a handler for calls from code of the process (ORC's `JITDispatchHandlers`), which
    /// replies to `__longshore_call_controller` with this tag. The handler may run on any thread,
    /// many times at once. It may block, and use the process, but must not wait for a reply that
    /// comes only after its own return.
    ///
    /// A tag is a unique number in the process, best the caller's own address there.
    ///
    /// # Errors
    /// [`Error::Call`] if the tag has a handler.
    fn serve(&self, tag: u64, handler: Handler) -> Result<()>;

    /// Ends the control in an orderly way. Outstanding requests, calls back included, get their
    /// replies if they take at most two seconds. Later requests fail with [`Error::ProcessGone`]. A
    /// process other than this one ends. Blocks. One call is enough.
    ///
    /// # Errors
    /// An error if the process has not ended in an orderly way.
    fn disconnect(&self) -> Result<()>;

    /// Writes bytes at addresses.
    ///
    /// # Safety
    /// The memory must be writable, and no thread may use it until the reply has arrived.
    unsafe fn write(&self, writes: &[(u64, &[u8])]) -> Pending<()> {
        let writes = writes.iter().map(|(address, bytes)| (*address, ByteBuf::from(*bytes)));
        // SAFETY: promised by the caller.
        unsafe { call_service(self, memory::WRITE, &writes.collect()) }
    }

    /// Reads a number of bytes at each address.
    ///
    /// # Safety
    /// The memory must be readable, and no thread may write it until the reply has arrived.
    unsafe fn read(&self, ranges: &[(u64, usize)]) -> Pending<Vec<Vec<u8>>> {
        let ranges = ranges.iter().map(|(address, size)| (*address, *size as u64)).collect();
        // SAFETY: promised by the caller.
        let bytes = unsafe { call_service(self, memory::READ, &ranges) };
        Box::pin(async { Ok(bytes.await??.into_iter().map(ByteBuf::into_vec).collect()) })
    }

    /// Allocates `size` bytes of zeroes for data, aligned to a power of two.
    ///
    /// # Errors
    /// [`Error::Memory`] if there is no memory, or if the alignment is no power of two.
    fn allocate(&self, size: u64, alignment: u64) -> Pending<u64> {
        // SAFETY: the service is sound with any numbers.
        let address = unsafe { call_service(self, memory::ALLOCATE, &(size, alignment)) };
        Box::pin(async { Ok(address.await??) })
    }

    /// Frees memory of [`allocate`](Self::allocate).
    ///
    /// # Safety
    /// The memory must neither be freed already nor be in use.
    unsafe fn free(&self, address: u64) -> Pending<()> {
        // SAFETY: promised by the caller.
        unsafe { call_service(self, memory::FREE, &address) }
    }

    /// Opens a library by path, or by a name that the dynamic linker of the process finds. Runs its
    /// constructors.
    ///
    /// # Errors
    /// [`Error::Open`] with the dynamic linker's message.
    ///
    /// # Safety
    /// The library's constructors must be sound to run in the process.
    unsafe fn open_library(&self, path: &Path) -> Pending<ProcessLibrary> {
        let path = ByteBuf::from(path.as_os_str().as_bytes());
        // SAFETY: promised by the caller.
        let handle = unsafe { call_service(self, libraries::OPEN_LIBRARY, &path) };
        Box::pin(async { Ok(ProcessLibrary(handle.await??)) })
    }

    /// Opens a library for good. [`ProcessLibrary::GLOBAL`] gets its symbols and, if there is room,
    /// its thread-local variables have fixed offsets from the thread pointer. Runs its
    /// constructors.
    ///
    /// # Errors
    /// The errors of [`Self::open_library`].
    ///
    /// # Safety
    /// The same as for [`Self::open_library`].
    unsafe fn open_globally(&self, path: &Path) -> Pending<()> {
        let path = ByteBuf::from(path.as_os_str().as_bytes());
        // SAFETY: promised by the caller.
        let opened = unsafe { call_service(self, libraries::OPEN_GLOBALLY, &path) };
        Box::pin(async { Ok(opened.await??) })
    }

    /// Closes a library that was opened.
    ///
    /// # Safety
    /// The library must neither be closed already nor be in use, and its destructors must be sound
    /// to run.
    unsafe fn close_library(&self, library: ProcessLibrary) -> Pending<()> {
        // SAFETY: promised by the caller.
        unsafe { call_service(self, libraries::CLOSE_LIBRARY, &library.0) }
    }

    /// Looks names up in libraries, all with one message. The result has one list for each request,
    /// with one entry for each name: `None` for a [`Lookup::Optional`] name that the library lacks.
    ///
    /// # Errors
    /// [`Error::Undefined`] with all required names that their libraries lack.
    ///
    /// # Safety
    /// The libraries must be of this process, and stay open until the reply has arrived.
    unsafe fn lookup(
        &self,
        requests: &[SymbolRequest<'_>],
    ) -> Pending<Vec<Vec<Option<ProcessSymbol>>>> {
        let counts: Vec<usize> = requests.iter().map(|request| request.names.len()).collect();
        let required = required(requests);
        let requests = requests.iter().map(|request| libraries::LookUp {
            library: request.library.0,
            names: request.names.iter().copied().map(SymbolQuery::to_service).collect(),
        });
        // SAFETY: promised by the caller.
        let found = unsafe { call_service(self, libraries::LOOK_UP, &requests.collect()) };
        Box::pin(async move { checked(found.await??, &counts, required) })
    }

    /// Calls as [`ProcessCalls::call`] does, on the process's first thread if that thread waits for
    /// calls; in this process, on the calling thread.
    ///
    /// # Safety
    /// The same as for [`ProcessCalls::call`].
    unsafe fn call_on_first_thread(&self, function: u64, argument: &[u8]) -> Pending<Vec<u8>> {
        // SAFETY: promised by the caller.
        unsafe { self.call(function, argument) }
    }

    /// Calls a function as `main`, with these arguments and the environment of the process, and
    /// returns its result. The function may also end the process.
    ///
    /// # Safety
    /// The address must be that of a function that is sound to call so.
    unsafe fn run_as_main(&self, function: u64, arguments: &[CString]) -> Pending<i32> {
        let arguments = arguments.iter().map(|argument| ByteBuf::from(argument.as_bytes()));
        // SAFETY: promised by the caller.
        unsafe { call_service(self, run::RUN_AS_MAIN, &(function, arguments.collect())) }
    }
}

impl SymbolQuery<'_> {
    fn to_service(self) -> libraries::Name {
        libraries::Name { name: self.name.to_owned(), thread_local: self.thread_local }
    }
}

impl From<libraries::Symbol> for ProcessSymbol {
    fn from(symbol: libraries::Symbol) -> Self {
        match symbol {
            libraries::Symbol::Address(address) => Self::Address(address),
            libraries::Symbol::ThreadLocal(variable) => Self::ThreadLocal(variable),
        }
    }
}

/// A required name, with the indices of its request and of the name there.
type Required = (usize, usize, String);

fn required(requests: &[SymbolRequest<'_>]) -> Vec<Required> {
    let names = requests.iter().enumerate().flat_map(|(request, of)| {
        of.names.iter().enumerate().map(move |(index, wanted)| (request, index, wanted))
    });
    let required = names.filter(|(_, _, wanted)| wanted.lookup == Lookup::Required);
    required.map(|(request, index, wanted)| (request, index, wanted.name.to_owned())).collect()
}

fn checked(
    found: Vec<Vec<Option<libraries::Symbol>>>,
    counts: &[usize],
    required: Vec<Required>,
) -> Result<Vec<Vec<Option<ProcessSymbol>>>> {
    if !found.iter().map(Vec::len).eq(counts.iter().copied()) {
        let problem = format!("its replies are not for {counts:?} names, as requested");
        return Err(Error::Call { function: libraries::LOOK_UP.name().to_owned(), problem });
    }
    let is_missing = |(request, index, _): &Required| found[*request][*index].is_none();
    let missing = required.into_iter().filter(is_missing);
    let undefined = |(_, _, symbol)| Undefined { symbol, file: String::new() };
    let missing: Vec<Undefined> = missing.map(undefined).collect();
    if !missing.is_empty() {
        return Err(Error::Undefined(missing));
    }
    let of_request = |found: Vec<Option<libraries::Symbol>>| {
        found.into_iter().map(|symbol| symbol.map(ProcessSymbol::from)).collect()
    };
    Ok(found.into_iter().map(of_request).collect())
}
