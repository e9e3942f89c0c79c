//! Atomic numbers: those of the standard library here, those of a model checker where `tests/` checks [`Slot`](crate::slot).

pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
