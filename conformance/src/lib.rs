//! # The conformance suite of Longshore
//!
//! The suite is a list of behaviours that every device must show. It runs through the public
//! interface of `longshore`, and one group through the plugin's own tables, on any device: a GPU,
//! the CPU, or a plugin in development. A behaviour that passes for one backend and fails for
//! another shows a defect of one of them, or of the list.
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
//! A [`Behaviour`] is a sentence, the numbers of the checked promises (`docs/plugin-interface.md`),
//! and a function. A [`Setup`] specifies the plugins and images. Each behaviour gets a host and a
//! freshly opened device of its own, and at most a minute. It fails if it panics or if closing the
//! device finds a leak. If the device reports that it lacks a feature, the behaviour is
//! [`Outcome::Skipped`], with the device's reason.
//!
//! The images for the behaviours ([`Fixtures`]) are built in for the CPU, for the sample plugin in
//! C and for Vulkan. For another format, a plugin's author provides a folder. `docs/conformance.md`
//! specifies their contents.
//!
//! `longshore-check` is the command for plugin authors. `tests/tests/conformance` runs the suite
//! for every device of this machine. Start reading at `suite.rs`.

pub mod amount;
pub mod certificate;
pub mod endings;
mod fixtures;
mod services;
mod suite;
mod trusted_images;

pub use fixtures::Fixtures;
pub use services::services_for;
pub use suite::{
    Behaviour, DeviceName, Filter, Outcome, Report, Setup, Step, behaviours, step_after,
    step_to_a_device,
};
pub use trusted_images::TrustedImages;
