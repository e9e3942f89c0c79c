//! Passes: a client's changes to graphs during a link.

use std::sync::Arc;

use crate::Result;
use crate::graph::LinkGraph;

/// A change of a graph. Several threads may call it for different graphs at once, and it must not
/// use the session.
pub type Pass = Arc<dyn Fn(&mut LinkGraph) -> Result<()> + Send + Sync>;

/// A function that makes a link record of the graphs linked together, once their content is final
/// and before anything is executed. The session calls it once for each link, and it must not use
/// the session.
///
/// The session calls the result when the whole link has succeeded, before any of its constructors
/// runs. A failed link, also one that fails in this function, drops the result: nothing of the link
/// has become part of the session.
pub type Notes =
    Arc<dyn Fn(&mut dyn Iterator<Item = &mut LinkGraph>) -> Result<Delivery> + Send + Sync>;

/// A function that delivers the link record of a link that has succeeded. It must not use the
/// session, which is locked during the call.
pub type Delivery = Box<dyn FnOnce() + Send>;

/// The point at which a pass runs (JITLink's lists in `PassConfiguration`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The point before anything is pruned.
    Prune,
    /// The point after pruning, before the entries of the global offset table and stubs are made:
    /// the last chance to add blocks and edges.
    PostPrune,
    /// The point at which every block has its address.
    PostAllocation,
    /// The point at which every used symbol has its address.
    PreFixup,
    /// The point at which the content is final, before anything is executed.
    PostFixup,
}

/// The passes of a session, run in the order of their addition.
#[derive(Clone, Default)]
pub struct Passes {
    of_graphs: Vec<(Stage, Pass)>,
    notes: Vec<Notes>,
}

impl Passes {
    /// Adds a pass.
    pub fn add(
        &mut self,
        stage: Stage,
        pass: impl Fn(&mut LinkGraph) -> Result<()> + Send + Sync + 'static,
    ) {
        self.of_graphs.push((stage, Arc::new(pass)));
    }

    /// Adds a function that makes link records, called after [`Stage::PostFixup`].
    pub fn add_notes<D: FnOnce() + Send + 'static>(
        &mut self,
        notes: impl Fn(&mut dyn Iterator<Item = &mut LinkGraph>) -> Result<D> + Send + Sync + 'static,
    ) {
        self.notes.push(Arc::new(move |graphs| Ok(Box::new(notes(graphs)?))));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.of_graphs.is_empty() && self.notes.is_empty()
    }

    pub(super) fn notes(&self) -> &[Notes] {
        &self.notes
    }

    pub(super) fn run(&self, stage: Stage, graph: &mut LinkGraph) -> Result<()> {
        self.of_graphs.iter().filter(|(at, _)| *at == stage).try_for_each(|(_, pass)| pass(graph))
    }
}
