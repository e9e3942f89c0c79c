//! Modules of bitcode that are compiled piece by piece do what they do when they are compiled whole.

mod calls;
mod cplusplus;
mod failures;
mod language;
mod support;
