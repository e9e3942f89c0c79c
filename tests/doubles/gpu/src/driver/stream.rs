//! Streams.

use super::context::{Context, current, current_or_failed};
use super::entry::in_host_function;
use super::lane::{Lane, Order};
use super::object::{self, Object};
use super::{Answer, Code, Out, Scope, broken, driver};
use crate::Ticket;
use crate::protocol::{Reply, Request};
use std::ffi::c_void;
use std::sync::{Arc, Weak};

/// Handles with a meaning: the context's own stream, in two flavours.
const LEGACY: usize = 1;
const PER_THREAD: usize = 2;
/// `CU_STREAM_NON_BLOCKING`: no order with the context's own stream.
const NON_BLOCKING: u32 = 1;

/// A function of a program.
pub type HostFn = unsafe extern "C" fn(*mut c_void);

/// A stream: a lane of its context.
pub struct Stream {
    pub(crate) handle: usize,
    context: Weak<Context>,
    context_handle: usize,
    lane: Arc<Lane>,
}

impl Object for Stream {
    const KIND: &'static str = "stream";

    fn context_handle(&self) -> usize {
        self.context_handle
    }
}

impl Stream {
    /// The context's own stream.
    ///
    /// # Errors
    /// What failed in the context, the end of its GPU process included.
    fn own_of(context: &Arc<Context>) -> Answer<Stream> {
        Ok(Stream::new(context, 0, context.own_lane()?))
    }

    fn new(context: &Arc<Context>, handle: usize, lane: Arc<Lane>) -> Stream {
        let (context, context_handle) = (Arc::downgrade(context), context.handle);
        Stream { handle, context, context_handle, lane }
    }

    /// Gives it work, which is left out if something failed in the context.
    ///
    /// # Errors
    /// `CONTEXT_IS_DESTROYED`.
    pub(crate) fn push(&self, job: impl FnOnce(&Context) + Send + 'static) -> Answer<Ticket> {
        let context = self.context.upgrade().ok_or(Code::CONTEXT_IS_DESTROYED)?;
        let before = context.lanes.before(&self.lane);
        Ok(self.lane.line.push(Box::new(move || {
            before.iter().for_each(Ticket::wait);
            if context.check().is_ok() {
                job(&context);
            }
        })))
    }

    /// The connection, for work that is given with [`Stream::push`].
    pub(crate) fn asks(&self) -> impl Fn(&Request) -> Reply + Send + Sync + 'static {
        self.lane.asks()
    }

    /// All that it was given.
    fn tail(&self) -> Ticket {
        self.lane.line.tail()
    }
}

/// The stream that work is given to. Where programs have contexts, it has to be of the current one.
///
/// # Errors
/// `INVALID_HANDLE`, a violation, if it is not; what failed in its context.
pub(crate) fn for_work(handle: usize) -> Answer<(Arc<Context>, Arc<Stream>)> {
    let current = current()?;
    let (context, stream) = of_any(handle)?;
    if context.handle != current.handle && driver().vendor.scope() == Scope::Context {
        let what = format!("stream {handle:#x} is of another context than the current one");
        return Err(broken(Code::INVALID_HANDLE, what));
    }
    Ok((context, stream))
}

/// Makes a stream of the current context.
pub fn create(stream: Out<usize>, flags: u32) -> Answer {
    create_with_priority(stream, flags, 0)
}

/// The same. Priorities change nothing; those out of range are the nearest ones.
pub fn create_with_priority(stream: Out<usize>, flags: u32, _priority: i32) -> Answer {
    let context = current()?;
    if flags & !NON_BLOCKING != 0 {
        return Err(broken(Code::INVALID_VALUE, format!("{flags:#x} are no flags of streams")));
    }
    if stream.is_null() {
        return stream.put(0);
    }
    let order = if flags & NON_BLOCKING == 0 { Order::WithOwn } else { Order::Free };
    let lane = Arc::new(context.new_lane(order)?);
    let made = object::add(|handle| Stream::new(&context, handle, Arc::clone(&lane)));
    context.lanes.enter(&lane);
    stream.put(made.handle)
}

/// Ends a stream. What it was given is still done.
pub fn destroy(stream: usize) -> Answer {
    let context = current_or_failed()?;
    let removed = object::remove::<Stream>(stream)?;
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

/// Waits for all that it was given.
pub fn synchronize(stream: usize) -> Answer {
    let (context, stream) = of_any(stream)?;
    stream.tail().wait();
    context.check()
}

/// Whether that is done.
pub fn query(stream: usize) -> Answer {
    let (_, stream) = of_any(stream)?;
    if stream.tail().is_done() { Ok(()) } else { Err(Code::NOT_READY) }
}

/// The context of a stream.
pub fn context_of(stream: usize, context: Out<usize>) -> Answer {
    context.put(of_any(stream)?.0.handle)
}

/// Calls a function of the program on the context's thread for that, with the stream held up, unless something failed.
pub fn launch_host_function(
    stream: usize,
    function: Option<HostFn>,
    argument: *mut c_void,
) -> Answer {
    let (_, stream) = for_work(stream)?;
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
///
/// # Errors
/// `INVALID_HANDLE`, a violation, if it is no stream; what failed in the current context or in the stream's.
pub(crate) fn of_any(handle: usize) -> Answer<(Arc<Context>, Arc<Stream>)> {
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
