//! Memory: kinds, cost, ownership, alignment, reuse and zeros.
//!
//! A [`Buffer`](crate::Buffer) is an array of values in device memory. An
//! [`Allocation`](crate::Allocation) has no element type, and can be of any
//! [`MemoryKind`](crate::MemoryKind):
//!
//! - `Device`: kernels reach it fastest; the program copies it through a queue.
//! - `Host`: page-locked memory that the program accesses directly, and kernels of a discrete GPU
//!   over the bus.
//! - `Managed`: the program accesses it while the device's queues are synchronized; the driver may
//!   move it between host and device.
//!
//! An allocation of a kind that the device lacks returns `Unsupported`. The CPU has ordinary memory
//! for all three kinds. [`Device::pin`](crate::Device::pin) page-locks memory that the program
//! allocated itself.
//!
//! ```
//! use longshore::{Host, MemoryKind};
//!
//! let host = Host::new()?;
//! # if host.devices().is_empty() { return Ok(()) }
//! let device = host.default_device()?;
//! let queue = device.queue()?;
//! let buffer = device.buffer::<f32>(&queue, 1000)?;
//! assert_eq!(buffer.allocation().kind(), MemoryKind::Device);
//! assert_eq!(buffer.allocation().bytes(), 4000);
//!
//! // The library keeps the freed block, which has the size of its class.
//! drop(buffer);
//! queue.synchronize()?;
//! assert_eq!(device.cached_bytes(), 4096);
//! device.trim()?;
//! assert_eq!(device.cached_bytes(), 0);
//! # Ok::<(), longshore::Error>(())
//! ```
//!
//! # Parts of a buffer
//!
//! [`Buffer::slice`](crate::Buffer::slice) returns a [`BufferSlice`](crate::BufferSlice): a range
//! of elements, for launches, copies and fills, without a copy. A range that exceeds the buffer
//! returns `InvalidSize`.
//!
//! [`BufferSlice::write_region`](crate::BufferSlice::write_region) and its relatives copy a part of
//! an array of two or three dimensions, a [`Region`](crate::Region). Most backends copy all rows at
//! once; for others the library copies row by row. The rows of
//! [`Queue::copy_rect`](crate::Queue::copy_rect) can be any distance apart.
//!
//! # Ownership
//!
//! The drop of a buffer or an allocation frees its memory, and does not wait for queued work. So a
//! program may drop a buffer at once after a launch that uses it. The library reuses the block when
//! all work queued before the drop has ended, on every queue that can reach the block. The drop of
//! a program's last handle waits for the queues that use the program.
//!
//! Memory keeps its device open. [`Device::close`](crate::Device::close) frees live memory, and
//! reports it in [`CloseReport::leaks`](crate::CloseReport::leaks).
//! [`Allocation::into_raw`](crate::Allocation::into_raw) gives an allocation up for a later
//! [`Host::free`](crate::Host::free).
//!
//! # Sizes and alignment
//!
//! Sizes are in bytes; the length of a buffer is in elements. An empty allocation returns
//! `InvalidSize`. An alignment is a power of two. Every block begins at a multiple of at least 256
//! bytes, so a smaller alignment costs nothing.
//!
//! # Reuse
//!
//! A device keeps freed blocks, by default at most 256 MiB; see
//! [`with_cache_limit`](crate::HostBuilder::with_cache_limit). An allocation from this cache needs
//! no call of the driver. Each power of two has four size classes, and the smallest block has 256
//! bytes. Above that size, rounding adds at most a quarter. Blocks of more than 64 GiB, or with an
//! alignment above 256 bytes, are not kept.
//!
//! A device without enough memory gives the cache back to the driver, after the queued work that
//! uses freed blocks, and tries again. Only then does the allocation return `OutOfResources`.
//!
//! # Zeros and undefined contents
//!
//! Safe code reads initialised memory alone:
//!
//! - [`Device::buffer`](crate::Device::buffer) queues zeros and returns. Methods of the buffer wait
//!   for the zeros. A launch on another queue must [wait](crate::Queue::wait_for) for an event
//!   behind them.
//! - [`Device::buffer_of`](crate::Device::buffer_of) copies values, and blocks until the copy is
//!   done.
//! - [`Device::buffer_uninit`](crate::Device::buffer_uninit), which is `unsafe`, and
//!   [`Device::allocate`](crate::Device::allocate) leave contents undefined. Memory from the cache
//!   has its former contents.
