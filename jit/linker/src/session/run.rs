//! The execution of linked code: constructors, destructors, `main` and whole programs.

use std::convert::Infallible;
use std::ffi::{CString, c_char, c_int};
use std::ptr::null;
use std::sync::Arc;

use longshore_orc_rt::service::exits::{LibraryEnd, ObjectEnd};
use longshore_orc_rt::service::program::{Program, ProgramRequest};
use longshore_orc_rt::service::run::Arguments;
use serde_bytes::ByteBuf;

use super::entry::ObjectId;
use super::object_state::{ObjectState, Phase};
use super::state::State;
use super::{Library, Session, Shared};
use crate::Result;

/// The arguments of constructors and `main`, as the C library passes them on Linux.
///
/// The pointers are addresses in the executing process, where
/// [`Session::main_arguments`](super::Session::main_arguments) makes them. Their targets must live
/// as long as the code that may keep the pointers.
#[derive(Debug, Clone, Copy)]
pub struct MainArguments {
    /// Number of arguments.
    pub argc: c_int,
    /// The arguments, ended by a null pointer; null for none.
    pub argv: *const *const c_char,
    /// The environment, ended by a null pointer; null for none.
    pub environment: *const *const c_char,
}

impl Default for MainArguments {
    fn default() -> Self {
        Self { argc: 0, argv: null(), environment: null() }
    }
}

impl From<MainArguments> for Arguments {
    fn from(arguments: MainArguments) -> Self {
        let MainArguments { argc, argv, environment } = arguments;
        Self { argc: argc as u64, argv: argv as u64, environment: environment as u64 }
    }
}

impl Session {
    /// Puts arguments for `main` into the executing process, next to that process's environment.
    /// They live there until the process ends.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported) for a session that executes nothing, and
    /// the errors of a [process](crate::process::TargetProcess).
    pub fn main_arguments(&self, arguments: &[CString]) -> Result<MainArguments> {
        self.0.main_arguments(arguments)
    }
}

impl Shared {
    pub(super) fn main_arguments(&self, arguments: &[CString]) -> Result<MainArguments> {
        let strings = arguments.iter().map(|argument| ByteBuf::from(argument.as_bytes()));
        let made = self.runtime()?.make_arguments(strings.collect())?;
        Ok(MainArguments {
            argc: made.argc as c_int,
            argv: made.argv as *const _,
            environment: made.environment as *const _,
        })
    }
}

impl Library {
    /// Links the objects that have constructors, then runs the constructors that have not run yet
    /// (ORC's `initialize`). Constructors of all objects run in the order of their priorities, then
    /// in the order in which the objects were added. Blocks until they are done.
    ///
    /// # Errors
    /// The errors of [`Self::lookup`], before any constructor has run. Afterwards the errors of a
    /// [process](crate::process::TargetProcess).
    ///
    /// # Safety
    /// The linked code must be sound to run, in the process that executes it, with these arguments.
    pub unsafe fn initialize(&self, arguments: MainArguments) -> Result<()> {
        self.session.link_constructors(self.id)?;
        let functions = self.constructors();
        match &self.session.runtime {
            Some(runtime) if !functions.is_empty() => {
                runtime.run_constructors(functions, arguments.into())
            }
            _ => Ok(()),
        }
    }

    /// Calls a function as `main`, with the arguments of [`Self::initialize`]. Blocks until it
    /// returns, and returns its result. The function may also end its process.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported) for a session that executes nothing, and
    /// the errors of a [process](crate::process::TargetProcess).
    ///
    /// # Safety
    /// The address must be that of a function which is sound to call so, in the process that
    /// executes it.
    pub unsafe fn run_main(&self, function: u64, arguments: MainArguments) -> Result<i32> {
        self.session.runtime()?.run_main(function, arguments.into())
    }

    /// Runs a program, in a process that exists for it: the constructors that have not run yet,
    /// then a function as `main`. The process takes the first argument as its name, and ends with
    /// the result of `main`, or as the program ends it. Exit handlers and destructors run at the
    /// end.
    ///
    /// Returns only if the program does not start, or with
    /// [`Error::ProcessGone`](crate::Error::ProcessGone) if it ran in another process, which has
    /// ended.
    ///
    /// # Errors
    /// The errors of [`Self::lookup`], before anything has run.
    /// [`Error::Unsupported`](crate::Error::Unsupported) for a process that runs a program already,
    /// and for a session that executes nothing.
    ///
    /// # Safety
    /// The program must be sound to run, in the process that executes it. The function must be
    /// callable as `main`.
    pub unsafe fn run_program(&self, function: u64, arguments: &[CString]) -> Result<Infallible> {
        self.session.link_constructors(self.id)?;
        let arguments = self.main_arguments(arguments)?;
        // SAFETY: promised by the caller.
        unsafe { self.run_linked_program(function, arguments) }
    }

    /// Runs a program as [`Self::run_program`] does, with arguments that are already made, and
    /// without linking anything.
    ///
    /// # Errors
    /// The errors of [`Self::run_program`].
    ///
    /// # Safety
    /// The same as for [`Self::run_program`].
    pub(crate) unsafe fn run_linked_program(
        &self,
        function: u64,
        arguments: MainArguments,
    ) -> Result<Infallible> {
        let runtime = self.session.runtime()?;
        let end = LibraryEnd { scope: self.scope(), destructors: self.known_destructors() };
        let program = Program {
            arguments: arguments.into(),
            constructors: self.constructors(),
            entry: function,
            // The program's own address, which is unique.
            tag: function,
            end,
        };
        // The process keeps the reply function, and the session keeps the process; so the function
        // holds the session weakly.
        let (session, id) = (Arc::downgrade(&self.session), self.id);
        let reply = move |request: &[u8]| match session.upgrade() {
            Some(session) => Self { session, id }.end(request),
            None => Ok(Vec::new()),
        };
        runtime.process().serve(program.tag, Arc::new(reply))?;
        runtime.run_program(&program)
    }

