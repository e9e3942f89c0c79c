//! The atomic numbers of [`Slot`](crate::registry): the standard library's here, and a model
//! checker's where `tests/` compiles the slot.

pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
