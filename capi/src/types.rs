//! The types of the interface, which no function knows of: enumerations, structures, handles, callbacks, and how a
//! trace shows their values.

mod declare;
pub(crate) mod enumerations;
pub(crate) mod structures;
pub(crate) mod trace;
