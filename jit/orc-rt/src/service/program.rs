//! Running a program as if the process were its own.

use std::ffi::{CStr, c_char};
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};

use super::exits::{LibraryEnd, end_library};
use super::run::{Arguments, run_constructors, run_main};
use super::services;
use crate::callback::call_controller;

services! {
    /// The service that runs a program, and ends the process as the program does. The process's
    /// name, signal dispositions and exit handlers are the program's. There is no reply, except
    /// `false` if a program runs already.
    RUN_PROGRAM = "__longshore_run_program", fn(Program) -> bool, run;
}

/// A program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Arguments of the constructors and `main`, which live until the process ends. The first one
    /// names the process.
    pub arguments: Arguments,
    /// Constructors to call before `main`, in order.
    pub constructors: Vec<u64>,
    /// The address of `main`.
    pub entry: u64,
    /// The tag by which the controller is called when the process ends, with a [`ProgramRequest`].
    pub tag: u64,
    /// The handlers and destructors to run if the controller does not reply then.
    pub end: LibraryEnd,
}

/// A request to the controller when the process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProgramRequest {
    /// A request for the exit scope, if there is one: a [`LibraryEnd`] without destructors.
    Scope,
    /// A request for the scope and the destructors to run now; the controller counts them as run
    /// afterwards.
    Destructors,
}

unsafe extern "C" {
    /// The C library's variable with the name that `error` prints before its messages.
    static mut program_invocation_name: *const c_char;
    /// The C library's variable with the name that `assert`, `warn` and `err` print before their
    /// messages.
    static mut program_invocation_short_name: *const c_char;
}

/// The running program, whose end is also that of this process.
static PROGRAM: OnceLock<Program> = OnceLock::new();

/// Whether all exit handlers and destructors have run.
static ENDED: AtomicBool = AtomicBool::new(false);

/// # Safety
/// The functions must be sound to call in this order, in a process that exists for this program.
unsafe fn run(program: Program) -> bool {
    let Program { arguments, entry, .. } = program;
    let constructors = program.constructors.clone();
    if PROGRAM.set(program).is_err() {
        return false;
    }
    // SAFETY: guaranteed by the caller.
    name_process(unsafe { arguments.first() });
    as_any_process();
    at_exit();
    // SAFETY: guaranteed by the caller. The arguments live until the process ends.
    unsafe {
        run_constructors((constructors, arguments));
        libc::exit(run_main((entry, arguments)))
    }
}

fn at_exit() {
    // SAFETY: `end` lives as long as this code, which a process that exists for a program does not
    // unload.
    unsafe { libc::atexit(end) };
}

/// Runs the program's end, when its process ends.
extern "C" fn end() {
    if ENDED.load(Ordering::Acquire) {
        return;
    }
    // An exit handler or a destructor may call `exit`, which never returns here; a second
    // registration then runs the rest.
    at_exit();
    if let Some(program) = PROGRAM.get() {
        // SAFETY: the caller that runs the program guarantees its end.
        unsafe {
            end_library(program.ask(ProgramRequest::Scope).unwrap_or_else(|| program.scope()));
            program.end_destructors();
        }
    }
    ENDED.store(true, Ordering::Release);
}

impl Program {
    /// Runs the destructors, including destructors of code that is linked meanwhile.
    ///
    /// # Safety
    /// The destructors must be functions that may be called.
    unsafe fn end_destructors(&self) {
        let mut end = self.ask(ProgramRequest::Destructors).unwrap_or_else(|| self.end.clone());
        loop {
            let is_last = end.destructors.is_empty();
            // SAFETY: guaranteed by the caller.
            unsafe { end_library(end) };
            if is_last {
                return;
            }
            let Some(next) = self.ask(ProgramRequest::Destructors) else { return };
            end = next;
        }
    }

    /// Returns the controller's reply, if there is one.
    fn ask(&self, request: ProgramRequest) -> Option<LibraryEnd> {
        let argument = postcard::to_stdvec(&request).expect("memory does not end");
        let reply = call_controller(self.tag, &argument).ok()?;
        postcard::from_bytes(&reply).ok()
    }

    /// Returns the exit scope that is known without a request.
    fn scope(&self) -> LibraryEnd {
        LibraryEnd { destructors: Vec::new(), ..self.end.clone() }
    }
}

/// Gives this process the program's name, in messages of the C library and in lists of processes.
fn name_process(name: &'static CStr) {
    let slash = name.to_bytes().iter().rposition(|byte| *byte == b'/');
    let file = name.to_bytes_with_nul()[slash.map_or(0, |slash| slash + 1)..].as_ptr().cast();
    // SAFETY: the strings live until the process ends, as the old ones do. The kernel copies the
    // name.
    unsafe {
        program_invocation_name = name.as_ptr();
        program_invocation_short_name = file;
        libc::prctl(libc::PR_SET_NAME, file);
    }
}

/// Resets the signal dispositions that Rust's runtime has set, so that signals reach the program as
/// in any process.
fn as_any_process() {
    for signal in [libc::SIGPIPE, libc::SIGSEGV, libc::SIGBUS] {
        // SAFETY: the default action calls nothing.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    let none = libc::stack_t { ss_sp: null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
    // SAFETY: no signal handler runs, on that stack or any other.
    unsafe { libc::sigaltstack(&raw const none, null_mut()) };
}
