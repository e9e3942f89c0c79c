//! Objects of real compilers, executed in this process. Each test compiles a few lines, links them
//! in memory, and calls them. Tests that follow a system linker's behaviour link the same objects
//! with it, and compare the results.

mod archives;
mod bounds;
mod copies;
mod definitions;
mod endings;
mod generators;
mod graphs;
mod initializers;
mod lazy;
mod lifetimes;
mod passes;
mod pruning;
mod refused;
mod relocations;
mod removal;
mod sessions;
mod support;
mod symbols;
mod tables;
mod thread_locals;
mod together;
mod unwinding;

use longshore_jitlink::session::SessionBuilder;

/// Returns a session whose code the tests' own process executes.
fn executed(session: SessionBuilder) -> SessionBuilder {
    session
}
