//! Plugins in made worlds, and promises of the repository that tests hold by looking at it.

mod amdgpu_runtime;
mod architecture;
mod check_command;
mod isolation;
mod plugins;
mod readme;
mod trust;
