//! Tasks of the repository on which others rely: the generated headers and the installation.

mod crates;
mod header;
mod install;
mod package;
mod support;
mod workflows;
