//! Constructors and destructors of linked code.

use std::convert::Infallible;
use std::ffi::{CString, c_char, c_int};
use std::ptr::null;
use std::sync::Arc;

use longshore_orc_rt::service::exits::{LibraryEnd, ObjectEnd};
use longshore_orc_rt::service::program::{Program, Question};
use longshore_orc_rt::service::run::Arguments;
use serde_bytes::ByteBuf;

use super::state::{ObjectId, ObjectState, Phase, State};
use super::{Library, Session, Shared};
use crate::Result;
use crate::graph::{BlockId, LinkGraph};
use crate::memory::Lifetime;

/// The functions of an object that run before and after the others, each with its priority: lower ones are constructed earlier
/// and destroyed later.
#[derive(Debug, Default)]
pub(super) struct Initializers {
    constructors: Vec<(u32, u64)>,
    destructors: Vec<(u32, u64)>,
}

/// The priority of functions without one; those of `.preinit_array` come before all.
const DEFAULT_PRIORITY: u32 = 65536;

/// What constructors and `main` are called with, as the C library does on Linux.
///
/// The addresses are those of the process that executes the code, where [`Session::main_arguments`](super::Session::main_arguments)
/// makes them. What they point at must live as long as the code that may keep it.
#[derive(Debug, Clone, Copy)]
pub struct MainArguments {
    /// Number of arguments.
    pub argc: c_int,
    /// The arguments and a null pointer; null for none.
    pub argv: *const *const c_char,
    /// The environment and a null pointer; null for none.
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
    /// What a program is called with that has these arguments, and the environment of the process that executes it. It lives there
    /// until that process ends.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported) for a session that executes nothing, and those of a
    /// [process](crate::process::TargetProcess).
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
    /// Links the objects that have constructors, then runs the constructors that have not run yet, those of all objects in the
    /// order of their priorities, then in that in which the objects were added (ORC's `initialize`). Blocks until they are done.
    ///
    /// # Errors
    /// As for [`Self::lookup`]; no constructor has run then. Afterwards those of a
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

    /// Calls a function as `main`, with arguments as they were for [`Self::initialize`]. Blocks until it returns, and gives its
    /// result. It may also end its process.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported) for a session that executes nothing, and those of a
    /// [process](crate::process::TargetProcess).
    ///
    /// # Safety
    /// The address must be that of a function which is sound to call so, in the process that executes it.
    pub unsafe fn run_main(&self, function: u64, arguments: MainArguments) -> Result<i32> {
        self.session.runtime()?.run_main(function, arguments.into())
    }

    /// Runs a program, in a process that is there for it: the constructors that have not run yet, then a function as `main`. The
    /// process has the first argument as its name, and ends with what `main` returns, or as the program ends it; then exit
    /// handlers and destructors are run. Returns only if that does not come about, or if another process has ended:
    /// [`Error::ProcessGone`](crate::Error::ProcessGone) then.
    ///
    /// # Errors
    /// As for [`Self::lookup`]; nothing has run then. [`Error::Unsupported`](crate::Error::Unsupported) for a process that runs a program
    /// already, and for a session that executes nothing.
    ///
    /// # Safety
    /// The program must be sound to run, in the process that executes it. The function must be one that can be called as `main`.
    pub unsafe fn run_program(&self, function: u64, arguments: &[CString]) -> Result<Infallible> {
        self.session.link_constructors(self.id)?;
        let arguments = self.main_arguments(arguments)?;
        // SAFETY: promised by the caller.
        unsafe { self.run_linked_program(function, arguments) }
    }

