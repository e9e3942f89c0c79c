//! The types of the interface, independent of its functions: enumerations, structures, handles,
//! callbacks, and the display of their values in a trace.

mod declare;
pub(crate) mod enumerations;
pub(crate) mod structures;
pub(crate) mod trace;
