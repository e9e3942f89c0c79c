//! Linked code beside other linkers, in debuggers and profilers, and in an emulator. These tests run on any machine, with
//! those of the tools that are installed.

mod cross_linked;
mod debuggers;
mod emulated;
