//! The synchronization primitives of the [index of mapped ranges](crate::mapping::index). The model
//! test of the suite replaces them by the primitives of a model checker.

pub(crate) use parking_lot::{Mutex, MutexGuard};
pub(crate) use std::hint::spin_loop;
pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence};
