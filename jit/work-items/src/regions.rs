//! The division of a function into regions, which a group runs one after the other.
//!
//! A *node* is a block that is run once for a group or for a chunk. Barriers, sub-group operations
//! and the return are nodes, and so are branches between nodes that are the same for all items. A
//! *region* is a set of other blocks with one entry, between nodes. All items leave a region to the
//! same block, except items that return early.

use std::collections::{HashMap, HashSet};

use longshore_llvm::types::{BlockRef, ValueRef};

use crate::cuts;
use crate::flow::{Bits, Flow};
use crate::inner_loops;
use crate::ir::Ir;
use crate::metadata;
use crate::uniformity::{Level, Uniformity};

/// The reason why a block is a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    Barrier,
    /// A barrier for which items that have returned do not count.
    BarrierOfRest,
    GridBarrier,
    /// A sub-group operation.
    Exchange,
    /// A branch with the same choice for all items of this level.
    Branch(Level),
    Return,
}

impl Node {
    /// Returns the items for which the block runs once.
    pub(crate) fn level(self) -> Level {
        match self {
            Node::Barrier | Node::BarrierOfRest | Node::GridBarrier | Node::Return => Level::Group,
            Node::Exchange => Level::Chunk,
            Node::Branch(level) => level,
        }
    }
}

/// The nodes of a function.
pub(crate) type Nodes = HashMap<BlockRef, Node>;

/// Blocks with one entry.
#[derive(Debug)]
pub(crate) struct Region {
    pub(crate) entry: BlockRef,
    pub(crate) blocks: HashSet<BlockRef>,
    /// The block behind the region; `None` if no item leaves it but by a return.
    pub(crate) exit: Option<BlockRef>,
    /// Whether items may return here.
    pub(crate) returns: bool,
}

/// The regions of a function at one level.
#[derive(Debug, Default)]
pub(crate) struct Regions {
    pub(crate) list: Vec<Region>,
    pub(crate) of: HashMap<BlockRef, usize>,
}

/// The instruction because of which a function has no regions, and a description.
#[derive(Debug)]
pub(crate) struct Obstacle {
    pub(crate) at: Option<ValueRef>,
    pub(crate) what: &'static str,
}

/// Divides the blocks of `universe` into regions of a level. Makes branches nodes where that is
/// necessary, in blocks of their own. `row` is the number of items of a chunk, if it is known.
pub(crate) fn divide(
    ir: &Ir<'_>,
    function: ValueRef,
    nodes: &mut Nodes,
    uniformity: &Uniformity,
    universe: &mut HashSet<BlockRef>,
    level: Level,
    row: Option<u64>,
) -> Result<Regions, Obstacle> {
    loop {
        let flow = Flow::new(ir, function);
        let inside = |block: usize| {
            let block = flow.blocks[block];
            let is_node = nodes.get(&block).is_some_and(|node| node.level() <= level);
            universe.contains(&block) && !is_node
        };
        let open: Vec<bool> = flow.numbers().map(inside).collect();
        let region_of = assign(&flow, &open);
        let exits = exits(&flow, &open, &region_of);
        let mut branch = next_branch(ir, &flow, &exits, nodes, uniformity, level)?;
        if branch.is_none() && level == Level::Chunk {
            let is_forced = |block: &usize| {
                let terminator = ir.terminator(flow.blocks[*block]);
                open[*block] && metadata::is_together(ir, terminator)
            };
            branch = flow.numbers().find(is_forced);
        }
        if branch.is_none() && level == Level::Chunk {
            branch = inner_loops::next(ir, &flow, &region_of, nodes, uniformity);
        }
        if branch.is_none()
            && level == Level::Chunk
            && let Some(cut) = cuts::next(ir, function, &flow, &region_of, row)
        {
            universe.extend(cut.apply(ir, nodes));
            continue;
        }
        let Some(branch) = branch else { return Ok(collect(&flow, &region_of, &exits, nodes)) };
        let block = ir.split_off_terminator(flow.blocks[branch], c"branch");
        nodes.insert(block, Node::Branch(level));
        universe.insert(block);
    }
}

