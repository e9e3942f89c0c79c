//! Streams.

use crate::code::{Answer, Code};
use crate::context::Context;
use crate::current::{current, current_or_failed};
use crate::driver::{broken, in_host_function};
use crate::event;
use crate::object;
use crate::value::Out;
use longshore_double_gpu::protocol::{Reply, Request};
use longshore_double_gpu::{Connection, Line, Ticket};
use std::ffi::c_void;
use std::sync::{Arc, Weak};

/// Handles with a meaning: the context's own stream, in two flavours.
const LEGACY: usize = 1;
const PER_THREAD: usize = 2;
/// `CU_STREAM_NON_BLOCKING`: no order with the context's own stream.
const NON_BLOCKING: u32 = 1;

/// A function of a program.
pub(crate) type HostFn = unsafe extern "C" fn(*mut c_void);

/// A stream: a thread of this process, and a connection to the GPU process that it uses.
pub(crate) struct Stream {
    pub(crate) handle: usize,
    context: Weak<Context>,
    context_handle: usize,
    line: Line,
    connection: Arc<Connection>,
    /// It is in order with the context's own stream.
    is_blocking: bool,
}

impl Stream {
    /// Makes a stream of a context.
    ///
    /// # Errors
    /// What failed in the context, the end of its GPU process included.
    pub(crate) fn new(context: &Arc<Context>, handle: usize, is_blocking: bool) -> Answer<Stream> {
        let connection = context.gpu()?.connect().map_err(|_| Code::LAUNCH_FAILED)?;
        Ok(Stream {
            handle,
            context: Arc::downgrade(context),
            context_handle: context.handle,
            line: Line::new("cuda-stream"),
            connection: Arc::new(connection),
            is_blocking,
        })
    }

    /// Gives it work, which is left out if something failed in the context.
    ///
    /// # Errors
    /// `CONTEXT_IS_DESTROYED`.
    pub(crate) fn push(&self, job: impl FnOnce(&Context) + Send + 'static) -> Answer<Ticket> {
        let context = self.context.upgrade().ok_or(Code::CONTEXT_IS_DESTROYED)?;
        let before = self.implied(&context);
        Ok(self.line.push(Box::new(move || {
            before.iter().for_each(Ticket::wait);
            if context.check().is_ok() {
                job(&context);
            }
        })))
    }

    /// The connection, for work that is given with [`Stream::push`].
    pub(crate) fn asks(&self) -> impl Fn(&Request) -> Reply + Send + Sync + 'static {
        let connection = Arc::clone(&self.connection);
        move |request| connection.ask(request)
    }

    /// All that it was given.
    pub(crate) fn tail(&self) -> Ticket {
        self.line.tail()
    }

    /// Drops what was not begun.
    pub(crate) fn abandon(&self) {
        self.line.abandon();
    }

    /// Waits until nothing of it runs, after it was abandoned.
    pub(crate) fn join(&self) {
        self.line.join();
    }

    pub(crate) fn context_handle(&self) -> usize {
        self.context_handle
    }

    /// What work that is given now has to wait for: the context's own stream and those in order with it wait for each
    /// other.
    fn implied(&self, context: &Arc<Context>) -> Vec<Ticket> {
        let mut before = Vec::new();
        if self.handle == 0 {
            let others = context.streams();
            before
                .extend(others.iter().filter(|other| other.is_blocking).map(|other| other.tail()));
        } else if let Some(legacy) = context.used_legacy().filter(|_| self.is_blocking) {
            before.push(legacy.tail());
        }
        before.retain(|ticket| !ticket.is_done());
        before
    }
}

/// The stream that work of the current context is given to.
///
/// # Errors
/// `INVALID_HANDLE`, a violation, if it is of another context; what failed in the context.
pub(crate) fn of_current(handle: usize) -> Answer<(Arc<Context>, Arc<Stream>)> {
    let context = current()?;
    if matches!(handle, 0 | LEGACY | PER_THREAD) {
        let stream = context.legacy()?;
        return Ok((context, stream));
    }
    let stream = object::stream(handle)?;
    if stream.context_handle != context.handle {
        let what = format!("stream {handle:#x} is of another context than the current one");
        return Err(broken(Code::INVALID_HANDLE, what));
    }
    Ok((context, stream))
}

pub(crate) fn create(stream: Out<usize>, flags: u32) -> Answer {
    create_with_priority(stream, flags, 0)
}

/// Priorities change nothing; those out of range are the nearest ones.
pub(crate) fn create_with_priority(stream: Out<usize>, flags: u32, _priority: i32) -> Answer {
    let context = current()?;
    if flags & !NON_BLOCKING != 0 {
        return Err(broken(Code::INVALID_VALUE, format!("{flags:#x} are no flags of streams")));
    }
    if stream.is_null() {
        return stream.put(0);
    }
    let parts = Stream::new(&context, 0, flags & NON_BLOCKING == 0)?;
    let made = object::add(|handle| Stream { handle, ..parts });
    context.enter_stream(&made);
    stream.put(made.handle)
}

/// What it was given is still done.
pub(crate) fn destroy(stream: usize) -> Answer {
    let context = current_or_failed()?;
    let removed = object::remove_stream(stream)?;
    removed.keep_until_done();
    context.check()
}

impl Stream {
    /// Keeps a stream until it has done what it was given, so that who waits for the context waits for that too.
    fn keep_until_done(self: Arc<Stream>) {
        if self.tail().is_done() {
            return;
        }
        std::thread::spawn(move || self.tail().wait());
    }
}

pub(crate) fn synchronize(stream: usize) -> Answer {
    let (context, stream) = of_any(stream)?;
    stream.tail().wait();
    context.check()
}

pub(crate) fn query(stream: usize) -> Answer {
    let (_, stream) = of_any(stream)?;
    if stream.tail().is_done() { Ok(()) } else { Err(Code::NOT_READY) }
}

pub(crate) fn wait_event(stream: usize, event: usize, flags: u32) -> Answer {
    let (_, stream) = of_any(stream)?;
    let event = object::event(event)?;
    if flags > 1 {
        return Err(broken(Code::INVALID_VALUE, format!("{flags:#x} are no flags of waiting")));
    }
    if let Some(ticket) = event::pending(&event) {
        stream.push(move |_| ticket.wait())?;
    }
    Ok(())
}

pub(crate) fn context_of(stream: usize, context: Out<usize>) -> Answer {
    context.put(of_any(stream)?.0.handle)
}

/// It runs on the context's thread for that, with the stream held up, unless something failed.
pub(crate) fn launch_host_function(
    stream: usize,
    function: Option<HostFn>,
    argument: *mut c_void,
) -> Answer {
    let (_, stream) = of_current(stream)?;
    let Some(function) = function else {
        return Err(broken(Code::INVALID_VALUE, "the host function is null"));
    };
    let argument = argument.expose_provenance();
    stream.push(move |context| {
        let call = move || {
            let argument = std::ptr::with_exposed_provenance_mut(argument);
            // SAFETY: the program passed a function that may be called once with its argument, from any thread.
            in_host_function(|| unsafe { function(argument) });
        };
        context.host_functions.push(Box::new(call)).wait();
    })?;
    Ok(())
}

/// A stream of any context, for what needs no work of it.
fn of_any(handle: usize) -> Answer<(Arc<Context>, Arc<Stream>)> {
    if matches!(handle, 0 | LEGACY | PER_THREAD) {
        return of_current(handle);
    }
    current()?;
    let stream = object::stream(handle)?;
    let context = stream.context.upgrade().ok_or(Code::CONTEXT_IS_DESTROYED)?;
    context.check()?;
    Ok((context, stream))
}
