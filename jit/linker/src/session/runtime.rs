//! The session's client of the executing process, by the services of `longshore-orc-rt`.
//!
//! Everything that a session does in the process goes through this client, as bytes also in this
//! process. No step of a link sends a message for each object, except to look up names for the
//! first time.

use std::convert::Infallible;
use std::sync::Arc;

use longshore_orc_rt::service::code_libraries::{NewCodeLibrary, OPEN_CODE_LIBRARY};
use longshore_orc_rt::service::exits::{self, LibraryEnd, ObjectEnd};
use longshore_orc_rt::service::libraries;
use longshore_orc_rt::service::program::{Program, RUN_PROGRAM};
use longshore_orc_rt::service::run::{self, Arguments};
use longshore_orc_rt::service::thread_locals::{self, NewThreadLocals, ThreadLocals};
use longshore_orc_rt::service::{RELEASE, Released};
use longshore_orc_rt::wrapper::Service;
use longshore_orc_rt::{indirect, names, rebind, unwind};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_bytes::ByteBuf;

use crate::graph::TlsLayout;
use crate::memory::{ActionCall, ActionPair};
use crate::process::{TargetProcess, address_of, call_service};
use crate::{Error, Result};

/// The client of a process. Its methods block until the process has replied.
///
/// The creator of the session vouches for its code, in that process. So calls that run the code, or
/// pass its addresses, are safe here.
pub(super) struct Runtime {
    process: Arc<dyn TargetProcess>,
    /// The address of the reserve of static thread-local storage.
    static_tls: Option<u64>,
    actions: ActionFunctions,
    resolvers: TlsLayout,
}

/// The addresses of functions that allocations call.
struct ActionFunctions {
    register_frames: u64,
    deregister_frames: u64,
    resolve_indirect: u64,
    rebind_data: u64,
    restore_data: u64,
}

impl Runtime {
    /// Creates the client of a process. `static_tls` is the address of a reserve of static
    /// thread-local storage; the default is the process's own.
    pub(super) fn new(process: Arc<dyn TargetProcess>, static_tls: Option<u64>) -> Result<Self> {
        let address = |name| address_of(&*process, name);
        let actions = ActionFunctions {
            register_frames: address(names::REGISTER_FRAMES)?,
            deregister_frames: address(names::DEREGISTER_FRAMES)?,
            resolve_indirect: address(names::RESOLVE_INDIRECT)?,
            rebind_data: address(names::REBIND_DATA)?,
            restore_data: address(names::RESTORE_DATA)?,
        };
        let resolvers = TlsLayout {
            static_resolver: address(names::STATIC_TLS_RESOLVER)?,
            dynamic_resolver: address(names::DYNAMIC_TLS_RESOLVER)?,
            ..TlsLayout::default()
        };
        let own = process.facts().symbols.get(names::STATIC_TLS).copied();
        Ok(Self { static_tls: static_tls.or(own), actions, resolvers, process })
    }

    pub(super) fn process(&self) -> &dyn TargetProcess {
        &*self.process
    }

    pub(super) fn shared_process(&self) -> Arc<dyn TargetProcess> {
        Arc::clone(&self.process)
    }

    /// Returns the address that the process offers under a name.
    pub(super) fn address_of(&self, name: &str) -> Option<u64> {
        self.process.facts().symbols.get(name).copied()
    }

    /// Returns the descriptor functions for thread-local variables, without the variables'
    /// location.
    pub(super) fn tls_layout(&self) -> TlsLayout {
        self.resolvers
    }

    /// Returns the reserve of storage at a fixed offset from the thread pointer.
    pub(super) fn static_tls(&self) -> Option<u64> {
        self.static_tls
    }

    /// Creates storage for objects: for all, or for none. `name_of` gives the objects' names for
    /// errors. [`Self::release`] gives the storage back.
    pub(super) fn create_thread_locals(
        &self,
        wanted: Vec<NewThreadLocals>,
        name_of: impl Fn(usize) -> String,
    ) -> Result<Vec<ThreadLocals>> {
        let count = wanted.len();
        let made = self.call(thread_locals::CREATE_THREAD_LOCALS, &wanted)?;
        let made =
            made.map_err(|(index, error)| object_error(error.into(), &name_of(index as usize)))?;
        self.expect(thread_locals::CREATE_THREAD_LOCALS.name(), made, count)
    }

