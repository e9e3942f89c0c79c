//! Running the linked program.

use crate::failure::{Exit, Failure};
use longshore_jitlink::Library;
use longshore_jitlink::session::MainArguments;
use longshore_runtime::call_at_bottom;
use std::ffi::{CStr, CString, OsStr, OsString, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;
use std::ptr::{null, null_mut};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// The linked program, whose end is also that of this process.
static PROGRAM: OnceLock<Library> = OnceLock::new();

/// Whether exit handlers and destructors have run, all of them.
static ENDED: AtomicBool = AtomicBool::new(false);

unsafe extern "C" {
    /// The C library's: the environment as the program may change it.
    static environ: *const *const c_char;
    /// The C library's: what `error` prints before its messages.
    static mut program_invocation_name: *const c_char;
    /// The C library's: what `assert`, `warn` and `err` print before theirs.
    static mut program_invocation_short_name: *const c_char;
}

/// Runs constructors, the entry, and at the end of the process exit handlers and destructors: also where the program calls
/// `exit` itself. Returns only if that fails.
pub(super) fn run(
    library: Library,
    entry: u64,
    file: &Path,
    arguments: &[OsString],
) -> Result<ExitCode, Failure> {
    let strings = [file.as_os_str()].into_iter().chain(arguments.iter().map(OsString::as_os_str));
    let mut argv: Vec<*const c_char> = strings.map(leaked).collect::<Result<_, _>>()?;
    let argc = c_int::try_from(argv.len()).expect("the operating system allows fewer arguments");
    argv.push(null());
    let argv = argv.leak().as_ptr();
    let program = PROGRAM.get_or_init(|| library);
    // SAFETY: the first argument is a string that lives until the process ends.
    name_process(unsafe { CStr::from_ptr(*argv) });
    as_any_process();
    at_exit();
    // SAFETY: the user asks for this program to be run. What it is called with lives until the process ends, and the entry is
    // called as the C library calls main.
    unsafe {
        program.initialize(MainArguments { argc, argv, environment: environ })?;
        let code = call_at_bottom(entry, [argc as u64, argv as u64, environ as u64]);
        libc::exit(code as c_int)
    }
}

fn at_exit() {
    // SAFETY: `end` lives as long as this executable.
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
        // SAFETY: as for running it.
        if let Err(error) = unsafe { program.deinitialize() } {
            log::error!("the end of the program: {error}");
        }
    }
    ENDED.store(true, Ordering::Release);
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

/// A string that lives until the process ends.
fn leaked(text: &OsStr) -> Result<*const c_char, Failure> {
    let string = CString::new(text.as_bytes()).map_err(|error| {
        Failure::new(Exit::Usage, format!("an argument of the program: {error}"))
    })?;
    Ok(string.into_raw())
}
