//! The process in which linked code runs: this one, or another one that is controlled from here (ORC's
//! `ExecutorProcessControl`, with its `MemoryAccess` and `DylibManager`).
//!
//! A process runs `longshore-orc-rt`, whose functions it gives by their [names](longshore_orc_rt::bootstrap_symbols). What
//! the linker wants of it, it has done by calling these; so a process is controlled as soon as functions can be called in it.

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

/// What is known of a process from the beginning, and does not change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Its triple, as `x86_64-unknown-linux-gnu`.
    pub triple: String,
    /// The instruction set of its code.
    pub architecture: Architecture,
    /// The size of its pages in bytes.
    pub page_size: u64,
    /// Whether it is the process that links, so that its addresses are addresses here.
    pub is_this_process: bool,
    /// Addresses by name: those of [`longshore_orc_rt::bootstrap_symbols`], and whatever else it offers.
    pub symbols: HashMap<String, u64>,
}

/// A library that a process has opened: its number there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ProcessLibrary(u64);

impl ProcessLibrary {
    /// What the process itself finds: the program, and the libraries that it was linked with or has opened globally.
    pub const GLOBAL: Self = Self(0);
}

/// Names that are looked up in a library of a process.
#[derive(Debug, Clone, Copy)]
pub struct SymbolRequest<'a> {
    /// The library.
    pub library: ProcessLibrary,
    /// The names.
    pub names: &'a [WantedSymbol<'a>],
}

/// A name that is looked up in a library of a process.
#[derive(Debug, Clone, Copy)]
pub struct WantedSymbol<'a> {
    /// The name. A version may follow after an at sign.
    pub name: &'a str,
    /// Whether it is that of a thread-local variable.
    pub thread_local: bool,
    /// Whether the library must have it.
    pub lookup: Lookup,
}

/// What a name of a library is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessSymbol {
    /// The address of a function or of data.
    Address(u64),
    /// A thread-local variable.
    ThreadLocal(ProcessTls),
}

/// Answers calls from code of a process: see [`TargetProcess::serve`].
pub type Handler = Arc<dyn Fn(&[u8]) -> Result<Vec<u8>> + Send + Sync>;

/// Calls into a process in which linked code runs. Any thread may make them, many at once.
///
/// A request is sent when a method is called, in the order of the calls of one thread; the answer may come later, and answers
/// in any order. Nothing blocks before the answer is waited for, unless the process is this one: then a method does all the work,
/// on the calling thread, before it returns.
///
/// Every call can fail with [`Error::ProcessGone`], which everything outstanding does when the process ends, and everything from then
/// on; and with [`Error::Call`]. Addresses are those of the process.
pub trait ProcessCalls: Send + Sync {
    /// What is known of it.
    fn facts(&self) -> &Facts;

    /// Calls a [wrapper function](longshore_orc_rt::wrapper::WrapperFunction), on a thread of the process. What it answers is
    /// returned.
    ///
    /// # Safety
    /// The address must be that of a wrapper function of the process that may be called with these bytes.
    unsafe fn call(&self, function: u64, argument: &[u8]) -> Pending<Vec<u8>>;
}

/// A process in which linked code runs. Any thread may use it, many at once.
///
/// Requests are sent and answered as [`ProcessCalls`] says. No method blocks but [`disconnect`](Self::disconnect), unless the process
/// is this one.
pub trait TargetProcess: ProcessCalls {
    /// Its memory for linked code: the same manager each time, which needs this only as long as it says.
    fn memory(&self) -> Arc<dyn MemoryManager>;

    /// Lets code of the process call this one (ORC's `JITDispatchHandlers`): `__longshore_call_controller` with this tag is
    /// answered by the handler. That may run on any thread, many times at once; it may block, and use the process, but must not wait
    /// for what answers only after it has returned.
    ///
    /// A tag is a number that nobody else uses in the process: best an address of one's own there.
    ///
    /// # Errors
    /// [`Error::Call`] if the tag has a handler.
    fn serve(&self, tag: u64, handler: Handler) -> Result<()>;

    /// Ends the control in an orderly way: what is under way is answered, calls back included, if it takes no more than two
    /// seconds; what comes later fails with [`Error::ProcessGone`]. Another process ends then. Blocks. Once is enough.
    ///
    /// # Errors
    /// If the process has not ended as it should.
    fn disconnect(&self) -> Result<()>;

    /// Writes bytes at addresses.
    ///
    /// # Safety
    /// They must be of memory that can be written, and that nobody uses meanwhile.
    unsafe fn write(&self, writes: &[(u64, &[u8])]) -> Pending<()> {
        let writes = writes.iter().map(|(address, bytes)| (*address, ByteBuf::from(*bytes)));
        // SAFETY: promised by the caller.
        unsafe { call_service(self, memory::WRITE, &writes.collect()) }
    }

