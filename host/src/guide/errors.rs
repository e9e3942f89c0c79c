//! Errors: codes, messages, causes and the caller's reaction.
//!
//! An [`Error`](crate::Error) has these parts:
//!
//! - [`code`](crate::Error::code): one of the 24 codes of LLVM's `ol_errc_t`, with LLVM's numbers.
//!   Programs decide by the code.
//! - [`message`](crate::Error::message): a text for people with the object, the wrong value and the
//!   expected value. It has at most 16 KiB; control characters other than tabs and line feeds are
//!   escaped.
//! - [`vendor`](crate::Error::vendor): the name and the number of the driver's error, such as
//!   `CUDA_ERROR_OUT_OF_MEMORY` and 2. `Display` prints message, name and number.
//! - `source`, of [`std::error::Error`]: the cause, such as a [`std::io::Error`], whose text the
//!   message contains. A plugin's error arrives without its source.
//!
//! ```
//! use longshore::{ErrorCode, Image};
//! use std::error::Error as _;
//!
//! let error = Image::read("/missing/saxpy.img").unwrap_err();
//! assert_eq!(error.code(), ErrorCode::NotFound);
//! assert_eq!(error.code().llvm_name(), "OL_ERRC_NOT_FOUND");
//! assert!(error.message().starts_with("cannot read the image '/missing/saxpy.img'"));
//!
//! let cause = error.source().and_then(|cause| cause.downcast_ref::<std::io::Error>());
//! assert_eq!(cause.unwrap().kind(), std::io::ErrorKind::NotFound);
//! ```
//!
//! # Reactions
//!
//! - **Correct the program** after `InvalidArgument`, `InvalidSize`, `InvalidDevice`,
//!   `InvalidQueue`, `InvalidEvent` or `SymbolKind`. The call had no effect.
//! - **Show the message to the user** after `NotFound`, `InvalidValue`, `HostIo` or
//!   `HostToolNotFound`. For a device, a plugin, a kernel or a global, the message of `NotFound`
//!   lists the existing ones.
//! - **Free memory, or use less** after `OutOfResources`. The device has given its cache back
//!   before.
//! - **Take another device or another method** after `Unsupported` or `Unimplemented`: the call is
//!   valid, but beyond this device or plugin. A wait in a host function for its own queue is
//!   `Unsupported` too.
//! - **Build the image again** after `InvalidBinary`, `LinkFailure`, `CompileFailure` or
//!   `AssembleFailure`.
//! - **Open the device or load the image again** after `Uninitialized`: the handle's device was
//!   closed, or its program was unloaded.
//! - **Close the device** after `BackendFailure` or `Unknown`, and discard the results of the
//!   queue. The driver, the device, a kernel or the plugin failed.
//!
//! A kernel that faults is a `BackendFailure` of its queue: the next
//! [`synchronize`](crate::Queue::synchronize) returns it. When the process of an isolated plugin
//! ends, calls on its devices return `BackendFailure`.
//! [`DeviceEntry::open`](crate::DeviceEntry::open) then starts a new process, after the old device
//! was closed.
//!
//! # Logged errors
//!
//! A method of several steps returns its first error, and logs the rest by the crate `log`. A drop
//! logs its errors. [`Device::close`](crate::Device::close) and
//! [`Program::unload`](crate::Program::unload) return errors that a drop would log.
