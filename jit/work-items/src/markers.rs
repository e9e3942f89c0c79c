//! The functions of `longshore_device.h` that items call together, by their symbols.

use longshore_llvm::types::*;

use crate::ir::{Ir, ll};

/// A function of the header that the pass replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marker {
    Barrier,
    /// A barrier for which items that have returned do not count, as in CUDA.
    BarrierOfRest,
    GridBarrier,
    Ballot,
    Shuffle,
    /// The same among chosen lanes, the last argument.
    BallotOf,
    ShuffleOf,
    Scan(Scan),
    /// The sub-group of an item, by the item's index.
    SubgroupOf,
}

/// A combination of the values of a sub-group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scan {
    pub(crate) operation: Operation,
    pub(crate) number: Number,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Number {
    Signed,
    Unsigned,
    Float,
}

impl Marker {
    /// Returns the marker with this symbol. A linker of modules may have added `.` and a number.
    pub(crate) fn from_symbol(symbol: &str) -> Option<Marker> {
        let name = symbol.strip_prefix("__longshore_")?;
        let name = match name.rsplit_once('.') {
            Some((name, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => name,
        };
        Some(match name {
            "barrier" => Marker::Barrier,
            "barrier_of_rest" => Marker::BarrierOfRest,
            "ballot_of" => Marker::BallotOf,
            "shuffle_of" => Marker::ShuffleOf,
            "grid_barrier_of_items" => Marker::GridBarrier,
            "ballot" => Marker::Ballot,
            "shuffle" => Marker::Shuffle,
            "subgroup_of" => Marker::SubgroupOf,
            _ => Marker::Scan(Scan::from_name(name.strip_prefix("scan_")?)?),
        })
    }

    /// Returns the marker that an instruction calls.
    pub(crate) fn called(ir: &Ir<'_>, instruction: ValueRef) -> Option<Marker> {
        Marker::from_symbol(&ir.name(ir.callee(instruction)?))
    }

    /// Returns the number of its parameters.
    pub(crate) fn parameters(self) -> u32 {
        match self {
            Marker::Barrier | Marker::BarrierOfRest => 1,
            Marker::GridBarrier | Marker::SubgroupOf => 1,
            Marker::Ballot => 2,
            Marker::BallotOf | Marker::Shuffle => 3,
            Marker::ShuffleOf | Marker::Scan(_) => 4,
        }
    }

    /// Returns whether an instruction, which calls the marker, has the form that the pass expects.
    pub(crate) fn is_called_well(self, ir: &Ir<'_>, instruction: ValueRef) -> bool {
        let is_void = ll!(ir, LLVMGetTypeKind(ir.type_of(instruction))) == type_kind::VOID;
        ir.opcode(instruction) == opcode::CALL
            && ll!(ir, LLVMGetNumArgOperands(instruction)) == self.parameters()
            && is_void == (self.is_barrier() || self == Marker::GridBarrier)
    }

    /// Returns whether items wait for each other in it.
    pub(crate) fn waits(self) -> bool {
        self != Marker::SubgroupOf
    }

    /// Returns whether all items of the group wait in it.
    pub(crate) fn is_barrier(self) -> bool {
        matches!(self, Marker::Barrier | Marker::BarrierOfRest)
    }

    /// Returns whether the items of a sub-group exchange values in it.
    pub(crate) fn is_of_subgroup(self) -> bool {
        self.waits() && !self.is_barrier() && self != Marker::GridBarrier
    }
}

/// Lets passes copy the markers that a function calls, as unrolling does.
pub(crate) fn may_be_copied(ir: &Ir<'_>, function: ValueRef) {
    for call in ir.all_instructions(function) {
        if Marker::called(ir, call).is_some() {
            ir.remove_call_attribute(call, "noduplicate");
            ir.remove_attribute(ir.callee(call).expect("it is a marker"), "noduplicate");
        }
    }
}

impl Scan {
    fn from_name(name: &str) -> Option<Scan> {
        let (operation, number) = name.split_once('_')?;
        let operation = match operation {
            "add" => Operation::Add,
            "min" => Operation::Min,
            "max" => Operation::Max,
            "and" => Operation::And,
            "or" => Operation::Or,
            "xor" => Operation::Xor,
            _ => return None,
        };
        let number = match number {
            "i32" | "i64" | "i64x" => Number::Signed,
            "u32" | "u64" | "u64x" => Number::Unsigned,
            "f32" | "f64" => Number::Float,
            _ => return None,
        };
        Some(Scan { operation, number })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_are_found_by_their_symbols() {
        let scan = Marker::Scan(Scan { operation: Operation::Min, number: Number::Unsigned });
        let known = [
            ("__longshore_barrier", Some(Marker::Barrier)),
            ("__longshore_barrier.12", Some(Marker::Barrier)),
            ("__longshore_scan_min_u64x", Some(scan)),
            ("__longshore_scan_min_u16", None),
            ("__longshore_barrier_of_mine", None),
            ("longshore_barrier", None),
        ];
        for (symbol, marker) in known {
            assert_eq!(Marker::from_symbol(symbol), marker, "{symbol}");
        }
    }
}
