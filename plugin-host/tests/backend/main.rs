//! The CPU backend, loaded as a host loads it.

mod hostile;
mod images;
mod lazy;
mod libraries;
mod objects;
mod relocatable;
mod support;
