//! The proxies and their helpers, for the code generated from the declaration of the interface.

pub(in crate::plugin) use super::device::{IsolatedDevice, given_up};
pub(in crate::plugin) use super::event::IsolatedEvent;
pub(in crate::plugin) use super::module::IsolatedModule;
pub(in crate::plugin) use super::platform::IsolatedPlatform;
pub(in crate::plugin) use super::queue::IsolatedQueue;
pub(in crate::plugin) use super::{Isolated, Proxies};
pub(in crate::plugin) use crate::plugin::protocol::{Sections, Symbols};
