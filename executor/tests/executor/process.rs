//! The process of an executor: its start, its resources, and its end.

mod endings;
mod namespaces;
mod permitted;
mod rounds;
mod start;
mod support;