    /// The same with arguments that are made, and without linking anything.
    ///
    /// # Errors
    /// As for [`Self::run_program`].
    ///
    /// # Safety
    /// As for [`Self::run_program`].
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
            // An address of the program's.
            tag: function,
            end,
        };
        // The process keeps what answers it, and the session the process.
        let (session, id) = (Arc::downgrade(&self.session), self.id);
        let answer = move |question: &[u8]| match session.upgrade() {
            Some(session) => Self { session, id }.end(question),
            None => Ok(Vec::new()),
        };
        runtime.process().serve(program.tag, Arc::new(answer))?;
        runtime.run_program(&program)
    }

    /// Answers what the process asks when it ends.
    fn end(&self, question: &[u8]) -> Result<Vec<u8>> {
        let destructors = match postcard::from_bytes(question) {
            Ok(Question::Destructors) => self.destructors(),
            _ => Vec::new(),
        };
        let end = LibraryEnd { scope: self.scope(), destructors };
        Ok(postcard::to_stdvec(&end).expect("memory does not end"))
    }

    fn scope(&self) -> Option<u64> {
        self.session.state.lock().library(self.id).scope
    }

    /// Runs the exit handlers that the code has registered, then the destructors of the objects whose constructors have run, in
    /// reverse order, each exactly once (ORC's `deinitialize`). Blocks until they are done.
    ///
    /// # Errors
    /// Those of a [process](crate::process::TargetProcess): then not all may have run.
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
            // A handler may have come here again, by `exit`, and not have returned; and what a handler or a destructor calls may have
            // been linked for that.
            let destructors = self.destructors();
            if destructors.is_empty() {
                return Ok(());
            }
            runtime.end_library(LibraryEnd { scope: self.scope(), destructors })?;
        }
    }

    /// The constructors to run now, in order; from now on they have been run.
    fn constructors(&self) -> Vec<u64> {
        self.take_constructors(|_| true)
    }

    /// The same of objects that have been linked since: not of those whose destructors have run.
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

    /// The destructors that there are by now, in the order in which they run at the end, whether constructors have run or not.
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

    /// The destructors to run now, in order; from now on they have been run.
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
    /// What an object has for its end, before it is forgotten. Its destructors count if its constructors have run.
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

impl Initializers {
    /// Reads a graph's, when its content is final.
    pub(super) fn of(graph: &mut LinkGraph) -> Self {
        let lists: Vec<(BlockId, List)> = graph
            .blocks()
            .filter(|block| block.live && !block.zero_fill)
            .filter_map(|block| {
                let section = graph.section(block.section);
                (section.lifetime != Lifetime::NoAlloc)
                    .then_some((block.id, List::named(section.name)?))
            })
            .collect();
        let mut initializers = Self::default();
        for (block, list) in lists {
            let mut functions = match list.form {
                Form::Code => vec![graph.block(block).address],
                Form::Forwards | Form::Backwards => listed(graph.content_mut(block)),
            };
            if list.form == Form::Backwards {
                functions.reverse();
            }
            let functions = functions.into_iter().map(|function| (list.priority, function));
            if list.constructs {
                initializers.constructors.extend(functions);
            } else {
                initializers.destructors.extend(functions);
            }
        }
        initializers
    }

    /// Whether an object has something to run before the others, by the names of its sections.
    pub(super) fn are_in(names: impl IntoIterator<Item = impl AsRef<[u8]>>) -> bool {
        names.into_iter().any(|name| List::named(name.as_ref()).is_some())
    }
}

/// When the functions run that a section lists, among those of its kind.
pub(super) fn priority_of(section: &[u8]) -> u32 {
    List::named(section).map_or(u32::MAX, |list| list.priority)
}

/// The functions that a section lists. Null and -1 are what start files put at the ends.
fn listed(content: &[u8]) -> Vec<u64> {
    let words = content.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word));
    words.filter(|function| *function != 0 && *function != u64::MAX).collect()
}

/// A section with functions to run.
struct List {
    constructs: bool,
    priority: u32,
    form: Form,
}

/// How a section says what its functions are. Destructors are reversed again when they are run.
#[derive(PartialEq, Eq)]
enum Form {
    /// It is the code of one.
    Code,
    /// Their addresses, in the order in which they run.
    Forwards,
    /// Their addresses, the last first.
    Backwards,
}

impl List {
    fn named(name: &[u8]) -> Option<Self> {
        let name = std::str::from_utf8(name).ok()?;
        let priority = |rest: &str| match rest.strip_prefix('.') {
            Some(number) => number.parse().ok(),
            None => rest.is_empty().then_some(DEFAULT_PRIORITY),
        };
        let one = |constructs, priority, form| Some(Self { constructs, priority, form });
        match name {
            ".preinit_array" => return one(true, 0, Form::Forwards),
            ".init" => return one(true, 1, Form::Code),
            ".fini" => return one(false, 1, Form::Code),
            _ => {}
        }
        for (prefix, constructs, is_old) in [
            (".init_array", true, false),
            (".fini_array", false, false),
            (".ctors", true, true),
            (".dtors", false, true),
        ] {
            let Some(rest) = name.strip_prefix(prefix) else { continue };
            let priority: u32 = priority(rest)?;
            // The old sections count down, and their lists run the other way.
            let priority = if is_old && priority != DEFAULT_PRIORITY {
                65535_u32.saturating_sub(priority)
            } else {
                priority
            };
            let form = if is_old { Form::Backwards } else { Form::Forwards };
            // Those of `.preinit_array` and `.init` are before the others.
            return one(constructs, priority.saturating_add(2), form);
        }
        None
    }
}
