//! The exported functions, by their subjects.

pub mod copies;
pub mod data;
pub mod device_runtime;
pub mod devices;
pub mod interop;
pub mod kernel_language;
pub mod memory;
pub mod older;
pub mod oldest;
pub mod presence;
pub mod regions;
pub mod registration;
pub mod resources;
pub mod tools;
pub mod worksharing;