    /// Replies to the requests of a process that ends.
    fn end(&self, request: &[u8]) -> Result<Vec<u8>> {
        let destructors = match postcard::from_bytes(request) {
            Ok(ProgramRequest::Destructors) => self.destructors(),
            _ => Vec::new(),
        };
        let end = LibraryEnd { scope: self.scope(), destructors };
        Ok(postcard::to_stdvec(&end).expect("memory does not end"))
    }

    fn scope(&self) -> Option<u64> {
        self.session.state.lock().library(self.id).scope
    }

    /// Runs the exit handlers that the code has registered, then the destructors of the objects
    /// whose constructors have run, in reverse order, each exactly once (ORC's `deinitialize`).
    /// Blocks until they are done.
    ///
    /// # Errors
    /// The errors of a [process](crate::process::TargetProcess); some handlers or destructors may
    /// not have run then.
    ///
    /// # Safety
    /// The linked code must be sound to run, in the process that executes it.
    pub unsafe fn deinitialize(&self) -> Result<()> {
        let Some(runtime) = &self.session.runtime else { return Ok(()) };
        let scope = self.scope();
        if scope.is_some() {
            runtime.end_library(LibraryEnd { scope, destructors: Vec::new() })?;
        }
        loop {
            // A handler may have come here again, by `exit`, and not have returned. And objects
            // that handlers and destructors call may have been linked since.
            let destructors = self.destructors();
            if destructors.is_empty() {
                return Ok(());
            }
            runtime.end_library(LibraryEnd { scope: self.scope(), destructors })?;
        }
    }

    /// Returns the constructors to run now, in order, and counts them as run.
    fn constructors(&self) -> Vec<u64> {
        self.take_constructors(|_| true)
    }

    /// Returns the constructors of objects linked since the last call, and counts them as run.
    /// Objects that have run their destructors are left out.
    pub(crate) fn new_constructors(&self) -> Vec<u64> {
        self.take_constructors(|object| !object.ended)
    }

    fn take_constructors(&self, is_wanted: impl Fn(&ObjectState) -> bool) -> Vec<u64> {
        let mut state = self.session.state.lock();
        let is_fresh = |object: &ObjectState| {
            matches!(object.phase, Phase::Linked(_)) && object.constructed.is_none()
        };
        let objects = state.objects_of(self.id);
        let mut fresh: Vec<ObjectId> = objects
            .filter(|(_, object)| is_fresh(object) && is_wanted(object))
            .map(|(id, _)| id)
            .collect();
        let mut functions: Vec<(u32, u64)> = Vec::new();
        fresh.sort_by_key(|id| state.object(*id).serial);
        for id in &fresh {
            if let Phase::Linked(linked) = &state.object(*id).phase {
                functions.extend(&linked.initializers.constructors);
            }
        }
        functions.sort_by_key(|(priority, _)| *priority);
        for id in fresh {
            let constructed = &mut state.library_mut(self.id).constructed;
            *constructed += 1;
            state.object_mut(id).constructed = Some(*constructed);
        }
        functions.into_iter().map(|(_, function)| function).collect()
    }

    /// Returns the present destructors, in the order in which they run at the end, whether
    /// constructors have run or not.
    fn known_destructors(&self) -> Vec<u64> {
        let state = self.session.state.lock();
        let mut linked: Vec<_> = state
            .objects_of(self.id)
            .filter_map(|(_, object)| match &object.phase {
                Phase::Linked(linked) => Some((object.serial, &linked.initializers.destructors)),
                _ => None,
            })
            .collect();
        linked.sort_by_key(|(serial, _)| *serial);
        let mut functions: Vec<(u32, u64)> =
            linked.into_iter().flat_map(|(_, destructors)| destructors).copied().collect();
        functions.sort_by_key(|(priority, _)| *priority);
        functions.into_iter().rev().map(|(_, function)| function).collect()
    }

    /// Returns the destructors to run now, in order, and counts them as run.
    fn destructors(&self) -> Vec<u64> {
        let mut state = self.session.state.lock();
        let mut constructed: Vec<(u64, ObjectId)> = state
            .objects_of(self.id)
            .filter_map(|(id, object)| Some((object.constructed?, id)))
            .collect();
        constructed.sort_unstable();
        let mut functions: Vec<(u32, u64)> = Vec::new();
        for (_, id) in constructed {
            let object = state.object_mut(id);
            object.constructed = None;
            object.ended = true;
            if let Phase::Linked(linked) = &object.phase {
                functions.extend(&linked.initializers.destructors);
            }
        }
        functions.sort_by_key(|(priority, _)| *priority);
        functions.into_iter().rev().map(|(_, function)| function).collect()
    }
}

impl State {
    /// Returns the functions that the process runs, and the parts that it ends, before an object is
    /// removed. Destructors are included if the constructors have run.
    pub(super) fn end_of(&self, id: ObjectId) -> Option<ObjectEnd> {
        let object = self.object(id);
        let Phase::Linked(linked) = &object.phase else { return None };
        let mut destructors = match object.constructed {
            Some(_) => linked.initializers.destructors.clone(),
            None => Vec::new(),
        };
        destructors.sort_by_key(|(priority, _)| *priority);
        let scope = self.library(object.library).scope;
        (scope.is_some() || !destructors.is_empty()).then(|| ObjectEnd {
            scope,
            destructors: destructors.into_iter().rev().map(|(_, function)| function).collect(),
            ranges: linked.ranges.clone(),
            thread_locals: linked.tls.as_ref().and_then(|tls| tls.number),
        })
    }
}