/// Returns the region of each open block, by the number of its entry. A block that two regions
/// reach is an entry.
fn assign(flow: &Flow, open: &[bool]) -> Vec<Option<usize>> {
    let mut is_entry: Vec<bool> = flow
        .numbers()
        .map(|block| {
            let predecessors = &flow.predecessors[block];
            open[block] && (block == 0 || predecessors.iter().any(|it| !open[*it]))
        })
        .collect();
    loop {
        let mut region_of: Vec<Option<usize>> = vec![None; open.len()];
        let mut rest: Vec<usize> = flow.numbers().filter(|block| is_entry[*block]).collect();
        rest.iter().for_each(|entry| region_of[*entry] = Some(*entry));
        let mut conflicts = false;
        while let Some(block) = rest.pop() {
            let region = region_of[block];
            for next in flow.successors[block].iter().copied() {
                if !open[next] || is_entry[next] || region_of[next] == region {
                    continue;
                }
                if region_of[next].is_some() {
                    is_entry[next] = true;
                    conflicts = true;
                } else {
                    region_of[next] = region;
                    rest.push(next);
                }
            }
        }
        if !conflicts {
            return region_of;
        }
    }
}

/// Returns, for each open block, the blocks behind its region that it reaches.
fn exits(flow: &Flow, open: &[bool], region_of: &[Option<usize>]) -> Vec<Bits> {
    let mut exits = vec![Bits::new(open.len()); open.len()];
    let order = flow.post_order();
    loop {
        let mut changed = false;
        for block in order.iter().copied().filter(|block| open[*block]) {
            let mut set = exits[block].clone();
            for next in &flow.successors[block] {
                // An edge to the region's own entry leaves it, as other edges to the entry do.
                let is_inside = open[*next]
                    && region_of[*next] == region_of[block]
                    && region_of[block] != Some(*next);
                match is_inside {
                    true => drop(set.add(&exits[*next])),
                    false => set.insert(*next),
                }
            }
            changed |= exits[block].add(&set);
        }
        if !changed {
            return exits;
        }
    }
}

/// Returns a branch that must become a node; `None` if each region has at most one exit besides the
/// return.
fn next_branch(
    ir: &Ir<'_>,
    flow: &Flow,
    exits: &[Bits],
    nodes: &Nodes,
    uniformity: &Uniformity,
    level: Level,
) -> Result<Option<usize>, Obstacle> {
    let is_return = |block: usize| nodes.get(&flow.blocks[block]) == Some(&Node::Return);
    let mut obstacle = None;
    for block in flow.post_order() {
        let chooses = flow.successors[block].len() > 1 && exits[block].count() > 1;
        if !chooses || nodes.contains_key(&flow.blocks[block]) {
            continue;
        }
        if uniformity.branch_level(ir, flow.blocks[block]) <= level {
            return Ok(Some(block));
        }
        if exits[block].iter().filter(|exit| !is_return(*exit)).count() > 1 {
            obstacle.get_or_insert(block);
        }
    }
    let divergent = |block: usize| Obstacle {
        at: Some(ir.terminator(flow.blocks[block])),
        what: "items may go different ways to a barrier or sub-group operation",
    };
    obstacle.map_or(Ok(None), |block| Err(divergent(block)))
}

fn collect(flow: &Flow, region_of: &[Option<usize>], exits: &[Bits], nodes: &Nodes) -> Regions {
    let mut regions = Regions::default();
    let mut numbers = HashMap::new();
    for block in flow.post_order().into_iter().rev() {
        let Some(entry) = region_of[block] else { continue };
        let number = *numbers.entry(entry).or_insert_with(|| {
            let is_return = |it: &usize| nodes.get(&flow.blocks[*it]) == Some(&Node::Return);
            let exit = exits[entry].iter().find(|it| !is_return(it));
            regions.list.push(Region {
                entry: flow.blocks[entry],
                blocks: HashSet::new(),
                exit: exit.map(|exit| flow.blocks[exit]),
                returns: exits[entry].iter().any(|it| is_return(&it)),
            });
            regions.list.len() - 1
        });
        regions.list[number].blocks.insert(flow.blocks[block]);
        regions.of.insert(flow.blocks[block], number);
    }
    regions
}
