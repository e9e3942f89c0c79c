//! The `longshore` command, run as its users do.

mod cc;
mod check;
mod devices;
mod hostile_files;
mod inspect;
mod plugins;
mod run;
mod support;
