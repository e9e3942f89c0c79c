//! The primitives that [`Rundown`](crate::rundown::Rundown) is made of. The model test of the suite puts
//! those of a model checker in their place.

pub(crate) use parking_lot::{Condvar, Mutex};
pub(crate) use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
