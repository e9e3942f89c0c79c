//! The interface between a host and its plugins.

mod layout;
mod sample_plugin;
mod support;
