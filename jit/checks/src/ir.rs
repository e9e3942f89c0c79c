//! LLVM's IR with less noise: the operations of the C API that the pass needs.

use longshore_llvm::Library;
use longshore_llvm::types::*;
use std::ffi::{CStr, CString};
use std::ops::Deref;

pub(crate) use longshore_llvm::ll;

const NO_NAME: *const std::ffi::c_char = c"".as_ptr();

/// A module with a builder for new instructions, and with the changes that this pass makes.
pub(crate) struct Ir<'l> {
    base: longshore_llvm::Ir<'l>,
    pub(crate) layout: TargetDataRef,
    /// Pointer to bytes.
    pub(crate) pointer: TypeRef,
}

impl<'l> Deref for Ir<'l> {
    type Target = longshore_llvm::Ir<'l>;

    fn deref(&self) -> &longshore_llvm::Ir<'l> {
        &self.base
    }
}

impl<'l> Ir<'l> {
    /// # Safety
    /// As for [`longshore_llvm::Ir::new`].
    pub(crate) unsafe fn new(library: &'l Library, context: ContextRef, module: ModuleRef) -> Self {
        // SAFETY: promised by the caller.
        let base = unsafe { longshore_llvm::Ir::new(library, context, module) };
        let layout = ll!(base, LLVMGetModuleDataLayout(module));
        let byte = base.int(8);
        let pointer = ll!(base, LLVMPointerType(byte, 0));
        Ir { base, layout, pointer }
    }

    // ---- Types and constants ----

    pub(crate) fn void(&self) -> TypeRef {
        ll!(self, LLVMVoidTypeInContext(self.context))
    }

    /// Returns the number of bytes that an access of this type touches.
    pub(crate) fn bytes_of(&self, ty: TypeRef) -> u64 {
        ll!(self, LLVMStoreSizeOfType(self.layout, ty))
    }

    /// Returns the name of a structure, empty for other types.
    pub(crate) fn struct_name(&self, ty: TypeRef) -> String {
        if self.kind(ty) != type_kind::STRUCT {
            return String::new();
        }
        let name = ll!(self, LLVMGetStructName(ty));
        match name.is_null() {
            true => String::new(),
            // SAFETY: LLVM returns a text that ends with NUL.
            false => unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned(),
        }
    }

    pub(crate) fn structure(&self, fields: &[ValueRef]) -> ValueRef {
        ll!(self, LLVMConstStructInContext(self.context, fields.as_ptr(), fields.len() as u32, 0))
    }

    /// Returns a constant as a pointer to bytes.
    pub(crate) fn constant_pointer(&self, constant: ValueRef) -> ValueRef {
        match self.type_of(constant) == self.pointer {
            true => constant,
            false => ll!(self, LLVMConstBitCast(constant, self.pointer)),
        }
    }

    /// Adds a variable that only this module uses, and returns its address.
    pub(crate) fn add_variable(&self, value: ValueRef) -> ValueRef {
        let ty = self.type_of(value);
        let name = c"longshore_check".as_ptr();
        let variable = ll!(self, LLVMAddGlobal(self.module, ty, name));
        ll!(self, LLVMSetInitializer(variable, value));
        ll!(self, LLVMSetLinkage(variable, PRIVATE_LINKAGE));
        variable
    }

    pub(crate) fn add_text(&self, text: &str) -> ValueRef {
        let (start, length) = (text.as_ptr().cast(), text.len() as u32);
        let value = ll!(self, LLVMConstStringInContext(self.context, start, length, 0));
        let variable = self.add_variable(value);
        ll!(self, LLVMSetGlobalConstant(variable, 1));
        self.constant_pointer(variable)
    }

    // ---- Functions and blocks ----

    /// Returns the name of the function that a call calls directly.
    pub(crate) fn callee_name(&self, call: ValueRef) -> Option<String> {
        Some(self.name(self.callee(call)?))
    }

    pub(crate) fn incoming(&self, phi: ValueRef) -> Vec<ValueRef> {
        let count = ll!(self, LLVMCountIncoming(phi));
        (0..count).map(|index| ll!(self, LLVMGetIncomingValue(phi, index))).collect()
    }

    // ---- New instructions ----

    /// Lets new instructions stand before this one, with its source line.
    pub(crate) fn at(&self, instruction: ValueRef) {
        ll!(self, LLVMPositionBuilderBefore(self.builder, instruction));
        let place = ll!(self, LLVMInstructionGetDebugLoc(instruction));
        ll!(self, LLVMSetCurrentDebugLocation2(self.builder, place));
    }

    pub(crate) fn cast(&self, value: ValueRef, ty: TypeRef) -> ValueRef {
        if self.type_of(value) == ty {
            return value;
        }
        ll!(self, LLVMBuildCast(self.builder, opcode::BIT_CAST, value, ty, NO_NAME))
    }

    /// Emits a value of any integer type as 64 bits.
    pub(crate) fn to_64_bits(&self, value: ValueRef) -> ValueRef {
        let (ty, wide) = (self.type_of(value), self.int(64));
        if ty == wide {
            return value;
        }
        ll!(self, LLVMBuildCast(self.builder, opcode::ZEXT, value, wide, NO_NAME))
    }

    /// Emits the address `bytes` bytes behind a pointer to bytes.
    pub(crate) fn behind(&self, pointer: ValueRef, bytes: u64) -> ValueRef {
        let (byte, index) = (self.int(8), self.constant(64, bytes));
        ll!(self, LLVMBuildGEP2(self.builder, byte, pointer, &raw const index, 1, NO_NAME))
    }

    /// Emits a call of a function of the runtime.
    pub(crate) fn call(&self, name: &str, result: TypeRef, arguments: &[ValueRef]) -> ValueRef {
        let types: Vec<TypeRef> = arguments.iter().map(|it| self.type_of(*it)).collect();
        let count = types.len() as u32;
        let ty = ll!(self, LLVMFunctionType(result, types.as_ptr(), count, 0));
        let name = CString::new(name).expect("names have no NUL");
        let found = ll!(self, LLVMGetNamedFunction(self.module, name.as_ptr())).present();
        let function =
            found.unwrap_or_else(|| ll!(self, LLVMAddFunction(self.module, name.as_ptr(), ty)));
        ll!(self, LLVMBuildCall2(self.builder, ty, function, arguments.as_ptr(), count, NO_NAME))
    }
}
