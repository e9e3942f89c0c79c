//! Queues and events: the order of work, waits, failures, host functions and threads.
//!
//! A [`Queue`](crate::Queue) runs its commands one after the other. Two queues run independently,
//! also on one device, until one [waits](crate::Queue::wait_for) for an [`Event`](crate::Event) of
//! the other. The event may belong to another device. Within one plugin the driver waits; between
//! two plugins a host function does.
//!
//! # Calls that block
//!
//! - Launches, fills, host functions, [`record`](crate::Queue::record) and `wait_for` return when
//!   their command is queued. So do copies of a queue, except between devices of two plugins, and
//!   [`Device::buffer`](crate::Device::buffer).
//! - [`Queue::scope`](crate::Queue::scope) lends memory of the program to copies, and blocks at its
//!   end alone. [`read_owned`](crate::Queue::read_owned) and
//!   [`write_owned`](crate::Queue::write_owned) own a vector instead, and do not block. Both are
//!   safe: a scope ends behind its copies, also after a panic, and a forgotten copy leaks its
//!   vector.
//! - [`synchronize`](crate::Queue::synchronize), `launch_and_wait`, and the methods of a
//!   [`Buffer`](crate::Buffer) that copy or fill block until all earlier commands are done.
//! - [`synchronize_for`](crate::Queue::synchronize_for) has a limit of time, which cancels nothing.
//! - [`Program::unload`](crate::Program::unload) and [`Device::close`](crate::Device::close) wait
//!   for the queues that use the program or the device. The drop of a queue does not wait, and its
//!   commands still run.
//!
//! # Futures
//!
//! `event.await` waits for an event in any executor, without blocking the thread of the task. The
//! result is that of [`Event::synchronize`](crate::Event::synchronize). A thread of the library,
//! `longshore-await`, blocks in the driver and wakes the task. One thread serves the events of a
//! queue in their order, and ends a second after the last. An event that is complete at the first
//! poll needs no thread. Dropping the future ends the wait and gives the waker back at once. The
//! thread keeps the event until it is reached.
//!
//! ```
//! use longshore::{Buffer, Queue, Result};
//!
//! async fn doubled(queue: &Queue, buffer: &Buffer<f32>) -> Result<Vec<f32>> {
//!     // Launches of kernels, which the copy follows.
//!     let values = queue.read_owned(buffer)?.await?;
//!     Ok(values.into_iter().map(|value| 2.0 * value).collect())
//! }
//!
//! let host = longshore::Host::new()?;
//! # if host.devices().is_empty() { return Ok(()) }
//! let device = host.default_device()?;
//! let queue = device.queue()?;
//! let buffer = device.buffer_of(&queue, &[1.0, 2.0])?;
//! assert_eq!(pollster::block_on(doubled(&queue, &buffer))?, [2.0, 4.0]);
//! # Ok::<(), longshore::Error>(())
//! ```
//!
//! # Failures
//!
//! A queue continues after a command that fails. It keeps the first failure for its next
//! `synchronize`, which returns the failure once. Each wait for an event also returns the failure
//! of commands in front of it, and leaves it to the queue. A queue that waits for the event takes
//! the failure over.
//!
//! # Host functions
//!
//! [`Queue::host_function`](crate::Queue::host_function) calls a closure in the queue's order, on a
//! thread of the plugin, or of a caller that waits for the queue. Later commands wait for its
//! return. In the closure, a call that would wait for the closure returns `Unsupported`, and does
//! nothing: every unlimited wait for the closure's own queue,
//! [`Device::close`](crate::Device::close) and [`Program::unload`](crate::Program::unload) on its
//! device.
//!
//! ```
//! use longshore::{ErrorCode, Host};
//! use std::sync::{Arc, mpsc};
//!
//! let host = Host::new()?;
//! # if host.devices().is_empty() { return Ok(()) }
//! let queue = Arc::new(host.default_device()?.queue()?);
//! let (results, received) = mpsc::channel();
//! let own = Arc::clone(&queue);
//! queue.host_function(move || results.send(own.synchronize()).expect("the program waits"))?;
//!
//! queue.synchronize()?;
//! let refused = received.recv().expect("the closure ran").unwrap_err();
//! assert_eq!(refused.code(), ErrorCode::Unsupported);
//! # Ok::<(), longshore::Error>(())
//! ```
//!
//! The library finds no deadlock through a second queue or another thread. The drop of a last
//! handle in a closure is safe: another thread then closes the device or unloads the program. A
//! panic of the closure is logged, and the queue continues.
//!
//! # Threads
//!
//! All handles are `Send + Sync`; every thread may call every method. Commands that two threads
//! queue at the same time run in either order. Handles of queues, events, programs and memory keep
//! their device open; kernels and globals keep their program loaded.
//!
//! # Time
//!
//! [`Event::elapsed_ns`](crate::Event::elapsed_ns) returns the nanoseconds between two complete
//! events of one device, both made by [`record_timed`](crate::Queue::record_timed).
