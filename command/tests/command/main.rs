//! The `longshore` command, run as by its users.

mod cc;
mod check;
mod devices;
mod hostile_files;
mod inspect;
mod plugins;
mod run;
mod support;
