//! The uniformity of values: whether all items of a group, or of a chunk, compute the same value.
//!
//! A chunk is the items that one loop runs, as `shape.rs` says. Loads are
//! uniform if their addresses are, because kernels have no data races.

use std::collections::HashMap;

use longshore_llvm::types::{BlockRef, ValueRef, opcode, predicate, type_kind};

use crate::checked;
use crate::chunk::{Chunk, WIDTH};
use crate::flow::Flow;
use crate::ir::{Ir, ll};
use crate::markers::Marker;

/// The set of items for which a value is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Group,
    Chunk,
    Item,
}

/// The levels of a function's values.
pub(crate) struct Uniformity {
    levels: HashMap<ValueRef, Level>,
    chunk: Chunk,
}

impl Uniformity {
    /// Computes the levels for a function of one item, whose parameters 2 to 4 are the item's
    /// place in its group.
    pub(crate) fn new(ir: &Ir<'_>, function: ValueRef, flow: &Flow, chunk: Chunk) -> Self {
        let mut levels = HashMap::new();
        levels.insert(ir.parameter(function, 2), Level::Item);
        let of_rows = if chunk == Chunk::Flat { Level::Item } else { Level::Chunk };
        levels.insert(ir.parameter(function, 3), of_rows);
        levels.insert(ir.parameter(function, 4), of_rows);
        let mut uniformity = Uniformity { levels, chunk };
        let influence = Influence::new(flow);
        let mut joins = vec![Vec::new(); flow.blocks.len()];
        while uniformity.step(ir, flow, &influence, &mut joins) {}
        uniformity
    }

    pub(crate) fn level(&self, value: ValueRef) -> Level {
        self.levels.get(&value).copied().unwrap_or(Level::Group)
    }

    pub(crate) fn set(&mut self, value: ValueRef, level: Level) {
        self.levels.insert(value, level);
    }

    /// Returns the level of the choice among a block's successors.
    pub(crate) fn branch_level(&self, ir: &Ir<'_>, block: BlockRef) -> Level {
        let terminator = ir.terminator(block);
        match ir.opcode(terminator) {
            opcode::BR | opcode::SWITCH if ir.successors(block).len() > 1 => {
                self.level(ir.operand(terminator, 0))
            }
            _ => Level::Group,
        }
    }

    /// Raises levels once. Returns whether something changed.
    fn step(
        &mut self,
        ir: &Ir<'_>,
        flow: &Flow,
        influence: &Influence,
        joins: &mut [Vec<Joined>],
    ) -> bool {
        let mut changed = false;
        for (number, block) in flow.blocks.iter().enumerate() {
            for instruction in ir.instructions(*block) {
                let level = self.computed(ir, instruction, &joins[number]);
                if level > self.level(instruction) {
                    self.levels.insert(instruction, level);
                    changed = true;
                }
            }
            let level = self.branch_level(ir, *block);
            if level > Level::Group {
                for join in &influence.joins[number] {
                    let joined = Joined { level, ways: join.ways.clone() };
                    if !joins[join.block].contains(&joined) {
                        joins[join.block].push(joined);
                        changed = true;
                    }
                }
            }
        }
        changed
    }

