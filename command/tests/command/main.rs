//! The `longshore` command, run as by its users.

mod abi;
mod cc;
mod check;
mod devices;
mod hostile_files;
mod inspect;
mod mpirun;
mod new_plugin;
mod plugins;
mod run;
mod support;
