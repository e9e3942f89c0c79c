//! The emission of new instructions.

use longshore_llvm::types::*;

use super::{Ir, ll};

/// A place for new instructions. Valid until the next place is chosen.
pub(crate) struct Build<'i, 'l>(&'i Ir<'l>);

const NO_NAME: *const std::ffi::c_char = c"".as_ptr();

impl<'i, 'l> Build<'i, 'l> {
    /// Emits where the builder of `ir` stands.
    pub(super) fn new(ir: &'i Ir<'l>) -> Self {
        Build(ir)
    }

    pub(crate) fn br(&self, target: BlockRef) {
        ll!(self.0, LLVMBuildBr(self.0.builder, target));
    }

    pub(crate) fn cond_br(&self, condition: ValueRef, yes: BlockRef, no: BlockRef) -> ValueRef {
        ll!(self.0, LLVMBuildCondBr(self.0.builder, condition, yes, no))
    }

    pub(crate) fn ret(&self) {
        ll!(self.0, LLVMBuildRetVoid(self.0.builder));
    }

    pub(crate) fn unreachable(&self) {
        ll!(self.0, LLVMBuildUnreachable(self.0.builder));
    }

    pub(crate) fn alloca(&self, ty: TypeRef) -> ValueRef {
        ll!(self.0, LLVMBuildAlloca(self.0.builder, ty, NO_NAME))
    }

    pub(crate) fn array_alloca(&self, ty: TypeRef, count: ValueRef) -> ValueRef {
        let alloca = ll!(self.0, LLVMBuildArrayAlloca(self.0.builder, ty, count, NO_NAME));
        ll!(self.0, LLVMSetAlignment(alloca, 64));
        alloca
    }

    pub(crate) fn load(&self, ty: TypeRef, address: ValueRef) -> ValueRef {
        ll!(self.0, LLVMBuildLoad2(self.0.builder, ty, address, NO_NAME))
    }

    pub(crate) fn store(&self, value: ValueRef, address: ValueRef) -> ValueRef {
        ll!(self.0, LLVMBuildStore(self.0.builder, value, address))
    }

    /// Copies `bytes` bytes of memory without a known alignment.
    pub(crate) fn copy(&self, to: ValueRef, from: ValueRef, bytes: u64) {
        let count = self.0.constant(64, bytes);
        ll!(self.0, LLVMBuildMemCpy(self.0.builder, to, 1, from, 1, count));
    }

    /// Returns the address of element `index` of an array.
    pub(crate) fn element(&self, ty: TypeRef, array: ValueRef, index: ValueRef) -> ValueRef {
        let builder = self.0.builder;
        ll!(self.0, LLVMBuildInBoundsGEP2(builder, ty, array, &raw const index, 1, NO_NAME))
    }

    /// Returns the address of a part of the object at `address`.
    pub(crate) fn elements(
        &self,
        ty: TypeRef,
        address: ValueRef,
        indices: &[ValueRef],
    ) -> ValueRef {
        let (builder, count) = (self.0.builder, indices.len() as u32);
        ll!(self.0, LLVMBuildInBoundsGEP2(builder, ty, address, indices.as_ptr(), count, NO_NAME))
    }

    /// Returns the address `bytes` bytes behind a pointer, as a pointer to `ty`.
    pub(crate) fn field(&self, pointer: ValueRef, bytes: u64, ty: TypeRef) -> ValueRef {
        let byte = self.0.int(8);
        let pointer = self.cast(opcode::BIT_CAST, pointer, self.0.pointer_to(byte));
        let at = self.element(byte, pointer, self.0.constant(64, bytes));
        self.cast(opcode::BIT_CAST, at, self.0.pointer_to(ty))
    }

    pub(crate) fn load_field(&self, pointer: ValueRef, bytes: u64, ty: TypeRef) -> ValueRef {
        let address = self.field(pointer, bytes, ty);
        self.load(ty, address)
    }