    fn computed(&self, ir: &Ir<'_>, instruction: ValueRef, joined: &[Joined]) -> Level {
        let of_operands = |ir: &Ir<'_>| {
            let operands = ir.operands(instruction).into_iter();
            operands.map(|operand| self.level(operand)).max().unwrap_or(Level::Group)
        };
        match ir.opcode(instruction) {
            opcode::ALLOCA | opcode::ATOMIC_RMW | opcode::ATOMIC_CMP_XCHG | opcode::VA_ARG => {
                Level::Item
            }
            opcode::PHI => {
                let incoming = ir.incoming(instruction);
                let level = incoming.iter().map(|(value, _)| self.level(*value)).max();
                let joined = joined.iter().filter(|joined| joined.chooses(&incoming));
                let join = joined.map(|joined| joined.level).max();
                level.max(join).unwrap_or(Level::Group)
            }
            opcode::LOAD if is_plain(ir, instruction) => of_operands(ir),
            opcode::LOAD => Level::Item,
            opcode::CALL => match Marker::called(ir, instruction) {
                Some(Marker::SubgroupOf) if self.chunk != Chunk::Row => Level::Chunk,
                Some(Marker::Ballot | Marker::BallotOf) => Level::Chunk,
                Some(Marker::Scan(_)) if is_reduction(ir, instruction) => Level::Chunk,
                _ if is_pure_intrinsic(ir, instruction) => of_operands(ir),
                _ if checked::is_shared(ir, instruction) => of_operands(ir),
                _ => Level::Item,
            },
            opcode::LSHR | opcode::UDIV | opcode::AND | opcode::ICMP
                if self.is_subgroup_number(ir, instruction) =>
            {
                Level::Chunk
            }
            _ => of_operands(ir),
        }
    }

    /// Returns whether an instruction computes or compares the number of the item's sub-group. It
    /// divides the id in x by a multiple of a sub-group's size, or compares the id with a multiple.
    fn is_subgroup_number(&self, ir: &Ir<'_>, instruction: ValueRef) -> bool {
        let operands = ir.operands(instruction);
        let Some(by) = ir.constant_value(operands[1]) else { return false };
        let is_whole = |number: u64| number > 0 && number.is_multiple_of(WIDTH);
        let is_multiple = match ir.opcode(instruction) {
            opcode::LSHR => by >= WIDTH.ilog2().into(),
            opcode::UDIV => is_whole(by),
            opcode::AND => is_whole(by),
            opcode::ICMP => match ll!(ir, LLVMGetICmpPredicate(instruction)) {
                predicate::ULT | predicate::UGE => is_whole(by),
                predicate::UGT | predicate::ULE => is_whole(by.wrapping_add(1)),
                _ => false,
            },
            _ => false,
        };
        let mut value = operands[0];
        while ir.is_instruction(value) && ir.opcode(value) == opcode::ZEXT {
            value = ir.operand(value, 0);
        }
        let is_x = || {
            let parameter = ll!(ir, LLVMIsAArgument(value)).present();
            parameter.is_some_and(|it| self.level(it) == Level::Item)
        };
        self.chunk == Chunk::Subgroup && is_multiple && is_x()
    }
}

/// Returns whether a load or store is neither volatile nor atomic.
pub(crate) fn is_plain(ir: &Ir<'_>, access: ValueRef) -> bool {
    ll!(ir, LLVMGetVolatile(access)) == 0 && ll!(ir, LLVMGetOrdering(access)) == 0
}

/// Returns whether a scan gives all items the same result.
pub(crate) fn is_reduction(ir: &Ir<'_>, scan: ValueRef) -> bool {
    ir.constant_value(ir.operand(scan, 3)) == Some(0)
}

/// Beginnings of the names of intrinsics that depend on their arguments alone.
const PURE: [&str; 27] = [
    "abs.",
    "smax.",
    "smin.",
    "umax.",
    "umin.",
    "ctpop.",
    "ctlz.",
    "cttz.",
    "bswap.",
    "bitreverse.",
    "fshl.",
    "fshr.",
    "sqrt.",
    "fma.",
    "fmuladd.",
    "fabs.",
    "floor.",
    "ceil.",
    "trunc.",
    "rint.",
    "nearbyint.",
    "round.",
    "copysign.",
    "minnum.",
    "maxnum.",
    "uadd.with.overflow.",
    "umul.with.overflow.",
];

/// Returns whether an instruction calls an intrinsic without effects, whose result depends on its
/// arguments alone.
pub(crate) fn is_pure_intrinsic(ir: &Ir<'_>, call: ValueRef) -> bool {
    let Some(callee) = ir.callee(call) else { return false };
    let name = ir.name(callee);
    name.strip_prefix("llvm.").is_some_and(|name| PURE.iter().any(|pure| name.starts_with(pure)))
}

