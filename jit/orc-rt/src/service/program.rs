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
    /// Runs a program, and ends the process as that does: its name, how it treats signals, and what runs at its end are the program's.
    /// There is no answer, unless a program runs already: then it is `false`.
    RUN_PROGRAM = "__longshore_run_program", fn(Program) -> bool, run;
}

/// A program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// What constructors and `main` are called with, which lives until the process ends. The first one names the process.
    pub arguments: Arguments,
    /// What is called before, in order.
    pub constructors: Vec<u64>,
    /// The address of `main`.
    pub entry: u64,
    /// The controller is called by this tag, with a [`Question`], when the process ends.
    pub tag: u64,
    /// What is done if the controller does not answer then.
    pub end: LibraryEnd,
}

/// What the controller is asked for when the process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Question {
    /// The exit scope, if there is one: a [`LibraryEnd`] without destructors.
    Scope,
    /// The scope and the destructors to run now; from now on they have been run.
    Destructors,
}

unsafe extern "C" {
    /// The C library's: what `error` prints before its messages.
    static mut program_invocation_name: *const c_char;
    /// The C library's: what `assert`, `warn` and `err` print before theirs.
    static mut program_invocation_short_name: *const c_char;
}

/// The program, whose end is also that of this process.
static PROGRAM: OnceLock<Program> = OnceLock::new();

/// Whether exit handlers and destructors have run, all of them.
static ENDED: AtomicBool = AtomicBool::new(false);

/// # Safety
/// The functions must be sound to call so, in a process that is there for this program.
unsafe fn run(program: Program) -> bool {
    let Program { arguments, entry, .. } = program;
    let constructors = program.constructors.clone();
    if PROGRAM.set(program).is_err() {
        return false;
    }
    // SAFETY: promised by the caller.
    name_process(unsafe { arguments.first() });
    as_any_process();
    at_exit();
    // SAFETY: promised by the caller. The arguments live until the process ends.
    unsafe {
        run_constructors((constructors, arguments));
        libc::exit(run_main((entry, arguments)))
    }
}

fn at_exit() {
    // SAFETY: `end` lives as long as this code: a process that is there for a program does not unload it.
    unsafe { libc::atexit(end) };
}

/// The end of the program, when its process ends.
extern "C" fn end() {
    if ENDED.load(Ordering::Acquire) {
        return;
    }
    // An exit handler or a destructor may call `exit`, which never returns here: then it goes on with what is left.
    at_exit();
    if let Some(program) = PROGRAM.get() {
        // SAFETY: who has the program run vouches for its end.
        unsafe {
            end_library(program.ask(Question::Scope).unwrap_or_else(|| program.scope()));
            program.end_destructors();
        }
    }
    ENDED.store(true, Ordering::Release);
}

impl Program {
    /// Runs the destructors, also those of what is linked meanwhile.
    ///
    /// # Safety
    /// They must be functions that may be called.
    unsafe fn end_destructors(&self) {
        let mut end = self.ask(Question::Destructors).unwrap_or_else(|| self.end.clone());
        loop {
            let is_last = end.destructors.is_empty();
            // SAFETY: promised by the caller.
            unsafe { end_library(end) };
            if is_last {
                return;
            }
            let Some(next) = self.ask(Question::Destructors) else { return };
            end = next;
        }
    }

    /// What the controller answers, if it does.
    fn ask(&self, question: Question) -> Option<LibraryEnd> {
        let argument = postcard::to_stdvec(&question).expect("memory does not end");
        let answer = call_controller(self.tag, &argument).ok()?;
        postcard::from_bytes(&answer).ok()
    }

    /// The exit scope, as far as it is known without asking.
    fn scope(&self) -> LibraryEnd {
        LibraryEnd { destructors: Vec::new(), ..self.end.clone() }
    }
}

/// Gives this process the program's name, in messages of the C library and in lists of processes.
fn name_process(name: &'static CStr) {
    let slash = name.to_bytes().iter().rposition(|byte| *byte == b'/');
    let file = name.to_bytes_with_nul()[slash.map_or(0, |slash| slash + 1)..].as_ptr().cast();
    // SAFETY: the strings live until the process ends, as the old ones do. The kernel copies what it takes.
    unsafe {
        program_invocation_name = name.as_ptr();
        program_invocation_short_name = file;
        libc::prctl(libc::PR_SET_NAME, file);
    }
}

/// Takes back how Rust's runtime treats signals, so that the program gets them as every program does.
fn as_any_process() {
    for signal in [libc::SIGPIPE, libc::SIGSEGV, libc::SIGBUS] {
        // SAFETY: the default action calls nothing.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    let none = libc::stack_t { ss_sp: null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
    // SAFETY: no handler of a signal runs, on that stack or any other.
    unsafe { libc::sigaltstack(&raw const none, null_mut()) };
}
