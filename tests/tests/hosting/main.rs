//! Plugins in test worlds, and promises of the repository that its sources must keep.

mod amdgpu_runtime;
mod architecture;
mod check_command;
mod check_report;
mod guides;
mod isolation;
mod linked;
mod new_plugin;
mod plugins;
mod python;
mod trust;
