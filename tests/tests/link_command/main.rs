//! `longshore link`: what programs that it links do, what it tells other tools, and its errors.
//! What the system's linker can do too is compared with it.

mod dumps;
mod errors;
mod folder;
mod json;
mod options;
mod runs;

const AARCH64: &str = "aarch64-linux-gnu-gcc";
