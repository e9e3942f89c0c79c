//! Passes: what a client does to graphs while they are linked.

use std::sync::Arc;

use crate::Result;
use crate::graph::LinkGraph;

/// Something to be done to a graph. It may be called for several graphs at once, and must not use the session.
pub type Pass = Arc<dyn Fn(&mut LinkGraph) -> Result<()> + Send + Sync>;

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
pub struct Passes(Vec<(Stage, Pass)>);

impl Passes {
    /// Adds a pass.
    pub fn add(
        &mut self,
        stage: Stage,
        pass: impl Fn(&mut LinkGraph) -> Result<()> + Send + Sync + 'static,
    ) {
        self.0.push((stage, Arc::new(pass)));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn run(&self, stage: Stage, graph: &mut LinkGraph) -> Result<()> {
        self.0.iter().filter(|(at, _)| *at == stage).try_for_each(|(_, pass)| pass(graph))
    }
}
