//! The process of an executor: how it starts, what it has, and how it ends.

mod endings;
mod namespaces;
mod permitted;
mod rounds;
mod start;
mod support;
