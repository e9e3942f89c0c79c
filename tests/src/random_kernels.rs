//! Random kernels in the form of work-items, with their expected results.
//!
//! A seed gives a kernel: its source for `longshore_device.h`, a launch, and the results by a
//! scalar interpreter. Kernels have barriers in loops and conditions, shared memory, sub-group
//! operations, early returns, private arrays and pointers, calls, and atomics. Every result is
//! defined: no race, no overflow of signed integers, no order of floating-point additions.

mod ast;
mod compare;
mod emulated;
mod generate;
mod interpret;
mod lower;
mod operations;
mod print;
mod print_statements;
mod random;
mod reduce;
mod shared_memory;
mod walk;

pub use ast::Kernel;
pub use compare::{Bench, compare_on};
pub use emulated::compare_emulated;
pub use interpret::Output;
pub use random::Random;
pub use reduce::reduce;

impl Kernel {
    /// Returns the kernel of a seed.
    pub fn from_seed(seed: u64) -> Kernel {
        generate::generate(seed, true)
    }

    /// Returns the kernel of a seed whose items do not wait for each other.
    pub fn without_waits(seed: u64) -> Kernel {
        generate::generate(seed, false)
    }

    /// Returns the results of the kernel's launch, with sub-groups of 32 items.
    ///
    /// # Errors
    /// The reason why the kernel has no defined result, or too long a run.
    pub fn interpret(&self) -> Result<Output, String> {
        self.interpret_with(interpret::LANES)
    }

    /// Returns whether sub-groups of this number of items are adjacent items on a device that
    /// makes them of rows, or the kernel has no sub-group operation.
    pub fn has_whole_subgroups(&self, lanes: usize) -> bool {
        let [x, y, z] = self.items;
        y * z == 1
            || (x as usize).is_multiple_of(lanes)
            || !source([self]).contains("longshore_subgroup_")
    }

    /// Returns the results of the kernel's launch, with sub-groups of this number of items.
    ///
    /// # Errors
    /// As for [`interpret`](Self::interpret).
    pub fn interpret_with(&self, lanes: usize) -> Result<Output, String> {
        interpret::interpret(self, lanes)
    }
}

/// Returns a source with these kernels, in C.
pub fn source<'a>(kernels: impl IntoIterator<Item = &'a Kernel>) -> String {
    print::source(kernels)
}
