//! Links for a process that needs a request for everything and replies later, as another process
//! does: execution, the requests, and the handling of errors and of its end.

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

/// Returns a session whose code such a process executes.
fn executed(session: SessionBuilder) -> SessionBuilder {
    session.with_process(Arc::new(Watched::new(Plan::Live)))
}
