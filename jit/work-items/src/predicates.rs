//! The predicates of comparisons of integers.

use longshore_llvm::types::predicate;

/// Returns the predicate for exchanged operands.
pub(crate) fn swapped(predicate: u32) -> u32 {
    match predicate {
        predicate::UGT => predicate::ULT,
        predicate::ULT => predicate::UGT,
        predicate::UGE => predicate::ULE,
        predicate::ULE => predicate::UGE,
        predicate::SGT => predicate::SLT,
        predicate::SLT => predicate::SGT,
        predicate::SGE => predicate::SLE,
        predicate::SLE => predicate::SGE,
        other => other,
    }
}

/// Returns the predicate that holds where another one does not.
pub(crate) fn inverted(predicate: u32) -> u32 {
    match predicate {
        predicate::EQ => predicate::NE,
        predicate::NE => predicate::EQ,
        predicate::UGT => predicate::ULE,
        predicate::ULE => predicate::UGT,
        predicate::UGE => predicate::ULT,
        predicate::ULT => predicate::UGE,
        predicate::SGT => predicate::SLE,
        predicate::SLE => predicate::SGT,
        predicate::SGE => predicate::SLT,
        predicate::SLT => predicate::SGE,
        other => other,
    }
}
