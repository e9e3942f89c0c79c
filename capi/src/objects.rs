//! The objects that handles stand for, a file for each kind. They use `registry`, and no function of the interface.

pub(crate) mod device;
pub(crate) mod event;
mod kind;
pub(crate) mod platform;
pub(crate) mod program;
pub(crate) mod queue;
pub(crate) mod registration;
pub(crate) mod symbol;
