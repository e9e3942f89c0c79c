//! The blocks of a loop whose accesses are checked at once.

use std::collections::HashMap;

use longshore_llvm::types::*;

use crate::ir::Ir;
use crate::shape::ItemLoop;

/// Most blocks of a loop whose accesses are checked at once.
const LARGEST: usize = 2000;

/// The blocks of a loop, the first one first, with their edges inside.
pub(crate) struct Graph {
    pub(crate) blocks: Vec<BlockRef>,
    pub(crate) numbers: HashMap<BlockRef, usize>,
    pub(crate) successors: Vec<Vec<usize>>,
    pub(crate) predecessors: Vec<Vec<usize>>,
}

impl Graph {
    /// Returns the blocks of a loop; `None` if anything but its end leaves it, or if it is large.
    pub(crate) fn new(ir: &Ir<'_>, made: &ItemLoop) -> Option<Graph> {
        let head = ir.block_of(made.counter);
        let mut graph = Graph {
            blocks: vec![head],
            numbers: HashMap::from([(head, 0)]),
            successors: Vec::new(),
            predecessors: vec![Vec::new()],
        };
        while let Some(block) = graph.blocks.get(graph.successors.len()).copied() {
            let from = graph.successors.len();
            graph.successors.push(Vec::new());
            for next in ir.successors(block) {
                if block == made.end && next == made.after {
                    continue;
                }
                if next == made.after || ir.successors(next).is_empty() {
                    return None;
                }
                let to = *graph.numbers.entry(next).or_insert_with(|| {
                    graph.blocks.push(next);
                    graph.predecessors.push(Vec::new());
                    graph.blocks.len() - 1
                });
                graph.successors[from].push(to);
                graph.predecessors[to].push(from);
            }
        }
        let has_phis = ir.instructions(made.after).iter().any(|it| ir.opcode(*it) == opcode::PHI);
        let is_whole = graph.numbers.contains_key(&made.end) && !has_phis;
        (is_whole && graph.blocks.len() <= LARGEST).then_some(graph)
    }

    /// Returns for each block whether all rounds of the loop come to it.
    pub(crate) fn certain(&self, end: BlockRef) -> Vec<bool> {
        let end = self.numbers[&end];
        let is_certain = |block: usize| {
            let mut reached = vec![false; self.blocks.len()];
            let mut rest = vec![0];
            while let Some(from) = rest.pop() {
                for next in self.successors[from].iter().copied().filter(|next| *next != block) {
                    if !std::mem::replace(&mut reached[next], true) {
                        rest.push(next);
                    }
                }
            }
            !reached[end]
        };
        (0..self.blocks.len())
            .map(|block| block == 0 || block == end || is_certain(block))
            .collect()
    }

    /// Returns whether an item may free memory in the loop that a later access is of. `frees` is
    /// the runtime's function, if the module has it.
    pub(crate) fn may_free(&self, ir: &Ir<'_>, frees: Option<ValueRef>) -> bool {
        let instructions = self.blocks.iter().flat_map(|block| ir.instructions(*block));
        let mut calls = instructions.filter(|it| ir.opcode(*it) == opcode::CALL);
        frees.is_some()
            && calls.any(|call| match ir.callee(call) {
                Some(callee) => Some(callee) == frees || ir.is_defined(callee),
                None => true,
            })
    }
}
