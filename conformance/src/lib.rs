//! # The conformance suite of Longshore
//!
//! One list of behaviours that every device must show, run through the public interface of
//! `longshore`, and for one group through the plugin's own tables, on whatever device there is: a
//! vendor's, the CPU, a plugin that somebody is just writing. A behaviour that passes for one backend and fails for another is a defect of one of
//! them, or of the list.
//!
//! ```no_run
//! # fn main() -> longshore::Result<()> {
//! use longshore_conformance::{Filter, Setup};
//! let setup = Setup::new().with_plugin("liblongshore_plugin_mine.so");
//! for device in setup.devices()? {
//!     let report = setup.run_all(&device, &Filter::all(), |_, _| {});
//!     println!("{}: {} failed", device.name, report.failed());
//! }
//! # Ok(()) }
//! ```
//!
//! A [`Behaviour`] is a sentence, the numbers of the promises that it holds
//! (`docs/plugin-interface.md`), and a function. A [`Setup`] says where plugins and images come
//! from; each behaviour gets a host and a freshly opened device of its own, is stopped after a
//! minute, and has failed if it panics or if closing the device finds a leak. What a device says
//! that it cannot do is [`Outcome::Skipped`], with the device's own reason.
//!
//! The images that the behaviours need ([`Fixtures`]) are built in for the CPU, for the sample
//! plugin in C and for Vulkan; for another format a plugin's author gives a folder. What they must contain is in
//! `docs/conformance.md`.
//!
//! `longshore-check` is the command for plugin authors, `tests/tests/conformance.rs` runs the suite for
//! every device of this machine. Start reading at `suite.rs`.

pub mod amount;
pub mod endings;
mod fixtures;
mod own_images;
mod services;
mod suite;

pub use fixtures::Fixtures;
pub use own_images::OwnImages;
pub use services::services_for;
pub use suite::{Behaviour, DeviceName, Filter, Outcome, Report, Setup, behaviours};
