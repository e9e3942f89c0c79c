//! The exported functions, by their subjects.

pub mod data;
pub mod devices;
pub mod older;
pub mod regions;
pub mod registration;
pub mod tools;
