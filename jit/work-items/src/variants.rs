//! Variants of kernels: copies in which the group size and arguments are constants.
//!
//! A variant is another kernel of the same module, so it uses the same globals. On a CPU it takes
//! the same arguments, and constants replace its loads of arguments and group sizes. A load that
//! the pass does not find reads the same value. On GPUs the constants replace the parameters, which
//! the copy still has.
//!
//! 1. `source.rs` finds the kernels and checks the constants.
//! 2. `copy.rs` copies kernels, as LLVM inlines a call.
//! 3. `constants.rs` and `group.rs` insert the constants.
//! 4. `describe.rs` gives the copies descriptions and notes.
//!
//! The pass precedes the one that makes loops, which so sees constant group sizes.

mod constants;
mod copy;
mod describe;
mod group;
mod request;
mod source;

pub use request::{Constant, NumberKind, Problem, Variant, VariantError};

use longshore_llvm::Library;
use longshore_llvm::types::{ContextRef, ModuleRef, TargetMachineRef, ValueRef};

use crate::ir::{Ir, ll};
use copy::Copy;
use source::Source;

/// The processors on which kernels have different forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Processor {
    Cpu,
    Nvidia,
    Amd,
}

/// Passes that find values of variables, after which loads of parameters are visible.
const FIND_VALUES: &str = "function(sroa,early-cse)";

/// Adds variants of kernels to a module, which has a data layout.
///
/// # Errors
/// [`VariantError::Refused`] for a variant that the module does not allow. Otherwise LLVM's message
/// if a pass fails; then the module must not be used any more.
///
/// # Safety
/// The module is alive, valid and of this context, and nothing else uses the context.
pub unsafe fn add_variants(
    library: &Library,
    context: ContextRef,
    module: ModuleRef,
    variants: &[Variant<'_>],
) -> Result<(), VariantError> {
    if variants.is_empty() {
        return Ok(());
    }
    // SAFETY: promised by the caller.
    let ir = unsafe { Ir::new(library, context, module) };
    let processor = Processor::from_module(&ir);
    let sources = variants.iter().map(|variant| Source::find(&ir, processor, variant));
    let sources = sources.collect::<Result<Vec<_>, _>>()?;
    let copies = copy::copy(&ir, &sources).map_err(VariantError::Failed)?;
    for (source, copy) in sources.iter().zip(&copies) {
        copy.check(&ir, source)?;
    }
    let all: Vec<ValueRef> = copies.iter().flat_map(Copy::functions).collect();
    if processor == Processor::Cpu {
        ir.run_passes_on(&all, FIND_VALUES, TargetMachineRef::NULL)
            .map_err(VariantError::Failed)?;
    }
    for (source, copy) in sources.iter().zip(&copies) {
        match processor {
            Processor::Cpu => constants::replace_loads(&ir, source, copy),
            Processor::Nvidia | Processor::Amd => {
                constants::replace_parameters(&ir, source, copy);
                group::fix(&ir, processor, source, copy);
            }
        }
        describe::describe(&ir, source, copy);
    }
    let invalid = |problem| VariantError::Failed(format!("a variant is invalid: {problem}"));
    ir.verify().map_err(invalid)
}

impl Processor {
    fn from_module(ir: &Ir<'_>) -> Processor {
        let triple = ll!(ir, LLVMGetTarget(ir.module));
        // SAFETY: LLVM returns a text that ends with NUL.
        let triple = unsafe { std::ffi::CStr::from_ptr(triple) }.to_bytes();
        match triple {
            [b'n', b'v', b'p', b't', b'x', ..] => Processor::Nvidia,
            [b'a', b'm', b'd', b'g', ..] => Processor::Amd,
            _ => Processor::Cpu,
        }
    }
}

fn refusal(problem: Problem, message: String) -> VariantError {
    VariantError::Refused { problem, message }
}
