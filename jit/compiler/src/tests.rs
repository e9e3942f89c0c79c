//! Modules from small sources, by every installed LLVM.

mod parts;
mod refusals;
mod support;
mod whole;