    /// Gives static storage its content.
    pub(super) fn initialise_thread_locals(&self, contents: Vec<(u64, ByteBuf)>) -> Result<()> {
        Ok(self.call(thread_locals::INITIALISE_THREAD_LOCALS, &contents)??)
    }

    /// Opens a library that represents linked code. [`Self::release`] gives it back.
    pub(super) fn open_code_library(&self, library: &NewCodeLibrary) -> Result<u64> {
        Ok(self.call(OPEN_CODE_LIBRARY, library)??)
    }

    /// Creates an exit scope. [`Self::release`] gives it back.
    pub(super) fn create_exit_scope(&self) -> Result<u64> {
        self.call(exits::CREATE_EXIT_SCOPE, &())
    }

    /// Makes addresses handles of scopes, each with its scope. [`Self::release`] gives them back.
    pub(super) fn add_dso_handles(&self, handles: Vec<(u64, u64)>) -> Result<()> {
        self.call(exits::ADD_DSO_HANDLES, &handles)
    }

    pub(super) fn run_constructors(&self, functions: Vec<u64>, arguments: Arguments) -> Result<()> {
        self.call(run::RUN_CONSTRUCTORS, &(functions, arguments))
    }

    /// Runs constructors as the owner of an initializer lock, by its number: see
    /// [`reentry::lock_owner`](longshore_orc_rt::reentry::lock_owner).
    pub(super) fn run_as_lock_owner(
        &self,
        lock_owner: u64,
        functions: Vec<u64>,
        arguments: Arguments,
    ) -> Result<()> {
        self.call(run::RUN_AS_LOCK_OWNER, &(lock_owner, functions, arguments))
    }

    /// Checks that the process lives.
    pub(super) fn reach(&self) -> Result<()> {
        self.call(RELEASE, &Released::default())
    }

    pub(super) fn make_arguments(&self, strings: Vec<ByteBuf>) -> Result<Arguments> {
        self.call(run::MAKE_ARGUMENTS, &strings)
    }

    pub(super) fn run_main(&self, function: u64, arguments: Arguments) -> Result<i32> {
        self.call(run::RUN_MAIN, &(function, arguments))
    }

    /// Returns only if the program does not run, or ended another process.
    pub(super) fn run_program(&self, program: &Program) -> Result<Infallible> {
        let function = address_of(self.process(), RUN_PROGRAM.name())?;
        let argument = RUN_PROGRAM.argument(program);
        // SAFETY: the caller that runs the program vouches for it.
        crate::wait(unsafe { self.process.call_on_first_thread(function, &argument) })?;
        let problem = "runs a program already".to_owned();
        Err(Error::Unsupported { file: "the process that executes the code".to_owned(), problem })
    }

    pub(super) fn end_library(&self, end: LibraryEnd) -> Result<()> {
        self.call(exits::END_LIBRARY, &end)
    }

    pub(super) fn end_objects(&self, ends: Vec<ObjectEnd>) -> Result<()> {
        self.call(exits::END_OBJECTS, &ends)
    }

    /// Gives resources back, if there are any.
    pub(super) fn release(&self, released: Released) -> Result<()> {
        if released.is_empty() { Ok(()) } else { self.call(RELEASE, &released) }
    }

    /// Returns the sizes of data objects of the process in bytes; `None` for an address without a
    /// data object.
    pub(super) fn data_sizes(&self, addresses: Vec<u64>) -> Result<Vec<Option<u64>>> {
        let count = addresses.len();
        let sizes = self.call(libraries::DATA_SIZES, &addresses)?;
        self.expect(libraries::DATA_SIZES.name(), sizes, count)
    }

    /// Returns the contents of data objects of the process.
    pub(super) fn data_at(&self, addresses: Vec<u64>) -> Result<Vec<Option<ByteBuf>>> {
        let count = addresses.len();
        let data = self.call(libraries::DATA_AT, &addresses)?;
        self.expect(libraries::DATA_AT.name(), data, count)
    }

