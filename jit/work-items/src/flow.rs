//! The control-flow graph of a function, by numbers of blocks.

use std::collections::HashMap;

use longshore_llvm::types::{BlockRef, ValueRef, opcode};

use crate::ir::Ir;

/// A control-flow graph. It does not follow later changes of the function.
pub(crate) struct Flow {
    pub(crate) blocks: Vec<BlockRef>,
    pub(crate) successors: Vec<Vec<usize>>,
    pub(crate) predecessors: Vec<Vec<usize>>,
    /// Whether a path from the block ends with a return.
    pub(crate) returns: Vec<bool>,
}

impl Flow {
    pub(crate) fn new(ir: &Ir<'_>, function: ValueRef) -> Flow {
        let blocks = ir.blocks(function);
        let index: HashMap<_, _> = blocks.iter().enumerate().map(|(i, b)| (*b, i)).collect();
        let mut successors = vec![Vec::new(); blocks.len()];
        let mut predecessors = vec![Vec::new(); blocks.len()];
        for (number, block) in blocks.iter().enumerate() {
            for target in ir.successors(*block) {
                let target = index[&target];
                if !successors[number].contains(&target) {
                    successors[number].push(target);
                    predecessors[target].push(number);
                }
            }
        }
        let is_return = |block: &BlockRef| ir.opcode(ir.terminator(*block)) == opcode::RET;
        let mut flow = Flow { returns: Vec::new(), blocks, successors, predecessors };
        let ends = flow.numbers().filter(|number| is_return(&flow.blocks[*number])).collect();
        flow.returns = flow.reach(ends, &flow.predecessors, |_| true);
        flow
    }

    pub(crate) fn numbers(&self) -> impl Iterator<Item = usize> + use<> {
        0..self.blocks.len()
    }

    /// Returns the blocks that `from` reaches over `edges`, through blocks that are `open`. `from`
    /// is reached, and left, in any case.
    pub(crate) fn reach(
        &self,
        from: Vec<usize>,
        edges: &[Vec<usize>],
        open: impl Fn(usize) -> bool,
    ) -> Vec<bool> {
        let mut reached = vec![false; self.blocks.len()];
        let mut rest = from;
        for block in &rest {
            reached[*block] = true;
        }
        while let Some(block) = rest.pop() {
            for next in edges[block].iter().copied().filter(|next| open(*next)) {
                if !std::mem::replace(&mut reached[next], true) {
                    rest.push(next);
                }
            }
        }
        reached
    }

    /// Returns the blocks in post-order: the successors of a block before it, except over back
    /// edges.
    pub(crate) fn post_order(&self) -> Vec<usize> {
        let mut order = Vec::with_capacity(self.blocks.len());
        let mut seen = vec![false; self.blocks.len()];
        let mut stack = vec![(0, 0)];
        seen[0] = true;
        while let Some((block, next)) = stack.last_mut() {
            match self.successors[*block].get(*next).copied() {
                Some(target) => {
                    *next += 1;
                    if !std::mem::replace(&mut seen[target], true) {
                        stack.push((target, 0));
                    }
                }
                None => {
                    order.push(*block);
                    stack.pop();
                }
            }
        }
        order
    }

    /// Returns the immediate post-dominator of each block, over paths that return; `None` for the
    /// blocks with returns and for blocks that never return.
    pub(crate) fn post_dominators(&self) -> Vec<Option<usize>> {
        let sets = self.post_dominator_sets();
        let nearest = |block: usize| {
            let set = sets[block].as_ref()?;
            // The nearest one has all others as its post-dominators.
            let others: Vec<usize> =
                self.numbers().filter(|other| set.has(*other) && *other != block).collect();
            others.iter().copied().find(|one| {
                let of_one = sets[*one].as_ref();
                of_one.is_some_and(|of_one| others.iter().all(|other| of_one.has(*other)))
            })
        };
        self.numbers().map(nearest).collect()
    }

    fn post_dominator_sets(&self) -> Vec<Option<Bits>> {
        let count = self.blocks.len();
        let mut sets: Vec<Option<Bits>> = vec![None; count];
        let order = self.post_order();
        loop {
            let mut changed = false;
            for block in order.iter().copied().filter(|block| self.returns[*block]) {
                // A set that is not known yet is that of all blocks.
                let next = self.successors[block].iter().filter_map(|next| sets[*next].as_ref());
                let set = next.cloned().reduce(|a, b| a.and(&b));
                let ends = self.successors[block].is_empty().then(|| Bits::new(count));
                let Some(mut set) = set.or(ends) else { continue };
                set.insert(block);
                if sets[block].as_ref() != Some(&set) {
                    sets[block] = Some(set);
                    changed = true;
                }
            }
            if !changed {
                return sets;
            }
        }
    }
}

/// A set of blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bits(Vec<u64>);

impl Bits {
    pub(crate) fn new(count: usize) -> Bits {
        Bits(vec![0; count.div_ceil(64)])
    }

    pub(crate) fn has(&self, number: usize) -> bool {
        self.0[number / 64] >> (number % 64) & 1 != 0
    }

    pub(crate) fn insert(&mut self, number: usize) {
        self.0[number / 64] |= 1 << (number % 64);
    }

    /// Adds the elements of another set. Returns whether there were new ones.
    pub(crate) fn add(&mut self, other: &Bits) -> bool {
        let before = self.clone();
        self.0.iter_mut().zip(&other.0).for_each(|(a, b)| *a |= b);
        *self != before
    }

    pub(crate) fn and(mut self, other: &Bits) -> Bits {
        self.0.iter_mut().zip(&other.0).for_each(|(a, b)| *a &= b);
        self
    }

    pub(crate) fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.0.len() * 64).filter(|number| self.has(*number))
    }
}
