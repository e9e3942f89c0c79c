//! Passes: what a client does to graphs while they are linked.

use std::sync::Arc;

use crate::Result;
use crate::graph::LinkGraph;

/// Something to be done to a graph. It may be called for several graphs at once, and must not use the session.
pub type Pass = Arc<dyn Fn(&mut LinkGraph) -> Result<()> + Send + Sync>;

/// Takes notes of graphs that are linked together, once their content is final, before anything is executed. It is called once for
/// each link, and must not use the session.
///
/// The notes are delivered by calling the result when all of the link has succeeded, before any constructor of it runs. A link that
/// fails, also at an error of this, drops them: nothing of it has become part of the session.
pub type Notes =
    Arc<dyn Fn(&mut dyn Iterator<Item = &mut LinkGraph>) -> Result<Delivery> + Send + Sync>;

/// Delivers notes of a link that has succeeded. The session is locked meanwhile, so it must not be used.
pub type Delivery = Box<dyn FnOnce() + Send>;

/// When a pass runs (JITLink's lists in `PassConfiguration`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Before anything is pruned.
    Prune,
    /// After pruning, before entries of the global offset table and stubs are made: the last chance to add blocks and edges.
    PostPrune,
    /// When every block has its address.
    PostAllocation,
    /// When every symbol that is used has its address.
    PreFixup,
    /// When the content is final, before anything is executed.
    PostFixup,
}

/// The passes of a session, run in the order in which they were added.
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

    /// Adds notes of links, which are taken after [`Stage::PostFixup`].
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