/// Returns whether an instruction computes a value from its operands alone, and cannot trap.
pub(crate) fn is_speculatable(ir: &Ir<'_>, instruction: ValueRef) -> bool {
    match ir.opcode(instruction) {
        opcode::UDIV | opcode::SDIV | opcode::UREM | opcode::SREM => {
            let divisor = ir.constant_value(ir.operand(instruction, 1));
            divisor.is_some_and(|divisor| divisor != 0 && divisor as u32 != u32::MAX)
        }
        opcode::ADD..=opcode::MUL
        | opcode::FMUL
        | opcode::FDIV
        | opcode::FREM..=opcode::XOR
        | opcode::GET_ELEMENT_PTR..=opcode::FCMP
        | opcode::SELECT
        | opcode::EXTRACT_ELEMENT..=opcode::INSERT_VALUE
        | opcode::ADDR_SPACE_CAST
        | opcode::FNEG
        | opcode::FREEZE => ir.kind(ir.type_of(instruction)) != type_kind::TOKEN,
        opcode::CALL => is_pure_intrinsic(ir, instruction),
        _ => false,
    }
}

/// A divergent branch whose ways come together in a block.
#[derive(Clone, PartialEq, Eq)]
struct Joined {
    level: Level,
    /// The last blocks of the ways, if all ways come together here; otherwise all edges count.
    ways: Option<Vec<BlockRef>>,
}

impl Joined {
    /// Returns whether a phi with these values has one that depends on the way.
    fn chooses(&self, incoming: &[(ValueRef, BlockRef)]) -> bool {
        let is_way = |block: &BlockRef| self.ways.as_ref().is_none_or(|ways| ways.contains(block));
        let mut values = incoming.iter().filter(|(_, block)| is_way(block)).map(|(value, _)| value);
        let first = values.next();
        values.any(|value| Some(value) != first)
    }
}

/// A block with phis that depend on which way a branch goes.
struct Join {
    block: usize,
    ways: Option<Vec<BlockRef>>,
}

/// The joins of each branch.
struct Influence {
    joins: Vec<Vec<Join>>,
}

impl Influence {
    fn new(flow: &Flow) -> Influence {
        let nearest = flow.post_dominators();
        let joins = flow.numbers().map(|block| {
            if flow.successors[block].len() < 2 {
                return Vec::new();
            }
            let end = nearest[block];
            let from = flow.successors[block].clone();
            let inside = |number| Some(number) != end;
            let starts: Vec<usize> = from.iter().copied().filter(|it| inside(*it)).collect();
            let reached = flow.reach(starts.clone(), &flow.successors, inside);
            let is_repeated = flow.reach(from, &flow.successors, |_| true)[block];
            // A block that only one way leads to is no join, if items choose once.
            let ways: Vec<Vec<bool>> = match is_repeated {
                true => Vec::new(),
                false => {
                    let way = |start: usize| flow.reach(vec![start], &flow.successors, inside);
                    starts.into_iter().map(way).collect()
                }
            };
            let joins = |number: usize| ways.iter().filter(|way| way[number]).count() > 1;
            let mut joins: Vec<Join> = flow
                .numbers()
                .filter(|number| reached[*number] && (is_repeated || joins(*number)))
                .map(|block| Join { block, ways: None })
                .collect();
            // The end is reached, but not passed.
            if let Some(end) = end {
                let ways = flow.predecessors[end].iter().copied();
                let ways = ways.filter(|from| *from == block || reached[*from]);
                let ways = ways.map(|from| flow.blocks[from]).collect();
                joins.push(Join { block: end, ways: Some(ways) });
            }
            joins
        });
        Influence { joins: joins.collect() }
    }
}
