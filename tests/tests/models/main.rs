//! The lock-free parts under a model checker: all interleavings of a few threads with up to three preemptions, and all orders
//! that the memory model allows.

mod rundown;
// Unit tests of the files are no tests here, without a harness, and leave their imports unused.
#[path = "../../../host/src/rundown.rs"]
#[allow(dead_code, unused_imports)]
mod rundown_source;
mod slot;
#[path = "../../../capi/src/registry/slot.rs"]
mod slot_source;
mod sync;

use libtest_mimic::{Arguments, Trial};

/// A program of a few threads, all of whose executions are tried.
type Model = fn();

fn main() {
    let models = [rundown::MODELS, slot::MODELS].concat();
    let trials = models.into_iter().map(|(name, model)| {
        Trial::test(name, move || {
            let mut checker = loom::model::Builder::new();
            // Errors that need more changes of thread than this are not known; without a bound three threads take hours.
            checker.preemption_bound = Some(3);
            checker.check(model);
            Ok(())
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit();
}
