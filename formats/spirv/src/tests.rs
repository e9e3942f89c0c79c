//! Reflection of modules from compilers.

mod conventions;
mod glsl;
mod support;
mod wgsl;
