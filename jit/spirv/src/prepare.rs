//! LLVM's passes before the translation.

use crate::kernels::Kernel;
use longshore_llvm::types::*;
use longshore_llvm::{Ir, ll};
use std::ffi::c_char;

/// Attributes of functions that keep a function from being inlined.
const NOT_INLINED: [&str; 4] = ["noinline", "optnone", "cold", "minsize"];
/// Attribute by which new versions of LLVM do not repeat `instcombine` to check it.
const NOT_VERIFIED: &str = "instcombine-no-verify-fixpoint";

/// Passes that make one function of each kernel and simplify it.
const SIMPLIFY: &str = "always-inline,globaldce,function(sroa,early-cse<memssa>,simplifycfg,\
     instcombine,loop-simplify,lcssa,loop-mssa(loop-rotate,licm),\
     loop(indvars,loop-deletion,loop-unroll-full),sroa,early-cse<memssa>,gvn,instcombine,simplifycfg,\
     dse,adce,infer-address-spaces,scalarizer,early-cse,simplifycfg),globaldce";
/// Passes that structure the control flow, after switches have become branches.
const STRUCTURE: &str =
    "function(mergereturn,fix-irreducible,loop-simplify,unify-loop-exits,structurizecfg)";
/// Names of the pass that makes branches of switches, of later and earlier versions.
const WITHOUT_SWITCHES: [&str; 2] = ["function(lower-switch)", "function(lowerswitch)"];

/// Makes one function with structured control flow of each kernel.
pub(crate) fn run(ir: &Ir<'_>, kernels: &[Kernel]) -> Result<(), String> {
    for function in ir.all_functions().into_iter().filter(|it| ir.is_defined(*it)) {
        prepare(ir, function, kernels.iter().any(|kernel| kernel.function == function));
    }
    ir.run_passes(SIMPLIFY, TargetMachineRef::NULL)?;
    let without = WITHOUT_SWITCHES.map(|passes| ir.run_passes(passes, TargetMachineRef::NULL));
    if without.iter().all(Result::is_err) {
        let [error, _] = without;
        return error;
    }
    ir.run_passes(STRUCTURE, TargetMachineRef::NULL)?;
    ir.verify().map_err(|problem| format!("the prepared code is invalid: {problem}"))
}

/// Lets a function be inlined, unless it is a kernel.
fn prepare(ir: &Ir<'_>, function: ValueRef, is_kernel: bool) {
    for name in NOT_INLINED {
        ll!(ir, LLVMRemoveEnumAttributeAtIndex(function, FUNCTION_INDEX, kind(ir, name)));
    }
    let (name, length) = (NOT_VERIFIED.as_ptr().cast::<c_char>(), NOT_VERIFIED.len() as u32);
    let empty = c"".as_ptr();
    let added = ll!(ir, LLVMCreateStringAttribute(ir.context, name, length, empty, 0));
    ll!(ir, LLVMAddAttributeAtIndex(function, FUNCTION_INDEX, added));
    if is_kernel {
        return;
    }
    let inlined = ll!(ir, LLVMCreateEnumAttribute(ir.context, kind(ir, "alwaysinline"), 0));
    ll!(ir, LLVMAddAttributeAtIndex(function, FUNCTION_INDEX, inlined));
    ll!(ir, LLVMSetLinkage(function, INTERNAL_LINKAGE));
    for call in ir.users(function) {
        if ir.is_instruction(call) && ir.callee(call) == Some(function) {
            let kind = kind(ir, "noinline");
            ll!(ir, LLVMRemoveCallSiteEnumAttribute(call, FUNCTION_INDEX, kind));
        }
    }
}

fn kind(ir: &Ir<'_>, name: &str) -> u32 {
    ll!(ir, LLVMGetEnumAttributeKindForName(name.as_ptr().cast(), name.len()))
}
