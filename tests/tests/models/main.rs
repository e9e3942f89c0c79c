//! Lock-free code under a model checker: all interleavings of a few threads with few preemptions,
//! and all orders that the memory model permits.

mod index;
mod rundown;
mod slot;
mod sync;

// Unit tests in these files do not run here, without a harness, and leave their imports unused.
#[path = "../../../openmp/src/mapping/index.rs"]
#[allow(dead_code, unused_imports)]
mod index_source;
#[path = "../../../host/src/rundown.rs"]
#[allow(dead_code, unused_imports)]
mod rundown_source;
#[path = "../../../capi/src/registry/slot.rs"]
mod slot_source;

use libtest_mimic::{Arguments, Trial};

/// A program of a few threads; the checker runs all its executions.
type Model = fn();

/// Limit of preemptions of the short models. No known error needs more; without a bound three
/// threads take hours.
const PREEMPTIONS: usize = 3;

fn main() {
    let models = [
        (rundown::MODELS, PREEMPTIONS),
        (slot::MODELS, PREEMPTIONS),
        (index::MODELS, index::PREEMPTIONS),
        (index::LONG_MODELS, index::FEW_PREEMPTIONS),
    ];
    let with_limits =
        models.into_iter().flat_map(|(models, limit)| models.iter().map(move |m| (m, limit)));
    let trials = with_limits.map(|((name, model), limit)| {
        Trial::test(*name, move || {
            let mut checker = loom::model::Builder::new();
            checker.preemption_bound = Some(limit);
            checker.check(*model);
            Ok(())
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit();
}
