//! The parts of a module that come from its source: types, and descriptions for debuggers.

use std::ffi::CStr;

use longshore_llvm::types::*;

use super::{Ir, ll};

impl Ir<'_> {
    /// Returns the target's triple.
    pub(crate) fn target(&self) -> String {
        let triple = ll!(self, LLVMGetTarget(self.module));
        // SAFETY: LLVM returns a text that ends with NUL, which belongs to the module.
        let triple = unsafe { CStr::from_ptr(triple) };
        triple.to_string_lossy().into_owned()
    }

    /// Returns the structure of this name.
    pub(crate) fn named_type(&self, name: &CStr) -> Option<TypeRef> {
        ll!(self, LLVMGetTypeByName2(self.context, name.as_ptr())).present()
    }

    /// Returns the types of a structure's members.
    pub(crate) fn members(&self, ty: TypeRef) -> Vec<TypeRef> {
        let count = ll!(self, LLVMCountStructElementTypes(ty));
        (0..count).map(|index| ll!(self, LLVMStructGetTypeAtIndex(ty, index))).collect()
    }

    /// Returns the type of a function without a result.
    pub(crate) fn function_type(&self, parameters: &[TypeRef]) -> TypeRef {
        let nothing = ll!(self, LLVMVoidTypeInContext(self.context));
        let count = parameters.len() as u32;
        ll!(self, LLVMFunctionType(nothing, parameters.as_ptr(), count, 0))
    }

    /// Returns whether a function takes a parameter as the address of a copy, which a call makes.
    pub(crate) fn is_by_value(&self, function: ValueRef, index: u32) -> bool {
        let kind = self.attribute_kind("byval");
        !ll!(self, LLVMGetEnumAttributeAtIndex(function, index + 1, kind)).is_null()
    }

    /// Returns the value behind casts of a constant, and behind addresses of its beginning.
    pub(crate) fn without_casts(&self, constant: ValueRef) -> ValueRef {
        let mut value = constant;
        while !ll!(self, LLVMIsAConstantExpr(value)).is_null() {
            value = self.operand(value, 0);
        }
        value
    }
}
