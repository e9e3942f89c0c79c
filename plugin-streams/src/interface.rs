//! Implementations of the traits of `longshore-plugin-api` for the types of this crate.

mod device;
mod event;
mod module;
mod platform;
mod queue;

use crate::backend::StreamBackend;
use crate::device::StreamDevice;
use crate::event::StreamEvent;
use crate::kernel::StreamKernel;
use crate::module::StreamModule;
use crate::platform::StreamPlatform;
use crate::queue::StreamQueue;
use longshore_plugin_api::Backend;

/// A backend that uses this crate's types for all its objects.
pub trait Complete:
    StreamBackend
    + Backend<
        Platform = StreamPlatform<Self>,
        Device = StreamDevice<Self>,
        Module = StreamModule<Self>,
        Kernel = StreamKernel<Self::Driver>,
        Queue = StreamQueue<Self>,
        Event = StreamEvent<Self::Driver>,
    >
{
}

impl<B> Complete for B where
    B: StreamBackend
        + Backend<
            Platform = StreamPlatform<B>,
            Device = StreamDevice<B>,
            Module = StreamModule<B>,
            Kernel = StreamKernel<B::Driver>,
            Queue = StreamQueue<B>,
            Event = StreamEvent<B::Driver>,
        >
{
}
