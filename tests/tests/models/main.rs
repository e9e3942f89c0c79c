//! Lock-free code under a model checker: all interleavings of a few threads with at most three
//! preemptions, and all orders that the memory model permits.

mod rundown;
// Unit tests in these files do not run here, without a harness, and leave their imports unused.
#[path = "../../../host/src/rundown.rs"]
#[allow(dead_code, unused_imports)]
mod rundown_source;
mod slot;
#[path = "../../../capi/src/registry/slot.rs"]
mod slot_source;
mod sync;

use libtest_mimic::{Arguments, Trial};

/// A program of a few threads; the checker runs all its executions.
type Model = fn();

fn main() {
    let models = [rundown::MODELS, slot::MODELS].concat();
    let trials = models.into_iter().map(|(name, model)| {
        Trial::test(name, move || {
            let mut checker = loom::model::Builder::new();
            // No known error needs more preemptions; without a bound three threads take hours.
            checker.preemption_bound = Some(3);
            checker.check(model);
            Ok(())
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit();
}
