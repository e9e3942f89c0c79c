//! The annotations by which `longshore_cuda.h` marks kernels and shared variables.

use longshore_llvm::types::*;

use crate::ir::{Ir, ll};

const KERNEL: &str = "longshore-kernel";
const SHARED: &str = "longshore-shared";
/// The address space of shared variables in sources with gpuintrin.h.
const SHARED_SPACE: u32 = 3;
/// The variable with a module's annotations.
const ANNOTATIONS: &std::ffi::CStr = c"llvm.global.annotations";

/// The annotated functions and variables, each once.
pub(super) struct Annotations {
    pub(super) kernels: Vec<ValueRef>,
    pub(super) shared: Vec<ValueRef>,
}

impl Annotations {
    /// Reads the annotations of a module, and removes them.
    pub(super) fn take(ir: &Ir<'_>) -> Annotations {
        let found = Annotations::read(ir);
        if let Some(list) = ll!(ir, LLVMGetNamedGlobal(ir.module, ANNOTATIONS.as_ptr())).present() {
            ll!(ir, LLVMDeleteGlobal(list));
        }
        found
    }

    /// Reads the annotations of a module. An array of no elements that other code must define is
    /// the group's dynamic memory: compilers do not annotate declarations.
    pub(super) fn read(ir: &Ir<'_>) -> Annotations {
        let mut found = Annotations { kernels: Vec::new(), shared: Vec::new() };
        if let Some(list) = ll!(ir, LLVMGetNamedGlobal(ir.module, ANNOTATIONS.as_ptr())).present() {
            for entry in ir.operands(ll!(ir, LLVMGetInitializer(list))) {
                found.add(ir, entry);
            }
        }
        let is_shared = |it: &ValueRef| {
            let space = ll!(ir, LLVMGetPointerAddressSpace(ir.type_of(*it)));
            is_dynamic(ir, *it) || space == SHARED_SPACE
        };
        found.shared.extend(ir.all_globals().into_iter().filter(is_shared));
        found.shared.sort_unstable();
        found.shared.dedup();
        found
    }

    fn add(&mut self, ir: &Ir<'_>, entry: ValueRef) {
        let [value, text] = [0, 1].map(|index| ir.without_casts(ir.operand(entry, index)));
        let list = match text_of(ir, text).as_deref() {
            Some(KERNEL) if ir.is_defined(value) => &mut self.kernels,
            Some(SHARED) => &mut self.shared,
            _ => return,
        };
        if !list.contains(&value) {
            list.push(value);
        }
    }
}

/// Returns whether a variable is the dynamic shared memory of a group.
pub(super) fn is_dynamic(ir: &Ir<'_>, variable: ValueRef) -> bool {
    let ty = ll!(ir, LLVMGlobalGetValueType(variable));
    let is_array = ir.kind(ty) == type_kind::ARRAY;
    !ir.is_defined(variable) && is_array && ll!(ir, LLVMGetArrayLength(ty)) == 0
}

fn text_of(ir: &Ir<'_>, variable: ValueRef) -> Option<String> {
    let variable = ll!(ir, LLVMIsAGlobalVariable(variable)).present()?;
    let array = ll!(ir, LLVMGetInitializer(variable)).present()?;
    let array = ll!(ir, LLVMIsAConstantDataArray(array)).present()?;
    let mut length = 0;
    let text = ll!(ir, LLVMGetAsString(array, &raw mut length));
    // SAFETY: LLVM returns the text's address and length.
    let bytes = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), length) };
    Some(String::from_utf8_lossy(bytes.strip_suffix(&[0]).unwrap_or(bytes)).into_owned())
}
