//! A guide to the library, in four pages.
//!
//! - [`memory`]: kinds of memory, their cost, ownership, alignment, reuse and zeros.
//! - [`queues_and_events`]: the order of work, waits, failures, host functions and threads.
//! - [`images`]: formats, containers, the choice of an image and its life.
//! - [`errors`]: codes, messages, causes and the caller's reaction.
//!
//! The pages exist in the documentation alone.

pub mod errors;
pub mod images;
pub mod memory;
pub mod queues_and_events;
