//! The synchronization primitives of [`Rundown`](crate::rundown::Rundown). The model test of the
//! suite replaces them by the primitives of a model checker.

pub(crate) use parking_lot::{Condvar, Mutex};
pub(crate) use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
