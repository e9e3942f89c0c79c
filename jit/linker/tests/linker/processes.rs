//! Linking for a process that is asked for everything and answers later, as another process does: what is run, what it is asked
//! for, and what happens when it fails or dies.

#[path = "in_process/endings.rs"]
mod endings;
#[path = "in_process/initializers.rs"]
mod initializers;
mod messages;
mod others;
mod steps;
#[path = "in_process/support.rs"]
#[allow(dead_code)]
mod support;
#[path = "in_process/thread_locals.rs"]
mod thread_locals;
#[path = "in_process/unwinding.rs"]
mod unwinding;
mod watched;

use std::sync::Arc;

use longshore_jitlink::session::SessionBuilder;

use watched::{Plan, Watched};

/// A session whose code such a process executes.
fn executed(session: SessionBuilder) -> SessionBuilder {
    session.with_process(Arc::new(Watched::new(Plan::Live)))
}
