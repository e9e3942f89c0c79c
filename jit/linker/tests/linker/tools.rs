//! Linked code beside other linkers, in debuggers and profilers, and in an emulator. These tests
//! run on any machine, with the installed tools.

mod cross_linked;
mod debuggers;
mod emulated;