    /// Returns the actions for a relocated `.eh_frame`.
    pub(super) fn frame_actions(&self, address: u64, size: u64) -> ActionPair {
        let argument = unwind::argument(address, size);
        pair(self.actions.register_frames, Some(self.actions.deregister_frames), argument)
    }

    /// Returns the action that resolves an indirect function.
    pub(super) fn resolve_action(&self, slot: u64, resolver: u64) -> ActionPair {
        pair(self.actions.resolve_indirect, None, indirect::argument(slot, resolver))
    }

    /// Returns the actions that make the process's libraries use a copy.
    pub(super) fn rebind_actions(
        &self,
        name: &str,
        original: u64,
        copy: u64,
        size: u64,
    ) -> ActionPair {
        let argument = rebind::argument(name, original, copy, size);
        pair(self.actions.rebind_data, Some(self.actions.restore_data), argument)
    }

    fn call<A, R>(&self, service: Service<A, R>, argument: &A) -> Result<R>
    where
        A: Serialize + 'static,
        R: DeserializeOwned + Send + 'static,
    {
        // SAFETY: the argument has addresses of code and memory of the session, which live as long
        // as the service requires.
        crate::wait(unsafe { call_service(&*self.process, service, argument) })
    }

    /// Checks that the number of replies equals the number of requests.
    fn expect<T>(&self, function: &str, answers: Vec<T>, count: usize) -> Result<Vec<T>> {
        if answers.len() == count {
            return Ok(answers);
        }
        let problem = format!("it gave {} replies, expected {count}", answers.len());
        Err(Error::Call { function: function.to_owned(), problem })
    }
}

/// Adds the object's name to an error about memory.
fn object_error(error: Error, object: &str) -> Error {
    match error {
        Error::Memory { name, problem } => {
            Error::Memory { name: format!("{name} of {object}"), problem }
        }
        error => error,
    }
}

/// Returns calls of functions that take the same argument.
fn pair(finalize: u64, deallocate: Option<u64>, argument: Vec<u8>) -> ActionPair {
    // SAFETY: the functions are the process's own, and take this argument. The creator of the
    // session vouches for the frames, resolvers and data, which are in memory that lives as long as
    // the actions.
    let call = |function, argument| unsafe { ActionCall::new(function, argument) };
    ActionPair {
        deallocate: deallocate.map(|function| call(function, argument.clone())),
        finalize: Some(call(finalize, argument)),
    }
}

/// The resources that a link has acquired in the process. Drop gives them back;
/// [`AcquiredResources::keep`] leaves them to the objects.
#[derive(Default)]
pub(super) struct AcquiredResources(Option<(Arc<Runtime>, Released)>);

impl AcquiredResources {
    pub(super) fn thread_locals(
        &mut self,
        runtime: &Arc<Runtime>,
        numbers: impl Iterator<Item = u64>,
    ) {
        self.released(runtime).thread_locals.extend(numbers);
    }

    pub(super) fn dso_handles(
        &mut self,
        runtime: &Arc<Runtime>,
        handles: impl Iterator<Item = u64>,
    ) {
        self.released(runtime).dso_handles.extend(handles);
    }

    pub(super) fn code_library(&mut self, runtime: &Arc<Runtime>, number: u64) {
        self.released(runtime).code_libraries.push(number);
    }

    pub(super) fn keep(&mut self) {
        self.0 = None;
    }

    fn released(&mut self, runtime: &Arc<Runtime>) -> &mut Released {
        &mut self.0.get_or_insert_with(|| (Arc::clone(runtime), Released::default())).1
    }
}

impl Drop for AcquiredResources {
    fn drop(&mut self) {
        if let Some((runtime, released)) = self.0.take() {
            log_failure("giving back the resources of a failed link", runtime.release(released));
        }
    }
}

/// Logs a failure that cannot be returned to a caller. The end of a process is known elsewhere and
/// frees its resources, so it is logged at a lower level.
pub(super) fn log_failure(what: &str, result: Result<()>) {
    match result {
        Ok(()) => {}
        Err(error @ Error::ProcessGone { .. }) => log::debug!("{what}: {error}"),
        Err(error) => log::warn!("{what}: {error}"),
    }
}
