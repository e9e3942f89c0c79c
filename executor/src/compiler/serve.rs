//! The executor's side: compiles, with `libLLVM` in this process.

use std::cell::Cell;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::{Arc, OnceLock, Weak};

use longshore_compiler::{
    Compile, CompileError, Compiled, Compiler, Module, Request, set_fatal_error_handler,
};
use parking_lot::Mutex;
use serde::Serialize;

use super::messages::{
    Bytes, COMPILER, COMPILER_POST, INLINE, Job, LAST_WORDS, LastWords, Message, Post, Reply,
    SharedRange, Source, VersionReply, read, write,
};
use crate::rpc::Peer;

/// The compiler of this process, and the modules that it keeps.
#[derive(Default)]
pub(crate) struct CompilerServer {
    compiler: OnceLock<Compiler>,
    kept: Mutex<HashMap<u64, Module>>,
}

/// The controller, for the process's last message.
static CONTROLLER: OnceLock<Weak<Peer>> = OnceLock::new();

thread_local! {
    /// The job of this thread.
    static JOB: Cell<Option<u64>> = const { Cell::new(None) };
}

impl CompilerServer {
    /// Returns whether the server handles a method.
    pub(crate) fn has(method: u32) -> bool {
        matches!(method, COMPILER | COMPILER_POST)
    }

    /// Executes a call and returns the reply. Blocks while LLVM compiles.
    ///
    /// # Errors
    /// A text for a malformed call. The compiler's errors are replies.
    pub(crate) fn call(
        &self,
        peer: &Arc<Peer>,
        method: u32,
        argument: &[u8],
    ) -> Result<Vec<u8>, String> {
        if method != COMPILER {
            return Err("a message without a reply came as a call".to_owned());
        }
        let memory = peer.memory();
        match postcard::from_bytes(argument).map_err(|error| error.to_string())? {
            Message::Start { folders } => {
                let _ = CONTROLLER.set(Arc::downgrade(peer));
                leave_standard_streams().map_err(|error| format!("/dev/null: {error}"))?;
                set_fatal_error_handler(end);
                // SAFETY: the user's system has LLVM under LLVM's names. An invalid module may
                // crash this process, which exists for that.
                let compiler = unsafe { Compiler::in_process(folders) };
                self.compiler.get_or_init(|| compiler.with_pre_pass(super::change_kernels));
                Ok(Vec::new())
            }
            Message::Version(library) => {
                let version: VersionReply = self.compiler()?.version(&library);
                encode(&version)
            }
            Message::Compile(job) => {
                JOB.set(Some(job.job));
                let reply = self.compile(memory, &job);
                JOB.set(None);
                reply
            }
        }
    }

    /// Executes a message without a reply.
    pub(crate) fn post(&self, argument: &[u8]) {
        match postcard::from_bytes(argument) {
            Ok(Post::Forget { number }) => {
                let module = self.kept.lock().remove(&number);
                if let (Some(module), Some(compiler)) = (module, self.compiler.get()) {
                    compiler.forget(&module);
                }
            }
            Err(error) => log::warn!("a message for the compiler is malformed: {error}"),
        }
    }

    fn compile(&self, memory: Option<BorrowedFd<'_>>, job: &Job<'_>) -> Result<Vec<u8>, String> {
        let module = match &job.module {
            Source::Given(bytes) => Module::new(bytes.to_vec(memory)?),
            Source::Keep { number, bytes } => {
                let bytes = bytes.to_vec(memory)?;
                self.kept.lock().entry(*number).or_insert_with(|| Module::new(bytes)).clone()
            }
            Source::Kept(number) => {
                let kept = self.kept.lock().get(number).cloned();
                kept.ok_or_else(|| format!("the module {number} is not kept"))?
            }
        };
        let (part, target, options) = (&job.part, &job.target, &job.options);
        let request = Request { module: &module, part, target, options };
        match self.compiler()?.compile(&request) {
            Ok(Compiled { bytes, facts }) => {
                let mut output = memory.zip(job.output);
                let code = store("code", &bytes, &mut output)?;
                let facts = encode(&facts)?;
                let facts = store("module's text", &facts, &mut output)?;
                encode(&Ok::<_, CompileError>(Reply { code, facts }))
            }
            Err(error) => encode(&Err::<Reply<'_>, _>(error)),
        }
    }

    fn compiler(&self) -> Result<&Compiler, String> {
        self.compiler
            .get()
            .ok_or_else(|| "the first message for a compiler is its start".to_owned())
    }
}

impl Bytes<'_> {
    fn to_vec(&self, memory: Option<BorrowedFd<'_>>) -> Result<Vec<u8>, String> {
        match (self, memory) {
            (Bytes::Inline(bytes), _) => Ok(bytes.to_vec()),
            (Bytes::Shared(range), Some(memory)) => read(memory, *range)
                .map_err(|error| format!("reading the module from shared memory: {error}")),
            (Bytes::Shared(_), None) => Err("no memory is shared".to_owned()),
        }
    }
}

/// Puts a part of a result into shared memory, if it is large and some is there for it. Takes the
/// used memory from `output`.
fn store<'a>(
    what: &str,
    bytes: &'a [u8],
    output: &mut Option<(BorrowedFd<'_>, SharedRange)>,
) -> Result<Bytes<'a>, String> {
    let Some((memory, range)) = output.as_mut().filter(|_| bytes.len() > INLINE) else {
        return Ok(Bytes::Inline(bytes));
    };
    let size = bytes.len() as u64;
    let too_large = || format!("the {what} has {size} bytes, expected at most {}", range.bytes);
    let rest = range.bytes.checked_sub(size).ok_or_else(too_large)?;
    write(*memory, range.offset, bytes)
        .map_err(|error| format!("writing the {what} to shared memory: {error}"))?;
    let used = SharedRange { bytes: size, ..*range };
    *range = SharedRange { offset: range.offset + size, bytes: rest };
    Ok(Bytes::Shared(used))
}

/// Points the standard streams at `/dev/null`. A reader of the program's output waits until no
/// process has it open, and LLVM also reports the messages that it prints.
fn leave_standard_streams() -> io::Result<()> {
    let nothing = File::options().read(true).write(true).open("/dev/null")?;
    for stream in 0..3 {
        // SAFETY: nothing in this process relies on what a standard stream refers to.
        if unsafe { libc::dup2(nothing.as_raw_fd(), stream) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

fn encode(reply: &impl Serialize) -> Result<Vec<u8>, String> {
    postcard::to_stdvec(reply).map_err(|error| error.to_string())
}

/// Reports LLVM's reason, and ends the process: LLVM would run exit handlers while other threads
/// compile.
fn end(reason: &str) {
    let words = LastWords { job: JOB.get(), reason: reason.chars().take(4000).collect() };
    if let (Some(peer), Ok(words)) =
        (CONTROLLER.get().and_then(Weak::upgrade), postcard::to_stdvec(&words))
    {
        let _ = peer.post(LAST_WORDS, &words);
    }
    // SAFETY: the call ends the process.
    unsafe { libc::_exit(1) }
}
