//! Streams.

use super::channel::{Channel, Order};
use super::context::{Context, current, current_or_failed};
use super::entry::in_host_function;
use super::object::{self, Object};
use super::{Code, DriverResult, Out, Scope, broken, driver};
use crate::Ticket;
use crate::protocol::{Reply, Request};
use std::ffi::c_void;
use std::sync::{Arc, Weak};

/// Handles with a meaning: two flavours of the context's own stream.
const LEGACY: usize = 1;
const PER_THREAD: usize = 2;
/// `CU_STREAM_NON_BLOCKING`: no order with the context's own stream.
const NON_BLOCKING: u32 = 1;

/// A function of a program.
pub type HostFn = unsafe extern "C" fn(*mut c_void);

/// A stream: a channel of its context.
pub struct Stream {
    pub(crate) handle: usize,
    context: Weak<Context>,
    context_handle: usize,
    channel: Arc<Channel>,
}

impl Object for Stream {
    const KIND: &'static str = "stream";

    fn context_handle(&self) -> usize {
        self.context_handle
    }
}

impl Stream {
    /// Returns the context's own stream.
    ///
    /// # Errors
    /// A failure in the context, including the end of its GPU process.
    fn own_of(context: &Arc<Context>) -> DriverResult<Stream> {
        Ok(Stream::new(context, 0, context.own_channel()?))
    }

    fn new(context: &Arc<Context>, handle: usize, channel: Arc<Channel>) -> Stream {
        let (context, context_handle) = (Arc::downgrade(context), context.handle);
        Stream { handle, context, context_handle, channel }
    }

    /// Enqueues a job, which is skipped after a failure in the context.
    ///
    /// # Errors
    /// `CONTEXT_IS_DESTROYED`.
    pub(crate) fn push(&self, job: impl FnOnce(&Context) + Send + 'static) -> DriverResult<Ticket> {
        let context = self.context.upgrade().ok_or(Code::CONTEXT_IS_DESTROYED)?;
        let before = context.channels.before(&self.channel);
        Ok(self.channel.queue.push(Box::new(move || {
            before.iter().for_each(Ticket::wait);
            if context.check().is_ok() {
                job(&context);
            }
        })))
    }

    /// Returns a function that sends requests over the channel's connection, for jobs of
    /// [`Stream::push`].
    pub(crate) fn asks(&self) -> impl Fn(&Request) -> Reply + Send + Sync + 'static {
        self.channel.asks()
    }

    /// Returns a ticket for all work enqueued so far.
    fn tail(&self) -> Ticket {
        self.channel.queue.tail()
    }
}

/// Returns a stream for new work. With the scope `Context`, the stream must be of the current
/// context.
///
/// # Errors
/// `INVALID_HANDLE`, a violation, for a stream of another context; the failure of its context.
pub(crate) fn for_work(handle: usize) -> DriverResult<(Arc<Context>, Arc<Stream>)> {
    let current = current()?;
    let (context, stream) = any_stream(handle)?;
    if context.handle != current.handle && driver().vendor.scope() == Scope::Context {
        let what = format!("stream {handle:#x} is not of the current context");
        return Err(broken(Code::INVALID_HANDLE, what));
    }
    Ok((context, stream))
}

/// Creates a stream in the current context.
pub fn create(stream: Out<usize>, flags: u32) -> DriverResult {
    create_with_priority(stream, flags, 0)
}

/// Creates a stream with a priority. Priorities have no effect; a priority out of range counts as
/// the nearest valid one.
pub fn create_with_priority(stream: Out<usize>, flags: u32, _priority: i32) -> DriverResult {
    let context = current()?;
    if flags & !NON_BLOCKING != 0 {
        return Err(broken(Code::INVALID_VALUE, format!("invalid flags of a stream: {flags:#x}")));
    }
    if stream.is_null() {
        return stream.put(0);
    }
    let order = if flags & NON_BLOCKING == 0 { Order::WithOwn } else { Order::Free };
    let channel = Arc::new(context.new_channel(order)?);
    let made = object::add(|handle| Stream::new(&context, handle, Arc::clone(&channel)));
    context.channels.enter(&channel);
    stream.put(made.handle)
}

/// Destroys a stream. Its enqueued work still runs.
pub fn destroy(stream: usize) -> DriverResult {
    let context = current_or_failed()?;
    let removed = object::remove::<Stream>(stream)?;
    removed.keep_until_done();
    context.check()
}

impl Stream {
    /// Keeps a stream until its work is done, so that a wait for the context includes this work.
    fn keep_until_done(self: Arc<Stream>) {
        if self.tail().is_done() {
            return;
        }
        std::thread::spawn(move || self.tail().wait());
    }
}

/// Waits for all work of a stream.
pub fn synchronize(stream: usize) -> DriverResult {
    let (context, stream) = any_stream(stream)?;
    stream.tail().wait();
    context.check()
}

/// Succeeds if all work of a stream is done.
pub fn query(stream: usize) -> DriverResult {
    let (_, stream) = any_stream(stream)?;
    if stream.tail().is_done() { Ok(()) } else { Err(Code::NOT_READY) }
}

/// Stores the context of a stream.
pub fn context_of(stream: usize, context: Out<usize>) -> DriverResult {
    context.put(any_stream(stream)?.0.handle)
}

/// Calls a function of the program on the context's thread for host functions, unless a failure
/// occurred. The stream waits.
pub fn launch_host_function(
    stream: usize,
    function: Option<HostFn>,
    argument: *mut c_void,
) -> DriverResult {
    let (_, stream) = for_work(stream)?;
    let Some(function) = function else {
        return Err(broken(Code::INVALID_VALUE, "the host function is null"));
    };
    let argument = argument.expose_provenance();
    stream.push(move |context| {
        let call = move || {
            let argument = std::ptr::with_exposed_provenance_mut(argument);
            // SAFETY: the program passed a function that may be called once with its argument, from
            // any thread.
            in_host_function(|| unsafe { function(argument) });
        };
        context.host_functions.push(Box::new(call)).wait();
    })?;
    Ok(())
}

/// Returns a stream of any context, for a call that adds no work to it.
///
/// # Errors
/// `INVALID_HANDLE`, a violation, if the handle is no stream; the failure of the current context or
/// of the stream's.
pub(crate) fn any_stream(handle: usize) -> DriverResult<(Arc<Context>, Arc<Stream>)> {
    let current = current()?;
    if matches!(handle, 0 | LEGACY | PER_THREAD) {
        let stream = Stream::own_of(&current)?;
        return Ok((current, Arc::new(stream)));
    }
    let stream = object::get::<Stream>(handle)?;
    let context = stream.context.upgrade().ok_or(Code::CONTEXT_IS_DESTROYED)?;
    context.check()?;
    Ok((context, stream))
}
