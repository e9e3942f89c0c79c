//! The repository's tasks that others rely on: the headers that they write, and what they install.

mod header;
mod install;
