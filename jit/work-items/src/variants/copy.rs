//! Copies of kernels. LLVM's C API copies no function, but a call that is inlined is a copy.

use std::ffi::CString;

use longshore_llvm::types::*;

use super::{Problem, Source, VariantError, refusal};
use crate::ir::{Ir, ll};
use crate::kernels::{ITEM, KEPT};

/// The copy of a kernel.
pub(super) struct Copy {
    pub(super) kernel: ValueRef,
    /// The work of one item, on a CPU.
    pub(super) item: Option<ValueRef>,
}

impl Copy {
    pub(super) fn functions(&self) -> impl Iterator<Item = ValueRef> + use<> {
        [Some(self.kernel), self.item].into_iter().flatten()
    }

    /// Checks that LLVM has copied the code.
    pub(super) fn check(&self, ir: &Ir<'_>, source: &Source<'_>) -> Result<(), VariantError> {
        let originals = [Some(source.kernel), source.item].into_iter().flatten();
        for (copy, original) in self.functions().zip(originals) {
            let mut instructions = ir.all_instructions(copy).into_iter();
            if instructions.any(|it| ir.callee(it) == Some(original)) {
                let name = source.variant.kernel;
                let message = format!(
                    "LLVM cannot copy the code of kernel '{name}' for a variant: it calls itself, \
                     or has jumps that cannot be inlined"
                );
                return Err(refusal(Problem::Code, message));
            }
        }
        Ok(())
    }
}

/// Copies the kernel of each source, under the name of the variant.
///
/// # Errors
/// LLVM's message.
pub(super) fn copy(ir: &Ir<'_>, sources: &[Source<'_>]) -> Result<Vec<Copy>, String> {
    let originals = sources.iter().flat_map(|source| [Some(source.kernel), source.item]);
    let mut originals: Vec<ValueRef> = originals.flatten().collect();
    originals.sort_unstable();
    originals.dedup();
    let inlined: Vec<Inlined> =
        originals.iter().map(|original| Inlined::new(ir, *original)).collect();
    let copies = sources.iter().map(|source| {
        let convention = inlined.iter().find(|it| it.function == source.kernel);
        let convention = convention.expect("all originals are there").convention;
        let symbol = source.variant.symbol;
        let kernel = call(ir, source.kernel, symbol);
        ll!(ir, LLVMSetFunctionCallConv(kernel, convention));
        let visibility = ll!(ir, LLVMGetVisibility(source.kernel));
        ll!(ir, LLVMSetVisibility(kernel, visibility));
        let item = source.item.map(|item| {
            let copy = call(ir, item, &format!("{ITEM}{symbol}"));
            ll!(ir, LLVMSetLinkage(copy, INTERNAL_LINKAGE));
            ir.add_attribute(copy, "noinline");
            copy
        });
        Copy { kernel, item }
    });
    let copies: Vec<Copy> = copies.collect();
    let result = ir.run_passes("always-inline", TargetMachineRef::NULL);
    inlined.iter().for_each(|it| it.restore(ir));
    result.map(|()| copies)
}

/// A function whose calls are inlined for the moment.
struct Inlined {
    function: ValueRef,
    convention: u32,
    /// Attributes of the function that contradict inlining.
    removed: Vec<&'static str>,
    was_inlined: bool,
    /// Variable that keeps the function: LLVM 14 inlines all calls.
    kept: ValueRef,
}

impl Inlined {
    fn new(ir: &Ir<'_>, function: ValueRef) -> Inlined {
        for caller in ir.users(function) {
            if ir.is_instruction(caller) && ir.callee(caller) == Some(function) {
                ir.add_call_attribute(caller, "noinline");
            }
        }
        let kept = ll!(ir, LLVMAddGlobal(ir.module, ir.type_of(function), KEPT.as_ptr()));
        ll!(ir, LLVMSetInitializer(kept, function));
        let mut removed = vec!["optnone", "noinline"];
        removed.retain(|name| ir.has_attribute(function, name));
        removed.iter().for_each(|name| ir.remove_attribute(function, name));
        let was_inlined = ir.has_attribute(function, "alwaysinline");
        ir.add_attribute(function, "alwaysinline");
        // A call of a kernel is invalid on GPUs.
        let convention = ll!(ir, LLVMGetFunctionCallConv(function));
        ll!(ir, LLVMSetFunctionCallConv(function, 0));
        Inlined { function, convention, removed, was_inlined, kept }
    }

    fn restore(&self, ir: &Ir<'_>) {
        ll!(ir, LLVMDeleteGlobal(self.kept));
        ll!(ir, LLVMSetFunctionCallConv(self.function, self.convention));
        if !self.was_inlined {
            ir.remove_attribute(self.function, "alwaysinline");
        }
        // `optnone` needs `noinline`, so the attributes come back in the other order.
        self.removed.iter().rev().for_each(|name| ir.add_attribute(self.function, name));
        for caller in ir.users(self.function) {
            if ir.is_instruction(caller) && ir.callee(caller) == Some(self.function) {
                ir.remove_call_attribute(caller, "noinline");
            }
        }
    }
}

/// Makes a function that calls another one with its own parameters.
fn call(ir: &Ir<'_>, original: ValueRef, name: &str) -> ValueRef {
    let ty = ll!(ir, LLVMGlobalGetValueType(original));
    let name = CString::new(name).expect("names of kernels have no NUL");
    let copy = ll!(ir, LLVMAddFunction(ir.module, name.as_ptr(), ty));
    let count = ll!(ir, LLVMCountParams(original));
    ir.copy_attributes(original, copy);
    ir.remove_attribute(copy, "alwaysinline");
    (1..=count).for_each(|index| copy_attributes_at(ir, original, copy, index));
    let parameters: Vec<ValueRef> = (0..count).map(|index| ir.parameter(copy, index)).collect();
    let build = ir.at_end(ir.append_block(copy, c"entry"));
    build.call(ty, original, &parameters);
    build.ret();
    copy
}

fn copy_attributes_at(ir: &Ir<'_>, from: ValueRef, to: ValueRef, index: u32) {
    let count = ll!(ir, LLVMGetAttributeCountAtIndex(from, index));
    let mut attributes = vec![AttributeRef::NULL; count as usize];
    ll!(ir, LLVMGetAttributesAtIndex(from, index, attributes.as_mut_ptr()));
    for attribute in attributes {
        ll!(ir, LLVMAddAttributeAtIndex(to, index, attribute));
    }
}