    /// Reads so many bytes at each address.
    ///
    /// # Safety
    /// They must be of memory that can be read, and that nobody writes meanwhile.
    unsafe fn read(&self, ranges: &[(u64, usize)]) -> Pending<Vec<Vec<u8>>> {
        let ranges = ranges.iter().map(|(address, size)| (*address, *size as u64)).collect();
        // SAFETY: promised by the caller.
        let bytes = unsafe { call_service(self, memory::READ, &ranges) };
        Box::pin(async { Ok(bytes.await??.into_iter().map(ByteBuf::into_vec).collect()) })
    }

    /// Allocates memory for data: so many bytes of zeroes, aligned to a power of two.
    ///
    /// # Errors
    /// [`Error::Memory`] if there is none, or for another alignment.
    fn allocate(&self, size: u64, alignment: u64) -> Pending<u64> {
        // SAFETY: any numbers may be asked for.
        let address = unsafe { call_service(self, memory::ALLOCATE, &(size, alignment)) };
        Box::pin(async { Ok(address.await??) })
    }

    /// Frees what [`allocate`](Self::allocate) has given.
    ///
    /// # Safety
    /// It must not be freed already, nor be in use.
    unsafe fn free(&self, address: u64) -> Pending<()> {
        // SAFETY: promised by the caller.
        unsafe { call_service(self, memory::FREE, &address) }
    }

    /// Opens a library by path, or by a name that the dynamic linker of the process finds. Runs its constructors.
    ///
    /// # Errors
    /// [`Error::Open`] with what the dynamic linker says.
    ///
    /// # Safety
    /// The library's constructors must be sound to run in the process.
    unsafe fn open_library(&self, path: &Path) -> Pending<ProcessLibrary> {
        let path = ByteBuf::from(path.as_os_str().as_bytes());
        // SAFETY: promised by the caller.
        let handle = unsafe { call_service(self, libraries::OPEN_LIBRARY, &path) };
        Box::pin(async { Ok(ProcessLibrary(handle.await??)) })
    }

    /// Opens a library for good, so that [`ProcessLibrary::GLOBAL`] has its symbols, and its thread-local variables have fixed offsets
    /// from the thread pointer, if there is room. Runs its constructors.
    ///
    /// # Errors
    /// As for [`Self::open_library`].
    ///
    /// # Safety
    /// As for [`Self::open_library`].
    unsafe fn open_globally(&self, path: &Path) -> Pending<()> {
        let path = ByteBuf::from(path.as_os_str().as_bytes());
        // SAFETY: promised by the caller.
        let opened = unsafe { call_service(self, libraries::OPEN_GLOBALLY, &path) };
        Box::pin(async { Ok(opened.await??) })
    }

    /// Closes a library that was opened.
    ///
    /// # Safety
    /// It must not be closed already, nor be in use, and its destructors must be sound to run.
    unsafe fn close_library(&self, library: ProcessLibrary) -> Pending<()> {
        // SAFETY: promised by the caller.
        unsafe { call_service(self, libraries::CLOSE_LIBRARY, &library.0) }
    }

    /// Looks names up in libraries, all with one message. For each request there are as many answers as names; `None` for a name
    /// that is [`Lookup::Optional`] and that the library does not have.
    ///
    /// # Errors
    /// [`Error::Undefined`] with all required names that their libraries do not have.
    ///
    /// # Safety
    /// The libraries must be of this process, and not closed meanwhile.
    unsafe fn lookup(
        &self,
        requests: &[SymbolRequest<'_>],
    ) -> Pending<Vec<Vec<Option<ProcessSymbol>>>> {
        let counts: Vec<usize> = requests.iter().map(|request| request.names.len()).collect();
        let required = required(requests);
        let requests = requests.iter().map(|request| libraries::LookUp {
            library: request.library.0,
            names: request.names.iter().copied().map(WantedSymbol::to_service).collect(),
        });
        // SAFETY: promised by the caller.
        let found = unsafe { call_service(self, libraries::LOOK_UP, &requests.collect()) };
        Box::pin(async move { checked(found.await??, &counts, required) })
    }

    /// As [`ProcessCalls::call`], on the process's first thread if that is there for it: on the calling one in this process.
    ///
    /// # Safety
    /// As for that.
    unsafe fn call_on_first_thread(&self, function: u64, argument: &[u8]) -> Pending<Vec<u8>> {
        // SAFETY: promised by the caller.
        unsafe { self.call(function, argument) }
    }

    /// Calls a function as `main`, with these arguments and the environment of the process. Its result is returned; it may also end the
    /// process.
    ///
    /// # Safety
    /// It must be the address of a function that is sound to call so.
    unsafe fn run_as_main(&self, function: u64, arguments: &[CString]) -> Pending<i32> {
        let arguments = arguments.iter().map(|argument| ByteBuf::from(argument.as_bytes()));
        // SAFETY: promised by the caller.
        unsafe { call_service(self, run::RUN_AS_MAIN, &(function, arguments.collect())) }
    }
}

impl WantedSymbol<'_> {
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

/// A name that must be found, with the indices of its request and in that.
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
        let problem = format!("its answers are not for {counts:?} names, as was asked");
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
