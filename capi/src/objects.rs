//! The objects behind handles, in a file for each kind. The objects use `registry`, and no function
//! of the interface.

pub(crate) mod device;
pub(crate) mod event;
mod kind;
pub(crate) mod platform;
pub(crate) mod program;
pub(crate) mod queue;
pub(crate) mod registration;
pub(crate) mod symbol;