    /// Returns the address of a part of an object at `address`, or of a place outside of it.
    pub(crate) fn any_elements(
        &self,
        ty: TypeRef,
        address: ValueRef,
        indices: &[ValueRef],
    ) -> ValueRef {
        let (builder, count) = (self.0.builder, indices.len() as u32);
        ll!(self.0, LLVMBuildGEP2(builder, ty, address, indices.as_ptr(), count, NO_NAME))
    }

    pub(crate) fn binary(&self, opcode: u32, a: ValueRef, b: ValueRef) -> ValueRef {
        ll!(self.0, LLVMBuildBinOp(self.0.builder, opcode, a, b, NO_NAME))
    }

    /// Adds values whose sum does not overflow.
    pub(crate) fn add(&self, a: ValueRef, b: ValueRef) -> ValueRef {
        ll!(self.0, LLVMBuildNUWAdd(self.0.builder, a, b, NO_NAME))
    }

    /// Multiplies values whose product does not overflow.
    pub(crate) fn multiply(&self, a: ValueRef, b: ValueRef) -> ValueRef {
        ll!(self.0, LLVMBuildNUWMul(self.0.builder, a, b, NO_NAME))
    }

    pub(crate) fn compare(&self, predicate: u32, a: ValueRef, b: ValueRef) -> ValueRef {
        ll!(self.0, LLVMBuildICmp(self.0.builder, predicate, a, b, NO_NAME))
    }

    pub(crate) fn compare_floats(&self, predicate: u32, a: ValueRef, b: ValueRef) -> ValueRef {
        ll!(self.0, LLVMBuildFCmp(self.0.builder, predicate, a, b, NO_NAME))
    }

    pub(crate) fn cast(&self, opcode: u32, value: ValueRef, ty: TypeRef) -> ValueRef {
        if self.0.type_of(value) == ty {
            return value;
        }
        ll!(self.0, LLVMBuildCast(self.0.builder, opcode, value, ty, NO_NAME))
    }

    /// Emits a value that is the same for all its uses, even where `value` is undefined.
    pub(crate) fn freeze(&self, value: ValueRef) -> ValueRef {
        ll!(self.0, LLVMBuildFreeze(self.0.builder, value, NO_NAME))
    }

    pub(crate) fn select(&self, condition: ValueRef, yes: ValueRef, no: ValueRef) -> ValueRef {
        ll!(self.0, LLVMBuildSelect(self.0.builder, condition, yes, no, NO_NAME))
    }

    pub(crate) fn insert_element(
        &self,
        vector: ValueRef,
        element: ValueRef,
        lane: ValueRef,
    ) -> ValueRef {
        ll!(self.0, LLVMBuildInsertElement(self.0.builder, vector, element, lane, NO_NAME))
    }

    pub(crate) fn extract_element(&self, vector: ValueRef, lane: ValueRef) -> ValueRef {
        ll!(self.0, LLVMBuildExtractElement(self.0.builder, vector, lane, NO_NAME))
    }

    pub(crate) fn insert_value(&self, whole: ValueRef, part: ValueRef, index: u32) -> ValueRef {
        ll!(self.0, LLVMBuildInsertValue(self.0.builder, whole, part, index, NO_NAME))
    }

    pub(crate) fn extract_value(&self, whole: ValueRef, index: u32) -> ValueRef {
        ll!(self.0, LLVMBuildExtractValue(self.0.builder, whole, index, NO_NAME))
    }

    pub(crate) fn phi(&self, ty: TypeRef) -> ValueRef {
        ll!(self.0, LLVMBuildPhi(self.0.builder, ty, NO_NAME))
    }

    pub(crate) fn call(&self, ty: TypeRef, callee: ValueRef, arguments: &[ValueRef]) -> ValueRef {
        let (builder, count) = (self.0.builder, arguments.len() as u32);
        let call =
            ll!(self.0, LLVMBuildCall2(builder, ty, callee, arguments.as_ptr(), count, NO_NAME));
        // A call with another convention than the function's is undefined.
        if !ll!(self.0, LLVMIsAFunction(callee)).is_null() {
            let convention = ll!(self.0, LLVMGetFunctionCallConv(callee));
            ll!(self.0, LLVMSetInstructionCallConv(call, convention));
        }
        call
    }
}
