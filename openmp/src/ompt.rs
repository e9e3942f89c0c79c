//! The OMPT interface: events of devices and target constructs for tools.
//!
//! A tool registers its callbacks with libomp. This library connects to libomp, and keeps the
//! callbacks of device events, when the first library with target regions is registered, which is
//! before `main`. Where it cannot see the tool then, it connects at the first use of a device. Each
//! event begins with one load of a pointer, which is null without a tool.
//!
//! The order of the events, and their arguments, are as in LLVM's library.

mod callbacks;
mod caller;
mod connection;
mod device;
mod events;
mod thread;

pub(crate) use connection::{connect, connect_plugin, expects_tool};
pub(crate) use device::DeviceEvents;
pub(crate) use events::{
    Construct, OperationScope, allocation, association, construct, deletion, disassociation, fill,
    launch, transfer, transfer_to_device, transfer_to_host,
};
pub(crate) use thread::Origin;

/// Returns whether a tool is connected.
#[inline(always)]
pub(crate) fn is_active() -> bool {
    callbacks::callbacks().is_some()
}
