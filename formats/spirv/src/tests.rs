//! Modules that tools make, and what is read of them.

mod conventions;
mod glsl;
mod support;
mod wgsl;
